"""chosen.py: what `auto` comes to in the optimizer's options: by the kind of run, told at the start with the reason, written into run.yaml as
numbers. A run that goes on keeps what it began with, however long it is now; one begun by numbers goes on without them."""
import re

import runs

LENGTH = 12
tokens = runs.write_npy(runs.some_tokens(LENGTH * 40 + 1, 257))
new = runs.write_yaml(
    "model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, vocab: 257, max_positions: 12}\n"
    f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    "train: {steps: 40, batch_size: 4, micro_batch_size: 1}\nshard: {ranks: 1}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
)
base = runs.train_well(new, "train.steps=1")
MODEL = base.folder / "model"
tuned = runs.write_yaml(
    f"model: {{path: {MODEL}}}\ndata: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    "train: {steps: 40, batch_size: 4, micro_batch_size: 1}\nshard: {ranks: 1}\ncheckpoint: {path: run}\nlog: {every: 1}\n"
)
KEYS = ("learning_rate", "weight_decay", "warmup_steps")


def written(run):
    """key -> (number, reason) as run.yaml has them."""
    text = (run.folder / "run.yaml").read_text()
    return {
        key: re.search(rf"^  {key}: (\S+)(?:  # auto: (.*))?$", text, re.M).groups()
        for key in KEYS
    }


def has(run, what, expected):
    runs.expect(written(run) == expected, f"{what}: run.yaml has {written(run)}, not {expected}")


def rates(run):
    return [line["learning_rate"] for line in run.metrics]


def each_kind_of_run_has_its_own():
    usual = "usual for a new model"
    run = runs.train_well(new)
    has(
        run, "new", {
            "learning_rate": ("0.0003", usual), "weight_decay": ("0.1", usual),
            "warmup_steps": ("4", "a tenth of the steps")
        })
    runs.expect(
        rates(run)[:5] == [0.0003 * k / 4 for k in (1, 2, 3, 4)] + [0.0003],
        f"new: rates {rates(run)[:5]}")
    runs.expect(
        "learning rate: at most 0.0003 (auto: usual for a new model), 4 steps of warm-up (auto: a tenth of the steps)"
        in run.output, run.output)
    whole = "usual for fine-tuning a whole model"
    run = runs.train_well(tuned)
    has(
        run, "whole", {
            "learning_rate": ("2e-05", whole), "weight_decay": ("0", whole),
            "warmup_steps": ("2", "3 % of the steps")
        })
    runs.expect(
        f"learning rate: at most 2e-05 (auto: {whole}), 2 steps of warm-up (auto: 3 % of the steps), weight decay 0 (auto: {whole})"
        in run.output, run.output)
    runs.expect(rates(run)[:2] == [1e-05, 2e-05], f"whole: rates {rates(run)[:2]}")
    run = runs.train_well(tuned, "model.train=lora")
    usual = "usual for training adapters"
    has(
        run, "adapters", {
            "learning_rate": ("0.0002", usual), "weight_decay": ("0", usual),
            "warmup_steps": ("2", "3 % of the steps")
        })
    run = runs.train_well(tuned, "model.train=['*layers.0.*']", "train.steps=0", "train.epochs=10")
    usual = "usual for fine-tuning parts of a model"
    has(
        run, "parts, epochs", {
            "learning_rate": ("2e-05", usual), "weight_decay": ("0", usual),
            "warmup_steps": ("3", "3 % of the steps")
        })
    run = runs.train_well(
        tuned, *(f"optimizer.{key}={value}" for key, value in zip(KEYS, ("1e-4", "0.01", "0"))))
    has(run, "given", {
        "learning_rate": ("0.0001", None), "weight_decay": ("0.01", None),
        "warmup_steps": ("0", None)
    })


def a_rate_of_another_kind_of_run_is_remarked_on():
    for config, rate, words in (
        (tuned, "2e-4", "10 times the 2e-05 that is usual for fine-tuning a whole model"),
        (tuned, "3e-4", "15 times the 2e-05"),
        (new, "3e-3", "10 times the 0.0003 that is usual for a new model"),
        (tuned, "1.9e-4", None),
        (new, "2.9e-3", None),
    ):
        run = runs.train_well(config, f"optimizer.learning_rate={rate}", "--dry-run")
        remarked = re.search(r"optimizer.learning_rate .* times .*", run.output)
        runs.expect(
            bool(remarked) == bool(words) and (not words or words in remarked.group(0)),
            f"{rate}: {remarked}")


def what_a_run_began_with_is_kept():
    run = runs.train_well(tuned, "checkpoint.every=10", "train.steps=40")
    again = runs.train_well(tuned, "checkpoint.every=10", "train.steps=200", folder=run.folder)
    runs.expect(again.metrics[-1]["step"] == 200,
                f"longer: ends at step {again.metrics[-1]['step']}")
    has(again, "longer", {**written(again), "warmup_steps": ("2", "as when the run began")})
    runs.expect("2 steps of warm-up (auto: as when the run began)" in again.output, again.output)
    forced = runs.train_well(tuned, "checkpoint.every=10", "train.steps=400",
                             "checkpoint.resume={force: [optimizer.warmup_steps]}",
                             folder=run.folder)
    has(forced, "forced", {**written(forced), "warmup_steps": ("12", "3 % of the steps")})
    other = runs.train(tuned, "checkpoint.every=10", "train.steps=500",
                       "optimizer.learning_rate=1e-5", folder=run.folder)
    runs.expect(other.code == 2 and "optimizer.learning_rate has changed" in other.message,
                f"another rate: {other.code} {other.message}")

    # By numbers first, as runs of older versions were, and then without them.
    given = [f"optimizer.{key}={value}" for key, value in zip(KEYS, ("0.001", "0.1", "0"))]
    straight = runs.train_well(tuned, "checkpoint.every=10", *given)
    first = runs.train_well(tuned, "checkpoint.every=10", "train.steps=10",
                            "optimizer.schedule=constant", *given)
    second = runs.train_well(tuned, "checkpoint.every=10", "train.steps=40",
                             "optimizer.schedule=constant", folder=first.folder)
    kept = "as when the run began"
    has(second, "numbers", {
        "learning_rate": ("0.001", kept), "weight_decay": ("0.1", kept), "warmup_steps": ("0", kept)
    })
    runs.expect(set(rates(second)) == {0.001}, f"numbers: rates {set(rates(second))}")
    same = runs.train_well(tuned, "checkpoint.every=10", folder=straight.folder)
    runs.expect("is finished" in same.output, f"the same run again: {same.output}")


runs.both(lambda test: test(), [(each_kind_of_run_has_its_own, ),
                                (a_rate_of_another_kind_of_run_is_remarked_on, ),
                                (what_a_run_began_with_is_kept, )])
runs.finish()
