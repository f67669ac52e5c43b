"""cases.py: small runs that between them have every awkward shape: a vocabulary of 257, widths that no block of 256 divides, heads that
share keys, parameters smaller than the number of ranks, steps with fewer micro-batches than ranks.
"""

import runs

LLAMA = "architecture: llama, layers: 3, hidden: 66, heads: 3, kv_heads: 1, ffn: 77, vocab: 257, max_positions: 24"
GPT2 = "architecture: gpt2, layers: 3, hidden: 30, heads: 3, vocab: 257, max_positions: 24"
TINY = "architecture: llama, layers: 2, hidden: 8, heads: 2, ffn: 9, vocab: 257, max_positions: 24"  # shards of some ranks are empty

N_TOKENS = 24 * 40 + 1
LENGTH = 24


class Case:
    def __init__(self, name, model, dtype="fp32", data="", train="steps: 3", batch=10, optimizer="",
                 patterns=("*", ), n_moments=2):
        tokens = runs.write_npy(runs.some_tokens(N_TOKENS, 257), name="tokens")
        if len(patterns) and patterns != ("*", ):
            model += ", train: [" + ", ".join(f'"{pattern}"' for pattern in patterns) + "]"
        self.name, self.patterns, self.parameter_bytes = name, patterns, 4 if dtype == "fp32" else 2
        self.batch, self.micro, self.n_moments = batch, 2, n_moments
        self.config = runs.write_yaml(
            f"model: {{{model}}}\n"
            f"data: {{train: [{tokens}], sequence_length: {LENGTH}{data}}}\n"
            f"train: {{{train}, batch_size: {batch}, micro_batch_size: {self.micro}}}\n"
            f"optimizer: {{learning_rate: 1e-2{optimizer}}}\n"
            f"shard: {{param_dtype: {dtype}}}\n"
            f"checkpoint: {{path: run}}\n"
            f"log: {{every: 1}}\n",
            name,
        )


def masked(n_rows_off):
    """A mask under which the first rows of the data have no target: whole micro-batches of a step in order count nothing."""
    mask = [1 if i > n_rows_off * LENGTH and i % 3 else 0 for i in range(N_TOKENS)]
    return f", shuffle: false, labels_mask: {runs.write_npy(mask, '|u1', 'mask')}"


def held_out(n_rows):
    tokens = runs.write_npy(runs.some_tokens(n_rows * LENGTH + 1, 257, seed=3), name="held-out")
    return f", validation: [{tokens}]"


def fast_cases():
    return [
        Case("llama-untied-dropout-validated", LLAMA + ", tied: false, dropout: 0.1",
             data=held_out(7), train="steps: 3, validate_every: 2"),
        Case("gpt2-bf16", GPT2, dtype="bf16"),
        # Joined two, two and three: the first and the last unit share a gradient buffer, and one is
        # longer than the other.
        Case("uneven-units",
             LLAMA.replace("layers: 3", "layers: 7") + ", tied: true"),
    ]


def slow_cases():
    return [
        Case("llama-tied", LLAMA + ", tied: true"),
        Case("llama-bf16-dropout", LLAMA + ", tied: false, dropout: 0.1", dtype="bf16"),
        Case("gpt2-dropout", GPT2 + ", dropout: 0.1"),
        Case("masked", LLAMA + ", tied: false", data=masked(14)),
        Case("epochs", LLAMA + ", tied: true", train="epochs: 1", batch=18),  # 40 rows: 18, 18, 4
        Case("fewer-micro-batches-than-ranks", GPT2, batch=4),
        Case("tiny", TINY, dtype="bf16"),
        Case("frozen-below", LLAMA + ", tied: false",
             patterns=("*layers.1.*", "lm_head.weight", "model.norm.weight")),
        Case("frozen-within-blocks", LLAMA + ", tied: true, dropout: 0.1", dtype="bf16",
             patterns=("*q_proj*", "*norm*")),
        Case("frozen-but-the-head", LLAMA + ", tied: false", patterns=("lm_head.weight", )),
        Case("frozen-but-the-lowest-norm", LLAMA + ", tied: false",
             patterns=("*layers.0.input_layernorm.weight", ), data=held_out(3)),
        Case("frozen-but-positions", GPT2, dtype="bf16", patterns=("*wpe.weight", )),
        Case("frozen-root", LLAMA + ", tied: true", patterns=("*layers.*", )),
        Case("one-layer",
             LLAMA.replace("layers: 3", "layers: 1") + ", tied: false, dropout: 0.1", dtype="bf16",
             data=held_out(3)),
        Case("sgd", LLAMA + ", tied: false", dtype="bf16", optimizer=", name: sgd", n_moments=0),
        Case("sgd-momentum", GPT2, dtype="bf16", optimizer=", name: sgd, momentum: 0.9",
             n_moments=1),
    ]
