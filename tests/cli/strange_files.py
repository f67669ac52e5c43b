"""strange_files.py: pipes, sockets and devices where files belong: nothing waits for them, reads them for ever, or replaces them.

Every verb runs in a folder with all that it can read and write. Then each file of that folder, one after another, is something else, and
the verb runs again: it is over at once, says which file is wrong where it needs that file, and leaves what was put there.
"""

import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["SW_SOURCE"]) / "tests" / "run"))
import runs

SECONDS = 60  # what waits for a pipe waits for ever; every verb here is done in a second or two
base = runs.fresh("base")
base.mkdir()


def write(name, text):
    (base / name).write_text(text)


shutil.copytree(runs.GOLDEN / "llama-lora" / "model", base / "model")
shutil.copytree(runs.GOLDEN / "llama-lora" / "adapter", base / "adapter")
shutil.copytree(runs.SOURCE / "tests/tokenizer/golden/qwen2-style", base / "tokenizer")
shutil.copy(runs.SOURCE / "tests/checkpoint/gguf/tiny-llama.gguf", base / "tiny.gguf")
shutil.copy(runs.write_npy(runs.some_tokens(600, 256)), base / "tokens.npy")
shutil.copy(runs.write_npy([1] * 600), base / "mask.npy")
shutil.copy(runs.write_npy([100] * 6), base / "lengths.npy")
write("text.txt", "".join(f"line {i} of a text\n" for i in range(100)))
write(
    "chat.jsonl",
    '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}]}\n' *
    40)
write("choices.jsonl", '{"prompt": "a", "choices": ["b", "c"], "answer": 0}\n')
write("prompts.txt", "one\ntwo\n")
REST = """
train: {steps: 2, batch_size: 2, micro_batch_size: 2}
shard: {ranks: 2, param_dtype: fp32}
log: {every: 1}
"""
write(
    "text.yaml",
    "model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_positions: 32}\n"
    "data: {train: [text.txt, chat.jsonl], validation: [text.txt], tokenizer: tokenizer, sequence_length: 32, chat_format: chatml}\n"
    "checkpoint: {path: new, every: 1}" + REST)
write(
    "tokens.yaml",
    "model: {path: model, train: lora, lora: {rank: 4, alpha: 8, adapter: adapter}}\n"
    "data: {train: [tokens.npy], labels_mask: mask.npy, documents: lengths.npy, tokenizer: bytes, sequence_length: 16}\n"
    "checkpoint: {path: new}" + REST)
write(
    "bytes.yaml",
    "model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_positions: 32}\n"
    "data: {train: [text.txt], tokenizer: bytes, sequence_length: 32}\ncheckpoint: {path: run, every: 1}"
    + REST)


def command(folder, *arguments):
    environment = dict(os.environ, HOME=str(folder), XDG_CACHE_HOME=str(folder / "cache"))
    try:
        done = subprocess.run([str(runs.COMMAND), *arguments], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stderr


def must(*arguments):
    code, errors = command(base, *arguments)
    runs.expect(code == 0, f"{' '.join(arguments)}: {code} {errors}")


must("train", "bytes.yaml", "--quiet")
must("train", "text.yaml", "--quiet", "checkpoint.path=once")  # leaves the token cache behind
shutil.rmtree(base / "once")

# What is run; what it cannot do without; what it writes.
VERBS = [
    (("train", "text.yaml", "--quiet"),
     ["text.yaml", "text.txt", "chat.jsonl", "tokenizer/tokenizer.json"], []),
    (("train", "tokens.yaml", "--quiet"), [
        "tokens.yaml", "tokens.npy", "mask.npy", "lengths.npy", "model/config.json",
        "model/model.safetensors", "adapter/adapter_config.json",
        "adapter/adapter_model.safetensors"
    ], []),
    (("train", "bytes.yaml", "train.steps=3", "--quiet"), ["bytes.yaml",
                                                           "text.txt"], []),  # goes on
    (("plan", "tokens.yaml"), ["tokens.yaml", "model/config.json"], []),
    (("eval", "run/model", "--data", "text.txt", "--choices", "choices.jsonl"), [
        "run/model/config.json", "run/model/model.safetensors", "run/model/tokenizer.json",
        "text.txt", "choices.jsonl"
    ], []),
    (("generate", "run/model", "--prompts", "prompts.txt", "--max-tokens", "2"), [
        "run/model/config.json", "run/model/model.safetensors", "run/model/tokenizer.json",
        "prompts.txt"
    ], []),
    (("tokenize", "--tokenizer", "tokenizer", "text.txt", "-o", "o.npy", "--mask", "k.npy",
      "--documents", "d.npy"), ["tokenizer/tokenizer.json", "text.txt"],
     ["o.npy", "k.npy", "d.npy", "o.npy.partial", "k.npy.partial", "o.npy.json"]),
    (("tokenize", "--tokenizer", "bytes", "--jsonl", "chat.jsonl", "--chat-format", "chatml", "-o",
      "o.npy"), ["chat.jsonl"], []),
    (("tokenize", "--tokenizer", "bytes", "--decode", "tokens.npy", "-o", "o.txt"), ["tokens.npy"],
     []),
    (("checkpoint", "list", "run"), [], []),
    (("checkpoint", "verify", "run"), [], []),
    (("checkpoint", "diff", "run/steps/00000001", "run/steps/00000002"), [], []),
    (("checkpoint", "export", "run", "out"), ["run/run.yaml"], ["out", "out.partial"]),
    (("checkpoint", "export", "model", "out.gguf"),
     ["model/config.json", "model/model.safetensors"], ["out.gguf", "out.gguf.partial"]),
    (("checkpoint", "import", "tiny.gguf", "out"), ["tiny.gguf"], ["out"]),
    (("checkpoint", "import", "run", "other"), [], ["other"]),
    (("checkpoint", "merge", "model", "adapter", "out"),
     ["model/model.safetensors", "adapter/adapter_config.json"], ["out"]),
    (("checkpoint", "prune", "run", "--keep", "1"), [], []),
    (("bench", "roofs", "--ranks", "1", "--save", "o.json"), [], ["o.json", "o.json.partial"]),
    (("doctor", ), [], []),
]


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    listener.bind(f"/proc/self/fd/{here}/{path.name}")  # a socket's name is short
    os.close(here)
    listener.close()


KINDS = {
    "pipe": make_pipe,
    "socket": make_socket,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "folder": lambda path: path.mkdir(),
    "pipe behind a link": lambda path:
    (os.mkfifo(path.with_name(path.name + ".pipe")), path.symlink_to(path.name + ".pipe")),
}


def as_it_is(verb):
    folder = runs.fresh("folder")
    shutil.copytree(base, folder, symlinks=True)
    code, errors = command(folder, *verb)
    runs.expect(code == 0, f"{' '.join(verb)}: exit code {code}: {errors}")


def one(verb, name, kind, is_needed):
    folder = runs.fresh("folder")
    shutil.copytree(base, folder, symlinks=True)
    path = folder / name
    if path.exists():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    KINDS[kind](path)
    before = os.lstat(path)
    code, errors = command(folder, *verb)
    what = f"{' '.join(verb)}: {name} is a {kind}: exit code {code}: {errors[-400:]}"
    runs.expect(code in ([2, 3, 4] if is_needed else [0, 2, 3, 4]), what)
    if is_needed:
        runs.expect(pathlib.Path(name).name in errors and len(errors.splitlines()) == 1, what)
    # a run makes what is in its folder anew, and what is damaged in the cache
    is_own = (name.startswith("run/")
              and verb[0] in ("train", "checkpoint")) or name.startswith("cache/shardwise/tokens/")
    runs.expect(
        kind == "folder" or is_own
        or (os.path.lexists(path)
            and stat.S_IFMT(os.lstat(path).st_mode) == stat.S_IFMT(before.st_mode)),
        f"what was put there is gone: {what}")
    shutil.rmtree(folder)


items = []
files = sorted(
    str(path.relative_to(base)) for path in base.rglob("*")
    if path.is_file() and not path.is_symlink())
for verb, needed, written in VERBS:
    runs.expect(set(needed) <= set(files), f"{verb}: {set(needed) - set(files)} are not there")
    read = [
        name for name in files if name.startswith("cache/") or any(
            name.split("/")[0] in argument
            for argument in verb) or verb[0] in ("train", "plan", "doctor")
    ]
    for name in sorted({*read, *needed}):
        items.append((verb, name, "pipe", name in needed))
        if name in needed:
            items.extend((verb, name, kind, True) for kind in KINDS if kind != "pipe")
    for name in written:
        items.append((verb, name, "pipe", False))
        items.append((verb, name, "endless", False))
runs.both(as_it_is, [(verb, ) for verb, *_ in VERBS])
runs.both(one, items)
runs.finish()
