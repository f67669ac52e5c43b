"""hosts.py fast|slow: runs over several hosts, which here are neighbouring processes on one machine (SHARDWISE_TEST_RANKS_PER_HOST), by Open MPI and MPICH.

The same bits as on one host, however ranks lie; lost ranks and hosts are named, and nobody is left; a run goes on where hosts are others.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import runs

runs.will_strike_processes()

BUILD = pathlib.Path(os.environ["SW_BUILD"])
CASE = runs.GOLDEN / "llama-tied" / "run.yaml"


def launchers():
    """[(kind, command, the exit code of a launcher whose processes end with 5)]"""
    found = []
    for kind, name, code in (("openmpi", "mpirun.openmpi", 5), ("mpich", "mpiexec.mpich", None)):
        if shutil.which(name) and (BUILD / f"libshardwise-mpi-{kind}.so").exists():
            options = ["--oversubscribe"] if kind == "openmpi" else []
            if kind == "openmpi" and os.geteuid() == 0:
                options.append("--allow-run-as-root")
            found.append((kind, [name, *options], code))
    return found


def environment(per_host, **variables):
    foreign = ("OMPI_", "PMI", "MPI_", "SLURM_", "SHARDWISE_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {**kept, "SHARDWISE_TEST_RANKS_PER_HOST": str(per_host), **variables}


def run_on(launcher, n, per_host, *settings, folder=None, **variables):
    folder = folder or runs.fresh()
    done = subprocess.run(
        [*launcher, "-n", str(n),
         *runs.arguments(CASE, ("shard.ranks=auto", *settings), folder)], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=240, env=environment(per_host, **variables))
    return runs.Run(folder, done.returncode, done.stdout, done.stderr)


def expect_traffic(run, n, per_host, what):
    """One rank a host: all contributions leave it; slices leave once a step, not once a gather."""
    left = re.search(r"hosts: ([0-9.]+) (MiB|KiB) left host-0, and its process .* of CPU", run.output)
    if runs.expect(left, f"{what}: {run.output}") and (n, per_host) == (2, 1):
        left = float(left[1]) * (2**20 if left[2] == "MiB" else 2**10)
        reduced = sum(line["reduce_bytes"] for line in run.metrics)
        gathered = sum(line["gather_bytes"] for line in run.metrics)
        runs.expect(reduced < left < reduced + gathered / 2, f"{what}: {left} {reduced} {gathered}")


def same(launcher, n, per_host, *settings):
    run, what = run_on(launcher, n, per_host, *settings), f"{launcher[0]} {n}/{per_host} {settings}"
    if runs.expect(run.code == 0, f"{what}: {run.code} {run.errors}"):
        runs.expect((run.weights(), runs.told(run)) == reference, f"{what}: other bits")
        runs.expect("across hosts" in run.output and "hosts: " in run.output, f"{what}: {run.output}")
        runs.expect(run.output.count("started by") == 1, f"{what}: not one voice: {run.output}")
        expect_traffic(run, n, per_host, what)
        for line in run.metrics:
            runs.expect(line["memory"]["planned"] == line["memory"]["peak"],
                        f"{what}: {line['memory']}")
    run.forget()


def goes_on(launcher):
    """Two hosts, then one, then three: the same in the end."""
    folder = runs.fresh()
    every = "checkpoint.every=2"
    for n, per_host, steps in ((4, 2, 4), (3, 3, 8), (3, 1, 12)):
        run = run_on(launcher, n, per_host, every, f"train.steps={steps}", folder=folder)
        runs.expect(run.code == 0, f"goes on with {n}/{per_host}: {run.code} {run.errors}")
    runs.expect(run.weights() == reference[0], "goes on: other bits")


def refused(launcher, code, words, *settings, per_host=1, n=2, **variables):
    run = run_on(launcher, n, per_host, *settings, **variables)
    # The launcher of MPICH may kill who has met others, and report that.
    runs.expect(run.code in (code, 9) and all(word in run.errors for word in words),
                f"{launcher[0]} {settings} {variables}: {run.code} {run.errors}")
    runs.expect(not run.folder.exists(), f"{settings} {variables}: leaves a folder")


# ---- what one host has otherwise ----


def one_differs(launcher, words, setting):
    """The second process has another setting: a small shell in between."""
    folder = runs.fresh()
    arguments = runs.arguments(CASE, ["shard.ranks=auto"], folder)
    script = f'[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 1 ] && set -- "$@" {setting}; exec "$@"'
    done = subprocess.run([*launcher, "-n", "2", "sh", "-c", script, "sh", *arguments],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
                          env=environment(1))
    runs.expect(done.returncode != 0 and all(word in done.stderr for word in words),
                f"{launcher[0]} {setting}: {done.returncode} {done.stderr}")


# ---- failures ----

LONG = """\
model: {{architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, vocab: 257, max_positions: 16}}
data: {{train: [{}], sequence_length: 16}}
train: {{steps: 1000000, batch_size: 8, micro_batch_size: 1}}
checkpoint: {{path: run}}
shard: {{deadline: 3}}
"""


def descendants(pid):
    found = []
    for child in runs.children(pid):
        found += [child, *descendants(child)]
    return found


def is_shardwise(pid):
    try:
        return b"shardwise" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def host_of(pid):
    variables = dict(
        item.split("=", 1)
        for item in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in item)
    return int(variables.get("OMPI_COMM_WORLD_RANK") or variables["PMI_RANK"]) // 2


def wait_for_steps(process, folder, what):
    metrics, until = folder / "metrics.jsonl", time.monotonic() + 60
    while not metrics.exists() or metrics.stat().st_size < 300:
        if time.monotonic() > until or process.poll() is not None:
            raise AssertionError(f"{what}: no step: {process.communicate()}")
        time.sleep(0.02)


def struck(launcher, code, who, number, words):
    config = runs.write_yaml(LONG.format(runs.write_npy(runs.some_tokens(801, 257))))
    folder, what = runs.fresh(), f"{launcher[0]} {who} {number}"
    process = subprocess.Popen(
        [*launcher, "-n", "4",
         *runs.arguments(config, ["checkpoint.every=200", "--quiet"], folder)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(2))
    wait_for_steps(process, folder, what)
    # The first process of a host has three children: the one that talks to other hosts, and ranks.
    leaders = sorted((pid for pid in descendants(process.pid)
                      if is_shardwise(pid) and len(runs.children(pid)) == 3), key=host_of)
    mover, *ranks = runs.children(leaders[1])
    everybody = [pid for pid in descendants(process.pid) if is_shardwise(pid)]
    begin = time.monotonic()
    os.kill({"rank": ranks[1], "mover": mover, "leader": leaders[1]}[who], number)
    try:
        _, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        errors = "it hangs"
    took = time.monotonic() - begin
    runs.expect(took < 15, f"{what}: took {took:.1f} s")
    runs.expect(process.returncode == code if code else process.returncode != 0,
                f"{what}: {process.returncode} {errors}")
    runs.expect(all(word in errors for word in words), f"{what}: {errors}")
    until = time.monotonic() + 10
    while any(map(is_shardwise, everybody)) and time.monotonic() < until:
        time.sleep(0.02)
    runs.expect(not any(map(is_shardwise, everybody)), f"{what}: somebody is left")


def asked_to_end(launcher):
    """Both hosts are asked, as by a launcher; they agree on the step."""
    config = runs.write_yaml(LONG.format(runs.write_npy(runs.some_tokens(801, 257))))
    folder = runs.fresh()
    process = subprocess.Popen(
        [*launcher, "-n", "2", *runs.arguments(config, ["checkpoint.every=100000", "--quiet"],
                                               folder)], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(1))
    wait_for_steps(process, folder, "asked to end")
    leaders = [pid for pid in descendants(process.pid)
               if is_shardwise(pid) and len(runs.children(pid)) == 2]
    for pid in leaders:
        os.kill(pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    steps = list((folder / "steps").glob("0*"))
    runs.expect("stopped by SIGTERM after step" in errors and len(steps) == 1,
                f"{launcher[0]}: asked to end: {errors} {steps}")


found = launchers()
if not found:
    print("no MPI here: neither launchers nor plug-ins (scripts/install-packages test)")
    sys.exit(77)
run = runs.train_well(CASE, "shard.ranks=2", env=environment(1))
reference = (run.weights(), runs.told(run))
is_fast = sys.argv[1] == "fast"
killed = (signal.SIGKILL, ["host host-1: rank 3 was killed by SIGKILL"])
for kind, launcher, code in found:
    same(launcher, 4, 2)
    if is_fast:
        struck(launcher, code, "rank", *killed)
if is_fast:
    runs.finish()
for kind, launcher, code in found:
    for n, per_host in ((2, 1), (3, 2), (3, 1)):
        same(launcher, n, per_host, "train.threads=1")
    goes_on(launcher)
    refused(launcher, 2, ["neither openmpi nor mpich"], SHARDWISE_MPI="lam")
    refused(launcher, 2, ["is not there", "install lib"], SHARDWISE_MPI_FOLDER="/nowhere")
    refused(launcher, 2, ["shard.ranks is 3, but"], "shard.ranks=3")
    if os.cpu_count() > 1:
        refused(launcher, 2, ["set train.threads"], per_host=2, n=3)
    struck(launcher, code, "rank", *killed)
    struck(launcher, code, "rank", signal.SIGSTOP, ["host host-1: rank 3 was stopped by SIGSTOP"])
    struck(launcher, code, "mover", signal.SIGKILL, ["the process that talks to other hosts"])
    struck(launcher, code, "mover", signal.SIGSTOP,
           ["host host-1 (ranks 2-3) has not been heard of for 3 s"])
    struck(launcher, None, "leader", signal.SIGKILL, [])  # its launcher may end all at once
    asked_to_end(launcher)
launcher = found[0][1]
for settings in (["shard.mode=copy"], ["shard.mode=trap"], ["shard.stage=0"],
                 ["shard.stage=1", "shard.mode=copy"], ["shard.stage=2", "train.threads=2"],
                 ["guard.verify_every=2"]):
    same(launcher, 4, 2, *settings)
one_differs(launcher, ["settings", "seed"], "train.seed=7")
one_differs(launcher, ["host host-1", "nowhere"], "data.train=[/nowhere.npy]")
if len(found) == 2:
    refused(launcher, 2, ["it is of another kind"], SHARDWISE_MPI="mpich")
runs.finish()
