"""measure.py: what the programs of this folder share: the machine, its roofs, and a training run timed and weighed from outside."""
import json
import os
import pathlib
import platform
import random
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent


def machine():
    """What a figure depends on beside the program."""
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")),
                   platform.machine())
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
    }


def version(build):
    text = subprocess.run([os.path.join(build, "shardwise"), "--version"], capture_output=True,
                          text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"],
                            capture_output=True, text=True)
    return f"{text} ({commit.stdout.strip()})" if commit.returncode == 0 else text


def shardwise(build, *arguments):
    """The JSON object that a verb prints; SystemExit with its message if it fails."""
    done = subprocess.run([os.path.join(build, "shardwise"), *map(str, arguments), "--json"],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(
            f"shardwise {' '.join(map(str, arguments))} failed with exit {done.returncode}")
    return json.loads(done.stdout)


def roofs(build, cores):
    """Operations per second of so many cores at once: by width, and of products of matrices."""
    return shardwise(build, "bench", "roofs", "--ranks", cores)["roofs"]


def write_tokens(path, n_tokens, vocabulary):
    """A fixed random stream of token ids, as a one-dimensional .npy of uint16 or int32."""
    kind, size = ("<u2", 2) if vocabulary <= 1 << 16 else ("<i4", 4)
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({n_tokens},), }}"
    header = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"
    draw = random.Random(1)
    ids = b"".join(draw.randrange(vocabulary).to_bytes(size, "little") for _ in range(n_tokens))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + ids)


def leave_page_cache(folder):
    """Files that are on the disk, and are read from there when they are read next."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


# ---- memory


def processes_below(root):
    """Ids of `root` and everything below it."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    parent = int(f.read().rsplit(
                        ")", 1)[1].split()[1])  # the command's name may hold spaces and parentheses
            except OSError:
                continue  # it has just ended
            children.setdefault(parent, []).append(int(name))
    found = [root]
    for process in found:
        found.extend(children.get(process, []))
    return found


def pss_bytes(process):
    """A page that k processes share counts 1/k in each, so a sum over processes is what the host really gives."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def most_memory(child, is_launcher, is_timed):
    """The most that `child` and the processes below it took together, until is_timed(); a launcher itself is left out. Reading walks
    their page tables, and would slow the steps that are timed. A moment between two looks can be missed, so looks are close together."""
    most = 0
    while child.poll() is None and not is_timed():
        most = max(most,
                   sum(pss_bytes(process) for process in processes_below(child.pid)[is_launcher:]))
        time.sleep(0.01)
    return most


# ---- runs


def run_weighed(command, log, is_timed, is_launcher=True, environment=None):
    """Run `command`, its output in file `log`: when it began and the most memory it took before is_timed(). SystemExit with the end of
    the log if it fails."""
    found = {"begin": time.time()}
    with open(log, "w") as out:
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT,
                                 env={**os.environ, **(environment or {})})
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        try:
            found["pss_bytes"] = most_memory(child, is_launcher, is_timed)
            status = child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
    if status != 0:
        raise SystemExit("\n".join(log.read_text().rstrip().split("\n")[-20:]) +
                         f"\n{command[0]} failed with exit {status}; its output is in {log}")
    return found


def lines_of(path):
    return path.read_text(errors="replace").splitlines() if path.exists() else []


def figures(seconds, losses, start, weight):
    """One run's figures."""
    return {
        "step_seconds": seconds, "loss": losses, "start_to_step_1_seconds": start,
        "pss_bytes": weight["pss_bytes"]
    }


def train_shardwise(options, model, tokens, folder, dtype, recompute):
    """Train with shardwise from the folder `model`, as many ranks and rows as the options say."""
    run = folder / "run"
    subprocess.run(["rm", "-rf", run], check=True)
    settings = folder / "run.yaml"
    settings.write_text(f"""model: {{path: {model}}}
data: {{train: [{tokens}], shuffle: false, sequence_length: {options.sequence}}}
train: {{steps: {options.steps}, batch_size: {options.ranks * options.micro_batch}, micro_batch_size: {options.micro_batch}, threads: {options.threads}}}
optimizer: {{learning_rate: {options.learning_rate}, schedule: constant, warmup_steps: 0, weight_decay: 0.1}}
shard: {{ranks: {options.ranks}, stage: 3, param_dtype: {dtype}, recompute: {recompute}}}
checkpoint: {{path: {run}}}
log: {{every: 1}}
""")
    metrics, first_seen = run / "metrics.jsonl", []

    def see_first_step():
        """The moment at which the first step is in the metrics, seen from outside."""
        while not first_seen and not ended.wait(0.005):
            if metrics.exists() and b"\n" in metrics.read_bytes():
                first_seen.append(time.time())

    ended = threading.Event()
    watcher = threading.Thread(target=see_first_step)
    watcher.start()
    try:
        command = [os.path.join(options.build, "shardwise"), "train", settings, *options.overrides]
        weight = run_weighed(command, folder / "shardwise.log",
                             lambda: len(lines_of(metrics)) >= options.skip)
    finally:
        ended.set()
        watcher.join()
    steps = [json.loads(line) for line in lines_of(metrics)]
    begun = json.loads(lines_of(run / "events.jsonl")[0])
    seconds = [step["step_seconds"] for step in steps]
    start = first_seen[0] - seconds[0] - weight["begin"] if first_seen else float("nan")
    return {
        **figures(seconds, [step["loss"] for step in steps], start, weight), "kernels": begun[
            "kernels"], "gemm": begun["gemm"], "memory": steps[-1]["memory"]
    }


def train_peer(options, model, tokens, folder, how, dtype, recompute, compiled):
    """Train with PyTorch: as many ranks as the options say, or one process that uses as many cores and takes the same rows."""
    cores = options.ranks * options.threads
    python = options.peers / "bin"
    if how == "single":
        command, rows, threads = [python / "python"], options.ranks * options.micro_batch, cores
    else:
        command, rows, threads = [python / "torchrun", "--nproc-per-node",
                                  options.ranks], options.micro_batch, options.threads
    command += [
        HERE / "peer_step.py", "--how", how, "--model", model, "--tokens", tokens, "--dtype", dtype,
        "--rows", rows, "--threads", threads
    ]
    command += [
        "--sequence", options.sequence, "--steps", options.steps, "--learning-rate",
        options.learning_rate
    ]
    command += ["--recompute"] * recompute + ["--compile"] * compiled
    environment = {
        "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "PATH": f"{python}:/usr/bin:/bin"
    }
    log = folder / f"{how}.log"
    log.unlink(missing_ok=True)

    def is_timed():
        return sum(line.startswith("step ") for line in lines_of(log)) >= options.skip

    weight = run_weighed(command, log, is_timed, how != "single", environment)
    said = json.loads(next(line for line in reversed(lines_of(log)) if line.startswith("{")))
    return {
        **figures(said["seconds"], said["loss"], said["begin"] - weight["begin"], weight), "versions": said[
            "versions"]
    }


def medians(rounds, options):
    """The figures of several runs of one side: medians of all their timed steps, and over the runs; the most memory that any of them was
    seen with, for looking from outside misses moments and never adds any."""
    step = statistics.median(s for run in rounds for s in run["step_seconds"][options.skip:])
    return {
        "tokens_per_second": options.ranks * options.micro_batch * options.sequence / step,
        "step_seconds": step,
        "start_to_step_1_seconds": statistics.median(run["start_to_step_1_seconds"]
                                                     for run in rounds),
        "pss_bytes": max(run["pss_bytes"] for run in rounds),
    }


def rounded(value, digits=5):
    """The same with reals of so many digits that count."""
    if isinstance(value, dict):
        return {key: rounded(v, digits) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v, digits) for v in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value
