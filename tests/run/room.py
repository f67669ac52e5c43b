"""room.py: what a run still has to write, on small disks. A run that fits goes on after a kill, and goes longer, beside its own checkpoints; what
a killed run left is no loss. What is accepted never fails to save; what is refused says of what it consists, and with what it would fit.

Each disk is a tmpfs of its own; the whole runs in a namespace of mounts.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

if "SW_ROOM_INSIDE" not in os.environ:
    inside = ["unshare", "--map-root-user", "--mount"]
    probe = subprocess.run([*inside, "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"],
                           capture_output=True)
    if probe.returncode != 0:
        print("no disk can be mounted here: room is not looked at")
        sys.exit(0)
    os.execvpe(inside[0], [*inside, sys.executable, "-B", *sys.argv],
               {**os.environ, "SW_ROOM_INSIDE": "1"})

import runs

LENGTH = 16
KIB = 1 << 10
tokens = runs.write_npy(runs.some_tokens(LENGTH * 50 + 1, 257))


def config(validates=False):
    held = runs.write_npy(runs.some_tokens(LENGTH * 4 + 1, 257, seed=2))
    validation = f", validation: [{held}]" if validates else ""
    return runs.write_yaml(
        "model: {architecture: llama, layers: 2, hidden: 48, heads: 2, ffn: 96, vocab: 257, max_positions: 16}\n"
        f"data: {{train: [{tokens}], sequence_length: {LENGTH}{validation}}}\n"
        f"train: {{steps: 40, batch_size: 2, micro_batch_size: 1, validate_every: {10 if validates else 0}}}\nshard: {{ranks: 2}}\n"
        "checkpoint: {path: run, every: 5, keep: 3}\nlog: {every: 10}\n")


class Disk:
    def __init__(self, size):
        self.path = runs.fresh("disk")
        self.path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none",
                        str(self.path)], check=True)

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)

    @property
    def used(self):
        facts = os.statvfs(self.path)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize

    def close(self):
        subprocess.run(["umount", str(self.path)], check=True)


yaml = config()
large = runs.train_well(yaml, "checkpoint.every=5")
CHECKPOINT = sum(path.stat().st_blocks * 512
                 for path in (large.folder / "steps" / "00000040").iterdir())
MODEL = sum(path.stat().st_blocks * 512 for path in (large.folder / "model").iterdir())
shutil.rmtree(large.folder)


def train(disk, *settings, config=yaml):
    return runs.train(config, "checkpoint.every=5", *settings, folder=disk.path / "run")


def saved(run):
    return not [event for event in run.events if event["event"] == "save_failed"
                ] and "could not be saved" not in run.output


def smallest(disk, low, step, *settings, config=yaml, before=lambda: None):
    """The smallest disk, from `low` up in steps, on which the run is accepted; it must then end well, every save included."""
    for size in range(low, low + 400 * KIB * 10, step):
        disk.resize(size)
        before()
        run = train(disk, *settings, config=config)
        if run.code == 0:
            runs.expect(
                saved(run),
                f"{settings} on {size / KIB} KiB: {[event for event in run.events if event['event'] == 'save_failed']}"
            )
            return size
        runs.expect(run.code == 4 and "the run still writes" in run.message,
                    f"{settings} on {size / KIB} KiB: {run.code} {run.errors}")
    raise AssertionError(f"{settings}: refused on {size / KIB} KiB too: {run.errors}")


def what_fits_ends_well(*settings, validates=False):
    """From nothing; and the room that is asked for is no more than half a checkpoint beyond what is in use at most."""
    disk = Disk(KIB * 8)
    folder = disk.path / "run"
    size = smallest(disk, 128 * KIB, 64 * KIB, *settings, config=config(validates),
                    before=lambda: shutil.rmtree(folder, ignore_errors=True))
    keep = next((int(setting.split("=")[1])
                 for setting in settings if setting.startswith("checkpoint.keep=")), 3)
    most = max((keep + 1 + validates) * CHECKPOINT, (keep + validates) * CHECKPOINT + MODEL)
    runs.expect(size <= most + CHECKPOINT // 2 + 192 * KIB,
                f"{settings}: {size / KIB} KiB are asked for, {most / KIB} KiB are used at most")
    disk.close()


def goes_on_and_goes_longer():
    """On the smallest disk that takes it and one model more, it goes longer, again and again; beside what a kill leaves too."""
    disk = Disk(KIB * 8)
    folder = disk.path / "run"
    size = smallest(disk, 128 * KIB, 64 * KIB,
                    before=lambda: shutil.rmtree(folder, ignore_errors=True))
    disk.resize(size + MODEL)  # the model of before is there until the new one is
    for n_steps in (60, 63, 100):
        run = train(disk, f"train.steps={n_steps}")
        runs.expect(run.code == 0 and saved(run),
                    f"{n_steps} steps in the same folder: {run.code} {run.errors}")
    run = train(disk, "train.steps=100")
    runs.expect(run.code == 0 and "is finished" in run.output, f"finished: {run.code} {run.errors}")
    left = folder / "steps" / ".00000105.partial"
    left.mkdir()
    filler = left / "parameters.safetensors"
    filler.write_bytes(bytes(max(0, os.statvfs(disk.path).f_bavail * 4096 - 16 * KIB)))
    run = train(disk, "train.steps=120")
    runs.expect(run.code == 0 and saved(run) and not left.exists(),
                f"beside what a kill left: {run.code} {run.errors}")
    disk.close()


def killed_run_goes_on():
    disk = Disk(KIB * 8)
    folder = disk.path / "run"
    smallest(disk, 128 * KIB, 64 * KIB, before=lambda: shutil.rmtree(folder, ignore_errors=True))
    shutil.rmtree(folder)
    run = train(disk, "train.restarts=0", "--inject", "kill:rank=1,step=33")
    runs.expect(run.code == 5, f"the run is not killed: {run.code}")
    dry = train(disk, "--dry-run")
    runs.expect(dry.code == 0,
                f"a dry run beside the run's own checkpoints: {dry.code} {dry.errors}")
    run = train(disk)
    runs.expect(run.code == 0 and saved(run), f"after a kill: {run.code} {run.errors}")
    disk.close()


def refusals_say_why():
    """What there is, what is missing, and a number of checkpoints with which it fits, where there is one: followed, it does."""
    disk = Disk(3 * CHECKPOINT + 128 * KIB)
    run = train(disk)
    words = ["4 checkpoints of ", "at once", "the disk has", "free some", "another checkpoint.path"]
    runs.expect(run.code == 4 and all(word in run.message for word in words),
                f"too small: {run.code} {run.message}")
    advice = re.search(r"(checkpoint\.keep=\d+) would fit", run.message)
    if runs.expect(advice, f"no advice: {run.message}"):
        run = train(disk, advice.group(1))
        runs.expect(run.code == 0 and saved(run), f"{advice.group(1)}: {run.code} {run.errors}")
    disk.resize(disk.used + 40 * KIB)
    run = train(disk, "train.steps=80")
    runs.expect(
        run.code == 4
        and re.search(r"3 checkpoints of .* at once, beside 1 that the folder has", run.message),
        f"full: {run.code} {run.message}")
    runs.expect("checkpoint.keep=" not in run.message, f"fewer would not help: {run.message}")
    disk.resize(disk.used)
    run = train(disk)
    runs.expect(run.code == 0 and "is finished" in run.output,
                f"a finished run on a full disk: {run.code} {run.errors}")
    disk.close()


def all_kept_is_remarked_on():
    """Checkpoints that stay for good are the user's to count: the run begins, and says that they will not all fit."""
    disk = Disk(3 * CHECKPOINT)
    run = train(disk, "checkpoint.keep=0", "--quiet")
    lines = run.errors.splitlines()
    runs.expect(
        run.code in (0, 4) and lines
        and "checkpoint.keep: 0 will keep 8 checkpoints more" in lines[0],
        f"keep 0: {run.code} {lines}")
    failed = [line for line in lines if "could not be saved: " in line]
    runs.expect(len(failed) == 1 and "free some space" in failed[0], f"keep 0: {lines}")
    disk.close()


injects = (runs.COMMAND.parent / "libshardwise-faults.so").exists()
for test, *arguments in [
    (what_fits_ends_well, ),
    (what_fits_ends_well, "checkpoint.keep=1"),
    (what_fits_ends_well, "checkpoint.keep=2", "model.save_dtype=fp32"),
    (what_fits_ends_well, "checkpoint.every=0"),
    (goes_on_and_goes_longer, ),
    (killed_run_goes_on, ),
    (refusals_say_why, ),
    (all_kept_is_remarked_on, ),
]:
    runs.both(test, [tuple(arguments)])
runs.both(lambda: what_fits_ends_well("checkpoint.keep=2", validates=True), [()])
runs.finish()
