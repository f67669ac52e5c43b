"""adapted.py: eval and generate of a model with --adapter: bit by bit what the merged model gives, for any element type of the base, any number
of ranks, either layout of weights, and adapters whose tensors have the names that PEFT gives them in memory. What does not fit is named."""
import json
import shutil
import struct

import lora_files
import runs
from lora_files import ADAPTER_FILES, GPT2, LLAMA, base_of, read, shell, write

PRECISE = ("model.save_dtype=fp32", )


def scores(model, data, *flags):
    done = shell("eval", model, "--data", data, "--sequence-length", "64", "--json", *flags)
    if done.returncode:
        raise AssertionError(f"eval {model} {flags}: {done.returncode} {done.stderr}")
    return done.stdout


def refused(words, *arguments, code=3):
    done = shell(*arguments)
    runs.expect(done.returncode == code and all(word in done.stderr for word in words),
                f"{arguments}: {done.returncode} {done.stderr}, not {words}")


def merged(base, adapter):
    out = runs.fresh("merged")
    done = shell("checkpoint", "merge", base, adapter, out)
    runs.expect(done.returncode == 0, f"merge {base} {adapter}: {done.stderr}")
    return out


def renamed(adapter, rename, metadata=None):
    """A copy of the adapter with other names of tensors."""
    folder = runs.fresh("renamed")
    shutil.copytree(adapter, folder)
    path = folder / ADAPTER_FILES[1]
    path.chmod(0o644)
    tensors = read(path)
    write(path, {rename(name): tensor for name, tensor in tensors.items()})
    return folder


def an_adapter_beside_is_the_merged_model(case):
    data = runs.write_npy(runs.some_tokens(5 * 64 + 1, 250, seed=3))
    trained = runs.train_well(case / "run.yaml", "train.steps=2")
    saved, base = trained.folder / "model", base_of(case)
    bases = [base]
    for dtype in ("bf16", "fp16"):
        bases.append(runs.fresh(dtype))
        runs.expect(
            shell("checkpoint", "import", base, bases[-1], "--dtype", dtype).returncode == 0,
            f"a base in {dtype}")
    bases.append(
        runs.train_well(case / "run.yaml", "model.train=all", "model.lora=null", "train.steps=1",
                        "optimizer.learning_rate=0", "model.max_shard_size=100KiB").folder /
        "model")
    for where in bases:
        expected = scores(merged(where, saved), data)
        runs.expect(expected != scores(where, data), "the adapter changes nothing")
        for flags in ((), ("--ranks", "3"), ("--ranks", "2", "--dtype", "bf16")):
            plain = expected if "bf16" not in flags else scores(merged(where, saved), data,
                                                                "--dtype", "bf16")
            runs.expect(
                scores(where, data, "--adapter", saved, *flags) == plain,
                f"{case.name}, {where.name} {flags}: not the merged model's scores")
    # By the names that PEFT gives tensors in memory; by those of an adapter that is called
    # otherwise.
    for word in (".default", ".my-adapter_2"):
        other = renamed(saved, lambda name: name.replace(".weight", f"{word}.weight"))
        runs.expect(
            scores(base, data, "--adapter", other) == scores(merged(base, saved), data),
            f"{case.name}: names with {word}")
        again = runs.train_well(case / "run.yaml", f"model.lora.adapter={other}", "train.steps=1",
                                "optimizer.learning_rate=0")
        runs.expect(
            read(again.folder / "model" / ADAPTER_FILES[1]) == read(saved / ADAPTER_FILES[1]),
            f"{case.name}: training from names with {word}")
        runs.expect((merged(base, other) /
                     "model.safetensors").read_bytes() == (merged(base, saved) /
                                                           "model.safetensors").read_bytes(),
                    f"{case.name}: merging names with {word}")
    # A run of adapters is evaluated with what it trained.
    held = ("data.validation=[" + str(data) + "]", )
    run = runs.train_well(case / "run.yaml", *held, "train.steps=2", "shard.param_dtype=fp32")
    found = json.loads(shell("eval", run.folder / "run.yaml", "--json").stdout)["loss"]
    runs.expect(
        abs(found - run.metrics[-1]["validation_loss"]) < 1e-5,
        f"{case.name}: eval of the run {found}, its validation {run.metrics[-1]}")


def what_does_not_fit_is_named():
    data = runs.write_npy(runs.some_tokens(130, 250))
    saved = runs.train_well(LLAMA / "run.yaml", "train.steps=1").folder / "model"
    base = base_of(LLAMA)
    evaluate = lambda adapter, model=base: ("eval", model, "--data", data, "--sequence-length",
                                            "64", "--adapter", adapter)
    first = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    with_more = lambda **more: lora_files.changed(saved, tensors=lambda tensors:
                                                  {**tensors, **more})
    whole = ("F32", [2, 2], [0.0] * 4)
    pickled = lora_files.changed(saved)
    (pickled / ADAPTER_FILES[1]).rename(pickled / "adapter_model.bin")
    for words, adapter in (
        (["lm_head", "output projection",
          "not built"], with_more(**{"base_model.model.lm_head.lora_A.weight": whole})),
        (["lm_head", "output projection"], with_more(**{"base_model.model.lm_head.weight": whole})),
        (["embedding", "not built"],
         with_more(**{"base_model.model.model.embed_tokens.lora_embedding_A": whole})),
        (["embedding"], with_more(**{"base_model.model.model.embed_tokens.weight": whole})),
        (["DoRA"], with_more(**{first.replace("lora_A.weight", "lora_magnitude_vector"): whole})),
        (["bias"], with_more(**{first.replace("lora_A.weight", "lora_B.bias"): whole})),
        (["modules_to_save"],
         with_more(**{"base_model.model.score.modules_to_save.weight": whole})),
        (["base_layer"], with_more(**{first.replace("lora_A.weight", "base_layer.weight"): whole})),
        (["another program than PEFT"], with_more(**{"lora_unet_x.lora_down.weight": whole})),
        (["have the name that PEFT gives adapters"],
         renamed(saved, lambda name: name.removeprefix("base_model.model."))),
        (["belongs to no target"],
         with_more(**{first.replace("lora_A.weight", "lora_A.second.weight"): whole})),
        (["is missing"],
         renamed(saved, lambda name: name.replace("lora_B.weight", "lora_B.other.default.weight"))),
        (["target_modules names lm_head",
          "output projection"], lora_files.changed(saved,
                                                   {"target_modules": ["q_proj", "lm_head"]})),
        (["target_modules names model.embed_tokens",
          "embedding"], lora_files.changed(saved, {"target_modules": ["model.embed_tokens"]})),
        (["use_dora"], lora_files.changed(saved, {"use_dora": True})),
        (["rank_pattern"], lora_files.changed(saved, {"rank_pattern": {"q_proj": 2}})),
        (["modules_to_save"], lora_files.changed(saved, {"modules_to_save": ["lm_head"]})),
        (["cannot be read", "check the path"], runs.fresh("nowhere")),
        (["adapter_config.json"], base),
        (["is a file", "an adapter is a folder"], saved / ADAPTER_FILES[1]),
        (["the folder model in it"], saved.parent),
        (["adapter_model.bin", "save_pretrained"], pickled),
    ):
        refused(words, *evaluate(adapter))
    refused(["hf download a/b --local-dir b"], *evaluate("a/b"))
    refused(["base_model.model.model.layers.0"], *evaluate(saved, base_of(GPT2)))
    refused(["holds an adapter", "--adapter"], *evaluate(saved, saved))

    # The adapter keeps a mark of the model that it was trained beside: another one of the same
    # shapes is told from it, and a copy in another element type is not. An adapter without a mark
    # passes.
    other = runs.train_well(LLAMA / "run.yaml", "model.train=all", "model.lora=null",
                            "train.steps=3").folder / "model"
    refused(["was trained for other weights"], *evaluate(saved, other))
    refused(["was trained for other weights"], "checkpoint", "merge", other, saved,
            runs.fresh("merged"))
    run = runs.train(LLAMA / "run.yaml", f"model.path={other}", f"model.lora.adapter={saved}")
    runs.expect(run.code == 3 and "was trained for other weights" in run.message,
                f"training beside another model: {run.code} {run.message}")
    unmarked = renamed(saved, lambda name: name)
    scores(other, data, "--adapter", unmarked)
    raw = (saved / ADAPTER_FILES[1]).read_bytes()
    header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
    runs.expect(
        sorted(header["__metadata__"]) == ["format", "shardwise.base_model"],
        f"metadata {header['__metadata__']}")
    # A checkpoint of such a run, exported, is the same file.
    saving = runs.train_well(LLAMA / "run.yaml", "train.steps=2", "checkpoint.every=1")
    out = runs.fresh("exported")
    done = shell("checkpoint", "export", saving.folder, out, "--no-tokenizer")
    runs.expect(
        done.returncode == 0 and (out / ADAPTER_FILES[1]).read_bytes()
        == (saving.folder / "model" / ADAPTER_FILES[1]).read_bytes(), f"export: {done.stderr}")


def text_is_generated_with_an_adapter():
    text = runs.fresh("text").with_suffix(".txt")
    text.write_text("".join(f"line {i} says that {7 * i} is seven times {i}\n" for i in range(200)))
    rest = f"data: {{train: [{text}], tokenizer: bytes, sequence_length: 32}}\ntrain: {{steps: 20, batch_size: 4, micro_batch_size: 2}}\noptimizer: {{learning_rate: 1e-2}}\nshard: {{ranks: 1}}\ncheckpoint: {{path: run}}\n"
    base = runs.train_well(
        runs.write_yaml(
            "model: {architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 64, max_positions: 32}\n"
            + rest)).folder / "model"
    saved = runs.train_well(
        runs.write_yaml(
            f"model: {{path: {base}, train: lora, lora: {{targets: all-linear, alpha: 64}}}}\n" +
            rest.replace("tokenizer: bytes, ", "tokenizer: bytes, "))).folder / "model"
    for flags in (("--greedy", ), ("--seed", "3", "--ranks", "2")):
        generate = lambda model, *more: shell("generate", model, "--prompt", "line 7",
                                              "--max-tokens", "30", *flags, *more).stdout
        expected = generate(merged(base, saved))
        runs.expect(
            generate(base, "--adapter", saved) == expected and expected,
            f"{flags}: {generate(base, '--adapter', saved)!r}, not {expected!r}")


runs.both(an_adapter_beside_is_the_merged_model, [(LLAMA, ), (GPT2, )])
runs.both(lambda test: test(), [(what_does_not_fit_is_named, ),
                                (text_is_generated_with_an_adapter, )])
runs.finish()
