"""runs.py: what the tests of whole runs share: start the command on a small case, and read what it leaves behind.

SW_BUILD is the build folder, SW_SOURCE the source folder. Every run has a folder of its own under a scratch folder that goes away.
"""

import atexit
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

SOURCE = pathlib.Path(os.environ["SW_SOURCE"])
COMMAND = pathlib.Path(os.environ["SW_BUILD"]) / "shardwise"
GOLDEN = SOURCE / "tests" / "golden"
scratch = pathlib.Path(tempfile.mkdtemp(prefix="shardwise-runs-"))
atexit.register(shutil.rmtree, scratch, ignore_errors=True)

_lock = threading.Lock()
_count = 0
_failures = []


def fresh(name="run"):
    """A path in the scratch folder where nothing is yet."""
    global _count
    with _lock:
        _count += 1
        return scratch / f"{name}-{_count}"


def complain(text):
    with _lock:
        _failures.append(text)
        print("FAILED:", text, file=sys.stderr, flush=True)


def expect(condition, text):
    if not condition:
        complain(text)
    return bool(condition)


def finish():
    print(f"{_count} runs and files, {len(_failures)} failures")
    sys.exit(1 if _failures else 0)


def both(function, items):
    """function(*item) of every item, two at a time; what it raises is a failure of that item."""
    def guarded(item):
        try:
            function(*item)
        except Exception as error:  # a test goes on with its other items
            lines = "/".join(
                str(frame.lineno) for frame in traceback.extract_tb(error.__traceback__)[1:])
            complain(f"{function.__name__}, line {lines}: {error!r}"[:1500])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(guarded, items))


def will_strike_processes():
    """Said first by a test that sends signals to the processes of a run. LeakSanitizer looks at a process that ends from a child of it,
    and a process whose child is struck then waits for ever; so it looks elsewhere."""
    os.environ["ASAN_OPTIONS"] = ":".join(
        filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))


def kernel_sets():
    """Those that this CPU runs, and the one that is taken where none is named, by doctor."""
    told = subprocess.run([str(COMMAND), "doctor"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True).stdout
    sets, _, used = next(
        line for line in told.splitlines()
        if line.startswith("kernels ")).removeprefix("kernels").partition("; used: ")
    return [name for name in sets.strip().split(", ")
            if not name.startswith("no ")], used.split(",")[0]


def shared_memory():
    """What lies in /dev/shm, but for the folders of tests that save checkpoints there, which may run at the same time."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("shardwise-run-")}


def children(pid):
    """Of a process, in the order in which they were started, which is that of ranks."""
    try:
        return [
            int(child)
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def fp32_tensors(path):
    """name -> (shape, values) of an fp32 model's file."""
    raw = path.read_bytes()
    (size, ) = struct.unpack("<Q", raw[:8])
    found = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            found[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", raw[begin:end]))
    return found


class Run:
    """A run that has ended."""
    def __init__(self, folder, code, output, errors):
        self.folder, self.code, self.output, self.errors = folder, code, output, errors

    def lines(self, name):
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def metrics(self):
        return self.lines("metrics.jsonl")

    @property
    def events(self):
        return self.lines("events.jsonl")

    @property
    def plan(self):
        return json.loads((self.folder / "plan.json").read_text())

    @property
    def message(self):
        return next((line for line in self.errors.splitlines() if line.startswith("shardwise: ")),
                    "")

    def weights(self):
        return hashlib.md5((self.folder / "model" / "model.safetensors").read_bytes()).hexdigest()

    def tensors(self):
        return fp32_tensors(self.folder / "model" / "model.safetensors")

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)


# Checkpoints and restarts have tests of their own; where they are not asked for they only take
# time.
USUAL = ("model.save_dtype=fp32", "checkpoint.every=0", "train.restarts=0")


def arguments(config, overrides, folder):
    given = {override.partition("=")[0] for override in overrides}
    usual = [setting for setting in USUAL if setting.partition("=")[0] not in given]
    return [str(COMMAND), "train", str(config), f"checkpoint.path={folder}", *usual, *overrides]


def train(config, *overrides, **options):
    """Run to the end. An override `checkpoint.path=` of the caller's comes later and wins, but then `folder` must say so."""
    folder = options.pop("folder", None) or fresh()
    options.setdefault("timeout", 240)
    done = subprocess.run(arguments(config, overrides, folder), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, **options)
    return Run(folder, done.returncode, done.stdout, done.stderr)


def train_well(config, *overrides, **options):
    """Run to the end, which must be a good one."""
    run = train(config, *overrides, **options)
    if run.code != 0:
        raise AssertionError(f"{' '.join(overrides)}: exit code {run.code}: {run.errors.strip()}")
    return run


def told(run):
    """What a run says of its numbers, step by step."""
    return [(line["step"], line["loss"], line["grad_norm"]) for line in run.metrics]


def write_yaml(text, name="case"):
    path = fresh(name).with_suffix(".yaml")
    path.write_text(text)
    return path


def write_npy(values, dtype="<u2", name="values"):
    """A one-dimensional .npy file, version 1.0."""
    code = {"<u2": "H", "|u1": "B", "<i4": "i", "<u4": "I"}[dtype]
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    path = fresh(name).with_suffix(".npy")
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     struct.pack(f"<{len(values)}{code}", *values))
    return path


def some_tokens(n, vocabulary, seed=1):
    """Token ids from a small linear congruential generator: the same everywhere."""
    state, tokens = seed, []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        tokens.append((state >> 33) % vocabulary)
    return tokens
