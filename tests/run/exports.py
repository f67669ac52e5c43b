"""exports.py: what `checkpoint export` makes of a checkpoint is what the run itself leaves in its model/, and what `checkpoint import` takes
from one run another goes on from.

Also where parameters were frozen and left out, which are then the base's own, and where adapters were trained.
"""

import shutil
import subprocess

import runs

LORA, PLAIN = runs.GOLDEN / "lora-llama" / "run.yaml", runs.GOLDEN / "llama-schedule" / "run.yaml"
BASE = runs.GOLDEN / "llama-schedule" / "model"
SAVES = ("checkpoint.every=2", "train.steps=3", "optimizer.warmup_steps=0")
# Half of what follows the attention is trained, the rest frozen.
PARTLY = ("model.train=['*.mlp.*']", f"model.path={BASE}")
NEW = ("model.architecture=gpt2", "model.layers=1", "model.hidden=16", "model.heads=2",
       "model.vocab=1000", "model.max_positions=64")


def export(*arguments):
    return subprocess.run(
        [str(runs.COMMAND), "checkpoint", "export", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def is_exported(what, *arguments):
    """The files of an export that must be a good one."""
    out = runs.fresh("out")
    done = export(arguments[0], out, *arguments[1:])
    runs.expect(done.returncode == 0 and str(out) in done.stdout,
                f"{what}: {done.returncode} {done.stderr}")
    return files(out) if out.exists() else {}


def is_refused(what, code, words, *arguments):
    out = runs.fresh("out")
    done = export(arguments[0], out, *arguments[1:])
    runs.expect(done.returncode == code and all(word in done.stderr for word in words),
                f"{what}: {done.returncode} {done.stderr}")
    runs.expect(not list(out.parent.glob(out.name + "*")),
                f"{what}: a refused export leaves something")


def as_the_run_leaves_it(yaml, *settings):
    what = f"{yaml.parent.name} {settings}"
    run = runs.train_well(yaml, *SAVES, *settings)
    runs.expect(
        is_exported(what, run.folder, *types(settings)) == files(run.folder / "model"),
        f"{what}: an export has other files than model/")
    run.forget()


def types(settings):
    return ("--type", "BF16") if "model.save_dtype=bf16" in settings else ()


def frozen_weights_are_those_of_the_base():
    """Wherever it lies by then, but no others: not those of a model that differs in one weight."""
    base, other = runs.fresh("base"), runs.fresh("other")
    for folder in (base, other):
        shutil.copytree(BASE, folder)
        for path in folder.iterdir():
            path.chmod(0o644)
    run = runs.train_well(PLAIN, *SAVES, "model.train=['*.mlp.*']", f"model.path={base}",
                          "shard.param_dtype=bf16", "shard.ranks=2")
    weights = other / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\x40")
    out = runs.fresh("out")
    runs.expect(export(run.folder, out).returncode == 0, "frozen weights are not exported")
    good = files(out)
    found, wanted = (runs.fp32_tensors(folder / "model.safetensors") for folder in (out, base))
    for name in wanted:
        runs.expect(("mlp" in name) != (found[name] == wanted[name]),
                    f"{name}: trained weights change, and frozen ones are the base's")
    moved = runs.fresh("moved")
    base.rename(moved)
    is_refused("a base that was moved", 3, ["--model", str(base)], run.folder)
    runs.expect(
        is_exported("a base that was moved", run.folder, "--model", moved) == good,
        "the moved base gives another model")
    is_refused("a base that was changed", 3, ["is not the model", "--model"], run.folder, "--model",
               other)
    is_refused("another model", 3, ["--model", "lm_head"], run.folder, "--model",
               runs.GOLDEN / "llama-tied" / "model")
    is_refused("no base", 3, ["--model", "model.safetensors"], run.folder, "--model", run.folder)
    alone = runs.fresh("alone")
    shutil.copytree(run.folder / "steps" / "00000003", alone)
    is_refused("a checkpoint without its run", 3, ["run.yaml", "--model"], alone)
    again = is_exported("a checkpoint without its run", alone, "--model", moved)
    runs.expect(again["model.safetensors"] == good["model.safetensors"],
                "a checkpoint without its run gives another model")


def a_model_that_is_not_needed_must_be_the_right_one():
    """Where no weight is left out: a folder that is mistyped, or another's, would take its tokenizer along, or none."""
    base, moved, other = runs.fresh("base"), runs.fresh(
        "moved"), runs.GOLDEN / "llama-tied" / "model"
    shutil.copytree(BASE, base)
    (base / "tokenizer_config.json").write_text("{}")
    run = runs.train_well(PLAIN, *SAVES, f"model.path={base}")
    good = is_exported("all of a model", run.folder)
    runs.expect("tokenizer_config.json" in good, "the base's companions are left out")
    base.rename(moved)
    is_refused("companions that were moved", 3,
               ["--model", "--no-tokenizer", str(base)], run.folder)
    is_refused("a mistyped model", 3, ["--model", "nowhere"], run.folder, "--model", "nowhere")
    is_refused("another model", 3, ["--model"], run.folder, "--model", other)
    runs.expect(
        is_exported("the moved model", run.folder, "--model", moved) == good,
        "the moved model gives other files")
    runs.expect("model.safetensors" in is_exported("no tokenizer", run.folder, "--no-tokenizer"),
                "no model without its base's tokenizer")
    new = runs.train_well(runs.GOLDEN / "gpt2" / "run.yaml", *SAVES, "model.path=null", *NEW)
    is_refused("a model of a run that began with none", 2, ["began with no model"], new.folder,
               "--model", moved)


def adapters_name_their_base():
    run = runs.train_well(LORA, *SAVES, f"model.path={BASE}", "shard.ranks=2")
    alone = runs.fresh("alone")
    shutil.copytree(run.folder / "steps" / "00000003", alone)
    is_refused("adapters without their run", 3, ["adapters", "--model"], alone)
    found = is_exported("adapters without their run", alone, "--model", BASE)
    runs.expect(found == files(run.folder / "model"),
                "adapters without their run: other files than model/")
    is_refused("adapters of a mistyped model", 3, ["--model", "nowhere"], alone, "--model",
               "nowhere")
    is_refused("adapters of another model", 3, ["--model"], run.folder, "--model",
               runs.GOLDEN / "llama-tied" / "model")
    earlier = is_exported("the checkpoint before", run.folder / "steps" / "00000002")
    shorter = runs.train_well(LORA, f"model.path={BASE}", "train.steps=2")
    runs.expect(earlier == files(shorter.folder / "model"),
                "an earlier checkpoint is not the adapter of a shorter run")


def what_is_imported_goes_on():
    """A checkpoint of another run, in a folder where none was: the run that is begun there ends as the other did."""
    settings = ("checkpoint.every=2", "train.steps=5", "optimizer.warmup_steps=0", "shard.ranks=2")
    run = runs.train_well(PLAIN, *settings)
    folder = runs.fresh("imported")
    done = subprocess.run([
        str(runs.COMMAND), "checkpoint", "import",
        str(run.folder / "steps" / "00000004"),
        str(folder)
    ], capture_output=True, text=True)
    runs.expect(done.returncode == 0 and f"checkpoint.path={folder}" in done.stdout,
                f"import: {done.returncode} {done.stderr}")
    again = runs.train_well(PLAIN, *settings, folder=folder)
    runs.expect([line["step"] for line in again.metrics] == [5],
                f"the imported run takes other steps: {again.metrics}")
    runs.expect(again.weights() == run.weights(), "the imported run ends elsewhere")
    runs.expect([(line["event"], line["step"]) for line in again.events][0] == ("resume", 4),
                f"events: {again.events}")
    other = runs.train(
        PLAIN, *settings, "train.seed=5",
        folder=shutil.copytree(run.folder / "steps",
                               runs.fresh("seed") / "steps").parent)
    runs.expect(other.code == 2 and "train.seed" in other.message,
                f"an imported checkpoint of other settings: {other.code} {other.errors}")


runs.both(
    lambda test, *rest: test(*rest),
    [
        (as_the_run_leaves_it, LORA),
        (as_the_run_leaves_it, LORA, "shard.ranks=3", "shard.stage=0", "shard.param_dtype=bf16",
         "model.save_dtype=bf16"),
        (as_the_run_leaves_it, runs.GOLDEN / "lora-gpt2" / "run.yaml", "shard.ranks=2",
         "model.lora.rslora=true", "model.lora.adapter=null"),
        (as_the_run_leaves_it, PLAIN),
        (as_the_run_leaves_it, runs.GOLDEN / "llama-tied" / "run.yaml", "shard.ranks=3",
         "shard.stage=2"),
        (as_the_run_leaves_it, runs.GOLDEN / "gpt2" / "run.yaml", "shard.ranks=2",
         "model.train=['*.mlp.*', '*wte*']"),
        (as_the_run_leaves_it, LORA, "shard.ranks=2", "shard.stage=1", "shard.mode=copy"),
        (as_the_run_leaves_it, LORA, "shard.ranks=4", "shard.stage=2"),
        *((as_the_run_leaves_it, PLAIN, *PARTLY, "shard.ranks=2", f"shard.stage={stage}")
          for stage in (0, 1, 2, 3)),
        (as_the_run_leaves_it, PLAIN, *PARTLY, "shard.ranks=2", "shard.param_dtype=bf16",
         "model.save_dtype=bf16"),
        (frozen_weights_are_those_of_the_base, ),
        (adapters_name_their_base, ),
        (a_model_that_is_not_needed_must_be_the_right_one, ),
        (what_is_imported_goes_on, ),
    ],
)
runs.finish()
