"""two_cpus.py: the portable kernels give the same bits on the CPU that is emulated as on this machine's, and those of a golden case.

SW_BUILD has the emulated command, SW_NATIVE_BUILD this machine's own.
"""

import contextlib
import io
import os
import pathlib
import sys

sys.path[:0] = [
    str(pathlib.Path(os.environ["SW_SOURCE"]) / "tests" / part) for part in ("run", "golden")
]
import check
import runs

EMULATED, NATIVE = (pathlib.Path(os.environ[name]) / "shardwise"
                    for name in ("SW_BUILD", "SW_NATIVE_BUILD"))
CASES = {
    "gpt2": ("shard.ranks=2", "shard.stage=3"),
    "llama-bf16": ("shard.ranks=3", "shard.stage=2", "train.threads=2")
}


def train_by(command, case, settings):
    runs.COMMAND = command
    return runs.train_well(runs.GOLDEN / case / "run.yaml", "train.kernels=baseline",
                           "train.reproducible=true", *settings)


def numbers(run):
    return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"])
            for line in run.metrics]


for case, settings in CASES.items():
    emulated, native = train_by(EMULATED, case, settings), train_by(NATIVE, case, settings)
    runs.expect(emulated.metrics and numbers(emulated) == numbers(native),
                f"{case}: {numbers(emulated)} and {numbers(native)}")
    runs.expect(emulated.weights() == native.weights(), f"{case}: the weights differ")
    report = io.StringIO()
    with contextlib.redirect_stderr(report), contextlib.redirect_stdout(report):
        verdict = check.main([
            str(runs.GOLDEN / case),
            str(emulated.folder / "metrics.jsonl"),
            str(emulated.folder / "model")
        ])
    runs.expect(verdict == 0, f"{case}:\n{report.getvalue()}")
runs.finish()
