"""namespaces.py: hosts that have nothing in common but a network: network namespaces joined by a veth pair, each with a name of its own, and Open MPI
over TCP between them. The same bits as on one host; a network that is cut (packets are dropped, not refused) is named in time, and no process of a run is left.

Needs root, ip(8), unshare(1) and mpirun of Open MPI; skipped without.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import runs

runs.will_strike_processes()

CASE = runs.GOLDEN / "llama-tied" / "run.yaml"
NAMES = [f"sw{os.getpid() % 100000}{letter}" for letter in "ab"]
ADDRESSES = ["10.77.0.1", "10.77.0.2"]
DEADLINE = 3


def ip(*words):
    return subprocess.run(["ip", *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True).returncode == 0


def make_hosts():
    made = all(ip("netns", "add", name) for name in NAMES)
    made = made and ip("link", "add", NAMES[0], "type", "veth", "peer", "name", NAMES[1])
    for name, address in zip(NAMES, ADDRESSES):
        made = made and ip("link", "set", name, "netns", name)
        made = made and ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
        made = made and ip("-n", name, "link", "set", "lo", "up")
        made = made and ip("-n", name, "link", "set", name, "up")
    return made


def empty_hosts():
    """Open MPI's own processes wait for the host that is cut off."""
    for name in NAMES:
        inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        for pid in inside.stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass


def remove_hosts():
    empty_hosts()
    for name in NAMES:
        ip("netns", "del", name)


def write_agent():
    """What mpirun starts its daemons by, instead of ssh: HOST COMMAND..."""
    agent, hosts = runs.fresh("agent"), runs.fresh("hosts")
    agent.write_text(f"""#!/bin/bash
name={NAMES[0]}
[ "$1" != {ADDRESSES[1]} ] || name={NAMES[1]}
shift
exec ip netns exec $name unshare -u bash -c "hostname $name; $*"
""")
    agent.chmod(0o755)
    hosts.write_text("".join(f"{address} slots=8\n" for address in ADDRESSES))
    return agent, hosts


def command(n, per_host, arguments):
    agent, hosts = write_agent()
    network = "10.77.0.0/24"
    mpirun = [
        "mpirun.openmpi", "--oversubscribe", "--allow-run-as-root", "--hostfile", str(hosts),
        "--map-by", f"ppr:{per_host}:node", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent",
        str(agent), "--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca",
        "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include", network, "-n", str(n)
    ]
    script = f'hostname {NAMES[0]}; exec "$@"'
    return ["ip", "netns", "exec", NAMES[0], "unshare", "-u", "bash", "-c", script, "sh", *mpirun,
            *arguments]


def same(n, per_host):
    folder = runs.fresh()
    done = subprocess.run(
        command(n, per_host, runs.arguments(CASE, ["shard.ranks=auto", "train.threads=1"],
                                            folder)), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=240)
    run, what = runs.Run(folder, done.returncode, done.stdout, done.stderr), f"{n}/{per_host}"
    if runs.expect(run.code == 0, f"{what}: {run.code} {run.errors}"):
        runs.expect((run.weights(), runs.told(run)) == reference, f"{what}: other bits")
        runs.expect(f"on {NAMES[0]}" in run.output, f"{what}: {run.output}")


LONG = """\
model: {{architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 48, vocab: 257, max_positions: 16}}
data: {{train: [{}], sequence_length: 16}}
train: {{steps: 1000000, batch_size: 8, micro_batch_size: 1}}
checkpoint: {{path: run}}
"""


def of_run(folder):
    """The processes of a run: not mpirun, which has the same words in its command."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"shardwise") and f"checkpoint.path={folder}".encode() in words:
            found.append(int(path.parent.name))
    return found


def cut(delay):
    config = runs.write_yaml(LONG.format(runs.write_npy(runs.some_tokens(801, 257))))
    folder, told = runs.fresh(), runs.fresh("told")
    settings = ["checkpoint.every=200", f"shard.deadline={DEADLINE}", "--quiet"]
    with open(told, "w") as errors:
        process = subprocess.Popen(command(4, 2, runs.arguments(config, settings, folder)),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=errors)
    until = time.monotonic() + 60
    metrics = folder / "metrics.jsonl"
    while (not metrics.exists() or metrics.stat().st_size < 300) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(delay)
    runs.expect(len(of_run(folder)) == 10, f"{of_run(folder)}: {told.read_text()}")
    begin = time.monotonic()
    ip("-n", NAMES[0], "link", "set", NAMES[0], "down")
    while of_run(folder) and time.monotonic() < begin + 30:
        time.sleep(0.05)
    took = time.monotonic() - begin
    runs.expect(took < DEADLINE + 5 and not of_run(folder),
                f"cut after {delay:.2f} s: {took:.1f} s, {of_run(folder)} are left")
    runs.expect(f"host {NAMES[1]} (ranks 2-3) has not been heard of for {DEADLINE} s"
                in told.read_text(), f"cut after {delay:.2f} s: {told.read_text()}")
    empty_hosts()
    process.wait()
    ip("-n", NAMES[0], "link", "set", NAMES[0], "up")
    time.sleep(0.2)


needed = ["ip", "unshare", "mpirun.openmpi"]
has_plug_in = (pathlib.Path(os.environ["SW_BUILD"]) / "libshardwise-mpi-openmpi.so").exists()
if os.geteuid() != 0 or not all(map(shutil.which, needed)) or not has_plug_in:
    print("needs root, a plug-in for Open MPI and", *needed)
    sys.exit(77)
try:
    if not make_hosts():
        print("no network namespaces here")
        sys.exit(77)
    alone = runs.train_well(CASE, "shard.ranks=2")
    reference = (alone.weights(), runs.told(alone))
    same(2, 1)
    same(4, 2)
    generator = random.Random(1)
    for _ in range(3):
        cut(generator.random())
finally:
    remove_hosts()
runs.finish()
