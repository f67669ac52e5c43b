"""first_uses.py N: N runs that are over at once, so that nearly all they do they do for the first time: lanes meet on channels that
neither has used, the first checkpoint is saved beside a step, a lost rank comes back. All numbers must be those of one rank. In a build whose
threads are late at random (SW_YIELD) each run has a seed of its own; SW_YIELD_SEED is the first.
"""

import os
import subprocess
import sys
import time

import runs

LENGTH = 8
HANG_SECONDS = 60
N = int(sys.argv[1])
FIRST_SEED = int(os.environ.get("SW_YIELD_SEED", 1))
tokens = runs.write_npy(runs.some_tokens(LENGTH * 40 + 1, 61))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 8, heads: 2, ffn: 16, vocab: 61, max_positions: 8}\n"
    f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    "train: {steps: 2, batch_size: 6, micro_batch_size: 1, reproducible: true, threads: 1}\noptimizer: {learning_rate: 1e-3}\n"
)
ONCE = ("--inject", "delay:rank=1,instruction=*,step=1,seconds=0.0001"
        )  # both lanes come by, and one of them tells
SHAPES = [
    ("shard.ranks=3", "shard.stage=0", "shard.mode=copy"),
    ("shard.ranks=2", "shard.stage=0", "shard.mode=copy", "checkpoint.every=1"),
    ("shard.ranks=3", "shard.stage=3", "shard.mode=copy", "checkpoint.every=1", *ONCE),
    ("shard.ranks=3", "shard.stage=0", "shard.mode=copy", "train.threads=2", *ONCE),
    ("shard.ranks=2", "shard.stage=2", "shard.mode=view", "checkpoint.every=1", "train.threads=2"),
    ("shard.ranks=3", "shard.stage=1", "shard.mode=copy", *ONCE),
]

expected = runs.train_well(yaml, "shard.ranks=1")


def one(number):
    shape, seed = SHAPES[number % len(SHAPES)], FIRST_SEED * 1000 + number
    what = f"SW_YIELD_SEED={seed} shardwise train case.yaml {' '.join(shape)}"
    try:
        run = runs.train(yaml, *shape, env={**os.environ, "SW_YIELD_SEED": str(seed)},
                         timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        runs.complain(f"{what}: does not end")
        return
    if runs.expect(run.code == 0, f"{what}: exit code {run.code}: {run.errors.strip()}"):
        n_told = sum(event["event"] == "inject" for event in run.events)
        runs.expect(n_told == ("--inject" in shape),
                    f"{what}: a fault that strikes once was told of {n_told} times")
        runs.expect(run.weights() == expected.weights() and runs.told(run) == runs.told(expected),
                    f"{what}: not the numbers of one rank")
    run.forget()


began = time.monotonic()
runs.both(one, [(number, ) for number in range(N)])
print(f"{N} runs in {time.monotonic() - began:.1f} s")
runs.finish()
