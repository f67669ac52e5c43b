"""models.py: the models of docs/design/models, explored by spin: every interleaving of what they do.

The first comment of a model says how it is explored. `right: N=2; N=3 COPY`: with these definitions nothing may be wrong, no state is
left unexplored and no line unreached. `wrong: N=2 NO_EXCHANGE  why`: a step is changed or left out, and spin must find that; else the
model would say nothing about the step.

Most of the time is the compiler's, so it optimizes nothing: all of it is some thirty seconds of a core. A model that grows should stay
below a few million states.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODELS = pathlib.Path(os.environ["SW_SOURCE"]) / "docs" / "design" / "models"
MEGABYTES = 1800
scratch = pathlib.Path(tempfile.mkdtemp(prefix="shardwise-models-"))


def explorations(text):
    """Of a model: (is it to be right, its definitions)."""
    comment = text[:text.index("*/")]
    for line in comment.splitlines():
        kind, _, rest = line.strip(" *").partition(": ")
        if kind == "right":
            yield from ((True, variant.split()) for variant in rest.split(";"))
        elif kind == "wrong":
            yield False, re.split(r" {3,}", rest)[0].split()


def explore(model, definitions):
    """What spin says of it."""
    folder = scratch / "-".join([model.stem, *definitions])
    folder.mkdir()
    defines = [f"-D{name if '=' in name else name + '=1'}" for name in definitions]
    for command in (
        ["spin", "-a", *defines, str(model)],
        ["gcc", "-O0", "-w", "-DSAFETY", f"-DMEMLIM={MEGABYTES}", "-o", "pan", "pan.c"],
        ["./pan", "-m1000000", "-w22"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        if done.returncode or "rror:" in done.stdout:
            return f"{command[0]} fails: {done.stdout} {done.stderr}"
    shutil.rmtree(folder)
    return done.stdout


def judge(said, is_right):
    """What is not as it should be; '' if all is."""
    errors = re.search(r"errors: (\d+)", said)
    if not errors or "depth too small" in said or "out of memory" in said or "memory limit" in said:
        return said
    if not is_right:
        return "" if int(errors[1]) else "nothing is found wrong"
    if int(errors[1]) or "not completed" in said:
        return said
    unreached = re.findall(r"^\t.*\.pml:\d+, state.*$", said, re.MULTILINE)
    return f"never reached: {unreached}" if unreached else ""


n_wrong, began = 0, time.monotonic()
if not shutil.which("spin"):
    sys.exit("spin is missing: scripts/install-packages test")
for model in sorted(MODELS.glob("*.pml")):
    kinds = set()
    for is_right, definitions in explorations(model.read_text()):
        kinds.add(is_right)
        since = time.monotonic()
        said = explore(model, definitions)
        complaint = judge(said, is_right)
        n_wrong += bool(complaint)
        states = re.search(r"(\d+) states, stored", said)
        name = f"{model.name} {' '.join(definitions)}"
        print(
            f"{name:52} {'right' if is_right else 'wrong'}: {states[1] if states else '?':>9} states, {time.monotonic() - since:.1f} s",
            flush=True)
        if complaint:
            print(f"FAILED: {name} should be {'right' if is_right else 'found wrong'}: {complaint}",
                  flush=True)
    if kinds != {True, False}:
        n_wrong += 1
        print(
            f"FAILED: {model.name} has not both: variants that are right, and such that are wrong")
shutil.rmtree(scratch)
spent = os.times()
print(
    f"{time.monotonic() - began:.0f} s, of which {spent.children_user + spent.children_system:.0f} s of a core"
)
sys.exit(1 if n_wrong else 0)
