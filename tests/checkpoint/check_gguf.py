#!/usr/bin/env python3
"""Do GGUF files of others become the models that transformers makes of them, and are ours readable to others?

    check_gguf.py SHARDWISE FILE.gguf REFERENCE_DIR TOKEN_CASES.jsonl

Run by hand, with a Python that has numpy, gguf, safetensors, tokenizers and transformers. SHARDWISE is the built command;
REFERENCE_DIR is what transformers made of FILE.gguf (fp32); TOKEN_CASES.jsonl has {"text", "ids", "ids_no_special"} for it.
  import   every tensor equals the reference's to the bit; tokenizer.json gives the ids of all cases; transformers loads the folder
  export   as F32, F16 and BF16: the package gguf reads every tensor with the values of the folder, q and k permuted, and the
           metadata; imported again the weights are the same file, and the tokenizer gives the same ids
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
import tokenizers
import torch
import transformers
from safetensors import safe_open

TYPES = {
    "F32": ("fp32", torch.float32), "F16": ("fp16", torch.float16), "BF16": ("bf16", torch.bfloat16)
}


def run(*arguments):
    subprocess.run([str(a) for a in arguments], check=True, stdout=subprocess.DEVNULL)


def tensors_of(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def check_tokens(folder, cases):
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for case in cases:
        assert tokenizer.encode(case["text"]).ids == case["ids"], case["text"]
        assert tokenizer.encode(
            case["text"], add_special_tokens=False).ids == case["ids_no_special"], case["text"]


def permuted(weights, heads):
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2,
                           *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def check_export(path, folder, dtype):
    config = json.loads((folder / "config.json").read_text())
    reader = gguf.GGUFReader(path)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    ours = {tensor.name: tensor for tensor in reader.tensors}
    tensors = tensors_of(folder)
    assert len(ours) == len(tensors)
    for name, weights in tensors.items():
        found = ours[names.get_name(name, try_suffixes=(".weight", ".bias"))]
        values = numpy.asarray(gguf.dequantize(found.data, found.tensor_type),
                               dtype=numpy.float32).reshape(weights.shape)
        expected = (weights if weights.dim() == 1 else weights.to(dtype)).float().numpy()
        heads = {"q_proj": config["num_attention_heads"],
                 "k_proj": config["num_key_value_heads"]}.get(name.split(".")[-2])
        assert numpy.array_equal(values.view(numpy.int32),
                                 (permuted(expected, heads) if heads else expected).view(
                                     numpy.int32)), name
    fields = {
        name: field.contents()
        for name, field in reader.fields.items()
        if not name.startswith(("tokenizer.ggml.t", "tokenizer.ggml.m"))
    }
    assert fields["general.architecture"] == "llama" and fields["llama.block_count"] == config[
        "num_hidden_layers"]
    assert fields["tokenizer.chat_template"] == (folder / "chat_template.jinja").read_text()
    return fields


def main():
    shardwise, file, reference, cases = (pathlib.Path(argument).resolve()
                                         for argument in sys.argv[1:])
    cases = [json.loads(line) for line in cases.open()]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        scratch = pathlib.Path(scratch)
        run(shardwise, "checkpoint", "import", file, scratch / "model")
        found, expected = tensors_of(scratch / "model"), tensors_of(reference)
        assert found.keys() == expected.keys()
        for name in expected:
            assert torch.equal(found[name].view(torch.int32),
                               expected[name].view(torch.int32)), name
        check_tokens(scratch / "model", cases)
        auto = transformers.AutoTokenizer.from_pretrained(scratch / "model")
        chat = [{"role": "user", "content": "Hello"}]
        theirs = transformers.AutoTokenizer.from_pretrained(reference)
        assert auto.apply_chat_template(chat, tokenize=False) == theirs.apply_chat_template(
            chat, tokenize=False)
        assert auto.eos_token_id == theirs.eos_token_id and auto.bos_token_id == theirs.bos_token_id
        print(f"import: {len(found)} tensors equal to the bit, {len(cases)} texts have their ids")
        before = {
            name: field.contents()
            for name, field in gguf.GGUFReader(file).fields.items() if name == "tokenizer.ggml.pre"
        }
        for kind, (word, dtype) in TYPES.items():
            run(shardwise, "checkpoint", "import", scratch / "model", scratch / word, "--dtype",
                word)
            run(shardwise, "checkpoint", "export", scratch / "model", scratch / f"{kind}.gguf",
                "--type", kind)
            fields = check_export(scratch / f"{kind}.gguf", scratch / "model", dtype)
            assert before["tokenizer.ggml.pre"] == fields["tokenizer.ggml.pre"]
            run(shardwise, "checkpoint", "import", scratch / f"{kind}.gguf",
                scratch / f"again-{word}", "--dtype", word)
            assert (scratch / word / "model.safetensors").read_bytes() == (
                scratch / f"again-{word}/model.safetensors").read_bytes()
            assert (scratch / "model/tokenizer.json").read_bytes() == (
                scratch / f"again-{word}/tokenizer.json").read_bytes()
            print(
                f"export {kind}: {len(found)} tensors read by gguf are equal to the bit; imported again, the same files"
            )
            (scratch / f"{kind}.gguf").unlink()


main()
