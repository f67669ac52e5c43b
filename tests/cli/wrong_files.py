"""wrong_files.py: pointers, web pages, archives and other formats in the place of each file that is read. Each is refused in one message
that names the file and what it is, with the exit code of bad files. A byte order mark is not refused."""
import gzip
import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import tempfile
import zipfile
from pathlib import Path

SHARDWISE = Path(os.environ["SW_BUILD"]) / "shardwise"
n_failed = 0


def complain(text):
    global n_failed
    n_failed += 1
    print("FAILED:", text)


def run(*arguments):
    return subprocess.run([str(SHARDWISE), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", timeout=60)


def refused(words, *arguments, code=3):
    """The command ends with that code and one message, which has all the words. Returns the message."""
    done = run(*arguments)
    if done.returncode != code or done.stderr.count("shardwise: error: ") != 1:
        complain(f"{arguments}: exit code {done.returncode}, not {code}: {done.stderr}")
    for word in words:
        if word not in done.stderr:
            complain(f"{arguments}: no '{word}' in: {done.stderr}")
    return done.stderr


def accepted(*arguments):
    done = run(*arguments)
    if done.returncode:
        complain(f"{arguments}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def zipped(name, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, data)
    return out.getvalue()


def safetensors(tensors):
    """name -> floats, as a file of F32."""
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {
            "dtype": "F32", "shape": [len(values)],
            "data_offsets": [len(data), len(data) + 4 * len(values)]
        }
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


NPY_HEADER = b"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }"
# kind -> (its bytes, words of the message)
WRONG = {
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 +
            b"\nsize 538090408\n", ["Git LFS pointer", "git lfs pull"]),
    "html": (b"<!doctype html>\n<html class=\"\"><head><title>model</title></head></html>\n",
             ["web page (HTML)", "hf download"]),
    "answer": (b'{"error":"Repository not found"}', ["answer of a server", "hf download"]),
    "zip": (zipped("model/config.json", b"{}"), ["zip archive", "unzip"]),
    "torch": (zipped("archive/data.pkl", pickle.dumps({}, 2)), ["PyTorch (pickle)"]),
    "pickle": (pickle.dumps({"a": [1.5] * 100}, 4), ["Python pickle"]),
    "gzip": (gzip.compress(b'{"text": "a"}\n' * 9), ["compressed by gzip", "gzip -d"]),
    "gguf": (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), ["GGUF file"]),
    "safetensors": (safetensors({"w": [1.0, 2.0]}), ["safetensors file"]),
    "npy": (b"\x93NUMPY\1\0" + struct.pack("<H",
                                           len(NPY_HEADER) + 1) + NPY_HEADER + b"\n" +
            b"\1\0\2\0\3\0", [".npy file of numpy"]),
    "utf16": ('{"text": "a"}\n'.encode("utf-16"), ["UTF-16", "iconv"]),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(100), ["HDF5"]),
    "text": (b"just some words\n", ["plain text"]),
    "json": (b'{"a": 1}\n', ["JSON"]),
    "empty": (b"", ["empty"]),
}
# What a reader finds to be wrong by itself, or right.
TEXT = {"text", "json"}


def try_all(path, arguments, passes=(), code=3, tries_folder=True):
    """Each wrong file at `path` while the command runs, then what was there."""
    kept = path.read_bytes() if path.exists() else None
    for kind, (data, says) in WRONG.items():
        path.write_bytes(data)
        if kind not in passes:
            message = refused([path.name, *says], *arguments, code=code)
            if any(f"{n} bytes" in message for n in (2336927755350992246, 7310594927413031525)):
                complain(f"{path}: its first bytes are taken for a length: {message}")
    path.unlink()
    if tries_folder:
        path.mkdir()
        refused([path.name, "folder"], *arguments, code=code)
        path.rmdir()
    if kept is not None:
        path.write_bytes(kept)


def with_mark(path, arguments):
    """A byte order mark of UTF-8 before a text that is read changes nothing."""
    expected, kept = accepted(*arguments), path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + kept)
    if accepted(*arguments) != expected:
        complain(f"{path}: a byte order mark changes what comes out")
    path.write_bytes(kept)


def model_files(work):
    model = work / "run" / "model"
    generate = ["generate", model, "--prompt", "line", "--max-tokens", "2", "--greedy"]
    expected = accepted(*generate)
    try_all(model / "model.safetensors", generate, passes={"safetensors"})
    try_all(model / "config.json", generate, passes=TEXT)
    try_all(model / "tokenizer.json", generate, passes=TEXT)
    try_all(model / "tokenizer_config.json", generate + ["--chat", "--chat-format", "chatml"],
            passes=TEXT)
    try_all(model / "generation_config.json", generate, passes=TEXT)
    try_all(model / "chat_template.jinja", generate + ["--chat"], passes=TEXT | {"empty"})
    (model / "chat_template.jinja").unlink(missing_ok=True)
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"]:
        with_mark(model / name, generate)
    for name in ["config.json", "tokenizer.json"]:
        kept = (model / name).read_bytes()
        (model / name).write_bytes(b"\xef\xbb\xbf" + kept)
        accepted("checkpoint", "export", model, work / f"{name}.gguf", "--no-tokenizer")
        accepted("checkpoint", "import", model, work / f"{name}.folder")
        (model / name).write_bytes(kept)

    # An index, whose files are there or not; in each other's places.
    weights = (model / "model.safetensors").read_bytes()
    (size, ) = struct.unpack("<Q", weights[:8])
    names = [name for name in json.loads(weights[8:8 + size]) if name != "__metadata__"]
    part, index = model / "model-00001-of-00001.safetensors", model / "model.safetensors.index.json"
    part.write_bytes(weights)
    (model / "model.safetensors").unlink()
    refused(["model.safetensors.index.json", "hf download"], *generate)
    index.write_text(json.dumps({"weight_map": {name: part.name for name in names}}))
    if accepted(*generate) != expected:
        complain("weights of an index give another text")
    with_mark(index, generate)
    try_all(index, generate, passes=TEXT)
    try_all(part, generate, passes={"safetensors"})
    part.unlink()
    refused([part.name, "missing", f"hf download OWNER/NAME {part.name}"], *generate)
    index.rename(model / "model.safetensors")
    refused(["is JSON", "model.safetensors.index.json"], *generate)
    (model / "model.safetensors").unlink()

    # Folders with weights that are not read.
    for name, words in [
        ("pytorch_model.bin", ["pytorch_model.bin", "save_pretrained"]),
        ("pytorch_model.bin.index.json", ["pytorch_model.bin.index.json", "save_pretrained"]),
        ("consolidated.00.pth", ["consolidated.00.pth", "save_pretrained"]),
        ("consolidated.safetensors", ["consolidated.safetensors", "hf download"]),
        ("weights.safetensors", ["weights.safetensors", "model.safetensors"]),
        ("tf_model.h5", ["tf_model.h5", "safetensors"]),
        ("flax_model.msgpack", ["flax_model.msgpack", "safetensors"]),
        ("model-q4.gguf", ["model-q4.gguf", "shardwise checkpoint import"]),
    ]:
        (model / name).write_bytes(b"x")
        refused(words, *generate)
        (model / name).unlink()
    refused(["neither model.safetensors nor model.safetensors.index.json"], *generate)
    (model / "model.safetensors").write_bytes(weights)

    # Tokenizers that are not read.
    text = (model / "tokenizer.json").read_bytes()
    (model / "tokenizer.json").unlink()
    for name in ["tokenizer.model", "spiece.model", "vocab.txt", "tekken.json"]:
        (model / name).write_bytes(b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\2")
        refused([name, "AutoTokenizer", "save_pretrained"], *generate)
        refused([name, "AutoTokenizer", "text.txt"], "eval", model, "--data", work / "text.txt")
        if name == "tokenizer.model":
            refused(["SentencePiece", "AutoTokenizer"], "tokenize", "--tokenizer", model / name,
                    work / "text.txt", "--print-ids")
        (model / name).unlink()
    refused(["tokenizer.json", "hf download"], *generate)
    (model / "tokenizer.json").write_bytes(text)

    # In place of the folder.
    config = (model / "config.json").read_bytes()
    (model / "config.json").unlink()
    refused(["config.json", "hf download"], *generate)
    (model / "config.json").write_bytes(config)
    refused(["folder", "config.json"], "generate", model / "model.safetensors", "--prompt", "a")
    refused(["folder", "config.json"], "generate", model / "config.json", "--prompt", "a")
    cache = work / "models--a--b"
    (cache / "blobs").mkdir(parents=True)
    shutil.copytree(model, cache / "snapshots" / "0123")
    refused(["cache", f"{cache}/snapshots/0123"], "generate", cache, "--prompt", "a")
    os.remove(cache / "snapshots" / "0123" / "model.safetensors")
    os.symlink("../../blobs/no", cache / "snapshots" / "0123" / "model.safetensors")
    refused(["model.safetensors", "is a link to ../../blobs/no"], "generate",
            cache / "snapshots" / "0123", "--prompt", "a")
    if accepted(*generate) != expected:
        complain("the model has changed")


def other_files(work):
    model, gguf = work / "run" / "model", work / "some.gguf"
    gguf.write_bytes(
        (Path(os.environ["SW_SOURCE"]) / "tests/checkpoint/gguf/tiny-llama.gguf").read_bytes())
    try_all(gguf, ["checkpoint", "import", gguf, work / "out"], passes={"gguf"}, tries_folder=False)
    refused(["GGUF", f"shardwise checkpoint import {gguf}"], "generate", gguf, "--prompt", "a")
    tokens = work / "some.npy"
    accepted("tokenize", "--tokenizer", model, work / "text.txt", "-o", tokens)
    try_all(tokens, ["tokenize", "--tokenizer", model, "--decode", tokens], passes={"npy"})
    try_all(tokens, ["train", work / "run.yaml", f"data.train=[{tokens}]", "--dry-run"],
            passes={"npy"})
    rows = work / "some.jsonl"
    rows.write_text('{"text": "a b c"}\n' * 100)
    tokenize = ["tokenize", "--tokenizer", model, rows, "--print-ids"]
    with_mark(rows, tokenize)
    for arguments in (tokenize, ["tokenize", "--tokenizer", model, "--jsonl", rows, "--print-ids"],
                      ["train", work / "run.yaml", f"data.train=[{rows}]", "--dry-run"]):
        try_all(rows, arguments, passes=TEXT)
    plain = work / "plain.txt"
    plain.write_text("words")
    with_mark(plain, ["tokenize", "--tokenizer", model, plain, "--print-ids"])
    try_all(plain, ["tokenize", "--tokenizer", model, plain, "--print-ids"],
            passes=TEXT | {"html", "answer", "empty"})
    questions = work / "questions.jsonl"
    try_all(questions, ["eval", model, "--choices", questions], passes=TEXT | {"empty"})

    # Rows as one document of JSON: the command of the message writes them one on each line.
    document = work / "it's rows.json"
    row = {"text": "é a"}
    for text in (json.dumps([row, row]), json.dumps([row, row], indent=2),
                 "\ufeff" + json.dumps([row, row], ensure_ascii=False), json.dumps(row, indent=1)):
        document.write_text(text, encoding="utf-8")
        for arguments in (
            ["tokenize", "--tokenizer", model, document, "--print-ids"],
            ["tokenize", "--tokenizer", model, "--jsonl", document, "--print-ids"],
            ["train", work / "run.yaml", f"data.train=[\"{document}\"]", "--dry-run"],
            ["eval", model, "--data", document],
        ):
            if text[0] == "{" and "--jsonl" in arguments:
                continue
            message = refused(["one JSON", "python3 -c", ".jsonl"], *arguments)
        command = message[message.index("python3 -c"):].split(" writes")[0].strip()
        subprocess.run(command, shell=True, cwd=work, check=True, executable="/bin/bash")
        if [json.loads(line) for line in (work / "rows.jsonl").read_text().splitlines()
            ] != [row] * (1 if text[0] == "{" else 2):
            complain(f"{command}: wrote {(work / 'rows.jsonl').read_text()}")
    document.write_text('{"text": "a"}\n{"text": "b"}\n')
    refused(["one on each line", ".jsonl"], "tokenize", "--tokenizer", model, document,
            "--print-ids")
    accepted("tokenize", "--tokenizer", model, "--jsonl", document, "--print-ids")

    settings = work / "settings.yaml"
    settings.write_text((work / "run.yaml").read_text())
    with_mark(settings, ["train", settings, "--print-config"])
    # An object of JSON and a text are YAML, with keys that there are not.
    try_all(settings, ["train", settings, "--dry-run"], passes=TEXT | {"empty"}, code=2)
    adapter = work / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}))
    merge = ["checkpoint", "merge", model, adapter, work / "merged"]
    try_all(adapter / "adapter_model.safetensors", merge, passes={"safetensors"})
    (adapter / "adapter_model.safetensors").write_bytes(WRONG["safetensors"][0])
    try_all(adapter / "adapter_config.json", merge, passes=TEXT)


with tempfile.TemporaryDirectory() as name:
    work = Path(name)
    (work / "text.txt").write_text("".join(f"line {i} says that {7 * i} is seven times {i}\n"
                                           for i in range(200)))
    (work / "run.yaml").write_text(
        "model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_positions: 32}\n"
        f"data: {{train: [text.txt], tokenizer: bytes, sequence_length: 16}}\n"
        "train: {steps: 1, batch_size: 4, micro_batch_size: 2}\nshard: {ranks: 1}\ncheckpoint: {path: run}\n"
    )
    accepted("train", work / "run.yaml", "--quiet")
    (work / "run.yaml").write_text((work / "run.yaml").read_text().replace(
        "path: run", "path: other").replace("tokenizer: bytes", "tokenizer: run/model"))
    model_files(work)
    other_files(work)
raise SystemExit(n_failed != 0)
