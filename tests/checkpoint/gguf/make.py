#!/usr/bin/env python3
"""Make the golden files of this folder, with a Python that has numpy and gguf (the reference writer).  make.py

blocks/FORMAT.blocks   random blocks of each format; FORMAT.values: what gguf.dequantize makes of them, fp32
tiny-gpt2.gguf         a one-layer llama with blocks of several formats and a byte-level tokenizer
tiny-llama.gguf        the same with a SentencePiece tokenizer, in F32 and F16, whose head is not tied
rope-llama3.gguf       the settings and the rotary divisors of a Llama 3.1
../../../fuzz/corpus/gguf/*.gguf   a few hundred bytes of each kind, for the fuzzer to start from
tiny-*.json            of each Hugging Face tensor the FNV-1a of its fp32 bytes: dequantised by gguf, q and k with the rotary
                       permutation undone as transformers does it
"""
import json
import pathlib

import gguf
import numpy
from gguf import GGMLQuantizationType as Q

HERE = pathlib.Path(__file__).resolve().parent
READ = [Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q4_K, Q.Q6_K]
SCALES = {
    Q.F16: [0], Q.Q8_0: [0], Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2],
    Q.Q4_K: [0, 2], Q.Q6_K: [208]
}
HIDDEN, HEADS, KV_HEADS, HEAD, FFN, VOCAB = 32, 4, 2, 8, 256, 300
random = numpy.random.default_rng(1)


def blocks(format, n):
    """n random blocks; steps and minima are finite fp16, small and large and subnormal."""
    size = gguf.GGML_QUANT_SIZES[format][1]
    if format == Q.F32:
        return random.standard_normal(n, dtype=numpy.float32).view(numpy.uint8).reshape(n, 4)
    raw = random.integers(0, 256, (n, size), dtype=numpy.uint8)
    if format == Q.BF16:
        raw[:, 1] &= 0xBF  # no infinities
    for at in SCALES.get(format, []):
        raw[:, at + 1] &= 0xBF  # exponents below 16
    return raw


def fnv(array):
    value = 0xCBF29CE484222325
    for byte in numpy.ascontiguousarray(array, dtype="<f4").tobytes():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def undo_rotary(weights, heads):
    return weights.reshape(heads, weights.shape[0] // heads // 2, 2,
                           *weights.shape[1:]).swapaxes(2, 1).reshape(weights.shape)


def byte_alphabet():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def add_gpt2_tokenizer(writer):
    alphabet = byte_alphabet()
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "1 2"]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + list(
        alphabet.values()) + [m.replace(" ", "") for m in merges]
    tokens += ["<tool>"]
    types = [3, 3, 3] + [1] * (len(tokens) - 4) + [4]
    while len(tokens) < VOCAB:
        types.append(5)
        tokens.append(f"[PAD{len(tokens)}]")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")


def add_llama_tokenizer(writer):
    pieces = ["▁", "h", "e", "l", "o", "w", "é", "he", "ll", "▁he", "llo", "hello", "▁hello", "▁w"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + pieces
    types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    # a piece's score is lower the later it was made; single characters come last
    scores = [0.0] * 259 + [-100.0 - i for i in range(7)] + [-float(i) for i in range(7)]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def make_model(name, formats, add_tokenizer, tied):
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    add_tokenizer(writer)
    shapes = {
        "token_embd": ("model.embed_tokens", (VOCAB, HIDDEN)),
        "output_norm": ("model.norm", (HIDDEN, )),
        "blk.0.attn_norm": ("model.layers.0.input_layernorm", (HIDDEN, )),
        "blk.0.ffn_norm": ("model.layers.0.post_attention_layernorm", (HIDDEN, )),
        "blk.0.attn_q": ("model.layers.0.self_attn.q_proj", (HEADS * HEAD, HIDDEN)),
        "blk.0.attn_k": ("model.layers.0.self_attn.k_proj", (KV_HEADS * HEAD, HIDDEN)),
        "blk.0.attn_v": ("model.layers.0.self_attn.v_proj", (KV_HEADS * HEAD, HIDDEN)),
        "blk.0.attn_output": ("model.layers.0.self_attn.o_proj", (HIDDEN, HEADS * HEAD)),
        "blk.0.ffn_gate": ("model.layers.0.mlp.gate_proj", (FFN, HIDDEN)),
        "blk.0.ffn_up": ("model.layers.0.mlp.up_proj", (FFN, HIDDEN)),
        "blk.0.ffn_down": ("model.layers.0.mlp.down_proj", (HIDDEN, FFN)),
    }
    if not tied:
        shapes["output"] = ("lm_head", (VOCAB, HIDDEN))
    hashes = {}
    for tensor, (parameter, shape) in shapes.items():
        format = formats.get(tensor, Q.F32 if len(shape) == 1 else formats["else"])
        block, size = gguf.GGML_QUANT_SIZES[format]
        raw = blocks(format, int(numpy.prod(shape)) // block)
        raw = raw.reshape(*shape[:-1], shape[-1] // block * size)
        values = numpy.asarray(gguf.dequantize(raw, format), dtype=numpy.float32).reshape(shape)
        heads = {"blk.0.attn_q": HEADS, "blk.0.attn_k": KV_HEADS}.get(tensor)
        hashes[f"{parameter}.weight"] = fnv(undo_rotary(values, heads) if heads else values)
        writer.add_tensor(f"{tensor}.weight", raw, raw_dtype=format)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (HERE / f"{name}.json").write_text(json.dumps(hashes, indent=1) + "\n")


def make_llama3(name, factor):
    """The rotary part of a Llama 3.1: divisors as convert_hf_to_gguf.py makes them."""
    base, channels, low, high, positions = 500000.0, 64, 1.0, 4.0, 8192
    divisors = []
    for frequency in base**-(numpy.arange(0, channels, 2, dtype=numpy.float64) / channels):
        length = 2 * numpy.pi / frequency
        if length < positions / high:
            divisors.append(1.0)
        elif length > positions / low:
            divisors.append(factor)
        else:
            smooth = (positions / length - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(131072)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_rope_dimension_count(channels)
    writer.add_rope_freq_base(base)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tensor("token_embd.weight", numpy.zeros((2, 64), dtype=numpy.float32))
    writer.add_tensor("rope_freqs.weight", numpy.array(divisors, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_seed(name, tokens, types, scores, merges):
    writer = gguf.GGUFWriter(HERE / f"../../../fuzz/corpus/gguf/{name}.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(8)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(2.0)
    writer.add_tokenizer_model("gpt2" if merges else "llama")
    writer.add_tokenizer_pre("llama-bpe" if merges else "default")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if merges:
        writer.add_token_merges(merges)
    else:
        writer.add_token_scores(scores)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_eos_token(True)
    for tensor, format in {"token_embd": Q.Q8_0, "blk.0.attn_q": Q.Q4_1,
                           "output_norm": Q.F32}.items():
        block, size = gguf.GGML_QUANT_SIZES[format]
        shape = (32, ) if tensor == "output_norm" else (2, 32)
        raw = blocks(format,
                     int(numpy.prod(shape)) // block).reshape(*shape[:-1], 32 // block * size)
        writer.add_tensor(f"{tensor}.weight", raw, raw_dtype=format)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    (HERE / "blocks").mkdir(exist_ok=True)
    for format in READ:
        n = 4 if gguf.GGML_QUANT_SIZES[format][
            0] == 256 else 8 if gguf.GGML_QUANT_SIZES[format][0] == 32 else 64
        raw = blocks(format, n)
        (HERE / f"blocks/{format.name}.blocks").write_bytes(raw.tobytes())
        (HERE / f"blocks/{format.name}.values").write_bytes(
            numpy.asarray(gguf.dequantize(raw, format), dtype="<f4").tobytes())
    make_model(
        "tiny-gpt2", {
            "else": Q.Q4_1, "token_embd": Q.Q8_0, "blk.0.attn_q": Q.Q5_0, "blk.0.attn_k": Q.Q5_1,
            "blk.0.attn_v": Q.Q4_0, "blk.0.ffn_down": Q.Q6_K, "blk.0.ffn_up": Q.BF16
        }, add_gpt2_tokenizer, True)
    # as many rows as tokens
    global VOCAB
    VOCAB = 273
    make_model("tiny-llama", {"else": Q.F16, "blk.0.attn_q": Q.F32, "blk.0.ffn_down": Q.Q4_K},
               add_llama_tokenizer, False)
    make_llama3("rope-llama3", 8.0)
    make_seed("byte-level", ["<s>", "</s>", "a", "b", "ab", "x"], [3, 3, 1, 1, 1, 5], None, ["a b"])
    make_seed("sentence-piece", ["<unk>", "</s>", "<0x41>", "\u2581", "a", "\u2581a"],
              [2, 3, 6, 1, 1, 1], [0.0, 0.0, 0.0, -2.0, -3.0, -1.0], None)


main()
