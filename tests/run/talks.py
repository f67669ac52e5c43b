"""talks.py: conversations that packing keeps whole. The rows are the same for any number of ranks and after any resume, over epochs and in
mixes; and a run whose conversations were cut, by an older version, is not gone on with unasked."""

import ctypes
import ctypes.util
import json

import runs

LENGTH = 96
MODEL = "architecture: llama, layers: 2, hidden: 16, heads: 2, ffn: 24, max_positions: 96, dropout: 0.1"


def write_jsonl(rows):
    path = runs.fresh("talks").with_suffix(".jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_text(n):
    path = runs.fresh("text").with_suffix(".txt")
    path.write_text("".join(chr(97 + token) for token in runs.some_tokens(n, 26)))
    return path


def talk(i, n):
    return {
        "messages": [{"role": "user", "content": f"{i}?"},
                     {"role": "assistant", "content": f"{i:02} " + "abcdefg "[i % 8] * n}]
    }


def pair(i, n):
    return {"prompt": f"{i:03}:", "completion": "xyz"[i % 3] * n}


SIZES = [1 + token % 60 for token in runs.some_tokens(40, 1000, seed=5)]
TALKS = write_jsonl([talk(i, n) if i % 2 else pair(i, n) for i, n in enumerate(SIZES)])
LONG = write_jsonl([pair(i, 40 + 90 * (i % 4 == 0))
                    for i in range(20)] + [{"text": "kept as text " * 12}])


def config(data, train):
    return runs.write_yaml(
        f"model: {{{MODEL}}}\ndata: {{{data}, tokenizer: bytes, chat_format: chatml, sequence_length: {LENGTH}}}\n"
        f"train: {{{train}, batch_size: 4, micro_batch_size: 1, reproducible: true}}\n"
        "optimizer: {learning_rate: 1e-2, schedule: constant, warmup_steps: 0}\nshard: {param_dtype: fp32}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
    )


def told(run):
    return [(line["step"], line["loss"], line["grad_norm"], line["supervised_tokens"])
            for line in run.metrics]


CASES = {
    "epochs": config(f"train: [{TALKS}]", "epochs: 3"),
    "in order": config(f"train: [{TALKS}], shuffle: false", "steps: 8"),
    "long": config(f"train: [{LONG}]", "tokens: 4000"),
    "mixed": config(f"train: [{TALKS}, {write_text(800)}], mix: [2, 1]", "steps: 9"),
    "one stream": config(f"train: [{write_text(250)}, {TALKS}, {write_text(333)}]", "epochs: 1"),
    "whole": config(
        f"train: [{LONG}, {write_text(50)}, {write_text(70)}], packing: whole, validation: [{TALKS}]",
        "epochs: 2"),
}


def same_bits(name, n_ranks, stage):
    run = runs.train_well(CASES[name], f"shard.ranks={n_ranks}", f"shard.stage={stage}")
    straight = STRAIGHT[name]
    runs.expect(told(run) == told(straight), f"{name}: {n_ranks} ranks: other losses")
    runs.expect(run.weights() == straight.weights(), f"{name}: {n_ranks} ranks: other weights")


def goes_on(name, stop):
    """From any step, with other ranks than before."""
    straight = STRAIGHT[name]
    n_steps = straight.metrics[-1]["step"]
    length = ["train.epochs=0", "train.tokens=0"]
    first = runs.train_well(CASES[name], "shard.ranks=2", *length, f"train.steps={stop}",
                            "checkpoint.every=1")
    run = runs.train_well(CASES[name], "shard.ranks=3", "checkpoint.every=100", folder=first.folder)
    runs.expect(
        told(run) == told(straight), f"{name}: stopped after {stop} of {n_steps}: other losses")
    runs.expect(run.weights() == straight.weights(),
                f"{name}: stopped after {stop} of {n_steps}: other weights")


def every_target_is_trained_once_an_epoch():
    told_targets = sum(line["supervised_tokens"] for line in STRAIGHT["epochs"].metrics)
    line = next(line for line in STRAIGHT["epochs"].output.splitlines()
                if " supervised tokens; " in line)
    runs.expect(told_targets == 3 * int(line.split(" with ")[1].split()[0]),
                f"{told_targets} targets in three epochs: {line}")


def is_told(name, *words):
    for word in words:
        runs.expect(word in STRAIGHT[name].output,
                    f"{name}: '{word}' is not told: {STRAIGHT[name].output}")


def documents_do_not_see_each_other():
    """All of an epoch in one step: packed or each document alone, the same loss and the same gradient, but for how sums are rounded. The mask of
    what counts follows the documents, and padding counts nothing."""
    found = {}
    for packing in ("true", "whole", "false"):
        case = config(f"train: [{TALKS}], packing: {packing}", "epochs: 1")
        run = runs.train_well(case, "train.batch_size=64", "shard.ranks=2", "model.dropout=0")
        (found[packing], ) = run.metrics
    for packing in ("whole", "false"):
        runs.expect(found[packing]["supervised_tokens"] == found["true"]["supervised_tokens"],
                    f"{packing}: other targets")
        for what in ("loss", "grad_norm"):
            a, b = found[packing][what], found["true"][what]
            runs.expect(abs(a - b) <= 1e-5 * abs(b), f"{packing}: {what} {a}, packed {b}")


def fnv(texts):
    value = 0xCBF29CE484222325
    for byte in "".join(texts).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def rewrite_manifest(path, key, value):
    """Another value of a setting in a checkpoint's record, with the hashes that belong to it."""
    text = path.read_text()
    settings = json.loads(text)["settings"]
    text = text.replace(f'"{key}": {json.dumps(settings[key])}', f'"{key}": {json.dumps(value)}')
    old, settings[key] = settings[key], value
    at = text.index('"settings_hash": "') + 18
    text = text[:
                at] + f"{fnv(f'{k}{chr(10)}{v}{chr(10)}' for k, v in settings.items()):016x}" + text[
                    at + 16:]
    end = text.rindex('"checksum": "') + 13
    xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    xxhash.XXH3_64bits.restype = ctypes.c_uint64
    xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    raw = text.encode()
    path.write_bytes(raw[:end] + b"%016x" % xxhash.XXH3_64bits(raw[:end], end) + raw[end + 16:])
    return old


def a_run_of_rows_that_were_cut_is_not_gone_on_with():
    more = ["train.epochs=0", "shard.ranks=1", "checkpoint.every=1"]
    run = runs.train_well(CASES["epochs"], *more, "train.steps=2")
    old = rewrite_manifest(run.folder / "steps" / "00000002" / "manifest.json", "data.packing",
                           "true")
    runs.expect(old == "true (conversations whole)", f"data.packing is recorded as {old}")
    again = runs.train(CASES["epochs"], *more, "train.steps=4", folder=run.folder)
    runs.expect(again.code == 2 and "data.packing: conversations now stay whole" in again.message,
                f"cut rows: {again.code} {again.errors}")
    runs.expect("checkpoint.resume.force=[data.packing, data.train]" in again.message,
                f"no way out: {again.message}")
    again = runs.train(CASES["epochs"], *more, "train.steps=4",
                       "checkpoint.resume.force=[data.packing, data.train]", folder=run.folder)
    runs.expect(again.code == 0 and len(again.metrics) == 4, f"forced: {again.code} {again.errors}")


STRAIGHT = {
    name: runs.train_well(case, "shard.ranks=1", "shard.stage=0")
    for name, case in CASES.items()
}
every_target_is_trained_once_an_epoch()
is_told("epochs", "rows hold documents whole and are ", "40 documents")
is_told("epochs", "note: the data are ", "takes each row 3.0 times",
        "note: there are no held-out data")
is_told("one stream", "a smaller train.batch_size gives more steps")
runs.expect("held-out" not in STRAIGHT["whole"].output, "held-out data that are there are missed")
is_told("long", "6 documents are longer than a row and cut (data.long)")
is_told("mixed", "rows hold documents whole")
runs.both(same_bits,
          [(name, n_ranks, stage) for name in CASES for n_ranks, stage in ((2, 3), (3, 1))])
runs.both(goes_on, [(name, stop)
                    for name, stops in (("epochs", (1, 5)), ("mixed", (4, )), ("one stream", (2, )))
                    for stop in stops])
documents_do_not_see_each_other()
a_run_of_rows_that_were_cut_is_not_gone_on_with()
runs.finish()
