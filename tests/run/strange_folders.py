"""strange_folders.py: folders of runs that are not as a run leaves them, as who trains in them and asks about them sees it.

Of other users, of a newer version, of another model, half deleted, with things of somebody's in them, under clocks that jump. What may be
good is never passed over and never removed; what is refused is left as it was.
"""

import ctypes
import ctypes.util
import os
import pwd
import shutil
import subprocess

import runs

DATA = f"data: {{train: [{runs.write_npy(runs.some_tokens(16 * 50 + 1, 257))}], sequence_length: 16}}\n"
MODEL = "model: {architecture: llama, layers: 2, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_positions: 16}\n"
REST = "train: {steps: 6, batch_size: 4, micro_batch_size: 1, reproducible: true}\noptimizer: {schedule: constant}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
yaml = runs.write_yaml(MODEL + DATA + REST)
SAVES = ("checkpoint.every=2", "shard.ranks=2")
MORE = (*SAVES, "train.steps=8")
straight = runs.train_well(yaml, *MORE)


def begun():
    """A run that has checkpoints of steps 2, 4 and 6, and is to go on."""
    return runs.train_well(yaml, *SAVES)


def step(run, i):
    return run.folder / "steps" / f"{i:08}"


def look(folder):
    """Every file and link below a folder, with what is in it, but for the name of who looked last."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = os.readlink(
            path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    found.pop(".lock", None)
    return found


def go_on(run, *settings, **options):
    return runs.train(yaml, *MORE, *settings, folder=run.folder, **options)


def is_refused(run, code, words, what, **options):
    before = look(run.folder)
    again = go_on(run, **options)
    runs.expect(again.code == code and all(word in again.message for word in words),
                f"{what}: {again.code} {again.errors}")
    runs.expect(len(again.errors.splitlines()) == 1, f"{what}: more than one line: {again.errors}")
    runs.expect(look(run.folder) == before, f"{what}: a refused run changes the folder")


def goes_on(run, what, **options):
    again = go_on(run, **options)
    runs.expect(again.code == 0 and again.weights() == straight.weights(),
                f"{what}: {again.code} {again.errors}")
    return again


def ask(*arguments, **options):
    command = [str(options.pop("command", runs.COMMAND)), "checkpoint", *map(str, arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=240, **options)


def answers(code, words, *arguments, **options):
    done = ask(*arguments, **options)
    said = done.stdout + done.stderr
    runs.expect(done.returncode == code and all(word in said for word in words),
                f"{arguments}: {done.returncode} {said}")


def of_a_newer_version():
    run = begun()
    manifest = step(run, 6) / "manifest.json"
    text = manifest.read_bytes().replace(b'"version": 1', b'"version": 2', 1)
    end = text.rindex(b'"checksum": "') + 13
    xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    xxhash.XXH3_64bits.restype = ctypes.c_uint64
    xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    manifest.write_bytes(text[:end] + b"%016x" % xxhash.XXH3_64bits(text[:end], end) +
                         text[end + 16:])
    is_refused(run, 2, ["version 2", "newer", str(step(run, 6))], "a newer version")
    answers(0, ["unreadable: ", "version 2"], "list", run.folder)
    answers(2,
            ["00000006: unreadable: ", "00000004: good", "1 of 3 checkpoints cannot be read here"],
            "verify", run.folder)
    answers(2, ["version 2"], "verify", step(run, 6))
    answers(2, ["version 2"], "export", run.folder, runs.fresh("out"))
    answers(0, ["removed: step 2\n"], "prune", run.folder, "--keep", 1)
    runs.expect(step(run, 6).exists(), "a checkpoint of a newer version is pruned")
    shutil.rmtree(step(run, 6))
    goes_on(run, "without the newer version")


def of_another_model():
    run = begun()
    other = runs.write_yaml(MODEL.replace("ffn: 32", "ffn: 48") + DATA + REST)
    before = look(run.folder)
    settings = ("checkpoint.resume.force=[model.ffn]", )
    again = runs.train(other, *MORE, *settings, folder=run.folder)
    runs.expect(again.code == 3 and "mlp" in again.message and "[32, 16]" in again.message,
                f"another model: {again.code} {again.errors}")
    runs.expect(look(run.folder) == before, "a run of another model changes the folder")


def half_deleted():
    for i, name in enumerate(
        ("manifest.json", "parameters.safetensors", "second_moment.safetensors")):
        run = begun()
        (step(run, 6) / name).unlink()
        if i == 2:
            shutil.rmtree(step(run, 4))
        again = goes_on(run, f"a checkpoint without {name}")
        runs.expect(
            any(line["event"] == "fallback" and name in line["reason"] for line in again.events),
            f"without {name}: no event says so")
    run = begun()
    for i in (2, 4, 6):
        (step(run, i) / "parameters.safetensors").unlink()
    is_refused(run, 3, ["parameters.safetensors", "No such file"], "all checkpoints half deleted")


def a_latest_that_is_no_link():
    """What copying without links makes of it, for example. It is not overwritten, and no save fails for it in the night."""
    run = begun()
    latest = run.folder / "latest"
    latest.unlink()
    shutil.copytree(step(run, 6), latest)
    is_refused(run, 2, [str(latest), "is a folder", "move it away"],
               "a folder in the place of latest")
    shutil.rmtree(latest)
    latest.write_text("mine")
    is_refused(run, 2, [str(latest), "is a file"], "a file in the place of latest")
    latest.unlink()
    latest.symlink_to("/etc")
    goes_on(run, "a latest that leads out of the folder")
    runs.expect(os.readlink(latest) == "steps/00000008", "latest leads elsewhere")


def with_things_of_somebody():
    """They stay, they are told of once, and nothing else stays with them."""
    run = begun()
    steps = run.folder / "steps"
    notes = [
        steps / ".00000007.partial" / "notes", steps / ".00000001.removed" / "notes",
        step(run, 2) / "notes"
    ]
    for path in notes:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    for name in (".00000008.partial", ".00000009.partial", ".00000003.removed"):
        (steps / name).mkdir()
    again = goes_on(run, "somebody's notes")
    for path in notes[:2]:
        runs.expect(
            again.output.count(f"{path.parent} has files") == 1,
            f"{path} is not told of once: {again.output}")
    kept = [
        ".00000001.removed", ".00000002.removed", ".00000007.partial", "00000004", "00000006",
        "00000008"
    ]
    runs.expect(
        sorted(path.name for path in steps.iterdir()) == kept,
        f"other folders stay: {sorted(steps.iterdir())}")
    runs.expect(all(path.read_text() == "mine" for path in steps.rglob("notes")),
                "notes have changed")
    runs.expect(len(list(steps.rglob("notes"))) == 3, "notes were removed")
    runs.expect(not any(line["event"] == "save_failed" for line in again.events),
                "a save fails for a file in an old checkpoint")


def links_and_names_that_lead_out():
    run, other = begun(), runs.fresh("other")
    shutil.copytree(step(run, 6), other)
    shutil.rmtree(step(run, 6))
    step(run, 6).symlink_to(other)
    kept = look(other)
    again = goes_on(run, "a checkpoint that is a link")
    runs.expect(
        look(other) == kept
        and any("link" in line["reason"] for line in again.events if line["event"] == "fallback"),
        "what a link leads to")
    run = begun()
    (run.folder / "steps").rename(other / "steps")
    (run.folder / "steps").symlink_to(other / "steps")
    is_refused(run, 3, ["steps", "is a link"], "steps that are a link")
    answers(3, ["is a link"], "list", run.folder)
    # A name with .. means what it means to the system.
    run = begun()
    answers(0, ["good"], "verify", run.folder / "steps" / "00000002" / ".." / "00000006")
    folder = run.folder / "steps" / ".." / ".." / run.folder.name
    again = runs.train(yaml, *MORE, folder=folder)
    runs.expect(again.code == 0 and run.weights() == straight.weights(),
                f"a path with ..: {again.code} {again.errors}")


def renamed_by_hand():
    """A checkpoint that somebody put aside, or under another step's number, is still there when the run has gone on past it."""
    run = begun()
    before = look(step(run, 6))
    step(run, 6).rename(run.folder / "steps" / "00000006-keep")
    shutil.copytree(step(run, 4), step(run, 8))
    copy = look(step(run, 8))
    again = goes_on(run, "checkpoints renamed by hand")
    steps = run.folder / "steps"
    runs.expect(
        look(steps / "00000006-keep") == before, "a checkpoint that was renamed is not what it was")
    runs.expect(
        look(steps / "00000008.moved") == copy,
        f"a checkpoint under another step's number: {sorted(steps.iterdir())}")
    runs.expect(
        "steps/00000008 was something else" in again.output
        and "00000008.moved now" in again.output, f"not told: {again.output}")
    reason = [line["reason"] for line in again.events if line["event"] == "fallback"]
    runs.expect(
        len(reason) == 1 and "holds step 4: it was renamed" in reason[0],
        f"another step's number: {reason}")
    answers(0, ["00000008: good"], "verify", run.folder)


def with_things_of_somebody_beside_the_model():
    """When the model is written anew its own files are replaced, and nothing else is lost: notes, folders, where a link leads to."""
    run = begun()
    model = run.folder / "model"
    (model / "README.md").write_text("mine")
    (model / "plots").mkdir()
    (model / "plots" / "loss.svg").write_text("mine too")
    again = goes_on(run, "notes beside the model")
    kept = run.folder / "model.kept"
    runs.expect(
        look(kept) == {"README.md": b"mine", "plots": None, "plots/loss.svg": b"mine too"},
        f"notes beside the model: {look(run.folder)}")
    runs.expect(
        again.output.count(f"it has been renamed to {kept}") == 1,
        f"notes beside the model are not told of: {again.output}")
    other = runs.fresh("moved")
    model.rename(other)
    model.symlink_to(other)
    before = look(other)
    last = runs.train_well(yaml, *SAVES, "train.steps=9", folder=run.folder)
    runs.expect(
        look(other) == before and os.readlink(run.folder / "model.kept.1") == str(other),
        f"a model that is a link: {look(run.folder)}")
    runs.expect(
        not model.is_symlink() and "renamed to " in last.output and "model.kept.1" in last.output
        and not (run.folder / "model.before").exists(), f"a model that is a link: {last.output}")


# A wall clock that is ten years off, now before and now behind.
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long jump(void) { static int n; return (n++ % 2 ? 1 : -1) * 10L * 365 * 86400; }
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += jump();
    return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    now->tv_sec = t.tv_sec, now->tv_usec = t.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
"""


def under_clocks_that_jump():
    """Steps are ordered by their number: not by the times of files, nor by what a clock says while they are written."""
    library = runs.fresh("clock").with_suffix(".so")
    built = shutil.which("cc") and subprocess.run(
        ["cc", "-shared", "-fPIC", "-o",
         str(library), "-x", "c", "-", "-ldl"], input=CLOCK, text=True).returncode == 0
    environment = dict(os.environ)
    if built:
        environment.update(
            LD_PRELOAD=str(library),
            ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
    else:
        print("skipped: a preloaded clock, for want of a compiler")
    run = runs.train_well(yaml, *SAVES, env=environment)
    years = {line["time"][:4] for line in run.events}
    runs.expect(not built or len(years) == 2, f"the clock does not jump: {years}")
    for i, seconds in ((2, 4e9), (4, 1e9), (6, 1)):
        for path in (*step(run, i).iterdir(), step(run, i)):
            os.utime(path, (seconds, seconds))
    again = goes_on(run, "clocks that jump", env=environment)
    resumed = [line for line in again.events if line["event"] == "resume"]
    runs.expect([line["step"] for line in resumed] == [6], f"clocks that jump: {resumed}")
    runs.expect(os.readlink(run.folder / "latest") == "steps/00000008", "clocks that jump: latest")
    left = sorted(path.name for path in (run.folder / "steps").iterdir())
    runs.expect(left == ["00000004", "00000006", "00000008"], f"clocks that jump: {left} stay")


def of_another_user():
    if os.geteuid() != 0:
        print("skipped: folders of another user, which root alone can make")
        return
    nobody = pwd.getpwnam("nobody")
    as_nobody = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    place = runs.fresh("place")
    place.mkdir()
    for path in (runs.scratch, place):
        path.chmod(0o755)
    command = place / "shardwise"
    shutil.copy(runs.COMMAND, command)
    mine, usual = runs.fresh("mine"), runs.COMMAND
    mine.mkdir()
    os.chown(mine, nobody.pw_uid, nobody.pw_gid)
    if subprocess.run([str(command), "--version"], capture_output=True,
                      **as_nobody).returncode != 0:
        print("skipped: folders of another user, to whom the command does not run")
        return
    run = begun()
    runs.COMMAND = command
    asked = {"command": command, **as_nobody}
    # To be read, not to be written.
    is_refused(run, 4, [str(run.folder), "belongs to user root"], "a run of another user",
               **as_nobody)
    answers(0, ["validation loss"], "list", run.folder, **asked)
    answers(0, ["00000006: good"], "verify", run.folder, **asked)
    answers(0, ["model: "], "export", run.folder, mine / "out", **asked)
    answers(4, ["belongs to user root"], "prune", run.folder, "--keep", 1, **asked)
    # Writable, but for its newest checkpoint, which may be good.
    for path in (run.folder, *run.folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)
    for barred in (step(run, 6), step(run, 6) / "first_moment.safetensors", run.folder / "steps"):
        mode = barred.stat().st_mode
        barred.chmod(0)
        words = [str(barred), "Permission denied", "belongs to user root", "the right to read"]
        is_refused(run, 2, words, f"{barred.name} may not be read", **as_nobody)
        answers(2, words, "verify", run.folder, **asked)
        answers(2, words, "export", run.folder, mine / "none", **asked)
        answers(0 if barred != run.folder / "steps" else 2, words, "list", run.folder, **asked)
        barred.chmod(mode)
    run.folder.chmod(0o700)
    words = ["cannot be read: Permission denied", "belongs to user root"]
    for action in (("list", ), ("prune", "--keep", 1)):
        answers(2, words, action[0], run.folder, *action[1:], **asked)
    run.folder.chmod(0o777)
    goes_on(run, "a run of another user that may be written", **as_nobody)
    runs.COMMAND = usual


runs.both(
    lambda test: test(),
    [(test, ) for test in (
        of_a_newer_version,
        of_another_model,
        half_deleted,
        a_latest_that_is_no_link,
        with_things_of_somebody,
        links_and_names_that_lead_out,
        renamed_by_hand,
        with_things_of_somebody_beside_the_model,
        under_clocks_that_jump,
    )],
)
runs.both(lambda test: test(), [(of_another_user, )])
runs.finish()
