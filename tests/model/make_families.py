#!/usr/bin/env python3
"""Write families.json: what `transformers` computes, in 64-bit, for small models of every family and flag.

    make_families.py > families.json        # needs torch, transformers, numpy
    make_families.py --check BUILD_FOLDER   # does transformers compute the same from the config.json that we write?

Weights are made by a formula that tests/support/graph_interpreter.c has too (a hash of the parameter's name and the element's number),
so none are stored. The loss is the sum over two rows of 20 tokens; of each parameter's gradient the norm and the sum are kept. Rotary
frequencies of every scaling come from the reference functions, in 64-bit as well.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch

torch.float = torch.float32 = torch.float64  # what the models name explicitly (norms, softmax, frequencies) is 64-bit too
torch.Tensor.float = torch.Tensor.double
torch.set_default_dtype(torch.double)
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

ROWS, TOKENS, VOCABULARY, DEVIATION = 2, 20, 23, 0.3
LLAMA = dict(hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, vocab_size=VOCABULARY,
             rope_theta=100.0, bos_token_id=None, eos_token_id=None)
GPT2 = dict(n_embd=24, n_layer=2, n_head=3, n_positions=32, vocab_size=VOCABULARY,
            bos_token_id=None, eos_token_id=None, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)

MODELS = {
    "llama, biases, head_dim": dict(model_type="llama", **LLAMA, attention_bias=True, mlp_bias=True,
                                    head_dim=10),
    "llama, linear": dict(model_type="llama", **LLAMA, rope_scaling=dict(type="linear",
                                                                         factor=3.0)),
    "llama, dynamic": dict(model_type="llama", **LLAMA,
                           rope_scaling=dict(type="dynamic", factor=3.0)),
    "llama, llama3": dict(model_type="llama", **LLAMA, rope_scaling=LLAMA3),
    "llama, yarn": dict(model_type="llama", **LLAMA, rope_scaling=YARN),
    "llama, yarn with mscale": dict(
        model_type="llama", **LLAMA, rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=0.5,
                                                       beta_fast=4.0)),
    "llama, yarn, exact ends": dict(model_type="llama", **LLAMA,
                                    rope_scaling=dict(YARN, truncate=False, attention_factor=1.3)),
    "mistral, span": dict(model_type="mistral", **LLAMA, sliding_window=5),
    "mistral, no span": dict(model_type="mistral", **LLAMA, sliding_window=None, head_dim=8),
    "qwen2": dict(model_type="qwen2", **LLAMA, tie_word_embeddings=True, sliding_window=3),
    "qwen2, span above": dict(model_type="qwen2", **LLAMA, use_sliding_window=True,
                              sliding_window=3, max_window_layers=1),
    "qwen3": dict(model_type="qwen3", **LLAMA, tie_word_embeddings=True, head_dim=8),
    "qwen3, bias, span, yarn": dict(model_type="qwen3", **LLAMA, head_dim=12, attention_bias=True,
                                    use_sliding_window=True, sliding_window=4, max_window_layers=0,
                                    rope_scaling=YARN),
    "gpt2, unscaled": dict(model_type="gpt2", **GPT2, scale_attn_weights=False, n_inner=30),
    "gpt2, by layer": dict(model_type="gpt2", **GPT2, scale_attn_by_inverse_layer_idx=True,
                           reorder_and_upcast_attn=True),
}
MODELS |= {
    "llama, full mask": dict(model_type="llama", **LLAMA, is_causal=False),
    "llama, padding": dict(model_type="llama", **LLAMA, pad_token_id=5),
    "llama, tied, padding from the end": dict(model_type="llama", **LLAMA, tie_word_embeddings=True,
                                              pad_token_id=-2),
    "mistral, full mask, span, padding": dict(model_type="mistral", **LLAMA, sliding_window=5,
                                              is_causal=False, pad_token_id=0),
    "qwen2, full mask, span above": dict(model_type="qwen2", **LLAMA, use_sliding_window=True,
                                         sliding_window=3, max_window_layers=1, is_causal=False),
    "qwen3, full mask": dict(model_type="qwen3", **LLAMA, head_dim=8, is_causal=False,
                             pad_token_id=22),
    "gpt2, full mask, padding that is none": dict(model_type="gpt2", **GPT2, is_causal=False,
                                                  pad_token_id=5),
}
for activation in (
        "gelu gelu_10 gelu_fast gelu_new gelu_pytorch_tanh hardswish laplace leaky_relu linear mish quick_gelu relu relu2 relu6 "
        "sigmoid silu tanh").split():
    MODELS[f"gpt2, {activation}"] = dict(model_type="gpt2", **GPT2, activation_function=activation)

SCALINGS = [
    (128, 500000.0, 131072,
     dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
          original_max_position_embeddings=8192)),
    (64, 500000.0, 131072,
     dict(rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
          original_max_position_embeddings=8192)),
    (128, 10000.0, 4096, dict(rope_type="linear", factor=2.5)),
    (128, 10000.0, 4096, dict(rope_type="dynamic", factor=2.0)),
    (128, 1000000.0, 131072,
     dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    (64, 10000.0, 163840,
     dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096, mscale=0.707,
          mscale_all_dim=0.707)),
    (64, 10000.0, 65536,
     dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=4096, mscale=1.0,
          mscale_all_dim=0.5)),
    (80, 10000.0, 65536,
     dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=4096, truncate=False,
          beta_fast=16.0, beta_slow=2.0)),
    (16, 10000.0, 64,
     dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=4, attention_factor=0.8)),
]

MASK = (1 << 64) - 1


def mix(x):
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((x ^ x >> np.uint64(31)) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform(seed, index):
    return mix(np.uint64(seed) + index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def fill(name, parameter):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & MASK
    n = parameter.numel()
    total = sum(uniform(seed, 4 * np.arange(n) + part) for part in range(4))
    is_norm = parameter.dim() == 1 and not name.endswith("bias")
    return torch.from_numpy(float(is_norm) + DEVIATION * np.sqrt(3) * (total - 2)).reshape(
        parameter.shape)


def configuration(settings):
    return transformers.AutoConfig.for_model(
        settings["model_type"], **{k: v
                                   for k, v in settings.items() if k != "model_type"})


def run(config):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64,
                                                          attn_implementation="eager").eval()
    names = {}
    for name, parameter in model.named_parameters():
        parameter.data = fill(name, parameter)
        names[name] = parameter
    index = np.arange(ROWS * TOKENS)
    tokens = torch.from_numpy((uniform(11, index) * VOCABULARY).astype(np.int64))
    targets = torch.from_numpy((uniform(13, index) * VOCABULARY).astype(np.int64))
    targets[index % 5 == 3] = -1
    logits = model(tokens.reshape(ROWS, TOKENS)).logits
    assert logits.dtype == torch.float64
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets,
                                             ignore_index=-1, reduction="sum")
    loss.backward()
    gradients = {name: [p.grad.norm().item(), p.grad.sum().item()] for name, p in names.items()}
    return {"loss": loss.item(), "gradients": gradients}


def scaling(head, theta, positions, settings):
    config = transformers.LlamaConfig(hidden_size=2 * head, num_attention_heads=2, head_dim=head,
                                      max_position_embeddings=positions,
                                      rope_parameters=dict(settings, rope_theta=theta))
    inverse, amplitude = ROPE_INIT_FUNCTIONS[settings["rope_type"]](config, None)
    assert inverse.dtype == torch.float64
    return {
        "head_dim": head, "rope_theta": theta, "max_position_embeddings": positions,
        "rope_scaling": settings, "frequencies": inverse.tolist(), "amplitude": amplitude
    }


def check(build):
    """Both what a person may have written and what transformers saves of it, rewritten by us, gives the losses of families.json."""
    here, folder = pathlib.Path(__file__).resolve().parent, pathlib.Path(tempfile.mkdtemp())
    program = folder / "rewrite_config"
    subprocess.run([
        "cc", "-D_GNU_SOURCE", f"-I{here.parents[1]}/src", f"-I{here.parents[1]}/include",
        here / "rewrite_config.c", f"{build}/libshardwise.a", "-ljansson", "-lyaml", "-lm", "-ldl",
        "-pthread", "-o", program
    ], check=True)
    known = {
        model["name"]: model["loss"]
        for model in json.loads((here / "families.json").read_text())["models"]
    }
    for name, settings in MODELS.items():
        for is_saved in (False, True):
            (folder / "config.json").write_text(json.dumps(settings))
            if is_saved:
                configuration(settings).save_pretrained(folder)
            ours = subprocess.run([program, folder], check=True, stdout=subprocess.PIPE,
                                  text=True).stdout
            (folder / "config.json").write_text(ours)
            loss = run(transformers.AutoConfig.from_pretrained(folder))["loss"]
            assert abs(loss - known[name]) < 1e-9 * loss, (name, is_saved, loss, known[name])
    print(f"{len(MODELS)} configurations mean the same after we have written them")


def main():
    np.seterr(over="ignore")
    if sys.argv[1:2] == ["--check"]:
        return check(sys.argv[2])
    models = [
        dict(name=name, config=settings, **run(configuration(settings)))
        for name, settings in MODELS.items()
    ]
    document = {
        "made_by": f"make_families.py with torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}",
        "rows": ROWS,
        "tokens": TOKENS,
        "deviation": DEVIATION,
        "models": models,
        "scalings": [scaling(*s) for s in SCALINGS],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main()
