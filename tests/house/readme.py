"""readme.py: the figures in README.md are those of the program and of docs/benchmarks.md.

The memory table is the plan of the settings of scripts/demo, that of fine-tuning the plan of examples/finetune-smollm2 for a model of SmolLM2-135M's
shape; the losses there are those that the example itself expects when it is run. Ratios beside PyTorch are those of the tables in docs/benchmarks.md, as they are
rounded in README.md.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

source, build = pathlib.Path(os.environ["SW_SOURCE"]), pathlib.Path(os.environ["SW_BUILD"])
readme, benchmarks = (source / "README.md").read_text(), (source / "docs/benchmarks.md").read_text()
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def numbers(text):
    return [float(number) for number in re.findall(r"\d+\.\d+", text)]


def says(text, values):
    """README.md's `text` has the values, in order, each rounded as it is there."""
    found = re.search(text, re.sub(r"\s+", " ", readme))
    expect(found, f"README.md does not say /{text}/")
    for shown_number, value in zip(found.groups() if found else [], values):
        unit = 10.0**-len(shown_number.partition(".")[2])
        expect(
            abs(float(shown_number) - value) <= 0.51 * unit,
            f"README.md says {shown_number} for {value:.4g}, in /{text}/")


# ---- the memory of the demo ----
settings = re.search(r"run\.yaml\" <<YAML\n(.*?)\nYAML\n", (source / "scripts/demo").read_text(),
                     re.S).group(1)
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "run.yaml").write_text(settings)
    for name in ("train.txt", "held-out.txt"):
        (folder / name).write_text("a line of a text\n" * 4000)
    done = subprocess.run([
        str(build / "shardwise"), "train",
        str(folder / "run.yaml"), "--dry-run", "train.threads=1"
    ], capture_output=True, text=True, stdin=subprocess.DEVNULL)
expect(done.returncode == 0, done.stderr)
cell = r"(\d[\d.]* [KMG]?i?B)"
planned = {
    name: (now, alone)
    for name, now, alone in re.findall(rf"^(\w+) +{cell} +{cell}$", done.stdout, re.M)
}
shown = {
    name: (now, measured, alone)
    for name, now, measured, alone in re.findall(rf"^(\w+) +{cell} +{cell} +{cell}$", readme, re.M)
}
expect(len(planned) == 10, f"the plan has {sorted(planned)}")
expect(
    set(shown) == set(planned), f"README.md lists {sorted(shown)}, the plan has {sorted(planned)}")
for name in set(shown) & set(planned):
    now, measured, alone = shown[name]
    expect((now, alone) == planned[name],
           f"{name}: README.md says {now}, alone {alone}; the plan is {planned[name]}")
    expect(measured == now, f"{name}: README.md says {measured} measured where {now} were planned")
parameters = re.search(r"^model: (\S+ M) parameters", done.stdout, re.M).group(1)
expect(f"{parameters} parameters, 4 ranks, stage 3, bf16" in readme,
       f"README.md does not say that the demo has {parameters} parameters")

# ---- fine-tuning ----
example = (source / "examples/finetune-smollm2").read_text()
settings = re.search(r"\.yaml\" <<YAML\n(.*?)\nYAML\n", example, re.S).group(1)
runs = re.findall(r'^settings (\w+) "(.*?)" (\d+) (\S+)$', example, re.M | re.S)
expect([run[0] for run in runs] == ["full", "lora"],
       f"examples/finetune-smollm2 has the runs {[run[0] for run in runs]}")
shape = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 576,
    "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
    "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 2048,
    "tie_word_embeddings": True, "rms_norm_eps": 1e-05, "rope_theta": 100000, "hidden_act": "silu"
}
row = {
    "messages": [{"role": "user", "content": "What is it?"},
                 {"role": "assistant", "content": "A thing."}]
}
plans = []
for name, train, ranks, rate in runs:
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = settings
        for k, value in enumerate((name, train, ranks, rate), 1):
            text = text.replace(f"${k}", value)
        (folder / "run.yaml").write_text(text)
        (folder / "model").mkdir()
        (folder / "model/config.json").write_text(json.dumps(shape))
        for file in ("train.jsonl", "held-out.jsonl"):
            (folder / file).write_text((json.dumps(row) + "\n") * 400)
        done = subprocess.run([
            str(build / "shardwise"), "plan",
            str(folder / "run.yaml"), "--json", "data.tokenizer=bytes", "data.chat_format=chatml",
            "train.threads=1"
        ], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    expect(done.returncode == 0, done.stderr)
    plans.append(json.loads(done.stdout)["memory"])
shown = {
    name: [float(value) for value in values]
    for name, *values in re.findall(r"^(\w+) per rank +([\d.]+) MiB +([\d.]+) MiB$", readme, re.M)
}
expect(
    set(shown) == {"parameters", "gradients", "optimizer", "activations", "sum"},
    f"README.md lists {sorted(shown)} of fine-tuning")
for name, values in shown.items():
    for plan, value in zip(plans, values):
        planned = (sum(plan.values()) if name == "sum" else plan[name]) / 2**20
        expect(
            abs(planned - value) <= 0.051,
            f"fine-tuning, {name}: README.md says {value} MiB, the plan is {planned:.2f}")
expected = re.search(r'^expected = \{"before": (\S+), "full": (\S+), "lora": (\S+)\}$', example,
                     re.M).groups()
says(r"held-out loss before +(\S+) +(\S+) held-out loss after +(\S+) +(\S+) ",
     [float(expected[k]) for k in (0, 0, 1, 2)])

# ---- beside PyTorch ----
tables = [[row.strip("| \n").split("|") for row in table.splitlines()]
          for table in re.findall(r"(?:^\|.*\n)+", benchmarks, re.M)]
tables = [[[item.strip() for item in row] for row in table] for table in tables]
speeds = {
    table[0][0].split("-")[0]: {row[0]: row
                                for row in table[2:]}
    for table in tables if table[0][1:2] == ["tokens/s"]
}
wanted = {
    row[0]: row
    for table in tables if table[0][:1] == ["what was wanted"] for row in table[2:]
}


def ratio(model, ours, theirs):
    return float(speeds[model][ours][1]) / float(speeds[model][theirs][1])


faster = wanted["tokens/s, bf16 ÷ FSDP2 at its best"]
expect(
    abs(ratio("SmolLM2", "shardwise, bf16", "FSDP2, bf16") - numbers(faster[2])[0]) < 0.006,
    "docs/benchmarks.md: SmolLM2's ratio to FSDP2")
expect(
    abs(ratio("GPT", "shardwise, bf16", "FSDP2, bf16") - numbers(faster[3])[0]) < 0.006,
    "docs/benchmarks.md: GPT-2's ratio to FSDP2")
says(
    r"trains (\S+) times as many tokens per second of SmolLM2-135M and (\S+) to (\S+) times as many of GPT-2-124M",
    [numbers(faster[2])[0], min(numbers(faster[3])),
     max(numbers(faster[3]))])
memory = wanted["memory ÷ FSDP2's, both bf16"]
says(r"in half the memory \((\S+) and (\S+)\)",
     [min(numbers(memory[2]) + numbers(memory[3])),
      max(numbers(memory[2]) + numbers(memory[3]))])
starts = {
    who: [
        numbers(row[4])[0] for rows in speeds.values() for name, row in rows.items()
        if name.startswith(who)
    ]
    for who in ("shardwise", "FSDP2")
}
says(r"begins after (\S+) to (\S+) s, with weights read from the disk, instead of (\S+) to (\S+) s",
     [
         min(starts["shardwise"]),
         max(starts["shardwise"]),
         min(starts["FSDP2"]),
         max(starts["FSDP2"])
     ])
alone = wanted["tokens/s ÷ one process of PyTorch at its best"]
says(r"compiled or not, it trains (\S+) and (\S+) to (\S+) times",
     [numbers(alone[2])[0], min(numbers(alone[3])),
      max(numbers(alone[3]))])

for failure in failures:
    print("FAILED:", failure, file=sys.stderr)
sys.exit(1 if failures else 0)
