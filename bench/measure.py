"""measure.py: what bench/step and bench/versus-pytorch share: a training run of shardwise, timed and weighed from outside."""
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


def add_options(parser):
    """The shape of a measurement; its defaults are the ones that published figures use."""
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"), help="build folder that holds the command")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=2, help="rows per rank and step")
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--skip", type=int, default=2, help="steps left out of the median")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="more settings of shardwise")


def machine():
    """What a figure depends on beside the program."""
    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.machine())
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
    }


def write_tokens(path, n_tokens, vocabulary):
    """A fixed random stream of token ids, as a one-dimensional .npy of uint16 or int32."""
    kind, size = ("<u2", 2) if vocabulary <= 1 << 16 else ("<i4", 4)
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({n_tokens},), }}"
    header = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"
    draw = random.Random(1)
    ids = b"".join(draw.randrange(vocabulary).to_bytes(size, "little") for _ in range(n_tokens))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + ids)


def run_weighed(command, log, environment=None, while_running=None):
    """Run `command` under peak-pss, its output in file `log`; its weight, or SystemExit with the end of the log."""
    begin = time.time()
    with open(log, "w") as out:
        child = subprocess.Popen([HERE / "peak-pss", *command], stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        watcher = threading.Thread(target=while_running, args=(child,)) if while_running else None
        if watcher:
            watcher.start()
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        try:
            status = child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
        if watcher:
            watcher.join()
    lines = log.read_text().rstrip().split("\n")
    if status != 0:
        raise SystemExit("\n".join(lines[-20:]) + f"\n{command[0]} failed with exit {status}; its output is in {log}")
    return {**json.loads(lines[-1]), "begin": begin}, lines[:-1]


def summary(options, losses, seconds, start_seconds, weight):
    """The figures of one side. peak_bytes is over the ranks, without the launcher or supervisor."""
    median = statistics.median(seconds[options.skip :])
    tokens = options.ranks * options.micro_batch * options.sequence
    return {
        "tokens_per_second": round(tokens / median, 1),
        "step_seconds": round(median, 4),
        "step_seconds_each": [round(s, 4) for s in seconds],
        "start_to_step_1_seconds": round(start_seconds, 2),
        "peak_bytes": weight["peak_bytes_below"],
        "peak_bytes_with_launcher": weight["peak_bytes"],
        "loss": [round(v, 6) for v in losses],
    }


def run_shardwise(options, model, tokens, folder):
    """Train with shardwise; `model` is the text of the settings' model section."""
    run = folder / "run"
    subprocess.run(["rm", "-rf", run], check=True)
    settings = folder / "run.yaml"
    settings.write_text(
        f"""model:
{model}
data:
  train: [{tokens}]
  shuffle: false
  sequence_length: {options.sequence}
train:
  steps: {options.steps}
  batch_size: {options.ranks * options.micro_batch}
  micro_batch_size: {options.micro_batch}
  threads: 1
optimizer:
  learning_rate: {options.learning_rate}
  schedule: constant
shard:
  ranks: {options.ranks}
  stage: 3
  param_dtype: {options.dtype}
checkpoint:
  path: {run}
log:
  every: 1
"""
    )
    metrics = run / "metrics.jsonl"
    seen = []

    def see_first_step(child):
        """The moment at which the first step is in the metrics, seen from outside."""
        while child.poll() is None and not seen:
            if metrics.exists() and b"\n" in metrics.read_bytes():
                seen.append(time.time())
            time.sleep(0.005)

    command = [os.path.join(options.build, "shardwise"), "train", settings, *options.overrides]
    weight, _ = run_weighed(list(map(str, command)), folder / "shardwise.log", while_running=see_first_step)
    steps = [json.loads(line) for line in metrics.read_text().splitlines()]
    seconds = [step["step_seconds"] for step in steps]
    start = seen[0] - seconds[0] - weight["begin"] if seen else float("nan")
    return {**summary(options, [step["loss"] for step in steps], seconds, start, weight), "memory": steps[-1].get("memory")}


def version(build):
    text = subprocess.run([os.path.join(build, "shardwise"), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return f"{text} ({commit.stdout.strip()})" if commit.returncode == 0 else text
