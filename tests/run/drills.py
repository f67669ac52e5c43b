"""drills.py [--count N] [--seed S]: N SIGKILLs at random instants of random processes of small runs.

A life is a run that is killed again and again, a rank or its supervisor, and started again by the same command until it is done, each
time with other ranks, stages and modes. An instant is either a time, or what can be seen from outside: a save that has begun, a
checkpoint that was renamed into place, a final model that is being written; and a moment later. Whatever happened: the losses and
weights in the end are, bit for bit, those of an undisturbed run; no command hangs, no process and no half-written folder stays; and
where the supervisor lived to tell, one message names the rank and what it was doing.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import runs

runs.will_strike_processes()

LENGTH = 16
N_STEPS = 24
HANG = 120  # seconds: nothing here takes so long
STOPPED = re.compile(r'rank (\d+) was killed by SIGKILL while (in "[^"]+"|starting up|at its end)')

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=12)
parser.add_argument("--seed", type=int, default=int(os.environ.get("SW_FAULT_SEED") or 7))
options = parser.parse_args()

tokens = runs.write_npy(runs.some_tokens(LENGTH * 50 + 1, 257))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_positions: 16, dropout: 0.1}\n"
    f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    f"train: {{steps: {N_STEPS}, batch_size: 6, micro_batch_size: 1, reproducible: true}}\n"
    "optimizer: {schedule: cosine, learning_rate: 1e-3}\ncheckpoint: {path: run, every: 3, keep: 2}\nlog: {every: 1}\n"
)
shared_before = runs.shared_memory()
began = time.monotonic()
straight = runs.train_well(yaml, "shard.ranks=2", "checkpoint.every=3")
FULL_SECONDS = time.monotonic() - began
struck = collections.Counter()  # kills by victim and by what they met
n_starts = 0


def session_of(pid):
    """Living processes of a session."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == pid and state not in "ZX":
            found.append(int(entry.name))
    return found


def names_in(folder):
    try:
        return {entry.name for entry in os.scandir(folder)}
    except OSError:
        return set()


def half_written(folder):
    return sorted(
        str(p.relative_to(folder)) for p in folder.rglob("*")
        if any(word in p.name for word in ("partial", "removed", "before")))


# What can be seen from outside, as functions of a run's folder: each is true once its instant has
# come.
def save_has_begun(folder):
    return any("partial" in name for name in names_in(folder / "steps"))


def checkpoint_is_in_place(folder):
    seen = names_in(folder / "steps")
    return lambda: names_in(folder / "steps") - seen - {"latest"} and not save_has_begun(folder)


def model_is_written(folder):
    seen = names_in(folder)
    return lambda: any("model" in name for name in names_in(folder) - seen)


def wait_for_instant(chance, process, folder):
    """Until a random instant, or the end of the process; says which kind of instant."""
    kind = chance.choice(["time", "time", "save", "rename", "model"])
    save = lambda: save_has_begun(folder)  # noqa: E731
    sight = {
        "save": save, "rename": checkpoint_is_in_place(folder), "model": model_is_written(folder)
    }.get(kind)
    until = time.monotonic() + (chance.uniform(0, 1.1 * FULL_SECONDS) if kind == "time" else HANG)
    while process.poll() is None and time.monotonic() < until and not (sight and sight()):
        time.sleep(0.0005)
    if sight:
        time.sleep(chance.choice([0, 0, 0.001, 0.003, 0.01]))
    return kind


def end_of(process, what):
    """(exit code, errors), and nobody of the session is left."""
    try:
        errors = process.communicate(timeout=HANG)[1]
    except subprocess.TimeoutExpired:
        runs.complain(f"{what}: hangs: {session_of(process.pid)}")
        for pid in session_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        errors = process.communicate()[1]
    until = time.monotonic() + 30
    while session_of(process.pid) and time.monotonic() < until:
        time.sleep(0.01)
    for pid in session_of(process.pid):
        runs.complain(f"{what}: process {pid} is left")
        os.kill(pid, signal.SIGKILL)
    return process.returncode, errors


def start(chance, folder):
    settings = (
        f"shard.ranks={chance.choice([1, 2, 2, 3])}",
        f"shard.stage={chance.choice([0, 1, 2, 3, 3])}",
        f"shard.mode={chance.choice(['view', 'copy'])}",
        f"train.restarts={chance.choice([0, 0, 0, 1])}",
        f"checkpoint.async={chance.choice(['true', 'false'])}",
        "checkpoint.every=3",
        "--quiet",
    )
    return subprocess.Popen(
        runs.arguments(yaml, settings, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill_one(chance, process, folder):
    """(is the victim the supervisor, what to say of it), None if the run was over first."""
    instant = wait_for_instant(chance, process, folder)
    ranks = runs.children(process.pid)
    is_supervisor = not ranks or chance.random() < 0.35
    victim = process.pid if is_supervisor else chance.choice(ranks)
    try:
        if process.poll() is not None:
            return None
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return is_supervisor, instant


def live(seed, n_kills):
    """One run, struck n_kills times at most, until it is done."""
    global n_starts
    chance = random.Random(seed)
    folder = runs.fresh()
    for attempt in range(n_kills + 1):
        process = start(chance, folder)
        n_starts += 1
        kill = kill_one(chance, process, folder) if attempt < n_kills else None
        what = f"seed {seed}, start {attempt}, kill {kill}"
        code, errors = end_of(process, what)
        if kill:
            struck["supervisor" if kill[0] else "rank", kill[1]] += 1
        if kill and kill[0]:
            runs.expect(code in (-signal.SIGKILL, 0) and not errors.strip(),
                        f"{what}: {code} {errors}")
            continue
        runs.expect(code == 0 or (kill and code == 5), f"{what}: exit code {code}: {errors}")
        runs.expect(not half_written(folder), f"{what}: half written: {half_written(folder)}")
        if code == 5:
            runs.expect(
                len(errors.splitlines()) == 1 and STOPPED.search(errors),
                f"{what}: the message: {errors}")
        if code == 0:
            break
    run = runs.Run(folder, 0, "", "")
    runs.expect(
        runs.told(run) == runs.told(straight),
        f"seed {seed}: losses or norms are not those of an undisturbed run")
    runs.expect(run.weights() == straight.weights(),
                f"seed {seed}: the weights are not those of an undisturbed run")
    runs.expect(not half_written(folder), f"seed {seed}: half written: {half_written(folder)}")
    run.forget()


KILLS_A_LIFE = 6
n_lives = 0
while sum(struck.values()) < options.count and not runs._failures[20:]:
    missing = options.count - sum(struck.values())
    batch = max(1, min(8, -(-missing // KILLS_A_LIFE)))
    runs.both(live, [(options.seed * 100000 + n_lives + i, min(KILLS_A_LIFE, missing))
                     for i in range(batch)])
    n_lives += batch
runs.expect(not {name
                 for name in runs.shared_memory() - shared_before if "shardwise" in name},
            "left in /dev/shm")
print(
    f"{sum(struck.values())} kills in {n_lives} lives and {n_starts} starts, {time.monotonic() - began:.0f} s"
)
for (victim, instant), n in sorted(struck.items()):
    print(f"  {victim:10} {instant:8} {n}")
runs.finish()
