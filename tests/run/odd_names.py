"""odd_names.py: whatever a folder is called, every path of the settings in it leads where it says, also when it is read back from the run's
own run.yaml; and a neighbour whose name the folder would match as a pattern is left alone."""

import json
import os
import shutil
import subprocess

import runs

NAMES = [
    "notes [2031]", "a*b", "q?", "[!a]", "back\\slash", "\\*", "quo'te\"s", "new\nline", "~",
    "~root", "$HOME", "%s%n%d", "{x,y}", "a: b", "#x", " lead", "end ", "-dash", "é漢", "a%20b",
    "`id`", "a\tb", "...", "&anchor", "!tag", "null", "1e5", "x\u2028y", "z" * 200
]
PAIRS = {"notes [2031]": "notes 2", "a*b": "aXb", "q?": "qq", "[!a]": "x", "\\*": "*"}
ROW = '{{"prompt": "{} ", "completion": "is what follows {}"}}\n'


def fill(folder):
    """All that a run reads, each in a folder of an odd name of its own."""
    (folder / "corpus").mkdir(parents=True)
    for i in range(3):
        (folder / "corpus" / f"{i}.jsonl").write_text("".join(
            ROW.format(i, "abc"[j % 3] * j) for j in range(20)))
    (folder / "held [1]").mkdir()
    (folder / "held [1]" / "out.jsonl").write_text("".join(
        ROW.format(7, "x" * j) for j in range(20)))
    shutil.copytree(runs.GOLDEN / "llama-lora" / "model", folder / "model*")
    shutil.copytree(runs.GOLDEN / "llama-lora" / "adapter", folder / "adapter\\")
    shutil.copy(runs.write_npy(runs.some_tokens(600, 256)), folder / "ids[0].npy")
    shutil.copy(runs.write_npy([i % 2 for i in range(600)], "|u1"), folder / "mask?.npy")
    shutil.copy(runs.write_npy([20] * 30), folder / "lengths'.npy")


def write_yaml(folder, name, data, more=""):
    text = (
        f'model: {{path: "model*", train: lora, lora: {{rank: 4, alpha: 8, adapter: "adapter\\\\"}}, save_dtype: fp32}}\n'
        f"data: {{{data}, tokenizer: bytes, sequence_length: 32}}\ntrain: {{steps: 2, batch_size: 4, micro_batch_size: 2}}\n"
        f"optimizer: {{schedule: constant}}\nshard: {{ranks: 1, param_dtype: fp32}}\nlog: {{every: 1}}\n{more}"
    )
    (folder / name).write_text(text)
    return folder / name


def train(yaml, *overrides, folder):
    """Without the settings that runs.train adds: checkpoint.path is the file's."""
    done = subprocess.run(
        [str(runs.COMMAND), "train", str(yaml), *overrides],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        env=dict(os.environ, XDG_CACHE_HOME=str(folder / "cache of " / "[x]")),
    )
    return done


def losses(folder):
    return [
        json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


def one(*names):
    root, name = runs.fresh("odd"), "/".join(names)
    folder = root / name
    folder.mkdir(parents=True)
    fill(folder)
    for i in range(len(names)):
        stranger = root.joinpath(*names[:i], PAIRS.get(names[i], "other"), *names[i + 1:], "corpus")
        stranger.mkdir(parents=True)
        (stranger / "0.jsonl").write_text(ROW.format("of another", "text") * 100)
    text = write_yaml(folder, "text.yaml",
                      'train: ["corpus/*.jsonl"], validation: ["held [1]/*.jsonl"]',
                      'checkpoint: {path: "run [a]*"}\n')
    tokens = write_yaml(
        folder, "tokens.yaml",
        'train: ["ids[0].npy"], labels_mask: "mask?.npy", documents: "lengths\'.npy"',
        'checkpoint: {path: "run?"}\n')
    for yaml, run in ((text, folder / "run [a]*"), (tokens, folder / "run?")):
        done = train(yaml, folder=folder)
        what = f"{name!r}, {yaml.name}"
        if not runs.expect(done.returncode == 0, f"{what}: {done.returncode} {done.stderr}"):
            return
        wanted = losses(run)
        if not WANTED.setdefault(yaml.name, wanted) == wanted:
            runs.complain(f"{what}: losses {wanted}, elsewhere {WANTED[yaml.name]}")
        again = train(run / "run.yaml", f"checkpoint.path={json.dumps(str(folder / 'again'))}",
                      folder=folder)
        runs.expect(again.returncode == 0,
                    f"{what}, its run.yaml: {again.returncode} {again.stderr}")
        runs.expect(again.returncode or losses(folder / "again") == wanted,
                    f"{what}, its run.yaml: other losses")
        shutil.rmtree(folder / "again", ignore_errors=True)
        longer = train(yaml, "train.steps=3", folder=folder)
        runs.expect(longer.returncode == 0 and len(losses(run)) == 3,
                    f"{what}, going on: {longer.returncode} {longer.stderr}")
        for verb in (["checkpoint", "list"], ["checkpoint", "verify"]):
            listed = subprocess.run([str(runs.COMMAND), *verb, str(run)], capture_output=True,
                                    text=True)
            runs.expect(listed.returncode == 0, f"{what}: {verb}: {listed.stderr}")
    absent = train(text, "data.train=[corpus/absent.jsonl]", "checkpoint.path=nothing",
                   folder=folder)
    runs.expect(absent.returncode == 3 and "absent.jsonl" in absent.stderr,
                f"{name!r}: a name that nothing has: {absent.returncode} {absent.stderr}")
    absent = train(text, "data.train=['corpus/x*.jsonl']", "checkpoint.path=nothing", folder=folder)
    runs.expect(absent.returncode == 3 and "matches no file" in absent.stderr,
                f"{name!r}: a pattern without a match: {absent.stderr}")
    shutil.rmtree(root)


def a_name_that_yaml_cannot_write_is_refused():
    folder = os.fsencode(runs.fresh("bytes")) + b"\xff\xfe"
    os.mkdir(folder)
    with open(folder + b"/run.yaml", "w") as file:
        file.write("model: {}\n")
    done = subprocess.run([str(runs.COMMAND), "train", folder + b"/run.yaml"],
                          stdin=subprocess.DEVNULL, capture_output=True)
    runs.expect(done.returncode == 2 and b"is not UTF-8" in done.stderr,
                f"a name that is not UTF-8: {done.returncode} {done.stderr}")


WANTED = {}
runs.both(one, [("plain", ), *(NAMES[i:i + 4] for i in range(0, len(NAMES), 4))])
a_name_that_yaml_cannot_write_is_refused()
runs.finish()
