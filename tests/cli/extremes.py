"""extremes.py: planning is arithmetic: whatever the dimensions are, up to the limits of every option,
it takes no more than a small model does, or is refused; nothing overflows.

What is limited is work, the processor time of the process, and memory, so that a busy machine fails
nothing: every case here takes some tens of milliseconds, one of many layers half a second, and many
layers for many ranks some seconds, where a walk over elements, ranges, slots or steps would take
minutes.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["SW_SOURCE"]) / "tests" / "run"))
import runs

CPU_SECONDS, MEMORY_BYTES = 20, 1 << 30
MAX = 2**63 - 1
folder = runs.fresh("folder")
folder.mkdir()
(folder / "text.txt").write_text("".join(f"line {i} of a text\n" for i in range(400)))
(folder / "run.yaml").write_text("""
model: {architecture: llama, layers: 2, hidden: 64, heads: 4, ffn: 128, max_positions: 512}
data: {train: [text.txt], validation: [text.txt], tokenizer: bytes, sequence_length: 64}
train: {steps: 2, batch_size: 8, micro_batch_size: 2, threads: 1}
shard: {ranks: 2}
checkpoint: {path: run}
""")
sanitizer = any("SW_SANITIZE:STRING=" in line and not line.rstrip().endswith("=")
                for line in (runs.COMMAND.parent / "CMakeCache.txt").read_text().splitlines())


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS * (10 if sanitizer else 1), ) * 2)
    if not sanitizer:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, ) * 2)


def plan(*overrides):
    for verb in (["plan", "run.yaml", "--json"], ["train", "run.yaml", "--dry-run"]):
        done = subprocess.run([str(runs.COMMAND), *verb, *overrides], cwd=folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              preexec_fn=limit, timeout=600)
        what = f"{' '.join(verb)} {' '.join(overrides)}: exit code {done.returncode}: {done.stderr[-300:]}"
        runs.expect(done.returncode in (0, 2, 3, 4), what)
        runs.expect(done.returncode == 0 or done.stderr.startswith("shardwise: error: "), what)
        runs.expect(not re.search(r"-\d+(\.\d+)? [KMGTPE]?i?B\b|\bnan\b|: -\d", done.stdout),
                    f"a negative figure: {what} {done.stdout[-600:]}")


WIDE = ["model.heads=64", "model.kv_heads=64"]
CASES = [
    *([f"model.hidden={h}", f"model.ffn={h}", f"model.heads={n}"]
      for h, n in [(65536, 512), (4194304, 32768), (16777216, 65536)]),
    *([f"model.hidden={h}", f"model.ffn={h}", *WIDE, "shard.ranks=256"]
      for h in (4194304, 16777216)),
    [
        "model.hidden=16777216", "model.ffn=16777216", *WIDE, "model.layers=2048",
        "model.vocab=2147483647"
    ],
    [
        "model.architecture=gpt2", "model.hidden=16777216", "model.heads=65536",
        "model.vocab=2147483647", "model.max_positions=2147483647"
    ],
    ["model.layers=2048"],
    [
        "model.layers=2048", "shard.ranks=256", "shard.mode=copy", "shard.prefetch=16",
        "shard.recompute=block"
    ],
    ["model.layers=2048", "shard.wrap.min_parameters=1000000", "shard.stage=1"],
    ["model.layers=2048", "model.train=lora", "model.lora.targets=all-linear"],
    [
        "model.architecture=gpt2", "model.layers=2048", "model.dropout=0.1",
        "shard.recompute=selective"
    ],
    ["shard.ranks=256", "shard.stage=0"],
    ["shard.ranks=256", "train.batch_size=16777216", "train.micro_batch_size=1"],
    ["model.vocab=2147483647"],
    [
        "data.sequence_length=2147483647", "model.max_positions=2147483647",
        "train.micro_batch_size=1", "train.batch_size=1"
    ],
    [
        "data.sequence_length=2147483647", "model.max_positions=2147483647",
        "train.batch_size=16777216", "train.micro_batch_size=16777216"
    ],
    *([f"train.batch_size=16777216", f"train.micro_batch_size={m}", f"shard.accumulate={a}"]
      for m in (1, 3, 16777216) for a in ("sharded", "unsharded")),
    ["train.steps=1000000000000000000"],
    ["train.steps=1000000000000000000", "train.batch_size=16777216", "train.micro_batch_size=1"],
    ["train.steps=0", "train.epochs=1000000000000000000"],
    ["train.steps=0", f"train.tokens={MAX}"],
    ["shard.memory_limit=1"],
]

# Each option with a range, at its ends; those without an end at the largest number there is.
reference = subprocess.run([str(runs.COMMAND), "train", "--help", "--markdown"],
                           capture_output=True, text=True, check=True).stdout
section, n_ends = "", 0
for line in reference.splitlines():
    section = line[3:].strip() if line.startswith("## ") else section
    row = re.match(
        r"\| `(\w+)` \| `[^`]*` \| (?:auto or )?a (whole )?number(?: (from|above) (\S+))?(?: to (?:below )?(\S+))? ",
        line)
    if not row:
        continue
    name, whole, _, low, high = row.groups()
    for end in {low or ("0" if whole else "-1.7e308"), high or (str(MAX) if whole else "1.7e308")}:
        CASES.append([f"{section}.{name}={end}"])
        n_ends += 1
runs.expect(n_ends > 60, f"{n_ends} ends of ranges were found in the reference")


def advice_is_arithmetic_too():
    """The mildest micro-batch that fits is found among hundreds of divisors without walking to it."""
    one = ["shard.ranks=1", "shard.memory_limit=1GiB"]
    for batch in (16777216, 14414400, 16777213):
        done = subprocess.run([
            str(runs.COMMAND), "plan", "run.yaml", *one, f"train.batch_size={batch}",
            f"train.micro_batch_size={batch}"
        ], cwd=folder, capture_output=True, text=True, preexec_fn=limit)
        found = re.search(r" · train\.micro_batch_size=(\d+) would fit", done.stderr)
        runs.expect(done.returncode == 4 and found, f"{batch}: {done.returncode} {done.stderr}")
        if not found:
            continue
        micro = int(found[1])
        larger = min(d for d in range(micro + 1, batch + 1) if batch % d == 0)
        for size, code in ((micro, 0), (larger, 4)):
            again = subprocess.run([
                str(runs.COMMAND), "plan", "run.yaml", *one, f"train.batch_size={batch}",
                f"train.micro_batch_size={size}"
            ], cwd=folder, capture_output=True, text=True)
            runs.expect(again.returncode == code,
                        f"{batch}: a micro-batch of {size}: {again.returncode} {again.stderr}")
    for ranks, length, micro in ((2, 64, 64), (2, 4096, 1), (256, 1, 4096), (3, 100, 32)):
        text = subprocess.run([
            str(runs.COMMAND), "plan", "run.yaml", "--json", "train.batch_size=16777216",
            "train.micro_batch_size=auto", f"shard.ranks={ranks}", f"data.sequence_length={length}",
            "model.max_positions=4096"
        ], cwd=folder, capture_output=True, text=True)
        runs.expect(
            f'"micro_batch_size": {micro}' in text.stdout,
            f"auto, {ranks} ranks, rows of {length}: not {micro}: {text.stderr} {text.stdout[:400]}"
        )


advice_is_arithmetic_too()
runs.both(plan, CASES)
runs.finish()
