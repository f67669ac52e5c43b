"""quiet.py: with --quiet and --json nothing is shown but what went wrong, and that on stderr, once for each cause: a save that fails, a
lost rank, a checkpoint that is passed over. Without them the same stands among the lines, as often. What is advised fits the cause."""

import json
import shutil

import runs

LENGTH = 16
tokens = runs.write_npy(runs.some_tokens(LENGTH * 50 + 1, 257))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_positions: 16}\n"
    f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    "train: {steps: 40, batch_size: 2, micro_batch_size: 1}\ncheckpoint: {path: run, every: 2, keep: 2, async: false}\nlog: {every: 40}\n"
)
SHOWN = ((), ("--quiet", ), ("--json", ))
injects = (runs.COMMAND.parent / "libshardwise-faults.so").exists()


def train(show, *words, folder=None):
    return runs.train(yaml, "checkpoint.every=2", "shard.ranks=2", *show, *words, folder=folder)


def told(run, show):
    """The lines that say what went wrong, and nothing beside them where nothing else is asked for."""
    if not show:
        return [
            line for line in run.output.splitlines()
            if "could not be saved" in line or "is skipped" in line or line.startswith("restart ")
        ]
    if show == ("--quiet", ):
        runs.expect(not run.output, f"--quiet prints: {run.output}")
    else:
        runs.expect([json.loads(line)["step"] for line in run.output.splitlines()] == [40],
                    f"--json prints: {run.output}")
    lines = run.errors.splitlines()
    runs.expect(all(line.startswith("shardwise: warning: ") for line in lines),
                f"{show}: {run.errors}")
    return [line.removeprefix("shardwise: warning: ") for line in lines]


def saves_that_fail(show, error, hint):
    """Ten of twenty in a row: told once, and at the end how many; the last one succeeds."""
    fault = f"write:rank=0,error={error},k=1,n=1000000,file=*/.0000001?.partial*"
    run = train(show, "--inject", fault)
    lines = told(run, show)
    failed = [event["step"] for event in run.events if event["event"] == "save_failed"]
    runs.expect(run.code == 0 and failed == [10, 12, 14, 16, 18],
                f"{fault}: {run.code} {failed} {run.errors}")
    what = f"{show} {error}: {lines}"
    runs.expect(len(lines) == 2, what)
    runs.expect("the checkpoint of step 10 could not be saved: " in lines[0] and hint in lines[0],
                what)
    runs.expect(lines[-1].startswith("5 of 20 checkpoints could not be saved"), what)


def last_save_fails(show):
    """Then it is the error of the run, and no warning."""
    run = train(show, "--inject", "write:rank=0,error=EIO,k=1,n=1000000,file=*/.00000040.partial*")
    errors = run.errors.splitlines()
    runs.expect(
        run.code == 4 and len(errors) == 1 and "00000040.partial" in errors[0]
        and "disk may be failing" in errors[0], f"{show}: {run.code} {errors}")


def two_causes(show):
    """Two causes are told both."""
    run = train(show, "--inject", "write:rank=1,error=ENOSPC,k=1,n=1,file=*/.00000006.partial*",
                "--inject", "write:rank=1,error=EIO,k=1,n=1,file=*/.00000012.partial*")
    lines = told(run, show)
    failed = [event for event in run.events if event["event"] == "save_failed"]
    runs.expect(run.code == 0 and len(failed) == 2, f"{run.code} {failed} {run.errors}")
    runs.expect(
        len(lines) == 3 and "No space" in lines[0] and "checkpoint.keep" in lines[0]
        and "Input/output" in lines[1] and "checkpoint.keep" not in lines[1]
        and lines[2].startswith("2 of 20"), f"{show}: {lines}")


def lines_that_fail(show, error, hint):
    """Lines of metrics.jsonl: told once, the later ones are there, and none is cut."""
    run = train(show, "log.every=1", "checkpoint.every=0", "--inject",
                f"write:rank=0,error={error},k=3,n=5,file=*/metrics.jsonl")
    lines = [
        line for line in (run.errors if show else run.output).splitlines() if ".jsonl" in line
    ]
    what = f"{show} {error}: {run.code} {lines}"
    runs.expect(run.code == 0, what)
    runs.expect([line["step"] for line in run.metrics] == [1, *range(7, 41)], what)
    runs.expect(
        len(lines) == 2 and "metrics.jsonl: cannot be written" in lines[0] and hint in lines[0],
        what)
    runs.expect("metrics.jsonl is incomplete: 5 of 40 lines" in lines[1], what)


def lost_rank(show):
    lines = told(train(show, "train.restarts=1", "--inject", "kill:rank=1,step=9"), show)
    runs.expect(
        len(lines) == 1
        and lines[0].startswith("restart 1 of 1 in 1 s, from the checkpoint of step 8 "),
        f"{show}: {lines}")


def damaged_checkpoint(show):
    first = train((), "train.steps=10")
    path = first.folder / "steps" / "00000010" / "parameters.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    again = train(show, folder=first.folder)
    lines = told(again, show)
    runs.expect(again.code == 0 and len(lines) == 1 and "step 10 is skipped" in lines[0],
                f"{show}: {again.code} {lines} {again.errors}")
    shutil.rmtree(first.folder)


items = [(damaged_checkpoint, show) for show in SHOWN]
if injects:
    items += [(function, show) for show in SHOWN
              for function in (last_save_fails, two_causes, lost_rank)]
    items += [(saves_that_fail, show, error, hint) for show in SHOWN
              for error, hint in (("ENOSPC", "free some space"), ("EDQUOT", "quota"),
                                  ("EIO", "disk may be failing"))]
    items += [(lines_that_fail, (), "ENOSPC", "free some space"),
              (lines_that_fail, ("--quiet", ), "EIO", "disk may be failing"),
              (lines_that_fail, ("--json", ), "EDQUOT", "quota")]
else:
    print("built without the library of faults: only what needs none is looked at")
runs.both(lambda function, *rest: function(*rest), items)
runs.finish()
