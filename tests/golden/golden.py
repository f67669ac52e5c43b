"""golden.py fast|slow: training runs against those of PyTorch in fp64, by check.py: losses, norms, learning rates and final parameters.

fast: every case once, each at another stage, number of ranks and mode, and some with every set of kernels that this CPU runs and does not
take by itself. slow: every case, with those sets too, at 1 to 4 ranks and stages 0 to 3, with unsharded
accumulation, with other micro-batches, and with config.json as older versions of transformers wrote it.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import sys

sys.path[:0] = [
    str(pathlib.Path(os.environ["SW_SOURCE"]) / "tests" / part) for part in ("run", "golden")
]
import check
import runs

CASES = [
    "llama-untied", "llama-tied", "gpt2", "llama-schedule", "llama-masked", "llama-bf16", "qwen2",
    "mistral-window", "packed", "packed-gpt2", "llama-lora", "lora-llama", "lora-gpt2"
]


def compare(case, *overrides):
    run = runs.train_well(case / "run.yaml", *overrides)
    kernels = [
        override.partition("=")[2] for override in overrides
        if override.startswith("train.kernels=")
    ]
    runs.expect(run.events[0]["kernels"] in (kernels or [runs.kernel_sets()[1]]),
                f"{case.name} {' '.join(overrides)}: {run.events[0]}")
    report = io.StringIO()
    with contextlib.redirect_stderr(report), contextlib.redirect_stdout(report):
        verdict = check.main(
            [str(case), str(run.folder / "metrics.jsonl"),
             str(run.folder / "model")])
    runs.expect(verdict == 0, f"{case.name} {' '.join(overrides)}:\n{report.getvalue()}")
    run.forget()


def with_older_config(case):
    """The case with the spelling of config.json that older versions of transformers used; None if it has none."""
    if not (case / "config-older.json").exists():
        return None
    copy = runs.fresh("older") / case.name
    shutil.copytree(case, copy)
    (copy / "model").chmod(0o755)
    (copy / "model" / "config.json").unlink()
    shutil.copy(copy / "config-older.json", copy / "model" / "config.json")
    return copy


def settings(n_ranks, stage, *others):
    return (f"shard.ranks={n_ranks}", f"shard.stage={stage}", *others)


def with_other_kernels(names):
    sets, used = runs.kernel_sets()
    for i, name in enumerate(names):
        for kernels in sets:
            if kernels != used:
                yield (runs.GOLDEN / name, *settings(1 + i % 3, 3, f"train.kernels={kernels}"))


def fast():
    modes = ["view", "copy", "trap"]
    for i, name in enumerate(CASES):
        yield (runs.GOLDEN / name, *settings(4 - i % 4, 3 - i % 3, f"shard.mode={modes[i % 3]}"))
    yield (with_older_config(runs.GOLDEN / "llama-untied"), *settings(2, 3))
    yield from with_other_kernels(["llama-tied", "gpt2", "llama-bf16"])


def slow():
    yield from with_other_kernels(CASES)
    for name in CASES:
        case, older = runs.GOLDEN / name, with_older_config(runs.GOLDEN / name)
        for n_ranks in (1, 2, 3, 4):
            for stage in (0, 1, 2, 3):
                yield (case, *settings(n_ranks, stage,
                                       f"shard.mode={'copy' if (n_ranks + stage) % 2 else 'view'}"))
            yield (case, *settings(n_ranks, n_ranks - 1, "shard.accumulate=unsharded",
                                   "shard.recompute=block"))
        batch = int(re.search(r"batch_size: (\d+)", (case / "run.yaml").read_text()).group(1))
        for micro in (1, 4, batch):
            yield (case, *settings(3, 3, f"train.micro_batch_size={micro}"))
        if older:
            yield (older, *settings(2, 3))


# One at a time: check.py prints, and a process has one standard output.
for item in fast() if sys.argv[1] == "fast" else slow():
    try:
        compare(*item)
    except Exception as error:
        runs.complain(f"{item}: {error}")
runs.finish()
