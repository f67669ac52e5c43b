"""keeping.py: which checkpoints of a run stay: the newest `keep`, every keep_every-th step, the best by validation loss; while saves overlap,
and when one that stayed is damaged. At no instant is there none that a run could go on from.
"""

import os
import shutil
import subprocess

import runs

LENGTH, N_STEPS = 12, 40
tokens, held = (runs.write_npy(runs.some_tokens(LENGTH * n + 1, 257, seed))
                for n, seed in ((30, 1), (5, 2)))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_positions: 12}\n"
    f"data: {{train: [{tokens}], validation: [{held}], sequence_length: {LENGTH}}}\n"
    f"train: {{steps: {N_STEPS}, batch_size: 4, micro_batch_size: 1, validate_every: 5}}\n"
    "optimizer: {schedule: constant, learning_rate: 3e-2, warmup_steps: 0}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
)
EVERY = "checkpoint.every=5"
straight = runs.train_well(yaml, EVERY)
BEST = min((line["validation_loss"], line["step"]) for line in straight.metrics
           if "validation_loss" in line)[1]


def steps(folder):
    return sorted(
        int(path.name) for path in (folder / "steps").iterdir() if not path.name.startswith("."))


def told(run):
    return [(line["step"], line["loss"]) for line in run.metrics]


def what_stays(keep, keep_every, is_async):
    """By the rule, computed here from the validation losses that were told."""
    run = runs.train_well(yaml, EVERY, f"checkpoint.keep={keep}",
                          f"checkpoint.keep_every={keep_every}", f"checkpoint.async={is_async}",
                          "shard.ranks=2")
    saved = range(5, N_STEPS + 1, 5)
    wanted = {BEST} | set(
        saved[-keep:]) | {step
                          for step in saved if keep_every and step % keep_every == 0}
    what = f"keep {keep}, keep_every {keep_every}, async {is_async}"
    runs.expect(
        steps(run.folder) == sorted(wanted), f"{what}: {steps(run.folder)}, not {sorted(wanted)}")
    runs.expect(
        os.readlink(run.folder / "latest") == f"steps/{N_STEPS:08d}",
        f"{what}: latest is {os.readlink(run.folder / 'latest')}")


def saves_that_overlap():
    """A save at every step, each begun while the one before is under way: they wait in line, all are made, and one is always there."""
    folder = runs.fresh()
    settings = ("checkpoint.every=1", "checkpoint.keep=1", "train.validate_every=0",
                "data.validation=[]", "shard.ranks=3")
    process = subprocess.Popen(runs.arguments(yaml, settings, folder), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    n_looks = 0
    while process.poll() is None:
        try:
            newest = os.readlink(folder / "latest")
        except FileNotFoundError:
            runs.expect(not n_looks, "latest has gone away")
            continue
        n_looks += 1
        again = os.readlink(
            folder /
            "latest")  # where it is the same before and after, its checkpoint was there in between
        is_there = (folder / newest / "manifest.json").exists()
        runs.expect(is_there or os.readlink(folder / "latest") != newest,
                    f"latest is {newest}, then {again}, and is not there")
    errors = process.communicate()[1]
    run = runs.Run(folder, process.returncode, "", errors)
    saved = [event["step"] for event in run.events if event["event"] == "save"]
    runs.expect(run.code == 0 and saved == list(range(1, N_STEPS + 1)),
                f"a save at every step: {run.code} {saved} {errors}")
    runs.expect(
        steps(folder) == [N_STEPS] and n_looks,
        f"a save at every step: {steps(folder)} after {n_looks} looks")
    runs.expect(
        told(run) == told(straight) and run.weights() == straight.weights(), "saves change the run")


def the_best_is_there_when_the_newest_is_damaged():
    """keep: 1 leaves the newest and the best; of these the newest is damaged: on from the best, and then it is whole again."""
    stopped = runs.train_well(yaml, EVERY, "checkpoint.keep=1", f"train.steps={BEST + 12}",
                              "shard.ranks=2")
    left = steps(stopped.folder)
    runs.expect(left == [BEST, BEST + 12], f"kept: {left}")
    path = stopped.folder / "steps" / f"{BEST + 12:08d}" / "first_moment.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 32
    path.write_bytes(raw)
    run = runs.train_well(yaml, EVERY, "checkpoint.keep=1", "shard.ranks=3", folder=stopped.folder)
    resumed = [event["step"] for event in run.events if event["event"] == "resume"]
    runs.expect(
        resumed == [BEST] and told(run) == told(straight) and run.weights() == straight.weights(),
        f"the newest damaged: {resumed}")
    runs.expect(steps(run.folder) == [BEST, N_STEPS], f"the newest damaged: {steps(run.folder)}")


def the_only_one_is_damaged():
    """Nothing is taken for what it is not, and nothing is removed: the run does not begin anew behind anyone's back."""
    stopped = runs.train_well(yaml, EVERY, "checkpoint.keep=1", "data.validation=[]",
                              "train.validate_every=0", "train.steps=9")
    kept = runs.fresh("kept")
    path = stopped.folder / "steps" / "00000009" / "parameters.safetensors"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    shutil.copytree(stopped.folder / "steps", kept)
    run = runs.train(yaml, EVERY, "checkpoint.keep=1", folder=stopped.folder)
    runs.expect(
        run.code == 3 and "parameters.safetensors" in run.message
        and len(run.errors.splitlines()) == 1, f"all damaged: {run.code} {run.errors}")
    same = all((stopped.folder / "steps" / p.relative_to(kept)).read_bytes() == p.read_bytes()
               for p in kept.rglob("*") if p.is_file())
    runs.expect(same, "all damaged: steps/ has changed")


runs.expect(
    BEST <= N_STEPS - 15,
    f"the best step by validation loss is {BEST}, which the newest ones hide: these tests need other data"
)
runs.both(what_stays, [(1, 0, "true"), (1, 15, "true"), (2, 20, "false"), (3, 25, "true"),
                       (1, 25, "false")])
runs.both(lambda test: test(),
          [(test, ) for test in (saves_that_overlap, the_best_is_there_when_the_newest_is_damaged,
                                 the_only_one_is_damaged)])
runs.finish()
