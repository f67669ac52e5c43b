"""memory.py: what the plan says of memory, against the kernel's own books, and how it falls with the number of ranks."""

import pathlib
import subprocess
import sys
import time

import formulas
import runs

LENGTH = 64
MODEL = "architecture: llama, layers: 6, hidden: 256, heads: 4, ffn: 688, vocab: 512, max_positions: 64, tied: false"


def config(dtype, steps):
    tokens = runs.write_npy(runs.some_tokens(LENGTH * 64 + 1, 512))
    return runs.write_yaml(
        f"model: {{{MODEL}}}\ndata: {{train: [{tokens}], sequence_length: {LENGTH}}}\ntrain: {{steps: {steps}, batch_size: 8, micro_batch_size: 1}}\n"
        f"shard: {{param_dtype: {dtype}}}\ncheckpoint: {{path: run}}\nlog: {{every: 1}}\n")


def proportional(pid):
    """Proportional set size in bytes; 0 of a process that is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (OSError, ProcessLookupError):
        return 0
    return next(
        (1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def states_fall_with_ranks():
    """Parameters, gradients and optimizer states of a rank, times the ranks, are those of one rank alone, padding apart."""
    yaml = config("bf16", 1)
    alone = None
    for n_ranks in (1, 2, 4, 8):
        run = runs.train_well(yaml, f"shard.ranks={n_ranks}", "shard.stage=3")
        units = formulas.units_of({name: shape for name, (shape, _) in run.tensors().items()})
        states = [run.plan["memory"][key] for key in ("parameters", "gradients", "optimizer")]
        runs.expect(states == list(formulas.Sharding(units, n_ranks, 3, 2).states(True).values()),
                    f"{n_ranks} ranks: states {states}")
        alone = alone or states
        padding = len(
            units) * n_ranks * formulas.BLOCK  # elements: less than a block per unit and rank
        for mine, whole, element_bytes in zip(states, alone, (2, 4, 10)):
            runs.expect(0 <= n_ranks * mine - whole < padding * element_bytes,
                        f"{n_ranks} ranks: {mine} bytes a rank are not a share of {whole}")
        run.forget()


def resident_memory_is_the_planned(mode, stage, n_ranks, dtype, every=0):
    """The sum of proportional set sizes over ranks, sampled while it trains: the plan and a constant per rank, and never less than the states."""
    folder = runs.fresh()
    process = subprocess.Popen(
        runs.arguments(config(dtype, 4),
                       (f"shard.mode={mode}", f"shard.stage={stage}", f"shard.ranks={n_ranks}",
                        f"checkpoint.every={every}", "--quiet"), folder))
    highest = 0
    while process.poll() is None:
        highest = max(highest, sum(proportional(child) for child in runs.children(process.pid)))
        time.sleep(0.02)
    runs.expect(process.returncode == 0, f"{mode} {stage}: exit code {process.returncode}")
    run = runs.Run(folder, 0, "", "")
    memory = run.plan["memory"]
    planned = n_ranks * sum(memory.values())
    states = n_ranks * sum(memory[key] for key in ("parameters", "gradients", "optimizer"))
    what = f"{mode}, stage {stage}, {n_ranks} ranks, {dtype}, saved every {every} steps: {highest / 2**20:.1f} MiB resident, {planned / 2**20:.1f} MiB planned, {(highest - planned) / n_ranks / 2**20:.1f} MiB a rank beside"
    print(what)
    share = run.plan[
        "process_bytes"]  # of each process beside its plan: loading and saving, code, stacks, tables
    runs.expect(states <= highest <= planned + n_ranks * share,
                f"{what}, {share / 2**20:.1f} MiB said")
    runs.expect(share <= 14 << 20, f"{what}: {share / 2**20:.1f} MiB beside the plan are said")
    told = max(line["memory"]["resident"] for line in run.metrics)
    runs.expect(told <= highest / n_ranks * 1.5 + share,
                f"{what}: metrics say {told} bytes of one rank")
    run.forget()


if sys.platform != "linux" or not pathlib.Path("/proc/self/smaps_rollup").exists():
    print("no /proc/PID/smaps_rollup here: resident memory is not measured")
else:
    for choice in [("view", 3, 2, "fp32"), ("copy", 3, 4, "bf16"), ("view", 0, 2, "bf16"),
                   ("copy", 2, 2, "fp32"), ("trap", 3, 3, "bf16"), ("view", 3, 2, "bf16", 1),
                   ("copy", 0, 3, "fp32", 1)]:
        resident_memory_is_the_planned(*choice)
states_fall_with_ranks()
runs.finish()
