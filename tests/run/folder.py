"""folder.py: what a run writes and what it refuses: its folder, validation by hand, memory limits with the advice they give."""

import math
import re

import runs

LENGTH = 8
MODEL = "architecture: gpt2, layers: 4, hidden: 48, heads: 2, vocab: 257, max_positions: 16"


def config(more_data="", train="steps: 2, batch_size: 8, micro_batch_size: 2", more="", n_rows=30,
           optimizer="learning_rate: 1e-2"):
    tokens = runs.write_npy(runs.some_tokens(n_rows * LENGTH + 1, 257))
    return runs.write_yaml(
        f"model: {{{MODEL}}}\ndata: {{train: [{tokens}], sequence_length: {LENGTH}{more_data}}}\ntrain: {{{train}}}\noptimizer: {{{optimizer}}}\n"
        f"shard: {{param_dtype: fp32}}\ncheckpoint: {{path: run}}\nlog: {{every: 1}}\n{more}")


def validation_is_an_evaluation():
    """With a learning rate of 0 the weights stay, so the loss of one step over exactly the held-out rows is the validation loss: for any
    number of ranks, rows that fill no micro-batch, and fewer rows than ranks."""
    for n_rows in (13, 3):
        held = runs.write_npy(runs.some_tokens(n_rows * LENGTH + 1, 257, seed=7))
        still = "learning_rate: 0"
        by_hand = runs.train_well(
            runs.write_yaml(
                f"model: {{{MODEL}}}\ndata: {{train: [{held}], shuffle: false, sequence_length: {LENGTH}}}\ntrain: {{epochs: 1, batch_size: 14, micro_batch_size: 2}}\n"
                f"optimizer: {{{still}}}\nshard: {{param_dtype: fp32, ranks: 1}}\ncheckpoint: {{path: run}}\nlog: {{every: 1}}\n"
            ))
        wanted = by_hand.metrics[0]["loss"]
        found = set()
        for n_ranks in (1, 2, 3, 4, 8):
            run = runs.train_well(
                config(f", validation: [{held}]",
                       "steps: 3, batch_size: 8, micro_batch_size: 2, validate_every: 2",
                       optimizer=still),
                f"shard.ranks={n_ranks}",
                f"shard.stage={n_ranks % 4}",
                f"shard.mode={'copy' if n_ranks % 3 == 0 else 'view'}",
            )
            losses = [line.get("validation_loss") for line in run.metrics]
            runs.expect(losses[0] is None and losses[1] == losses[2] is not None,
                        f"validation at step 2 and at the end: {losses}")
            found.add(losses[2])
            same = ("gather_bytes", "reduce_bytes")
            runs.expect(
                len({tuple(line[key] for key in same)
                     for line in run.metrics}) == 1,
                f"an evaluation changes what the step is said to have moved: {run.metrics}",
            )
            runs.expect(
                all(line["memory"]["planned"] == line["memory"]["peak"]
                    for line in run.metrics[1:]),
                f"memory with validation at {n_ranks} ranks: {run.metrics}",
            )
        runs.expect(len(found) == 1, f"{n_rows} rows: validation losses differ with ranks: {found}")
        runs.expect(all(math.isclose(loss, wanted, rel_tol=1e-12) for loss in found),
                    f"{n_rows} rows: validation loss {found}, by hand {wanted}")


def rows_of_validation_are_limited():
    """validation_rows takes the first rows."""
    tokens = runs.some_tokens(20 * LENGTH + 1, 257, seed=9)
    whole, part = runs.write_npy(tokens), runs.write_npy(tokens[:5 * LENGTH + 1])
    a, b = (runs.train_well(config(f", validation: [{path}], validation_rows: 5"),
                            "shard.ranks=2").metrics[-1]["validation_loss"]
            for path in (whole, part))
    runs.expect(a == b, f"validation_rows: 5 of 20 rows give {a}, the first 5 alone {b}")


def dropout_is_off_in_evaluation():
    held = runs.write_npy(runs.some_tokens(4 * LENGTH + 1, 257, seed=7))
    a, b = (runs.train_well(config(f", validation: [{held}]", optimizer="learning_rate: 0"),
                            "shard.ranks=2", f"model.dropout={p}").metrics for p in (0, 0.5))
    runs.expect(
        a[-1]["validation_loss"] == b[-1]["validation_loss"] and a[-1]["loss"] != b[-1]["loss"],
        "dropout touches the evaluation, or not the training",
    )


def folder_of_a_run():
    yaml = config()
    first = runs.train_well(yaml, "shard.ranks=2")
    names = sorted(path.name for path in first.folder.iterdir())
    runs.expect(
        names == [".lock", "events.jsonl", "metrics.jsonl", "model", "plan.json", "run.yaml"],
        f"a run's folder holds {names}")
    runs.expect(
        sorted(path.name for path in (first.folder / "model").iterdir())[:2] == [
            "config.json", "model.safetensors"
        ],
        "model/ is a Hugging Face directory",
    )
    before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    second = runs.train(yaml, "shard.ranks=2", folder=first.folder)
    runs.expect(
        second.code == 2 and "exists" in second.message
        and f"{first.folder}/model" in second.message,
        f"a second run into one folder: {second.code} {second.errors}",
    )
    runs.expect(
        before == {path: path.read_bytes()
                   for path in first.folder.rglob("*")
                   if path.is_file()}, "a refused run changed another's folder")
    again = runs.train_well(first.folder / "run.yaml")
    timeless = lambda run: [{
        key: line[key]
        for key in ("step", "loss", "grad_norm", "learning_rate", "gather_bytes", "reduce_bytes")
    } for line in run.metrics]
    runs.expect(
        timeless(again) == timeless(first) and again.weights() == first.weights(),
        "run.yaml of a run does not give the same run")
    plan = first.plan
    runs.expect(plan["memory"] == first.metrics[-1]["memory"]["planned"],
                "plan.json and metrics plan different memory")
    runs.expect(
        (plan["gather_bytes"], plan["reduce_bytes"]) == (first.metrics[0]["gather_bytes"],
                                                         first.metrics[0]["reduce_bytes"]),
        "plan.json and metrics move different bytes",
    )
    runs.expect([event["event"] for event in first.events] == ["start", "stop"],
                f"events of a plain run: {first.events}")


def nothing_is_written_by_a_refused_start():
    yaml = config()
    empty = runs.fresh("empty").with_suffix(".npy")
    empty.write_text("")
    for code, override in [
        (2, "train.setps=3"),
        (2, "train.steps=-1"),
        (2, "model.heads=5"),
        (2, "data.sequence_length=17"),
        (2, "train.micro_batch_size=3"),
        (2, "shard.ranks=257"),
        (3, "data.train=[nowhere.npy]"),
        (3, f"data.train=[{empty}]"),
        (3, "model.vocab=100"),
        (4, "shard.memory_limit=20KiB"),
        (2, 'model.train=["nothing*"]'),
    ]:
        folder = runs.fresh("above") / "below"
        run = runs.train(yaml, override, folder=folder)
        runs.expect(run.code == code and run.message,
                    f"{override}: exit code {run.code}, not {code}: {run.errors}")
        runs.expect(
            sum(line.startswith("shardwise: ") for line in run.errors.splitlines()) == 1,
            f"{override}: not one message: {run.errors}")
        runs.expect(not folder.parent.exists(), f"{override}: something was written")
    missing = runs.train(yaml, "data.train=[nowhere.npy]")
    runs.expect("nowhere.npy" in missing.message, f"missing data is not named: {missing.errors}")


def lengths_near_the_end_of_64_bits_are_counted():
    """Rounding up to whole steps may not wrap: 2^63 - 1 tokens are ceil((2^63 - 1) / 64) steps of 8 rows of 8 tokens."""
    length = runs.train_well(
        config(train="tokens: 9223372036854775807, batch_size: 8, micro_batch_size: 2"),
        "--dry-run").output
    runs.expect(f"run: {2**63 // 64} steps of 8 rows" in length, f"2^63 - 1 tokens: {length}")
    length = runs.train_well(
        config(train="epochs: 307445734561825860, batch_size: 8, micro_batch_size: 2"),
        "--dry-run").output
    runs.expect(f"run: {-(-307445734561825860 * 30 // 8)} steps of 8 rows" in length,
                f"2^63 - 8 rows: {length}")


def advice_on_memory_fits():
    """A limit a little below the need: refused with exit code 4 and one change; with that change made, the run starts and ends."""
    advised = 0
    for stage, n_ranks, micro in ((0, 2, 4), (1, 3, 1), (2, 2, 8), (3, 2, 1), (3, 2, 2)):
        yaml = config(train=f"steps: 1, batch_size: 16, micro_batch_size: {micro}")
        settings = (f"shard.stage={stage}", f"shard.ranks={n_ranks}")
        need = sum(runs.train_well(yaml, *settings).plan["memory"].values())
        runs.expect(
            runs.train(yaml, *settings, f"shard.memory_limit={need}").code == 0,
            f"{settings}: {need} bytes are needed and are not enough")
        for limit in (need - 1, need * 9 // 10, need * 2 // 3):
            run = runs.train(yaml, *settings, f"shard.memory_limit={limit}")
            runs.expect(run.code == 4 and "shard.memory_limit" in run.message,
                        f"{settings}, {limit} of {need} bytes: {run.code} {run.errors}")
            advice = re.search(r"((?:[a-z_]+\.[a-z_]+=\S+ )+)(?:together )?would fit", run.message)
            if advice:
                advised += 1
                changes = advice.group(1).split()
                kept = [
                    setting for setting in settings
                    if not any(change.split("=")[0] == setting.split("=")[0] for change in changes)
                ]
                followed = runs.train(yaml, *kept, f"shard.memory_limit={limit}", *changes)
                runs.expect(
                    followed.code == 0,
                    f"{settings}, limit {limit}: the advice {advice.group(1)} does not fit: {followed.errors}"
                )
            else:
                runs.expect("no other stage" in run.message,
                            f"{settings}, limit {limit}: no advice in {run.message}")
    runs.expect(advised >= 8, f"only {advised} refusals had advice")


def snapshot(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def what_is_somebodys_stays():
    """A folder of data, a project with a run.yaml of its own, a model: refused without a word of removing, untouched, and the advice is good."""
    yaml = config()
    data, project, model = runs.fresh("data"), runs.fresh("project"), runs.fresh("model")
    for folder, names in ((data, ["a.txt", "b.jsonl"]), (project, ["run.yaml", "notes.txt"]),
                          (model, ["config.json", "model.safetensors"])):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(f"{name} of somebody")
    link = runs.fresh("link")
    link.symlink_to("/nowhere/at/all")
    file = runs.fresh("file")
    file.write_text("somebody's")
    before = [snapshot(folder) for folder in (data, project, model)]
    for path in (data, project, model, link, file):
        for resume in ("auto", "never"):
            run = runs.train(yaml, f"checkpoint.resume={resume}", folder=path)
            runs.expect(run.code == 2 and "another checkpoint.path" in run.message,
                        f"{path}, {resume}: {run.code} {run.errors}")
            destroys = re.search("remov|delet|overwrit|model.path", run.errors)
            runs.expect(not destroys, f"{path}, {resume}: {run.errors}")
            advice = re.search(r"for example (\S+)", run.message)
            runs.expect(bool(advice) == path.is_dir(), f"{path}, {resume}: {run.message}")
    runs.expect([snapshot(folder) for folder in (data, project, model)] == before
                and file.read_text() == "somebody's", "something was changed")
    followed = runs.train(yaml, folder=data / "run")
    runs.expect(followed.code == 0, f"the advice: {followed.errors}")
    again = runs.train(yaml, "checkpoint.resume=never", folder=data / "run")
    runs.expect(again.code == 2 and f"model.path={data}/run/model" in again.message,
                f"a run's folder, never: {again.code} {again.message}")


def unwritable_folder():
    """Below a file no folder can be made, whoever asks."""
    file = runs.fresh("file")
    file.write_text("in the way")
    run = runs.train(config(), folder=file / "run")
    runs.expect(run.code == 4 and str(file) in run.message,
                f"a folder below a file: {run.code} {run.errors}")


runs.both(
    lambda test: test(),
    [(test, ) for test in (
        validation_is_an_evaluation,
        rows_of_validation_are_limited,
        dropout_is_off_in_evaluation,
        folder_of_a_run,
        nothing_is_written_by_a_refused_start,
        lengths_near_the_end_of_64_bits_are_counted,
        advice_on_memory_fits,
        what_is_somebodys_stays,
        unwritable_folder,
    )],
)
runs.finish()
