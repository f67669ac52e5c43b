#!/usr/bin/env python3
"""Does a tokenizer that goes into a GGUF file and out again still give the same ids?

    check_gguf_tokenizers.py SHARDWISE DIR...

Run by hand, with a Python that has numpy, safetensors and tokenizers. SHARDWISE is the built command; each DIR has tokenizer.json
and cases.jsonl with {"text", "ids", "ids_no_special"}. A model of ones with as many rows as tokens, and a few more, is exported and
imported; then every case must have its ids. A tokenizer that is refused by name is shown, and is no failure.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import tokenizers
from safetensors.numpy import save_file

HIDDEN = 8


def make_model(folder, source):
    rows = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json")).get_vocab_size() + 5
    ones = lambda *shape: numpy.ones(shape, dtype=numpy.float32)
    block = "model.layers.0."
    matrices = [f"self_attn.{x}_proj"
                for x in "qkvo"] + [f"mlp.{x}_proj" for x in ("gate", "up", "down")]
    tensors = {f"{block}{name}.weight": ones(HIDDEN, HIDDEN) for name in matrices}
    tensors |= {
        f"{block}{name}.weight": ones(HIDDEN)
        for name in ("input_layernorm", "post_attention_layernorm")
    }
    tensors |= {"model.embed_tokens.weight": ones(rows, HIDDEN), "model.norm.weight": ones(HIDDEN)}
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    config = dict(model_type="llama", hidden_size=HIDDEN, intermediate_size=HIDDEN,
                  num_hidden_layers=1, num_attention_heads=1, vocab_size=rows,
                  tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if (source / name).exists():
            shutil.copy(source / name, folder)


def main():
    shardwise, *folders = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    for source in folders:
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            make_model(scratch / "model", source)
            refused = None
            for arguments in (["export", scratch / "model", scratch / "model.gguf"],
                              ["import", scratch / "model.gguf", scratch / "again"]):
                done = subprocess.run([shardwise, "checkpoint", *map(str, arguments)],
                                      capture_output=True, text=True)
                refused = refused or (done.stderr.strip() if done.returncode else None)
            if refused:
                print(f"{source.name}: {refused}")
                continue
            tokenizer = tokenizers.Tokenizer.from_file(str(scratch / "again/tokenizer.json"))
            cases = [json.loads(line) for line in (source / "cases.jsonl").open()]
            for case in cases:
                assert tokenizer.encode(case["text"]).ids == case["ids"], (source.name,
                                                                           case["text"])
                assert tokenizer.encode(
                    case["text"],
                    add_special_tokens=False).ids == case["ids_no_special"], (source.name,
                                                                              case["text"])
            print(f"{source.name}: {len(cases)} texts keep their ids")


main()
