"""verify.py: one bit that flips in a rank's memory, and what guard.verify_every says of it: which flips are found, on any number of ranks,
and which are not. What a checked step is found to have got wrong is not applied, and the rank is named.
"""

import runs

LENGTH, EVERY, N_STEPS = 12, 3, 8
tokens = runs.write_npy(runs.some_tokens(LENGTH * 40 + 1, 257))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_positions: 12}\n"
    f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    f"train: {{steps: {N_STEPS}, batch_size: 8, micro_batch_size: 1}}\n"
    "optimizer: {schedule: constant, learning_rate: 1e-3}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
)
CHECKED, UNCHECKED = 6, 5  # steps
BUFFERS = {
    "parameters": "layers.0", "moments": "layers.1", "gradients": "root", "activations": "layers.1"
}
BITS = {"parameters": 22, "moments": 30, "gradients": 30, "activations": 30}


def flipped(buffer, rank, step, n_ranks, stage, *settings):
    """A run in which a bit flips, how to speak of it, and the message it should end with: (run, what, found)."""
    fault = f"flip:rank={rank},step={step},buffer={buffer},unit={BUFFERS[buffer]},bit={BITS[buffer]}"
    run = runs.train(
        yaml,
        f"guard.verify_every={EVERY}",
        "checkpoint.every=2",
        "train.restarts=2",
        f"shard.ranks={n_ranks}",
        f"shard.stage={stage}",
        *settings,
        "--inject",
        fault,
    )  # fmt: skip
    struck = [event for event in run.events if event["event"] == "inject"]
    what = f"{fault} of {n_ranks} ranks at stage {stage} {settings}"
    runs.expect(
        len(struck) == 1 and struck[0]["rank"] == rank and struck[0]["step"] == step,
        f"{what}: {struck}")
    return run, what


def expect_found(run, what, names):
    runs.expect(run.code == 6 and f"the numbers of {names}" in run.message,
                f"{what}: {run.code} {run.errors}")
    runs.expect(
        f"in step {CHECKED}, which is not applied" in run.message
        and len(run.errors.splitlines()) == 1, f"{what}: {run.errors}")
    runs.expect(
        run.events[-1]["event"] == "stop" and f"the numbers of {names}" in run.events[-1]["reason"],
        f"{what}: {run.events[-1]}")
    runs.expect([line["step"] for line in run.metrics] == list(range(1, CHECKED)),
                f"{what}: {run.metrics}")
    runs.expect(
        not (run.folder / "model").exists()
        and not (run.folder / "steps" / f"{CHECKED:08d}").exists(), f"{what}: something is saved")


def memory_that_changes(buffer, rank, n_ranks, stage, *settings):
    """Also with one rank and with two: nobody else is needed to see that what lay there lies there no more."""
    run, what = flipped(buffer, rank, CHECKED, n_ranks, stage, *settings)
    expect_found(run, what,
                 f"rank {rank} are wrong: parameters or moments changed while nobody wrote them")


def arithmetic_that_errs(buffer, rank, n_ranks, stage, *settings):
    """Parameters too: a replica that the next gather puts right has been computed with."""
    run, what = flipped(buffer, rank, CHECKED, n_ranks, stage, *settings)
    expect_found(run, what,
                 f"rank {rank} differ from the others': losses or gradients of the same rows")


def replicas_that_stay_apart(buffer, n_ranks):
    """At stage 0 what a rank got wrong long ago is there at the next check, and two have no third to ask."""
    run, what = flipped(buffer, 1, UNCHECKED, n_ranks, 0)
    expect_found(
        run, what, "rank 1 differ from the others': their copies"
        if n_ranks > 2 else "ranks 0, 1 differ from each other: their copies")


def what_is_not_seen(buffer, n_ranks, stage):
    """A step that is not checked, where no replica keeps what was wrong."""
    run, what = flipped(buffer, 1, UNCHECKED, n_ranks, stage)
    undisturbed = straight.metrics
    runs.expect(run.code == 0, f"{what}: found after all, let the documents say so: {run.errors}")
    runs.expect([line["loss"] for line in run.metrics] != [line["loss"] for line in undisturbed],
                f"{what}: changed nothing")


def one_rank_is_told():
    """The option is not without effect, and not what a reader may take it for."""
    for n_ranks in (1, 2):
        run = runs.train_well(yaml, f"guard.verify_every={EVERY}", f"shard.ranks={n_ranks}")
        runs.expect(("a single rank cannot be compared" in run.output) == (n_ranks == 1),
                    f"verify_every with {n_ranks} ranks: {run.output}")
        runs.expect(run.weights() == straight.weights(),
                    f"verify_every with {n_ranks} ranks changes the run")


straight = runs.train_well(yaml)
runs.both(
    memory_that_changes,
    [(buffer, rank, n_ranks, stage, f"shard.mode={mode}", f"shard.param_dtype={dtype}")
     for buffer, rank, n_ranks, stage, mode, dtype in (
         ("parameters", 0, 1, 3, "view", "fp32"),
         ("parameters", 1, 2, 0, "view", "bf16"),
         ("parameters", 0, 3, 1, "copy", "fp32"),
         ("parameters", 0, 2, 2, "view", "bf16"),
         ("parameters", 1, 2, 3, "trap", "bf16"),
         ("parameters", 2, 3, 3, "copy", "fp32"),
         ("moments", 0, 1, 0, "view", "bf16"),
         ("moments", 1, 3, 0, "copy", "fp32"),
         ("moments", 0, 2, 1, "view", "fp32"),
         ("moments", 3, 4, 2, "trap", "bf16"),
         ("moments", 1, 3, 3, "view", "bf16"),
     )],
)
runs.both(
    arithmetic_that_errs,
    [
        ("activations", 0, 1, 3),
        ("activations", 1, 2, 0),
        ("activations", 0, 2, 3, "shard.mode=trap"),
        ("activations", 2, 3, 1, "shard.mode=copy"),
        ("activations", 1, 4, 2),
        ("activations", 3, 4, 3, "shard.accumulate=unsharded"),
        ("activations", 1, 3, 0, "shard.accumulate=unsharded", "shard.param_dtype=bf16"),
        ("activations", 6, 7, 3),
        ("gradients", 1, 3, 3),
        ("gradients", 0, 2, 1, "shard.mode=copy"),
        ("parameters", 1, 3, 1, "shard.mode=copy"),
        ("parameters", 2, 4, 2, "shard.param_dtype=bf16"),
        ("parameters", 1, 2, 2),
    ],
)
runs.both(replicas_that_stay_apart,
          [(buffer, n_ranks) for buffer in ("parameters", "moments") for n_ranks in (2, 3)])
runs.both(
    what_is_not_seen,
    [("gradients", 3, 2), ("gradients", 2, 3), ("activations", 3, 0), ("parameters", 3, 3),
     ("moments", 3, 1)],
)
one_rank_is_told()
runs.finish()
