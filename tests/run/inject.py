"""inject.py [STRIDE]: faults on purpose. Each kind strikes where it was told to, is recorded, and ends as it should; and then in turn: every
allocation of a rank and of the supervisor, in a new run and in one that goes on; every call of a save that changes a file. With
a STRIDE, every STRIDE-th of them.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import runs

LENGTH = 16
STRIDE = int(sys.argv[1]) if len(sys.argv) > 1 else 1
tokens = runs.write_npy(runs.some_tokens(LENGTH * 50 + 1, 257))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_positions: 16}\n"
    f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    "train: {steps: 8, batch_size: 6, micro_batch_size: 1, reproducible: true}\n"
    "optimizer: {schedule: cosine, learning_rate: 1e-3}\ncheckpoint: {path: run, every: 2, keep: 2, async: false}\nlog: {every: 1}\n"
)
EVERY = "checkpoint.every=2"
straight = runs.train_well(yaml, EVERY, "shard.ranks=2")


def inject(faults, *settings, folder=None):
    flags = [word for fault in faults for word in ("--inject", fault)]
    given = {setting.partition("=")[0] for setting in settings}
    usual = [
        setting for setting in (EVERY, "shard.ranks=2") if setting.partition("=")[0] not in given
    ]
    return runs.train(yaml, *usual, *settings, *flags, folder=folder)


def of(run, name):
    return [event for event in run.events if event["event"] == name]


def is_same(run, other=straight):
    return run.weights() == other.weights() and runs.told(run) == runs.told(other)


def half_written(run):
    return sorted(
        str(p.relative_to(run.folder)) for p in run.folder.rglob("*")
        if any(word in p.name for word in ("partial", "removed", "before")))


def expect_struck(run, fault, rank, **more):
    found = of(run, "inject")
    runs.expect(
        len(found) == 1 and found[0]["reason"] == fault and found[0]["rank"] == rank,
        f"{fault}: {found}")
    for key, value in more.items():
        runs.expect(found and found[0][key] == value, f"{fault}: {key} is not {value}: {found}")


# ---- each kind ----


def restarts_after(fault, rank, name, **more):
    run = inject([fault], "train.restarts=1")
    expect_struck(run, fault, rank, **more)
    reason = of(run, "restart")
    why = reason[0]["reason"] if len(reason) == 1 else ""
    runs.expect(f"rank {rank} was {name}" in why and f'" at step {more["step"]}, slot 0' in why,
                f"{fault}: {reason}")
    runs.expect("(as --inject asked for)" in why and "memory" not in why, f"{fault}: {reason}")
    runs.expect(run.code == 0 and is_same(run),
                f"{fault}: not the run that nothing happened to: {run.code} {run.errors}")


def holds_up(fault, rank, mode):
    run = inject([fault], f"shard.mode={mode}")
    expect_struck(run, fault, rank)
    runs.expect(run.code == 0 and is_same(run),
                f"{fault}, {mode}: not the same numbers: {run.code} {run.errors}")


def waits_for_a_late_lane(instruction, stage):
    """In copy mode all lanes but one stand in waits, for longer than a second: nobody is lost, and nobody disagrees."""
    fault = f"delay:rank=1,instruction={instruction},step=3,seconds=1.7"
    deep = ("model.layers=4", "shard.mode=copy", f"shard.stage={stage}", "shard.ranks=3",
            "train.steps=4")
    run = inject([fault], *deep)
    expect_struck(run, fault, 1)
    runs.expect(run.code == 0 and is_same(run, inject([], *deep)),
                f"{fault}, stage {stage}: not the same numbers: {run.code} {run.errors}")


def changes_numbers(fault, stage, mode):
    run = inject([fault], f"shard.stage={stage}", f"shard.mode={mode}")
    expect_struck(run, fault, 1, step=4)
    same = [ours[1:] == theirs[1:] for ours, theirs in zip(runs.told(run), runs.told(straight))]
    runs.expect(run.code == 0 and same[:3] == [True] * 3 and not same[-1],
                f"{fault}, stage {stage}, {mode}: {run.code} {same} {run.errors}")


def names_who_differs():
    """A replica with a wrong bit is found by guard.verify_every, and its rank is named."""
    fault = "flip:rank=1,step=4,buffer=parameters,bit=20"
    run = inject([fault], "shard.stage=0", "shard.ranks=3", "guard.verify_every=1")
    expect_struck(run, fault, 1)
    runs.expect(run.code == 6 and "rank 1" in run.message, f"{fault}: {run.code} {run.errors}")


def falls_back():
    """A bit of the newest checkpoint is found when it is loaded, and the one before is taken."""
    fault = "flip:rank=0,step=7,file=steps/00000006/parameters.safetensors,bit=9000"
    run = inject([fault, "kill:rank=1,step=8"], "train.restarts=1")
    runs.expect([event["reason"] for event in of(run, "inject")] == [fault, "kill:rank=1,step=8"],
                f"{fault}: {of(run, 'inject')}")
    resumed = of(run, "resume")
    runs.expect(len(resumed) == 1 and "00000004" in resumed[0]["reason"], f"{fault}: {resumed}")
    runs.expect(run.code == 0 and is_same(run), f"{fault}: {run.code} {run.errors}")


def records_are_there_first():
    """A checkpoint whose steps' lines could not be brought to the disk is not made: metrics.jsonl is opened, written twice, and synced before step 2
    is there; events.jsonl is written once."""
    for name, k in (("metrics.jsonl", 4), ("events.jsonl", 3)):
        fault = f"write:rank=0,error=EIO,k={k},file=*/{name}"
        run = inject([fault], "checkpoint.async=false")
        failed = of(run, "save_failed")
        runs.expect([event["step"] for event in failed] == [2] and name in failed[0]["reason"],
                    f"{fault}: {run.events}")
        runs.expect([event["step"] for event in of(run, "save")] == [4, 6, 8],
                    f"{fault}: {of(run, 'save')}")
        runs.expect(run.code == 0 and is_same(run) and not half_written(run),
                    f"{fault}: {run.code} {run.errors}")


def does_without_latest():
    """`latest` that cannot be made costs no checkpoint, and is told of once."""
    fault = "write:rank=0,error=ENOSPC,k=1,n=100,file=*/.latest.partial"
    run = inject([fault])
    runs.expect([event["step"] for event in of(run, "save")] == [2, 4, 6, 8]
                and not of(run, "save_failed"), f"{fault}: {run.events}")
    runs.expect(
        run.output.count("is saved, but") == 1 and f"{run.folder}/latest" in run.output,
        f"{fault}: {run.output}")
    there = sorted(path.name for path in (run.folder / "steps").iterdir())
    runs.expect(there == ["00000006", "00000008"], f"{fault}: what is not kept stays: {there}")
    runs.expect(run.code == 0 and is_same(run), f"{fault}: {run.code} {run.errors}")


def turns_a_bit_of_a_file_once():
    """Both lanes of a rank come by where the bit may be turned; the second would turn it back."""
    fault = "flip:rank=0,step=7,file=steps/00000006/parameters.safetensors,bit=9000"
    run = inject([fault, "kill:rank=1,step=8"], "train.restarts=1", "shard.mode=copy")
    struck = [event["reason"] for event in of(run, "inject")]
    runs.expect(struck == [fault, "kill:rank=1,step=8"], f"{fault}: {of(run, 'inject')}")
    runs.expect([event["step"] for event in of(run, "resume")] == [4],
                f"{fault}: {of(run, 'resume')}")
    runs.expect(run.code == 0 and is_same(run), f"{fault}: {run.code} {run.errors}")


def writes_down_what_strikes_while_writes_fail():
    """The line that says what has struck is itself a write: it is passed over, and nobody waits for himself."""
    delay = "delay:rank=0,instruction=gather*,seconds=0.001"
    for k in range(2, 6):
        fault = f"write:rank=0,error=EIO,k={k},n=3,file=*/events.jsonl"
        run = inject([fault, delay], "shard.mode=copy", "shard.deadline=10", "checkpoint.every=0")
        runs.expect(
            run.code == 0 and is_same(run) if k > 3 else "events.jsonl: cannot be written"
            in run.errors, f"{fault}: {run.code} {run.errors}")
        runs.expect(k < 4 or delay in [event["reason"] for event in of(run, "inject")],
                    f"{fault}: {run.events}")


def loses_the_supervisor():
    run = inject(["kill:rank=supervisor,at=0.05s"], "train.steps=100000")
    runs.expect(run.code == -9 and not run.errors.strip(),
                f"the supervisor killed: {run.code} {run.errors}")


def strikes_the_first_moment():
    """A rank dies before it has done anything: the fault has struck, and does not strike the rank that is started again."""
    fault = "kill:rank=1,at=0"
    run = inject([fault], "train.restarts=1")
    runs.expect(run.code == 0 and is_same(run), f"{fault}: {run.code} {run.errors}")
    expect_struck(run, fault, 1)


def says_what_has_not_struck():
    fault = "kill:rank=1,step=1000"
    run = inject([fault])
    runs.expect(run.code == 0 and f"inject: {fault} has not struck" in run.output and is_same(run),
                f"{fault}: {run.output}")


REFUSED = [
    "kill",
    "kil:rank=1",
    "kill:rank=9",
    "kill:rank=-1",
    "kill:rank=1,rank=1",
    "kill:ranks=1",
    "kill:rank",
    "kill:rank=1,step=0",
    "kill:rank=1,step=x",
    "kill:rank=1,at=1,step=2",
    "kill:rank=1,at=nan",
    "kill:rank=supervisor",
    "stop:rank=1,factor=2",
    "slow:rank=0,factor=0.5",
    "delay:rank=0,seconds=1",
    "flip:rank=0,bit=1",
    "flip:rank=0,bit=1,buffer=weights",
    "flip:rank=0,bit=1,buffer=moments,file=x",
    "allocation:k=0",
    "allocation:rank=0",
    "write:k=1",
    "write:k=1,error=EPERM",
    "write:k=1,error=EIO,file=" + "x" * 120,
    "kill:rank=1," + "x" * 300,
    "",
    ":",
    "kill:",
    "kill:,",
    "kill:rank=99999999999999999999",
]  # fmt: skip


def refuses(text):
    run = inject([text])
    runs.expect(run.code == 2 and "--inject" in run.message and len(run.errors.splitlines()) == 1,
                f"{text}: {run.code} {run.errors}")
    runs.expect(not run.folder.exists(), f"{text}: something is written")


# ---- in turn ----

BUSY = ("shard.mode=copy", "train.threads=2", "shard.param_dtype=bf16", "shard.stage=1",
        "checkpoint.async=true", f"data.validation=[{tokens}]")
busy = runs.train_well(yaml, EVERY, "shard.ranks=2", *BUSY)


def begin(settings):
    """The folder of a run that was killed on its way."""
    run = inject(["kill:rank=1,step=7"], *settings)
    runs.expect(run.code == 5 and of(run, "save"), f"a run to go on with: {run.code} {run.errors}")
    return run.folder


begun = {settings: begin(settings) for settings in ((), BUSY)}


def refuse_allocation(rank, k, goes_on, settings, undisturbed):
    """One message and exit code 4, or the run is as good as any. goes_on: it takes up a checkpoint. False: there are fewer calls."""
    fault = f"allocation:rank={rank},k={k}"
    folder = runs.fresh()
    if goes_on:
        shutil.copytree(begun[settings], folder, symlinks=True)
    run = inject([fault], *settings, folder=folder)
    what = f"{fault}, goes on {goes_on}, {settings}"
    if run.code == 0:
        runs.expect(is_same(run, undisturbed), f"{what}: not the same numbers")
        config = (run.folder / "model" / "config.json").read_text()
        runs.expect(config == (undisturbed.folder / "model" / "config.json").read_text(),
                    f"{what}: another config.json")
    else:
        runs.expect(run.code == 4 and len(run.errors.splitlines()) == 1 and run.message,
                    f"{what}: {run.code} {run.errors}")
    runs.expect(not half_written(run), f"{what}: half written: {half_written(run)}")
    again = run if run.code == 0 else runs.train(yaml, EVERY, "shard.ranks=2", *settings,
                                                 folder=folder)
    runs.expect(again.code == 0 and is_same(again, undisturbed),
                f"{what}, and again: {again.code} {again.errors}")
    run.forget()
    return run.code != 0 or f"{fault} has not struck" not in run.output


def refuse_write(error, rank, k, is_async):
    """A save is told of as failed, those before it are whole, the run goes on and saves the next; where it was the last one, the run says
    so when it ends, with exit code 4. False: there are fewer calls."""
    fault = f"write:rank={rank},error={error},k={k},step=4,file=*/steps*"
    what = f"{fault}, async {is_async}"
    run = inject([fault], f"checkpoint.async={is_async}", "checkpoint.keep=5")
    struck, saved = of(run, "inject"), [event["step"] for event in of(run, "save")]
    failed = [event["step"] for event in of(run, "save_failed")]
    runs.expect(
        len(failed) <= 1 and sorted(saved + failed) == [2, 4, 6, 8], f"{what}: {saved} {failed}")
    runs.expect(run.code == (4 if failed == [8] else 0),
                f"{what}: {failed} {run.code} {run.errors}")
    runs.expect(
        len(run.errors.splitlines()) == (1 if failed == [8] else 0),
        f"{what}: {failed} {run.code} {run.errors}")
    named = f'rank {rank} at step 8 in "saving the last checkpoint"'
    runs.expect(failed != [8] or named in run.message, f"{what}: {run.errors}")
    runs.expect(is_same(run), f"{what}: not the same numbers")
    runs.expect(not half_written(run), f"{what}: half written: {half_written(run)}")
    runs.expect(not failed or (error != "short" and struck), f"{what}: {of(run, 'save_failed')}")
    runs.expect(all("/steps" in event["reason"] for event in of(run, "save_failed")),
                f"{what}: {of(run, 'save_failed')}")
    verified = subprocess.run([runs.COMMAND, "checkpoint", "verify",
                               str(run.folder)], capture_output=True, text=True)
    runs.expect(verified.returncode == 0, f"{what}: {verified.stdout} {verified.stderr}")
    there = {int(p.name) for p in (run.folder / "steps").iterdir() if p.name.isdigit()}
    runs.expect(there >= set(saved), f"{what}: {there} are there, {saved} were saved")
    run.forget()
    return bool(struck)


n_refused = 0


def in_turn(refuse, what):
    """refuse(k) for k = 1, ... until the run has fewer calls."""
    global n_refused
    for k in range(1, 3000, STRIDE):
        if not refuse(k):
            print(f"{what}: {k - 1} at most")
            return
        n_refused += 1
    runs.complain(f"{what}: no end")


def writes_of(error, rank, is_async):
    in_turn(lambda k: refuse_write(error, rank, k, is_async),
            f"calls of saves that change a file, {error}, rank {rank}, async {is_async}")


def allocations_of(rank, goes_on, settings, undisturbed):
    what = f"allocations, rank {rank}, goes on {goes_on}, {settings[:1]}"
    in_turn(lambda k: refuse_allocation(rank, k, goes_on, settings, undisturbed), what)


for fault, rank, name, step in [
    ("kill:rank=1,step=5", 1, "killed by SIGKILL", 5),
    ("stop:rank=0,step=3,instruction=reduce*", 0, "stopped by SIGSTOP", 3),
]:
    restarts_after(fault, rank, name, step=step)
runs.both(holds_up, [("slow:rank=0,factor=3", 0, mode) for mode in ("view", "copy")])
runs.both(holds_up, [("delay:rank=1,instruction=gather*,seconds=0.002", 1, mode)
                     for mode in ("view", "copy", "trap")])
runs.both(waits_for_a_late_lane, [("reduce layers.3", 2), ("reduce layers.3", 3),
                                  ("gather layers.1", 3)])
runs.both(
    changes_numbers,
    [(f"flip:rank=1,step=4,buffer={buffer},unit={unit},bit={bit}", stage, mode)
     for buffer, unit, bit in (("parameters", "layers.0", 22), ("moments", "layers.1", 30),
                               ("gradients", "root", 30), ("activations", "layers.1", 30))
     for stage, mode in ((3, "view"), (3, "trap"), (2, "copy"))],
)
runs.both(lambda test: test(), [(names_who_differs, ), (falls_back, ),
                                (turns_a_bit_of_a_file_once, ), (loses_the_supervisor, ),
                                (strikes_the_first_moment, ), (says_what_has_not_struck, )])
runs.both(refuses, [(text, ) for text in REFUSED])
if not (pathlib.Path(os.environ["SW_BUILD"]) / "libshardwise-faults.so").exists():
    print("built without the library of faults: allocations and writes are left out")
    runs.finish()
writes_down_what_strikes_while_writes_fail()
records_are_there_first()
does_without_latest()
runs.both(
    allocations_of,
    [(rank, *variant)
     for variant in ((False, (), straight), (True, (), straight), (True, BUSY, busy))
     for rank in ("supervisor", 0, 1)],
)
runs.both(writes_of, [(error, rank, is_async) for error in ("ENOSPC", "EIO", "short")
                      for rank in (0, 1) for is_async in ("true", "false")])
print(f"{n_refused} calls refused")
runs.finish()
