#!/usr/bin/env python3
"""Do the directories that we write load in transformers, to the bit?  check_transformers.py [BUILD_FOLDER]

Run by hand, with a Python that has torch, transformers and tokenizers. Builds write_models.c against BUILD_FOLDER/libshardwise.a
(default: build), lets it write five small models (one in several files) by three ranks each, and asks of each: AutoModelForCausalLM finds every tensor
and no other, of the dtype that was asked for, with the values of the formula; the configuration means what ours means; AutoTokenizer
and tokenizers turn any text into its bytes and back.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import tokenizers
import torch
import transformers

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def value_of(name, n):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    with numpy.errstate(over="ignore"):
        mixed = (numpy.uint64(value) +
                 numpy.arange(n, dtype=numpy.uint64)) * numpy.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> numpy.uint64(56)).astype(numpy.int64) - 128).astype(numpy.float32) / 64


def check_tensors(folder):
    dtype = DTYPES[folder.name.split("-")[-1]]
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder,
                                                                      output_loading_info=True,
                                                                      dtype="auto")
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[key], (folder.name, key, report[key])
    n = 0
    for name, tensor in model.named_parameters():  # tied ones once
        assert tensor.dtype == dtype, (folder.name, name, tensor.dtype)
        expected = torch.from_numpy(value_of(name, tensor.numel())).reshape(tensor.shape).to(dtype)
        assert torch.equal(tensor, expected), (folder.name, name)
        n += 1
    return model, n


def check_config(folder, config):
    ours = json.loads((folder / "config.json").read_text())
    if ours["model_type"] == "llama":
        assert config.rope_parameters["rope_theta"] == ours["rope_theta"], config.rope_parameters
        assert config.rope_parameters["rope_type"] == "default", config.rope_parameters
        assert config.head_dim == ours["head_dim"] and config.rms_norm_eps == ours["rms_norm_eps"]
    else:
        assert config.n_inner == ours["n_inner"] and config.resid_pdrop == ours[
            "resid_pdrop"] and config.attn_pdrop == 0
    assert config.tie_word_embeddings == ours["tie_word_embeddings"]
    assert config.bos_token_id == ours["bos_token_id"] and config.eos_token_id == ours[
        "eos_token_id"]


def check_tokenizer(folder):
    texts = [
        "", " ", "\n\n", "Hello, world!  Two blanks.", "a\tb\r\n", "naïve café Ω 漢字 😀",
        "don't 123 4567", "\u00a0\u0085\u2028", "\x00\x01\x7f"
    ]
    texts.append("".join(map(chr, range(0x500))))
    whole = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    auto = transformers.AutoTokenizer.from_pretrained(folder)
    assert whole.get_vocab_size() == 256
    for text in texts:
        ids = list(text.encode())
        assert whole.encode(text).ids == ids, text
        assert whole.decode(ids) == text, text
        assert auto(text)["input_ids"] == ids, text
        assert auto.decode(ids) == text, text
    return len(texts)


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else SOURCE / "build").resolve()
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "write_models"
        subprocess.run([
            "cc", "-std=gnu11", "-o", program, SOURCE / "tests/checkpoint/write_models.c",
            f"-I{SOURCE}/src", f"-I{SOURCE}/include", build / "libshardwise.a", "-ljansson",
            "-lyaml", "-lm", "-ldl", "-lpthread"
        ], check=True)
        subprocess.run([program, scratch], check=True)
        for folder in sorted(path for path in pathlib.Path(scratch).iterdir() if path.is_dir()):
            model, n_tensors = check_tensors(folder)
            check_config(folder, model.config)
            n_texts = check_tokenizer(folder)
            print(
                f"{folder.name}: {n_tensors} tensors equal to the bit, {n_texts} texts are their bytes"
            )
    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}: all well")


main()
