#!/usr/bin/env python3
"""Print the rows of WINDOWS in test_score.c: losses over windows by transformers, in 64-bit.  make_windows.py, with torch and transformers.

Below the length a stride is that of "Perplexity of fixed-length models" in the documentation of transformers; a stride as long as the
window makes rows of so many inputs, each with the target behind it.
"""
import json
import os
import pathlib
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
N_TOKENS = 200
MODELS = [("llama-tied", True), ("llama-tied", False), ("gpt2", False), ("mistral-window", False)]
SHAPES = [(64, 64), (64, 24), (64, 63), (17, 1),
          (64, 200)]  # the last: one window that holds less than its length, of 40 tokens


def load(name, is_causal):
    folder = pathlib.Path(tempfile.mkdtemp())
    for file in ("model.safetensors", ):
        (folder / file).symlink_to(GOLDEN / name / "model" / file)
    config = json.loads((GOLDEN / name / "model" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(config, is_causal=is_causal)))
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64,
                                                             attn_implementation="eager").eval()


def total(model, inputs, targets):
    with torch.no_grad():
        logits = model(inputs[None]).logits[0]
    return torch.nn.functional.cross_entropy(logits[:len(targets)], targets, ignore_index=-100,
                                             reduction="sum").item()


def score(model, ids, length, stride):
    loss, end_before = 0, 0
    if stride == length:
        for begin in range(0, len(ids) - 1, length):
            loss += total(model, ids[begin:begin + length], ids[begin + 1:begin + length + 1])
        return loss
    for begin in range(0, len(ids), stride):
        end = min(begin + length, len(ids))
        targets = ids[begin + 1:end].clone()
        targets[:max(0, end_before - begin - 1)] = -100
        loss += total(model, ids[begin:end], targets)
        end_before = end
        if end == len(ids):
            break
    return loss


for name, is_causal in MODELS:
    model = load(name, is_causal)
    ids = torch.from_numpy(numpy.load(GOLDEN / name / "tokens.npy").astype(numpy.int64))
    for length, stride in SHAPES:
        n = 40 if stride > length else N_TOKENS
        loss = score(model, ids[:n], length, min(stride, length))
        print(
            f'    {{"{name}", {str(is_causal).lower()}, {n}, {length}, {min(stride, length)}, {loss!r}}},'
        )
