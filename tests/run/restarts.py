"""restarts.py [N]: ranks that are lost are started again, N kills for each way (SW_FAULT_COUNT wins); a supervisor that is killed is
started again by hand: in the end there are the losses and weights of a run to which nothing happened. Saves that fail are told of, and
the run goes on. What would fail again is not tried again.
"""

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

LENGTH = 16
N_STEPS = 60


def config(n_steps=N_STEPS):
    tokens = runs.write_npy(runs.some_tokens(LENGTH * 50 + 1, 257))
    return runs.write_yaml(
        "model: {architecture: llama, layers: 4, hidden: 32, heads: 2, ffn: 48, vocab: 257, max_positions: 16, dropout: 0.1}\n"
        f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
        f"train: {{steps: {n_steps}, batch_size: 8, micro_batch_size: 1, reproducible: true}}\n"
        "optimizer: {schedule: cosine, learning_rate: 1e-3}\ncheckpoint: {path: run, every: 5, keep: 2}\nlog: {every: 1}\n"
    )


yaml = config()
straight = runs.train_well(yaml, "shard.ranks=1")


def expect_same(run, what):
    runs.expect(
        runs.told(run) == runs.told(straight),
        f"{what}: losses or norms are not those of a run to which nothing happened")
    runs.expect(run.weights() == straight.weights(),
                f"{what}: the weights are not those of a run to which nothing happened")
    left = [
        str(path) for path in run.folder.rglob("*")
        if "partial" in path.name or "removed" in path.name or "before" in path.name
    ]
    runs.expect(not left, f"{what}: left behind: {left}")


def start(folder, *settings, yaml=yaml, **options):
    return subprocess.Popen(
        runs.arguments(
            yaml, settings if any("checkpoint.every" in setting for setting in settings) else
            ("checkpoint.every=5", *settings), folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(
            ")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def strike(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def n_lines(path):
    try:
        return path.read_text().count("\n")
    except OSError:
        return 0


def wait_for(condition, what, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.002)


def lose_ranks(seed, number, mode, elastic):
    """Two of them, at random instants; the run ends by itself, and as if nothing had been."""
    chance = random.Random(seed)
    folder, n_ranks = runs.fresh(), chance.choice([2, 3, 4])
    what = f"{number.name} to ranks of {n_ranks}, {mode}, elastic {elastic}, seed {seed}"
    process = start(
        folder,
        f"shard.ranks={n_ranks}",
        f"shard.mode={mode}",
        f"shard.stage={chance.choice([0, 2, 3])}",
        "train.restarts=2",
        f"train.elastic={elastic}",
        f"checkpoint.async={chance.choice(['true', 'false'])}",
    )
    n_struck = 0
    for after in sorted(chance.sample(range(N_STEPS - 8), 2)):
        wait_for(lambda: process.poll() is not None or n_lines(folder / "metrics.jsonl") >= after,
                 f"step {after}")
        ranks = runs.children(process.pid)
        if ranks and process.poll() is None:
            strike(chance.choice(ranks), number)
            n_struck += 1
            wait_for(
                lambda: process.poll() is not None or not set(ranks) & set(
                    runs.children(process.pid)), "the ranks to go")
    output, errors = process.communicate(timeout=120)
    run = runs.Run(folder, process.returncode, output, errors)
    runs.expect(run.code == 0 and not errors.strip(), f"{what}: {run.code} {errors}")
    restarts = [event for event in run.events if event["event"] == "restart"]
    runs.expect(
        len(restarts) <= n_struck and all("rank " in event["reason"] for event in restarts),
        f"{what}: {restarts}")
    if elastic == "true":
        left = [max(1, n_ranks - i - 1) for i in range(len(restarts))]
        runs.expect([event["ranks"] for event in restarts] == left, f"{what}: {restarts}")
    expect_same(run, what)
    run.forget()


def used_up():
    folder = runs.fresh()
    process = start(folder, "shard.ranks=2", "train.restarts=1", "train.steps=100000",
                    "checkpoint.every=100000")
    for _ in range(2):
        wait_for(
            lambda: len(runs.children(process.pid)) == 2 and n_lines(folder / "metrics.jsonl") > 0,
            "the first step")
        ranks = runs.children(process.pid)
        strike(ranks[1], signal.SIGKILL)
        wait_for(
            lambda: process.poll() is not None or not set(ranks) & set(runs.children(process.pid)),
            "the ranks to go")
    errors = process.communicate(timeout=60)[1]
    runs.expect(
        process.returncode == 5 and "after 1 restarts" in errors
        and "rank 1 was killed by SIGKILL" in errors and errors.count("\n") == 1,
        f"restarts used up: {process.returncode} {errors}",
    )
    last = runs.Run(folder, 5, "", errors).events[-1]
    runs.expect(
        last["event"] == "stop" and last["reason"] in errors
        and "rank 1 was killed" in last["reason"], f"restarts used up: {last}")


def lost_before_anything_was_written():
    """A rank of a new run dies before the first event: the folder is there for the restart. Without one it goes, as it came."""
    n_met = 0
    for attempt in range(30):
        folder, restarts = runs.fresh(), (attempt + 1) % 2
        process = start(folder, "shard.ranks=2", f"train.restarts={restarts}", "train.steps=3",
                        "--quiet")
        wait_for(lambda: process.poll() is not None or len(runs.children(process.pid)) == 2,
                 "the ranks")
        ranks = runs.children(process.pid)
        had_begun = (folder / "events.jsonl").exists()
        strike(ranks[0], signal.SIGKILL)
        wait_for(
            lambda: process.poll() is not None or not set(ranks) & set(runs.children(process.pid)),
            "the ranks to go")
        is_early = not had_begun and (not (folder / "events.jsonl").exists()
                                      or '"start"' not in (folder / "events.jsonl").read_text())
        errors = process.communicate(timeout=60)[1]
        runs.expect(process.returncode == (0 if restarts else 5),
                    f"lost before anything was written: {process.returncode} {errors}")
        runs.expect(restarts or not is_early or not (folder / "run.yaml").exists(),
                    f"a folder of which nothing came: {errors}")
        n_met += is_early and restarts
        if n_met >= 2:
            break
    print(f"{n_met} ranks died before the first event")


def asked_to_end_between_restarts():
    folder = runs.fresh()
    process = start(folder, "shard.ranks=2", "train.restarts=9", "train.steps=100000")
    wait_for(lambda: n_lines(folder / "metrics.jsonl") > 6, "a checkpoint")
    strike(runs.children(process.pid)[0], signal.SIGKILL)
    wait_for(lambda: '"restart"' in (folder / "events.jsonl").read_text(), "the restart to be told")
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    runs.expect(process.returncode == 143,
                f"SIGTERM before a restart: {process.returncode} {errors}")


def what_would_fail_again_is_not_tried_again():
    for code, setting in ((2, "train.micro_batch_size=3"), (3, "data.train=[nowhere.npy]"),
                          (4, "shard.memory_limit=20KiB")):
        run = runs.train(yaml, "checkpoint.every=5", "train.restarts=5", setting)
        runs.expect(run.code == code and not run.folder.exists(),
                    f"{setting}: {run.code} {run.errors}")
    own = config()
    folder = runs.fresh()
    process = start(folder, "train.restarts=5", "train.steps=1000000", "shard.ranks=2", yaml=own)
    wait_for(lambda: n_lines(folder / "metrics.jsonl") > 0, "the first step")
    tokens = next(line for line in own.read_text().splitlines()
                  if "train: [" in line).split("[")[1].split("]")[0]
    os.truncate(tokens, 200)
    errors = process.communicate(timeout=60)[1]
    run = runs.Run(folder, process.returncode, "", errors)
    runs.expect(run.code == 3 and not [e for e in run.events if e["event"] == "restart"],
                f"data cut while read: {run.code} {errors}")
    runs.expect(run.events[-1]["event"] == "stop" and run.events[-1]["reason"] in errors,
                f"data cut while read: {run.events[-1]}")


def lose_the_supervisor(seed):
    """Its ranks end with it, and the next start goes on; again and again, at random instants, until the run is done."""
    chance = random.Random(seed)
    folder = runs.fresh()
    for attempt in range(40):
        process = start(folder, f"shard.ranks={chance.choice([1, 2, 3])}",
                        f"shard.stage={chance.choice([0, 3])}", "--quiet")
        try:
            process.wait(chance.uniform(0.02, 0.8 if attempt < 8 else 60))
        except subprocess.TimeoutExpired:
            ranks = runs.children(process.pid)
            strike(process.pid, signal.SIGKILL)
            process.communicate()
            since = time.monotonic()
            wait_for(lambda: not any(is_alive(pid) for pid in ranks),
                     "ranks to end with their supervisor", 20)
            runs.expect(time.monotonic() - since < 5,
                        "ranks outlived their supervisor by more than 5 s")
            continue
        errors = process.communicate()[1]
        runs.expect(process.returncode == 0,
                    f"after a killed supervisor, seed {seed}: {process.returncode} {errors}")
        break
    run = runs.Run(folder, 0, "", "")
    expect_same(run, f"a killed supervisor, seed {seed}")
    run.forget()


def limit_files(n_bytes):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def saves_that_fail():
    """Files that may not grow so large stand for a full disk: every save fails and is told of, and the run goes on to its end."""
    for is_async in ("true", "false"):
        folder = runs.fresh()
        settings = ("shard.ranks=1", "shard.param_dtype=bf16", "model.save_dtype=bf16",
                    "log.metrics=false", f"checkpoint.async={is_async}")
        process = start(folder, *settings, "train.steps=12", preexec_fn=limit_files(130000))
        output, errors = process.communicate(timeout=120)
        run = runs.Run(folder, process.returncode, output, errors)
        failed = [event for event in run.events if event["event"] == "save_failed"]
        what = f"saves that fail, async {is_async}"
        runs.expect([event["step"] for event in failed] == [5, 10, 12], f"{what}: {run.events}")
        runs.expect(all(".safetensors" in event["reason"] for event in failed), f"{what}: {failed}")
        runs.expect(
            run.code == 4 and ".safetensors" in run.message and len(errors.splitlines()) == 1,
            f"{what}: {run.code} {errors}")
        runs.expect((folder / "model" / "model.safetensors").exists(), f"{what}: no model")
        runs.expect(not list((folder / "steps").iterdir()),
                    f"{what}: steps/ holds {list((folder / 'steps').iterdir())}")
        again = runs.train_well(yaml, "checkpoint.every=5", "train.steps=12", folder=runs.fresh())
        runs.expect(again.code == 0, "a run with room")
        shutil.rmtree(folder)


n_trials = int(os.environ.get("SW_FAULT_COUNT") or (sys.argv[1] if len(sys.argv) > 1 else 1))
seed = int(os.environ.get("SW_FAULT_SEED") or 20)
runs.both(
    lose_ranks,
    [(seed * 1000 + i, number, mode, elastic) for i in range(n_trials)
     for number, mode, elastic in (
         (signal.SIGKILL, "view", "false"),
         (signal.SIGKILL, "copy", "true"),
         (signal.SIGSTOP, "view", "true"),
         (signal.SIGSEGV, "trap", "false"),
     )],
)
runs.both(lose_the_supervisor, [(seed * 1000 + i, ) for i in range(2 * n_trials)])
runs.both(lambda test: test(),
          [(test, )
           for test in (used_up, lost_before_anything_was_written, asked_to_end_between_restarts,
                        what_would_fail_again_is_not_tried_again, saves_that_fail)])
runs.finish()
