"""faults.py [N]: ranks killed and stopped while they train, N times each (SW_FAULT_COUNT wins); a supervisor that dies; signals that ask
for an end; disks that fill up. Every time: one message that says who, what and where, the documented exit code, nobody left, soon.

Times are asserted with a wide bound (5 s, against a promise of 2 s), as machines may be busy; the longest is printed.
"""

import ctypes
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import runs

runs.will_strike_processes()

BOUND = 5  # seconds
LENGTH = 16
longest = {}


def config(steps=1000000, more="", every=1):
    tokens = runs.write_npy(runs.some_tokens(LENGTH * 50 + 1, 257))
    return runs.write_yaml(
        "model: {architecture: llama, layers: 4, hidden: 32, heads: 2, ffn: 48, vocab: 257, max_positions: 16}\n"
        f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\ntrain: {{steps: {steps}, batch_size: 8, micro_batch_size: 1}}\n"
        f"optimizer: {{schedule: constant, learning_rate: 1e-4, warmup_steps: 0}}\ncheckpoint: {{path: run}}\nlog: {{every: {every}{more}}}\n"
    )


def state_of(pid):
    """'R', 'S', 'T' ...; '' when it is gone (or waits to be reaped by whoever adopted it)."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if state in "ZX" else state
    except (OSError, IndexError):
        return ""


def workers_of(pid):
    """Threads that compute beside the rank's own."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            if (task / "comm").read_text().startswith("shardwise-"):
                found.append(int(task.name))
        except OSError:
            pass
    return found


def wait_for(condition, what, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.002)


class Trial:
    """A run that goes on until something happens to it."""
    def __init__(self, n_ranks, *settings, yaml=None, **options):
        self.folder = options.pop("folder", None) or runs.fresh()
        self.n_ranks = n_ranks
        self.process = subprocess.Popen(
            runs.arguments(yaml or config(), (f"shard.ranks={n_ranks}", "--quiet", *settings),
                           self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **{"start_new_session": True, **options},
        )
        wait_for(
            lambda: self.process.poll() is not None or len(runs.children(self.process.pid)) ==
            n_ranks, "all ranks to be started")
        self.ranks = runs.children(self.process.pid)
        self.struck = None

    def strike(self, pid, number):
        self.struck = time.monotonic()
        try:
            os.kill(pid, number)
        except ProcessLookupError as error:
            raise AssertionError(
                f"{pid} ended before it was struck: {self.process.communicate(timeout=60)[1]}"
            ) from error

    def strike_thread(self, pid, thread, number):
        self.struck = time.monotonic()
        ctypes.CDLL(None).tgkill(pid, thread, int(number))

    def wait_for_steps(self):
        path = self.folder / "metrics.jsonl"
        wait_for(
            lambda: self.process.poll() is not None or (path.exists() and path.stat().st_size > 0),
            "the first step")

    def end(self, what):
        """Wait for the end: (exit code, errors). Nobody may be left; how long it took since the strike is kept."""
        try:
            errors = self.process.communicate(timeout=60)[1]
            wait_for(lambda: not any(state_of(pid) for pid in self.ranks), "ranks to be gone", 30)
            seconds = time.monotonic() - self.struck
            longest[what] = max(longest.get(what, 0), seconds)
            runs.expect(seconds < BOUND, f"{what}: took {seconds:.2f} s")
            return self.process.returncode, errors
        finally:
            for pid in [self.process.pid, *self.ranks]:
                if state_of(pid):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


def lose_a_rank(number, mode, seed):
    """At any instant, from the first moments of a rank on."""
    chance = random.Random(seed)
    trial = Trial(chance.choice([2, 3, 4]), f"shard.mode={mode}",
                  f"shard.stage={chance.choice([0, 2, 3, 3])}",
                  f"train.threads={chance.choice([1, 2, 3])}")
    if chance.random() < 0.7:
        trial.wait_for_steps()
    time.sleep(chance.uniform(0, 0.3))
    victim = chance.randrange(trial.n_ranks)
    workers = workers_of(trial.ranks[victim])
    if workers:  # what happens to a thread happens to its rank
        trial.strike_thread(trial.ranks[victim], chance.choice(workers), number)
    else:
        trial.strike(trial.ranks[victim], number)
    verb = "killed" if number == signal.SIGKILL else "stopped"
    what = f"a rank {verb}, {mode}"
    code, errors = trial.end(what)
    message = [line for line in errors.splitlines() if line.strip()]
    runs.expect(code == 5, f"{what}, seed {seed}: exit code {code}: {errors}")
    runs.expect(len(message) == 1, f"{what}, seed {seed}: not one message: {errors}")
    runs.expect(f"rank {victim} was {verb} by {number.name}" in errors,
                f"{what}, seed {seed}: rank {victim} is not named: {errors}")
    doing = errors.partition(" while ")[2]
    runs.expect(
        doing.startswith('in "') or doing.startswith("starting up"),
        f"{what}, seed {seed}: not said what it was doing: {errors}")


def lose_the_supervisor(mode):
    trial = Trial(4, f"shard.mode={mode}")
    trial.wait_for_steps()
    trial.strike(trial.process.pid, signal.SIGKILL)
    code, errors = trial.end(f"the supervisor killed, {mode}")
    runs.expect(code == -signal.SIGKILL and not errors.strip(),
                f"a killed supervisor: {code} {errors}")


def asked_to_end(number, code, delay):
    """The step is finished, the model saved, and the exit code says by what. While the first values are still loaded there is no step."""
    trial = Trial(3, "train.steps=100000")
    if delay is None:
        trial.wait_for_steps()
    else:
        time.sleep(delay)
    kept = runs.fresh("kept")
    trial.strike(trial.process.pid, number)
    trial.process.wait(60)
    shutil.copytree(trial.folder, kept)
    found, errors = trial.end(f"{number.name}")
    runs.expect(found == code and number.name.replace("SIGINT", "Ctrl-C") in errors,
                f"{number.name}: {found} {errors}")
    run = runs.Run(kept, found, "", errors)
    steps = [line["step"] for line in run.metrics]
    if delay is not None and not steps:
        runs.expect("while loading" in errors and not (kept / "model").exists(),
                    f"{number.name} before the first step: {errors}")
        return
    runs.expect(steps == list(range(1,
                                    len(steps) + 1)) and steps,
                f"{number.name}: steps {steps[-3:]}")
    runs.expect(
        run.events[-1]["event"] == "stop" and run.events[-1]["reason"] == number.name
        and run.events[-1]["step"] == steps[-1],
        f"{number.name}: {run.events}",
    )
    straight = runs.train_well(run.folder / "run.yaml", f"train.steps={steps[-1]}")
    runs.expect(straight.weights() == run.weights(),
                f"{number.name} after step {steps[-1]}: not the model of a run of so many steps")


def asked_to_end_while_evaluating():
    """An evaluation that would go on for long is broken off; the step before it is kept, and the next start goes on."""
    held = runs.write_npy(runs.some_tokens(LENGTH * 50000 + 1, 257, seed=9))
    trial = Trial(2, f"data.validation=[{held}]", "data.validation_rows=50000",
                  "train.validate_every=1", "train.steps=3", "checkpoint.every=100")
    events = trial.folder / "events.jsonl"
    wait_for(lambda: events.exists() and events.stat().st_size > 0, "the start")
    time.sleep(0.3)  # for a step: milliseconds; an evaluation: seconds
    kept = runs.fresh("kept")
    trial.strike(trial.process.pid, signal.SIGTERM)
    trial.process.wait(60)
    shutil.copytree(trial.folder, kept, symlinks=True)
    code, errors = trial.end("SIGTERM in an evaluation")
    run = runs.Run(kept, code, "", errors)
    runs.expect(code == 143 and len(run.metrics) == 1 and "validation_loss" not in run.metrics[0],
                f"SIGTERM in an evaluation: {code} {errors} {run.metrics}")
    runs.expect((kept / "steps" / "00000001").is_dir(), f"SIGTERM in an evaluation: {errors}")
    again = runs.train_well(kept / "run.yaml", "train.validate_every=0", "data.validation=[]",
                            "train.steps=2", "shard.ranks=3", folder=kept)
    runs.expect([line["step"] for line in again.metrics] == [1, 2],
                f"after SIGTERM in an evaluation: {again.metrics}")


def signals_to_ranks_and_groups():
    """Ctrl-C is the supervisor's to hear. SIGTERM and SIGHUP end the run once, saved, whoever of it they reach: one rank, all, the group."""
    for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        trial = Trial(3, "checkpoint.every=100000")
        trial.wait_for_steps()
        for pid in trial.ranks:
            os.kill(pid, signal.SIGINT)
        time.sleep(0.3)
        runs.expect(trial.process.poll() is None and all(state_of(pid) for pid in trial.ranks),
                    "SIGINT to ranks ended something")
        kept = runs.fresh("kept")
        trial.strike(trial.ranks[1], number)
        trial.process.wait(60)
        shutil.copytree(trial.folder, kept, symlinks=True)
        found, errors = trial.end(f"{number.name} to one rank")
        runs.expect(found == code and number.name in errors,
                    f"{number.name} to one rank: {found} {errors}")
        saved = sorted((kept / "steps").glob("[0-9]*"))
        runs.expect(saved and int(saved[-1].name) == runs.Run(kept, 0, "", "").metrics[-1]["step"],
                    f"{number.name} to one rank: {saved}")
    trial = Trial(3)
    trial.wait_for_steps()
    trial.strike(-trial.process.pid, signal.SIGTERM)  # the whole group
    code, errors = trial.end("SIGTERM to the group")
    runs.expect(code == 143, f"SIGTERM to the group: {code} {errors}")


def wait_until_idle(pid):
    """It has come to where it waits, and uses no CPU there."""
    def used():
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before, since = used(), time.monotonic()
    while time.monotonic() - since < 0.5:
        time.sleep(0.02)
        if used() != before:
            before, since = used(), time.monotonic()


def lost_while_it_waits(mode, stage, instruction, waits):
    """Rank 0 comes late, and rank 1 is killed while it waits for it: the message says in which collective."""
    trial = Trial(3, f"shard.mode={mode}", f"shard.stage={stage}", "--inject",
                  f"delay:rank=0,instruction={instruction},step=3,seconds=20")
    events = trial.folder / "events.jsonl"
    wait_for(
        lambda: trial.process.poll() is not None or
        (events.exists() and '"inject"' in events.read_text()), "the delay")
    wait_until_idle(trial.ranks[1])
    trial.strike(trial.ranks[1], signal.SIGKILL)
    code, errors = trial.end("killed while it waits")
    own = errors.partition("others:")[0]
    runs.expect(
        code == 5 and "rank 1 was killed by SIGKILL while in" in own
        and f"waits for rank 0 in {waits}" in own and "at step " in own,
        f"killed before {instruction}, {mode}: {code} {errors}",
    )


def paused_and_continued(number):
    """Ctrl-Z stops the terminal's whole group, and fg continues it, long after the deadline: no rank is lost by that."""
    trial = Trial(3, "shard.deadline=4", start_new_session=False,
                  process_group=0)  # a session of its own could not be stopped by Ctrl-Z
    trial.wait_for_steps()
    for pause in (0.05, 4.6):
        os.kill(-trial.process.pid, number)
        wait_for(lambda: all(state_of(pid) == "T" for pid in [trial.process.pid, *trial.ranks]),
                 "all to be stopped")
        time.sleep(pause)
        os.kill(-trial.process.pid, signal.SIGCONT)
        size = (trial.folder / "metrics.jsonl").stat().st_size
        wait_for(
            lambda: trial.process.poll() is not None or
            (trial.folder / "metrics.jsonl").stat().st_size > size, "a step after the pause")
        time.sleep(0.3)
    runs.expect(trial.process.poll() is None,
                f"{number.name} and SIGCONT to the group ended the run")
    trial.strike(trial.process.pid, signal.SIGTERM)
    code, errors = trial.end("SIGTERM after a pause")
    runs.expect(code == 143, f"{number.name} and SIGCONT to the group: {code} {errors}")


def asked_twice():
    trial = Trial(3, "train.steps=100000")
    trial.wait_for_steps()
    trial.strike(trial.process.pid, signal.SIGINT)
    trial.strike(trial.process.pid, signal.SIGINT)
    code, errors = trial.end("Ctrl-C twice")
    runs.expect(code == 130, f"Ctrl-C twice: {code} {errors}")


def expect_whole_lines(run, what):
    """Of the files that grow, every line can be read; the model is there whole or not at all."""
    try:
        run.metrics, run.events
    except ValueError as error:
        runs.complain(f"{what}: a line is cut: {error}")
    left = sorted(path.name for path in run.folder.iterdir()) if run.folder.exists() else []
    runs.expect(not [name for name in left if "model" in name or "partial" in name],
                f"{what}: left behind: {left}")


def a_rank_meets_damaged_data():
    """An error of one rank reaches all as that error, with its exit code, and not as a lost rank or a time-out."""
    for mode in ("view", "copy"):
        yaml = config()
        trial = Trial(4, f"shard.mode={mode}", yaml=yaml)
        trial.wait_for_steps()
        tokens = next(line for line in yaml.read_text().splitlines()
                      if "train: [" in line).split("[")[1].split("]")[0]
        trial.struck = time.monotonic()
        os.truncate(tokens, 200)
        code, errors = trial.end(f"data cut while it is read, {mode}")
        runs.expect(
            code == 3 and tokens in errors and "rank " in errors and len(errors.splitlines()) == 1,
            f"data cut while it is read: {code} {errors}",
        )


def limit_files(n_bytes):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def files_hit_a_limit():
    """A limit on the size of files (ulimit -f) stands for a disk that fills up: with the model, or before there is anything."""
    for what, settings, limit in [
        ("model", ("shard.ranks=1", "train.steps=3", "log.metrics=false"),
         150000),  # below the model's size, above that of any window
        ("shared memory", ("shard.ranks=3", ), 20000),
    ]:
        run = runs.train(config(), *settings, preexec_fn=limit_files(limit))
        runs.expect(
            run.code == 4 and what in run.message,
            f"a full disk at {what}: {run.code} {run.errors}",
        )
        runs.expect(
            len(run.errors.splitlines()) == 1,
            f"a full disk at {what}: not one message: {run.errors}")
        expect_whole_lines(run, f"a full disk at {what}")


def metrics_hit_a_limit():
    """Lines that cannot be written cost no training: the cause is told once, also with --quiet, and at the end what is missing."""
    run = runs.train(config(steps=200), "--quiet", "shard.ranks=1", "log.every=1",
                     preexec_fn=limit_files(180000))
    told = run.errors.splitlines()
    steps = [line["step"] for line in run.metrics]
    runs.expect(steps == list(range(1, len(steps) + 1)) and 100 < len(steps) < 200,
                f"metrics that do not fit: {steps}")
    runs.expect((run.folder / "model" / "model.safetensors").exists(),
                "metrics that do not fit: no model")
    runs.expect(
        run.code == 4 and len(told) == 3 and "metrics.jsonl: cannot be written: File too" in told[0]
        and "the run goes on" in told[0]
        and f"metrics.jsonl is incomplete: {200 - len(steps)} of 200 lines" in told[1]
        and "metrics.jsonl" in run.message,
        f"metrics that do not fit: {run.code} {run.errors}")


def a_disk_fills_up():
    """A file system of its own, where this user may mount one: what cannot be written while it is full is missing, and the run goes on."""
    disk = runs.fresh("disk")
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none",
                       str(disk)], capture_output=True).returncode != 0:
        print(
            "no file system can be mounted here: disks that fill up are left to the limit on files")
        return
    trial = None
    try:
        trial = Trial(3, folder=disk / "run")
        trial.wait_for_steps()
        ballast = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(ballast, b"x" * 4096):
                pass
        except OSError:
            os.close(ballast)
        warning = trial.process.stderr.readline()
        runs.expect("metrics.jsonl: cannot be written: No space" in warning,
                    f"a full disk: {warning}")
        metrics = disk / "run" / "metrics.jsonl"
        size = metrics.stat().st_size
        (disk / "ballast").unlink()
        wait_for(lambda: metrics.stat().st_size > size + 10000 or trial.process.poll() is not None,
                 "lines after there was space again")
        trial.process.send_signal(signal.SIGTERM)
        errors = trial.process.communicate(timeout=60)[1]
        run = runs.Run(disk / "run", trial.process.returncode, "", errors)
        steps = [line["step"] for line in run.metrics]
        missing = run.metrics[-1]["step"] - len(steps)
        runs.expect(run.code == 143 and missing > 0 and steps == sorted(set(steps)),
                    f"a full disk: {run.code} {run.errors}")
        runs.expect(f"metrics.jsonl is incomplete: {missing} of" in errors, f"a full disk: {errors}")
        (disk / "ballast").write_bytes(b"x" * (20 << 20))
        refused = runs.train(config(), "shard.ranks=2", folder=disk / "second")
        runs.expect(
            refused.code == 4 and not (disk / "second").exists(),
            f"too little space for the model, seen before the start: {refused.code} {refused.errors}",
        )
    finally:
        if trial and trial.process.poll() is None:
            trial.process.kill()
            trial.process.communicate()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


n_trials = int(os.environ.get("SW_FAULT_COUNT") or (sys.argv[1] if len(sys.argv) > 1 else 4))
seed = int(os.environ.get("SW_FAULT_SEED") or 20)
shared_before = runs.shared_memory()
runs.both(
    lose_a_rank,
    [(number, mode, seed * 1000 + i) for number in (signal.SIGKILL, signal.SIGSTOP)
     for mode in ("view", "copy") for i in range(n_trials)],
)
runs.both(lose_the_supervisor, [("view", ), ("copy", )])
runs.both(asked_to_end, [(signal.SIGINT, 130, None), (signal.SIGTERM, 143, None),
                         (signal.SIGHUP, 129, None), (signal.SIGINT, 130, 0.0),
                         (signal.SIGTERM, 143, 0.05)])
WAITS = [(3, "post*", "reduce"), (3, "reduce*", "reduce (buffer still read)"),
         (3, "decide", "exchange"), (1, "update*", "gather")]
runs.both(lost_while_it_waits,
          [(mode, *what) for mode in ("view", "copy", "trap") for what in WAITS])
runs.both(paused_and_continued, [(signal.SIGTSTP, ), (signal.SIGSTOP, )])
for test in (a_rank_meets_damaged_data, asked_to_end_while_evaluating, signals_to_ranks_and_groups,
             asked_twice, files_hit_a_limit, metrics_hit_a_limit, a_disk_fills_up):
    runs.both(test, [()])
left = runs.shared_memory() - shared_before
runs.expect(not left, f"left in /dev/shm: {left}")
for what, seconds in sorted(longest.items()):
    print(f"{what}: over within {seconds:.2f} s")
runs.finish()
