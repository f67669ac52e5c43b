#!/usr/bin/env python3
"""Print keys.json: what keys of a config.json change of what transformers computes.  make_keys.py > keys.json, with torch and transformers

A small model of every family is saved, then read again with one key more, or with another value of it. Compared are the loss, its
gradients and a greedy continuation through the cache; dropout is off. `effect` is the first of these that differs, "error" where the
model cannot be read any more, and "none" else.
"""
import json
import os
import pathlib
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import logging

import torch
import transformers

logging.disable(logging.ERROR)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.manual_seed(1)
VOCABULARY, TOKENS, MORE = 31, 12, 14
LLAMA = dict(hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, vocab_size=VOCABULARY,
             bos_token_id=None, eos_token_id=None, initializer_range=0.3)
GPT2 = dict(n_embd=24, n_layer=2, n_head=4, n_positions=64, vocab_size=VOCABULARY,
            bos_token_id=None, eos_token_id=None, initializer_range=0.3, attn_pdrop=0.0,
            resid_pdrop=0.0, embd_pdrop=0.0)
FAMILIES = {
    "llama": LLAMA, "mistral": dict(LLAMA, sliding_window=None), "qwen2": LLAMA,
    "qwen3": dict(LLAMA, head_dim=8), "gpt2": GPT2
}

# Of every key the values that are tried.
KEYS = {
    # of transformers' base class and of what all models share
    "is_causal": [False, True, None],
    "pad_token_id": [3, 30, -1],
    "use_cache": [False],
    "gradient_checkpointing": [True],
    "output_attentions": [True],
    "output_hidden_states": [True],
    "return_dict": [False],
    "chunk_size_feed_forward": [4],
    "is_decoder": [True],
    "cross_attention_hidden_size": [8],
    "tie_encoder_decoder": [True],
    "pruned_heads": [{}, {"0": [1]}],
    "torchscript": [True],
    "use_bfloat16": [True],
    "attn_implementation": ["eager"],
    "_attn_implementation": ["eager"],
    "name_or_path": ["somewhere"],
    "_name_or_path": ["somewhere"],
    "_commit_hash": ["0"],
    "transformers_version": ["4.0.0"],
    "architectures": [["LlamaForSequenceClassification"], ["NoModel"]],
    "auto_map": [{"AutoConfig": "no.Config"}],
    "num_labels": [3],
    "id2label": [{"0": "a", "1": "b", "2": "c"}],
    "label2id": [{"a": 0}],
    "problem_type": ["regression"],
    "finetuning_task": ["x"],
    "task_specific_params": [{"text-generation": {"do_sample": True}}],
    "tokenizer_class": ["X"],
    "prefix": ["x"],
    "sep_token_id": [4],
    "decoder_start_token_id": [4],
    "loss_type": ["ForMaskedLM"],
    "is_composition": [True],
    "dtype": ["float16", "bfloat16"],
    "torch_dtype": ["float16", "bfloat16"],
    "tie_last_hidden_states": [False],
    # of the cache and of layers
    "layer_types": [["full_attention"] * 2, ["sliding_attention"] * 2, ["chunked_attention"] * 2,
                    ["full_attention", "sliding_attention"]],
    "sliding_window": [None, 3, 64],
    "use_sliding_window": [False, True],
    "max_window_layers": [0],
    "attention_chunk_size": [None, 3, 64],
    "kv_sharing_modes": [None, ["reuse", "reuse"]],
    "num_kv_shared_layers": [1],
    "per_layer_config": [None, {}, {"0": {"intermediate_size": 20}}],
    "num_mtp_layers": [1],
    "num_nextn_predict_layers": [1],
    "unpadded_vocab_size": [10],
    "logits_mup_width_multiplier": [2.0],
    "transformers_weights": [None, "other.safetensors"],
    "fusion_config": [None],
    "cache_implementation": ["static"],
    # generation, in files of long ago
    "temperature": [0.1],
    "top_k": [3],
    "top_p": [0.5],
    "do_sample": [True],
    "num_beams": [3],
    "repetition_penalty": [2.0],
    "max_length": [15],
    "min_length": [3],
    "no_repeat_ngram_size": [2],
    "bad_words_ids": [[[1]]],
    "suppress_tokens": [[1, 2]],
    "forced_bos_token_id": [1],
    "length_penalty": [2.0],
    # what changes the arithmetic of other families
    "final_logit_softcapping": [5.0],
    "attn_logit_softcapping": [5.0],
    "query_pre_attn_scalar": [3],
    "logit_scale": [2.0],
    "logits_scaling": [2.0],
    "embedding_multiplier": [3.0],
    "residual_multiplier": [3.0],
    "attention_multiplier": [3.0],
    "scale_emb": [3],
    "scale_depth": [1.4],
    "dim_model_base": [8],
    "num_experts": [4],
    "num_local_experts": [4],
    "num_experts_per_tok": [2],
    "moe_intermediate_size": [8],
    "rotary_pct": [0.5],
    "rotary_dim": [2],
    "rotary_emb_base": [100],
    "rope_interleaved": [True],
    "rope_ratio": [2.0],
    "no_rope_layers": [[0, 1]],
    "rope_local_base_freq": [10.0],
    "qk_norm": [True],
    "use_qk_norm": [True],
    "qk_layernorm": [True],
    "clip_qkv": [0.1],
    "norm_bias": [True],
    "use_parallel_residual": [True],
    "parallel_attn": [True],
    "alibi": [True],
    "multi_query": [True],
    "scale_attn_by_layer": [True],
    "tie_word_embeddings": [True],
    "bias": [True],
    "use_bias": [True],
    "no_bias": [True],
    "layer_norm_eps": [0.5],
    "norm_eps": [0.5],
    "hidden_activation": ["relu"],
    "hidden_size_per_head": [3],
    "n_ctx": [8],
    "seq_length": [8],
    "max_sequence_length": [8],
    "model_max_length": [8],
    "dropout": [0.5],
    "hidden_dropout": [0.5],
    "hidden_dropout_prob": [0.5],
    "attention_probs_dropout_prob": [0.5],
    "classifier_dropout": [0.5],
    "resid_dropout": [0.5],
    "ffn_dropout": [0.5],
    "layerdrop": [0.5],
    "label_smoothing": [0.5],
    "initializer_factor": [3.0],
    "original_max_position_embeddings": [16],
    "max_position_embeddings": [64],
    "pretraining_tp": [1, 2],
    "attention_bias": [False, True],
    "mlp_bias": [False, True],
    "attention_dropout": [0.5],
    "hidden_act": ["silu", "relu"],
    "activation_function": ["gelu_new", "relu"],
    "rms_norm_eps": [1e-6, 0.5],
    "layer_norm_epsilon": [1e-5, 0.5],
    "head_dim": [8],
    "partial_rotary_factor": [1.0, 0.5],
    "rope_theta": [10000.0, 50.0],
    "rope_scaling": [None, {"type": "linear", "factor": 2.0}],
    "quantization_config": [None],
    # of GPT-2
    "summary_type": ["last"],
    "summary_use_proj": [False],
    "summary_activation": ["tanh"],
    "summary_proj_to_labels": [False],
    "summary_first_dropout": [0.5],
    "summary_last_dropout": [0.5],
    "scale_attn_weights": [True, False],
    "scale_attn_by_inverse_layer_idx": [False, True],
    "reorder_and_upcast_attn": [False, True],
    "add_cross_attention": [False],
    "attn_pdrop": [0.5],
    "resid_pdrop": [0.5],
    "embd_pdrop": [0.5],
    # second names, and names of the other kind of model
    "n_embd": [24],
    "hidden_size": [24, 12],
    "n_layer": [2],
    "num_hidden_layers": [2, 1],
    "n_head": [4],
    "num_attention_heads": [4, 2],
    "n_positions": [64],
    # of nobody
    "my_note": ["x", {"a": [1]}],
}


def measure(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64,
                                                              attn_implementation="eager").eval()
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 30, 5, 8],
                           [9, 7, 9, 3, 2, 3, 8, 30, 6, 2, 6, 4]])
    logits = model(tokens)[0 if not model.config.return_dict else "logits"]
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY),
                                             tokens[:, 1:].reshape(-1), reduction="sum")
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    more = model.generate(tokens, max_new_tokens=MORE, do_sample=False,
                          return_dict_in_generate=False, pad_token_id=0)
    return loss.item(), gradients, more


def effect(before, folder):
    try:
        loss, gradients, more = measure(folder)
    except Exception as error:
        return "error: " + (str(error).strip() or type(error).__name__).splitlines()[0][:80]
    if abs(loss - before[0]) > 1e-10 * before[0]:
        return "loss"
    if gradients.keys() != before[1].keys() or any(
        (gradients[k] - before[1][k]).abs().max() > 1e-10 for k in gradients):
        return "gradient"
    return "none" if torch.equal(more, before[2]) else "continuation"


def main():
    rows = []
    for family, settings in FAMILIES.items():
        folder = pathlib.Path(tempfile.mkdtemp())
        config = transformers.AutoConfig.for_model(family, **settings)
        transformers.AutoModelForCausalLM.from_config(config,
                                                      dtype=torch.float64).save_pretrained(folder)
        (folder / "other.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        (folder / "generation_config.json").unlink()
        written = dict(model_type=family, **settings)
        (folder / "config.json").write_text(json.dumps(written))
        before = measure(folder)
        for key, values in KEYS.items():
            for value in values:
                (folder / "config.json").write_text(json.dumps(dict(written, **{key: value})))
                rows.append(dict(family=family, key=key, value=value, effect=effect(before,
                                                                                    folder)))
        print(family, file=sys.stderr)
    head = {
        "made_by": f"make_keys.py with torch {torch.__version__.split('+')[0]}, transformers {transformers.__version__}",
        "families": FAMILIES
    }
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    print(json.dumps(head, indent=1)[:-2] + ',\n "keys": [\n' + lines + "\n ]\n}")


main()
