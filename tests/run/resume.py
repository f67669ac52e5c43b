"""resume.py fast|slow: a run that was stopped and went on is the run that was never stopped: losses, norms, counts and final weights,
bit for bit, over numbers of ranks, stages, modes, ways of saving; what may not change is refused by name; folders, signals and damage.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import runs
from covering import covering

LENGTH = 16
N_STEPS = 9
LLAMA = "architecture: llama, layers: 3, hidden: 34, heads: 1, ffn: 45, vocab: 257, max_positions: 16"
GPT2 = "architecture: gpt2, layers: 2, hidden: 30, heads: 3, vocab: 257, max_positions: 16"
SETTINGS = {
    "first.shard.ranks": [1, 2, 3, 4, 7],
    "second.shard.ranks": [1, 2, 3, 4, 7],
    "first.shard.stage": [0, 1, 2, 3],
    "second.shard.stage": [0, 1, 2, 3],
    "first.shard.mode": ["view", "copy", "trap"],
    "second.shard.mode": ["view", "copy", "trap"],
    "first.checkpoint.async": ["true", "false"],
    "first.shard.recompute": ["none", "block"],
    "second.shard.wrap": ["block", "{min_parameters: 9000}"],
    "first.train.steps": [
        3, 4, 6
    ],  # with every: 3, the last one is saved by the rhythm, or because it is the last
}


def tokens(n_rows, seed=1):
    return runs.write_npy(runs.some_tokens(n_rows * LENGTH + 1, 257, seed))


class Case:
    def __init__(self, name, model=LLAMA, data="", dtype="fp32", optimizer="",
                 train="steps: %d" % N_STEPS, n_rows=22):
        data = data or f"train: [{tokens(n_rows)}]"
        self.name = name
        self.config = runs.write_yaml(
            f"model: {{{model}}}\ndata: {{{data}, sequence_length: {LENGTH}}}\ntrain: {{{train}, batch_size: 6, micro_batch_size: 2, reproducible: true}}\n"
            f"optimizer: {{schedule: constant, learning_rate: 1e-2{optimizer}}}\nshard: {{param_dtype: {dtype}}}\n"
            "checkpoint: {path: run, every: 3}\nlog: {every: 1}\n",
            name,
        )
        self.straight = runs.train_well(self.config, "shard.ranks=1", "shard.stage=0",
                                        "checkpoint.every=3")


def cases():
    """Rows run out in all of them: the data go through several shuffled epochs."""
    lora = runs.GOLDEN / "lora-llama"
    base = next(lora.glob("**/model"), None) or runs.GOLDEN / "llama-untied" / "model"
    return [
        Case("dropout", LLAMA + ", tied: false, dropout: 0.1"),
        Case("bf16", GPT2, dtype="bf16"),
        Case(
            "tiny",
            "architecture: llama, layers: 2, hidden: 8, heads: 2, ffn: 9, vocab: 257, max_positions: 16"
        ),  # some ranks hold padding alone
        Case("mixed", data=f"train: [{tokens(5)}, {tokens(7, 2)}], mix: [3, 1]", dtype="bf16"),
        Case("sgd", GPT2, optimizer=", name: sgd, momentum: 0.9"),
        Case("frozen", LLAMA + ', train: ["*layers.1.*", "*norm*"], dropout: 0.1', dtype="bf16"),
        Case("adapters", f"path: {base}, train: lora, lora: {{rank: 4, dropout: 0.1}}",
             dtype="bf16"),
    ]


def weights(run):
    folder = run.folder / "model"
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def told(run):
    return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"],
             line["supervised_tokens"]) for line in run.metrics]


def expect_same(run, straight, what):
    runs.expect(
        told(run) == told(straight),
        f"{what}: losses, norms or counts are not those of the straight run")
    runs.expect(
        weights(run) == weights(straight),
        f"{what}: the final weights are not those of the straight run")
    for line in run.metrics:
        runs.expect(line["memory"]["planned"] == line["memory"]["peak"],
                    f"{what}: step {line['step']}: {line['memory']}")


def steps_left(folder):
    return sorted(path.name for path in (folder / "steps").iterdir())


def stopped_and_gone_on(case, row):
    first = [f"{key[6:]}={value}" for key, value in row.items() if key.startswith("first.")]
    second = [f"{key[7:]}={value}" for key, value in row.items() if key.startswith("second.")]
    what = f"{case.name}, first {' '.join(first)}, then {' '.join(second)}"
    stopped = runs.train_well(case.config, "checkpoint.every=3", *first)
    run = runs.train_well(case.config, "checkpoint.every=3", *second, folder=stopped.folder)
    expect_same(run, case.straight, what)
    for path in sorted((case.straight.folder / "latest").glob("*.safetensors")):
        runs.expect(path.read_bytes() == (run.folder / "latest" / path.name).read_bytes(),
                    f"{what}: {path.name} of the last checkpoint differs")
    names = [event["event"] for event in run.events if event["event"] != "save"]
    runs.expect(names == ["start", "stop", "resume", "stop"], f"{what}: events {names}")
    saved = [event["step"] for event in run.events if event["event"] == "save"]
    end = row["first.train.steps"]
    runs.expect(
        saved == sorted({3, end} | ({6} if end == 6 else set())) + [s for s in (6, 9) if s > end],
        f"{what}: saved {saved}")
    runs.expect(
        steps_left(run.folder) == [f"{step:08d}" for step in saved[-3:]],
        f"{what}: steps/ holds {steps_left(run.folder)}")
    runs.expect(
        str((run.folder / "latest").readlink()) == f"steps/{saved[-1]:08d}",
        f"{what}: latest is {(run.folder / 'latest').readlink()}")
    run.forget()


def continued(which):
    for case in cases():
        if which == "fast":
            rows = covering(SETTINGS, len(case.name))[:7 if case.name != "dropout" else None]
        else:
            rows = [{
                **row, "first.shard.ranks": a, "second.shard.ranks": b, "first.shard.stage": s,
                "second.shard.stage": t
            } for row, (a, b, s, t) in zip(
                covering(SETTINGS, len(case.name)) * 20,
                [(a, b, s, t) for a in (1, 2, 3, 4, 7) for b in (1, 2, 3, 4, 7) for s in (0, 3)
                 for t in (0, 3)],
            )]
        runs.both(stopped_and_gone_on, [(case, row) for row in rows])


# ---- what may change, and what may not ----


def contents(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    }


def refused_changes():
    case = Case("refused", dtype="fp32", train="steps: 4")
    folder = runs.train_well(case.config, "checkpoint.every=2", "shard.ranks=2").folder
    before = contents(folder)
    other = tokens(22, 5)
    for change, key, old, new in [
        ("optimizer.learning_rate=2e-2", "optimizer.learning_rate", "0.01", "0.02"),
        ("optimizer.name=sgd", "optimizer.name", "adamw", "sgd"),
        ("optimizer.betas=[0.9, 0.99]", "optimizer.betas", "[0.9, 0.95]", "[0.9, 0.99]"),
        ("train.seed=5", "train.seed", "1234", "5"),
        ("train.batch_size=8", "train.batch_size", "6", "8"),
        ("model.hidden=32", "model.hidden", "34", "32"),
        ("data.shuffle=false", "data.shuffle", "true", "false"),
        (f"data.train=[{other}]", "data.train", "tokens in 22 rows", "tokens in 22 rows"),
    ]:
        run = runs.train(case.config, "checkpoint.every=2", "train.steps=6", change, folder=folder)
        runs.expect(
            run.code == 2 and all(word in run.message
                                  for word in (key, old, new, f"checkpoint.resume.force=[{key}]")),
            f"{change}: {run.code} {run.errors}",
        )
        runs.expect(before == contents(folder), f"{change}: a refused start wrote something")
    forced = runs.train_well(case.config, "checkpoint.every=2", "train.steps=6", "train.seed=5",
                             "checkpoint.resume={force: [train.seed]}", folder=folder)
    runs.expect("train.seed has changed" in forced.output and forced.metrics[-1]["step"] == 6,
                f"a forced change: {forced.output}")
    moved = runs.fresh("moved")  # the same data and the same folder in another place
    shutil.move(folder, moved)
    copy = runs.fresh("copy").with_suffix(".npy")
    data = next(line for line in case.config.read_text().splitlines()
                if "train: [" in line).split("[")[1].split("]")[0]
    shutil.copy(data, copy)
    again = runs.train(
        case.config,
        "checkpoint.every=2",
        "train.steps=7",
        f"data.train=[{copy}]",
        "train.seed=5",
        "shard.ranks=3",
        "log.every=2",
        "train.micro_batch_size=1",
        "optimizer.warmup_steps=0",
        folder=moved,
    )
    runs.expect(again.code == 0 and "resume: from" in again.output,
                f"a moved run: {again.code} {again.errors}")
    kept = sorted(path.name for path in moved.glob("run.yaml*"))
    runs.expect(kept == ["run.yaml", "run.yaml.1", "run.yaml.2"],
                f"settings that were replaced: {kept}")


def kernels_stay_unless_another_set_is_named():
    """A run that goes on keeps the kernels of its checkpoint, also where the CPU has wider ones, and so its bits; a set that is named is taken,
    and then the run is no longer reproducible."""
    (narrow, *_), widest = runs.kernel_sets()
    if narrow == widest:
        return
    case = Case("kernels", train="steps: 4")
    usual = ("checkpoint.every=2", "train.reproducible=false")
    named = f"train.kernels={narrow}"
    straight = runs.train_well(case.config, *usual, named)
    stopped = runs.train_well(case.config, *usual, named, "train.steps=2")
    other, refused = (shutil.copytree(stopped.folder, runs.fresh(), symlinks=True)
                      for _ in range(2))
    run = runs.train_well(case.config, *usual, folder=stopped.folder)
    expect_same(run, straight, "the kernels of the checkpoint")
    run = runs.train_well(case.config, *usual, f"train.kernels={widest}", folder=other)
    kernels = [event["kernels"] for event in run.events if event["event"] in ("start", "resume")]
    runs.expect(kernels == [narrow, widest], f"kernels that are named: {kernels}")
    run = runs.train(case.config, "checkpoint.every=2", f"train.kernels={widest}", folder=refused)
    runs.expect(
        run.code == 2
        and all(word in run.message for word in (narrow, widest, "train.reproducible")),
        f"other kernels: {run.code} {run.errors}")


def read_header(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return size, json.loads(raw[8:8 + size])


def frozen_weights_are_those_of_before():
    base = runs.GOLDEN / "llama-untied" / "model"
    copy = runs.fresh("base")
    shutil.copytree(base, copy)
    case = Case("base", f"path: {copy}, train: lora", train="steps: 4")
    stopped = runs.train_well(case.config, "checkpoint.every=2", "train.steps=2")
    elsewhere = runs.fresh("elsewhere")
    shutil.copytree(copy, elsewhere)
    _, tensors = read_header(stopped.folder / "latest" / "parameters.safetensors")
    runs.expect(tensors and all("lora" in name for name in tensors if name != "__metadata__"),
                f"frozen parameters are in a checkpoint: {sorted(tensors)[:3]}")
    verified = subprocess.run(
        [str(runs.COMMAND), "checkpoint", "verify",
         str(stopped.folder / "latest")], capture_output=True, text=True)
    runs.expect(verified.returncode == 0, f"a checkpoint of adapters: {verified.stderr}")
    whole = runs.train_well(case.config, "checkpoint.every=2", f"model.path={elsewhere}",
                            folder=stopped.folder)
    expect_same(whole, case.straight, "the base in another folder")
    raw = bytearray((elsewhere / "model.safetensors").read_bytes())
    raw[-600:-500] = bytes(100)
    (elsewhere / "model.safetensors").write_bytes(raw)
    run = runs.train(case.config, "checkpoint.every=2", "train.steps=6", f"model.path={elsewhere}",
                     folder=stopped.folder)
    runs.expect(run.code == 2 and "model.path" in run.message and "frozen" in run.message,
                f"another base: {run.code} {run.errors}")


# ---- folders ----


def a_finished_run_is_left_alone():
    case = Case("finished", train="steps: 3")
    run = runs.train_well(case.config, "checkpoint.every=2")
    before = contents(run.folder)
    again = runs.train_well(case.config, "checkpoint.every=2", folder=run.folder)
    runs.expect("is finished" in again.output, f"a finished run: {again.output}")
    runs.expect(before == contents(run.folder), "a finished run was changed")
    never = runs.train(case.config, "checkpoint.every=2", "checkpoint.resume=never",
                       folder=run.folder)
    runs.expect(never.code == 2 and "exists" in never.message,
                f"resume: never: {never.code} {never.errors}")


def more_epochs_leave_no_row_out():
    """22 rows in steps of 6: an epoch ends with a step of 4. Asked for more epochs later, the run goes on with the row after it, and ends with the
    last row of the last epoch. Also when it is killed on the way, over a checkpoint that is passed over, and for fewer epochs than are done."""
    case = Case("epochs", train="epochs: 1")
    for n_ranks, epochs, rows in ((1, 2, [6, 6, 6, 4, 6, 6, 6,
                                          4]), (3, 3, [6, 6, 6, 4, 6, 6, 6, 6, 6, 6, 6, 2])):
        first = runs.train_well(case.config, "checkpoint.every=3", "shard.ranks=2")
        run = runs.train_well(case.config, "checkpoint.every=3", f"train.epochs={epochs}",
                              f"shard.ranks={n_ranks}", folder=first.folder)
        what = f"{epochs} epochs after one"
        runs.expect([line["tokens"] // LENGTH for line in run.metrics] == rows
                    and sum(rows) == 22 * epochs, f"{what}: {run.metrics}")
        runs.expect(told(run)[:4] == told(case.straight), f"{what}: the first epoch differs")
        stopped = runs.train_well(case.config, "checkpoint.every=3", "shard.ranks=2")
        killed = runs.train(case.config, "checkpoint.every=1", f"train.epochs={epochs}", "--inject",
                            "kill:rank=0,step=7", folder=stopped.folder)
        runs.expect(killed.code == 5, f"{what}: {killed.code} {killed.errors}")
        again = runs.train_well(case.config, "checkpoint.every=3", f"train.epochs={epochs}",
                                folder=stopped.folder)
        runs.expect(
            told(again) == told(run) and weights(again) == weights(run),
            f"{what}: stopped on the way, it is another run")
        less = runs.train_well(case.config, "checkpoint.every=3", "train.epochs=1",
                               folder=run.folder)
        runs.expect("is finished" in less.output and told(less) == told(run),
                    f"one epoch after {epochs}: {less.output}")
    damaged = runs.train_well(case.config, "checkpoint.every=3", "shard.ranks=2")
    path = damaged.folder / "steps" / "00000004" / "parameters.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-9] ^= 1
    path.write_bytes(raw)
    run = runs.train_well(case.config, "checkpoint.every=3", "train.epochs=2",
                          folder=damaged.folder)
    straight = runs.train_well(case.config, "checkpoint.every=3", "train.epochs=2")
    expect_same(run, straight,
                "two epochs from before the short step are those of a run that was asked for two")


def records_that_do_not_match():
    """Lines of steps beyond the checkpoint are cut off and told again; where lines before it are gone, the rest follows."""
    case = Case("records", train="steps: 6")
    stopped = runs.train_well(case.config, "checkpoint.every=2", "train.steps=4", "shard.ranks=2")
    lines = (stopped.folder / "metrics.jsonl").read_text()
    for text, first in ((lines + lines.splitlines()[3].replace('"step": 4', '"step": 5') +
                         '\n{"step": 6, "lo', 1), (lines[:len(lines) // 3], 1), ("", 5), (None, 5)):
        folder = runs.fresh()
        shutil.copytree(stopped.folder, folder, symlinks=True)
        if text is None:
            (folder / "metrics.jsonl").unlink()
        else:
            (folder / "metrics.jsonl").write_text(text)
        with (folder / "events.jsonl").open("a") as file:
            file.write('{"time": "2026')
        run = runs.train_well(case.config, "checkpoint.every=2", folder=folder)
        wanted = told(case.straight)
        kept = [row for row in wanted[:4] if row in told(run)]
        runs.expect(
            told(run) == kept + wanted[4:] and (first == 5) == (not kept),
            f"metrics.jsonl that was {text!r:.80}: {told(run)}")
        runs.expect([event["event"] for event in run.events][-3:] == ["resume", "save", "stop"],
                    f"events.jsonl that was cut: {run.events}")
        runs.expect(
            weights(run) == weights(case.straight), "the record of a run changes its weights")


def a_start_that_was_killed_is_made_again():
    """Whatever a start has left of its folder, the next one begins there."""
    case = Case("begun", train="steps: 3")
    for names in ([], [".lock"], ["run.yaml.partial"], ["run.yaml", "plan.json"],
                  ["run.yaml", "events.jsonl", "metrics.jsonl"]):
        folder = runs.fresh()
        folder.mkdir()
        for name in names:
            text = {
                "run.yaml": case.config.read_text(),
                "metrics.jsonl": '{"step": 1, "loss": 9}\n{"step": 2, "lo', "events.jsonl": '{"time": "2026'
            }
            (folder / name).write_text(text.get(name, ""))
        run = runs.train_well(case.config, "checkpoint.every=2", folder=folder)
        expect_same(run, case.straight, f"a folder with {names}")
        runs.expect(run.events[0]["event"] == "resume", f"a folder with {names}: {run.events}")
    for name in ("thesis.tex", "plan.json", "latest"):
        folder = runs.fresh()
        folder.mkdir()
        (folder / name).write_text("mine")
        run = runs.train(case.config, folder=folder)
        runs.expect(
            run.code == 2 and [path.name for path in folder.iterdir()] == [name]
            and (folder / name).read_text() == "mine",
            f"a folder of something else, {name}: {run.errors}")


def start(config, *settings, folder, stdin=subprocess.DEVNULL):
    return subprocess.Popen(runs.arguments(config, ("--quiet", *settings), folder), stdin=stdin,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, what, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.005)


def events(folder, name):
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["event"] == name]


def two_runs_in_one_folder():
    case = Case("shared", train="steps: 4")
    folder = runs.fresh()
    process = start(case.config, "train.steps=1000000", "checkpoint.every=50", folder=folder)
    try:
        wait_for(lambda: events(folder, "save"), "a checkpoint")
        second = runs.train(case.config, "train.steps=1000000", "checkpoint.every=50",
                            folder=folder)
        runs.expect(second.code == 2 and str(process.pid) in second.message,
                    f"two runs in one folder: {second.code} {second.errors}")
    finally:
        process.kill()
        process.communicate()


def saved_when_asked():
    """SIGTERM and SIGINT: the step is saved and no model is written; SIGUSR1: saved, and the run goes on. Then the run goes on to the end."""
    case = Case("asked", train="steps: 400")
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 0)):
        for is_async in ("true", "false"):
            folder = runs.fresh()
            process = start(case.config, "checkpoint.every=100000", f"checkpoint.async={is_async}",
                            "shard.ranks=3", folder=folder)
            wait_for(
                lambda:
                (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size,
                "the first step")
            process.send_signal(number)
            if number == signal.SIGUSR1:
                wait_for(lambda: process.poll() is not None or events(folder, "save"),
                         "a checkpoint")
                saved = events(folder, "save")[0]["step"]
                runs.expect(0 < saved < 400 or process.poll() is not None,
                            f"SIGUSR1: saved at {saved}")
            errors = process.communicate(timeout=60)[1]
            what = f"{number.name}, async {is_async}"
            runs.expect(process.returncode == code,
                        f"{what}: exit code {process.returncode}: {errors}")
            run = runs.Run(folder, code, "", errors)
            if code:
                last = run.metrics[-1]["step"]
                runs.expect(
                    f"steps/{last:08d} is saved" in errors
                    and steps_left(folder) == [f"{last:08d}"], f"{what}: {errors}")
                runs.expect(not (folder / "model").exists(), f"{what}: a model was written")
                run = runs.train_well(case.config, "checkpoint.every=100000", "shard.ranks=2",
                                      folder=folder)
            expect_same(run, case.straight, what)


def keeps_signal(pid, number):
    """Has the process something to do with the signal, or kept it for later?"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    masks = [
        int(mask, 16) for mask in re.findall(r"^Sig(?:Cgt|Blk):\s*(\w+)", status, re.MULTILINE)
    ]
    return any(mask >> (number - 1) & 1 for mask in masks)


def saved_when_asked_before_anything():
    """SIGUSR1 while the command still reads its settings: it is kept, and the first step is saved."""
    case = Case("early", train="steps: 3")
    folder = runs.fresh()
    process = start("/dev/stdin", "checkpoint.every=100000", "shard.ranks=2", folder=folder,
                    stdin=subprocess.PIPE)
    wait_for(lambda: keeps_signal(process.pid, signal.SIGUSR1), "the command to read its settings")
    process.send_signal(signal.SIGUSR1)
    process.stdin.write(case.config.read_text())
    errors = process.communicate(timeout=60)[1]
    runs.expect(process.returncode == 0, f"SIGUSR1 before anything: {process.returncode} {errors}")
    saved = [(event["step"], event["reason"]) for event in events(folder, "save")]
    runs.expect(saved[0] == (1, "SIGUSR1 asked for it") and len(saved) == 2,
                f"SIGUSR1 before anything: {saved}")
    for verb in (("--version", ), ("doctor", ), ("checkpoint", "verify",
                                                 str(folder))):  # which have nothing to save
        done = subprocess.run([str(runs.COMMAND), *verb], capture_output=True,
                              preexec_fn=ask_to_save)
        runs.expect(done.returncode == 0, f"SIGUSR1 to {verb}: {done.returncode} {done.stderr}")


def ask_to_save():
    """It arrives with the command's first instruction."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    os.kill(os.getpid(), signal.SIGUSR1)


def a_run_that_saves_nothing_says_so():
    """SIGUSR1 without checkpoints."""
    case = Case("unsaved", train="steps: 200")
    folder = runs.fresh()
    process = subprocess.Popen(
        runs.arguments(case.config, ("checkpoint.every=0", "shard.ranks=2"), folder),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    wait_for(
        lambda: (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size,
        "the first step")
    process.send_signal(signal.SIGUSR1)
    output = process.communicate(timeout=60)[0]
    runs.expect(process.returncode == 0 and output.count("SIGUSR1: nothing is saved") == 1,
                f"SIGUSR1 without checkpoints: {output}")


def damage_is_passed_over():
    """A byte of the newest checkpoint changes: the one before is taken; none is whole: nothing begins anew behind the user's back."""
    case = Case("damaged", train="steps: 6", dtype="bf16")
    stopped = runs.train_well(case.config, "checkpoint.every=2", "train.steps=5", "shard.ranks=2")
    kept = runs.fresh("kept")
    shutil.copytree(stopped.folder, kept, symlinks=True)
    for name in ("manifest.json", "parameters.safetensors", "second_moment.safetensors"):
        folder = runs.fresh()
        shutil.copytree(kept, folder, symlinks=True)
        path = folder / "steps" / "00000005" / name
        raw = bytearray(path.read_bytes())
        raw[len(raw) * 2 // 3] ^= 4
        path.write_bytes(raw)
        run = runs.train_well(case.config, "checkpoint.every=2", "shard.ranks=3", folder=folder)
        expect_same(run, case.straight, f"a damaged {name}")
        passed = events(folder, "fallback")
        runs.expect(
            len(passed) == 1 and passed[0]["step"] == 5 and name in passed[0]["reason"],
            f"a damaged {name}: {passed}")
        runs.expect("the checkpoint of step 5 is skipped" in run.output,
                    f"a damaged {name}: {run.output}")
        runs.expect([e["step"] for e in events(folder, "resume")] == [4],
                    f"a damaged {name}: {events(folder, 'resume')}")
        runs.expect(
            steps_left(folder) == ["00000002", "00000004", "00000006"],
            f"a damaged {name}: steps/ holds {steps_left(folder)}")
    folder = runs.fresh()
    shutil.copytree(kept, folder, symlinks=True)
    for step in (folder / "steps").iterdir():
        (step / "first_moment.safetensors").write_bytes(b"")
    run = runs.train(case.config, "checkpoint.every=2", folder=folder)
    runs.expect(run.code == 3 and "no checkpoint of" in run.message,
                f"no checkpoint is whole: {run.code} {run.errors}")


def nothing_is_taken_from_elsewhere():
    """A link, or a step under another step's name, is no checkpoint of the run; no line is written through a link."""
    case = Case("elsewhere", train="steps: 6", dtype="bf16")
    kept = runs.train_well(case.config, "checkpoint.every=2", "train.steps=5",
                           "shard.ranks=2").folder
    for what, reason in (("a link", "is a link"), ("a step renamed", "holds step 4")):
        folder = runs.fresh()
        shutil.copytree(kept, folder, symlinks=True)
        newest = folder / "steps" / "00000005"
        shutil.rmtree(newest)
        if what == "a link":
            newest.symlink_to(kept / "steps" / "00000005")
        else:
            shutil.copytree(kept / "steps" / "00000004", newest)
        run = runs.train_well(case.config, "checkpoint.every=2", "shard.ranks=3", folder=folder)
        expect_same(run, case.straight, what)
        passed = events(folder, "fallback")
        runs.expect(
            len(passed) == 1 and passed[0]["step"] == 5 and reason in passed[0]["reason"],
            f"{what}: {passed}")
        runs.expect([e["step"] for e in events(folder, "resume")] == [4],
                    f"{what}: {events(folder, 'resume')}")
        runs.expect((kept / "steps" / "00000005" / "manifest.json").exists(),
                    f"{what}: the other run has lost a file")
    for name in ("metrics.jsonl", "events.jsonl", "run.yaml"):
        folder, other = runs.fresh(), runs.fresh()
        shutil.copytree(kept, folder, symlinks=True)
        other.write_text('{"step": 99}\n')
        (folder / name).unlink()
        (folder / name).symlink_to(other)
        run = runs.train(case.config, "checkpoint.every=2", folder=folder)
        runs.expect(run.code == 2 and f"{name}: is a link" in run.errors,
                    f"{name} is a link: {run.code} {run.errors}")
        runs.expect(other.read_text() == '{"step": 99}\n',
                    f"{name} is a link: the file behind it was changed")


if sys.argv[1] == "fast":
    tests = (
        refused_changes,
        kernels_stay_unless_another_set_is_named,
        frozen_weights_are_those_of_before,
        a_finished_run_is_left_alone,
        more_epochs_leave_no_row_out,
        records_that_do_not_match,
        a_start_that_was_killed_is_made_again,
        two_runs_in_one_folder,
        saved_when_asked,
        saved_when_asked_before_anything,
        a_run_that_saves_nothing_says_so,
        damage_is_passed_over,
        nothing_is_taken_from_elsewhere,
    )
    runs.both(lambda test: test(), [(test, ) for test in tests])
continued(sys.argv[1])
runs.finish()
