"""decisions.py: what a step decides, and what the update does with it: skipped steps, clipping, SGD by arithmetic, learning rates."""

import json
import math
import struct

import runs

LENGTH = 8
MODEL = "architecture: llama, layers: 2, hidden: 12, heads: 2, ffn: 10, vocab: 50, max_positions: 8, tied: false, init_std: 0.2"
RARE = 49  # a token that some rows have and others do not


def config(data, model=MODEL, train="steps: 4", optimizer="learning_rate: 1e-2", more=""):
    return runs.write_yaml(
        f"model: {{{model}}}\ndata: {{{data}, sequence_length: {LENGTH}}}\ntrain: {{{train}, batch_size: 4, micro_batch_size: 1}}\n"
        f"optimizer: {{schedule: constant, {optimizer}}}\nshard: {{param_dtype: fp32, ranks: 1}}\ncheckpoint: {{path: run}}\nlog: {{every: 1}}\n{more}"
    )


def in_order(tokens, mask=None):
    text = f"shuffle: false, train: [{runs.write_npy(tokens)}]"
    return text + (f", labels_mask: {runs.write_npy(mask, '|u1')}" if mask else "")


def steps_of_tokens(n_steps):
    """Token ids of whole steps of 4 rows, none of them RARE."""
    return runs.some_tokens(n_steps * 4 * LENGTH, RARE)


def with_poison(run, name, element, value=math.nan, n=1):
    """A copy of the run's model with some elements of one tensor overwritten."""
    raw = bytearray((run.folder / "model" / "model.safetensors").read_bytes())
    (size, ) = struct.unpack("<Q", raw[:8])
    begin = 8 + size + json.loads(raw[8:8 + size])[name]["data_offsets"][0] + 4 * element
    raw[begin:begin + 4 * n] = n * struct.pack("<f", value)
    copy = runs.fresh("poisoned")
    copy.mkdir()
    for path in (run.folder / "model").iterdir():
        (copy /
         path.name).write_bytes(raw if path.name == "model.safetensors" else path.read_bytes())
    return copy


def as_bits(tensors):
    return {name: struct.pack(f"<{len(values)}f", *values) for name, (_, values) in tensors.items()}


start = runs.train_well(
    config(in_order(steps_of_tokens(1) + [0]), train="steps: 1", optimizer="learning_rate: 0"))
poisoned = with_poison(start, "model.embed_tokens.weight", RARE * 12 + 5)


def skipped_step_leaves_no_trace(n_ranks, stage, mode, dtype):
    """Step 2 meets the poisoned embedding row and is skipped. Parameters, moments and the count of updates are as if its rows had never been."""
    clean = steps_of_tokens(3)
    dirty = clean[:4 * LENGTH] + [RARE] * 4 * LENGTH + clean[4 * LENGTH:]
    # The token after a step's last row is its last target, so it must be the same in both: the
    # first of the step that follows.
    dirty[4 * LENGTH] = clean[4 * LENGTH]
    path = "path: " + str(poisoned)
    settings = (f"shard.ranks={n_ranks}", f"shard.stage={stage}", f"shard.mode={mode}",
                f"shard.param_dtype={dtype}")
    with_dirt = runs.train_well(config(in_order(dirty + [0]), path), *settings)
    without = runs.train_well(config(in_order(clean + [0]), path, "steps: 3"), *settings)
    what = f"skip at {settings}"
    metrics = with_dirt.metrics
    runs.expect([line["step"] for line in metrics if "skipped" in line] == [2],
                f"{what}: steps other than 2 are skipped: {metrics}")
    runs.expect("not finite" in metrics[1].get("skipped", ""), f"{what}: no reason in {metrics[1]}")
    skips = [event for event in with_dirt.events if event["event"] == "skip"]
    runs.expect(
        len(skips) == 1 and skips[0]["step"] == 2 and skips[0]["reason"] == metrics[1]["skipped"]
        and skips[0]["in_a_row"] == 1,
        f"{what}: events say {skips}",
    )
    kept = [line["loss"] for line in metrics if line["step"] != 2]
    runs.expect(kept == [line["loss"] for line in without.metrics],
                f"{what}: losses {kept} are not those without the step")
    runs.expect(
        as_bits(with_dirt.tensors()) == as_bits(without.tensors()),
        f"{what}: the skipped step left a trace in the weights")


def too_high_a_learning_rate():
    """The second step sees what the first one did to the weights, and nothing happens to them any more."""
    data, rate = in_order(steps_of_tokens(4) + [0]), "learning_rate: 1e30, weight_decay: 0"
    one = runs.train_well(config(data, train="steps: 1", optimizer=rate))
    four = runs.train_well(config(data, optimizer=rate), "shard.ranks=2")
    runs.expect(["skipped" in line for line in four.metrics] == [False, True, True, True],
                f"learning rate 1e30: {four.metrics}")
    runs.expect(one.weights() == four.weights(),
                "learning rate 1e30: skipped steps changed weights")


def a_gradient_alone_is_not_finite():
    """Embeddings of zero and hardly an epsilon: every norm passes zeros on, so the loss is that of equal chances, and multiplies gradients by
    1 / sqrt(epsilon), which after a few norms no float holds."""
    data = in_order(steps_of_tokens(2) + [0])
    flat = runs.train_well(
        config(data, MODEL + ", norm_epsilon: 1e-38", "steps: 1", "learning_rate: 0"))
    zeros = with_poison(flat, "model.embed_tokens.weight", 0, 0.0, 50 * 12)
    for n_ranks in (1, 3):
        run = runs.train_well(config(data, f"path: {zeros}", "steps: 2"), f"shard.ranks={n_ranks}")
        runs.expect(
            all("gradient" in line.get("skipped", "")
                and math.isclose(line["loss"], math.log(50), rel_tol=1e-5) for line in run.metrics),
            f"{run.metrics}",
        )
        wanted = as_bits(flat.tensors())
        wanted["model.embed_tokens.weight"] = bytes(4 * 50 * 12)
        runs.expect(
            as_bits(run.tensors()) == wanted, "a gradient that is not finite changed weights")


def patience_and_stop():
    bad = with_poison(start, "model.norm.weight", 0)
    data = in_order(steps_of_tokens(4) + [0])
    for stage in (0, 3):
        run = runs.train(config(data, f"path: {bad}", more="guard: {patience: 3}\n"),
                         "shard.ranks=3", f"shard.stage={stage}")
        runs.expect(
            run.code == 6 and "3 steps in a row" in run.message and "patience" in run.message,
            f"patience: {run.code} {run.errors}")
        runs.expect(
            len(run.errors.splitlines()) == 1, f"patience: more than one message: {run.errors}")
        runs.expect([line.get("skipped") is not None for line in run.metrics] == [True] * 3,
                    f"patience: {run.metrics}")
        runs.expect([event["event"]
                     for event in run.events] == ["start", "skip", "skip", "skip", "stop"],
                    f"patience: events {run.events}")
        runs.expect(not (run.folder / "model").exists(), "patience: a stopped run leaves no model")
    run = runs.train(config(data, f"path: {bad}", more="guard: {nonfinite: stop}\n"),
                     "shard.ranks=2")
    runs.expect(run.code == 6 and "step 1" in run.message,
                f"nonfinite: stop: {run.code} {run.errors}")
    runs.expect(
        len(run.metrics) == 1 and [event["event"] for event in run.events][-1] == "stop",
        f"nonfinite: stop: {run.metrics} {run.events}")


def steps_without_targets():
    """Nothing to learn from: the step is skipped and has no loss, the weights stay; guard.patience counts it; and a run of nothing else is
    refused before its first step."""
    tokens = steps_of_tokens(4) + [0]
    nothing = [0] * len(tokens)
    run = runs.train(config(in_order(tokens, nothing)))
    runs.expect(run.code == 3 and "no token counts as a target in any row" in run.message,
                f"no targets: {run.code} {run.errors}")
    runs.expect(not run.folder.exists(), "no targets: a folder is left")
    only_last = [1 if i > 12 * LENGTH else 0 for i in range(len(tokens))]
    run = runs.train(config(in_order(tokens, only_last), train="steps: 3"))
    runs.expect(run.code == 3 and "in the 12 rows that the run takes" in run.message,
                f"targets behind the run: {run.code} {run.errors}")
    run = runs.train(config(in_order(tokens, only_last), more="guard: {patience: 3}\n"),
                     "shard.ranks=3")
    runs.expect(run.code == 6 and "3 steps in a row were skipped (guard.patience)" in run.message,
                f"patience: {run.code} {run.errors}")
    runs.expect("data.labels_mask" in run.message and "learning rate" not in run.message,
                f"patience: {run.message}")
    runs.expect([line["loss"] for line in run.metrics] == [None] * 3,
                f"losses that there are not: {run.metrics}")
    only_third = [1 if 8 * LENGTH < i <= 12 * LENGTH else 0 for i in range(len(tokens))]
    for n_ranks in (1, 3):
        run = runs.train_well(
            config(in_order(tokens, only_third), f"path: {start.folder}/model",
                   more="guard: {nonfinite: stop}\n"),
            f"shard.ranks={n_ranks}",
        )
        runs.expect(
            all("target" in line["skipped"] and line["loss"] is None for line in run.metrics
                if not line["supervised_tokens"]),
            f"targets in step 3 only: {run.metrics}",
        )
        runs.expect(
            "3 of 4 steps have no token that counts as a target, the first is step 1" in run.output,
            f"not told: {run.output}")
        runs.expect("loss: none at step 1, none at step 4" in run.output,
                    f"a loss that there is not: {run.output}")
        runs.expect([line["supervised_tokens"] for line in run.metrics] == [0, 0, 4 * LENGTH, 0],
                    f"targets in step 3 only: {run.metrics}")
        runs.expect([i for i, line in enumerate(run.metrics) if "skipped" not in line] == [2],
                    f"targets in step 3 only: {run.metrics}")
    three = runs.train_well(
        config(in_order(tokens, only_third), f"path: {start.folder}/model", train="steps: 3"))
    runs.expect(
        as_bits(run.tensors()) == as_bits(three.tensors()),
        "no targets: step 4 changed the weights")


def a_model_is_taken_as_it_is():
    """Steps that change nothing leave the weights of the file, bit for bit: fp32 masters are made of what was loaded, not of its bf16 copy."""
    model = runs.GOLDEN / "llama-tied" / "model"
    data = f"shuffle: false, train: [{runs.GOLDEN / 'llama-tied' / 'tokens.npy'}]"
    still = config(data, f"path: {model}", train="steps: 2",
                   optimizer="learning_rate: 0, weight_decay: 0")
    for dtype in ("bf16", "fp32"):
        for n_ranks, stage in ((1, 0), (2, 1), (3, 3)):
            run = runs.train_well(still, f"shard.param_dtype={dtype}", f"shard.ranks={n_ranks}",
                                  f"shard.stage={stage}", "model.save_dtype=fp32")
            runs.expect(
                as_bits(run.tensors()) == as_bits(runs.fp32_tensors(model / "model.safetensors")),
                f"{dtype}, {n_ranks} ranks, stage {stage}: steps that change nothing changed weights",
            )
            runs.expect(f"come from {model}; the optimizer's states start at zero" in run.output,
                        f"a start from weights alone is not told of: {run.output}")


def clipping():
    data = in_order(steps_of_tokens(4) + [0])
    for limit in (0, 0.05, 1e6):
        for line in runs.train_well(
                config(data, optimizer=f"learning_rate: 1e-2, clip_norm: {limit}"),
                "shard.ranks=2").metrics:
            norm = line["grad_norm"]
            wanted = norm * min(1, limit / (norm + 1e-6)) if limit else norm
            runs.expect(math.isclose(line["grad_norm_clipped"], wanted, rel_tol=1e-12),
                        f"clip_norm {limit}: {line}")


def gradients(model, tokens):
    """Of one step, read off the weights of a step of plain SGD whose rate is so large that the old weights drown in it."""
    rate = 2.0**20
    run = runs.train_well(
        config(in_order(tokens + [0]), f"path: {model}", "steps: 1",
               f"name: sgd, learning_rate: {rate}, weight_decay: 0, clip_norm: 0"))
    return {
        name: [-value / rate for value in values]
        for name, (_, values) in run.tensors().items()
    }, run.metrics[0]["grad_norm"]


def sgd_by_arithmetic():
    """Two steps of v = momentum v + clipped g + decay p; p = p - rate v, with decay on matrices only, beside the same in Python."""
    rate, decay, momentum, clip = 0.25, 0.125, 0.75, 0.5
    tokens = steps_of_tokens(2)
    for factor in (0, momentum):
        optimizer = f"name: sgd, learning_rate: {rate}, weight_decay: {decay}, momentum: {factor}, clip_norm: {clip}"
        model, weights, velocity = start.folder / "model", start.tensors(), {}
        for step in range(2):
            here = tokens[step * 4 * LENGTH:(step + 1) * 4 * LENGTH]
            after = (tokens + [0])[(step + 1) * 4 * LENGTH]
            g, norm = gradients(model, here[:] + [after])
            scale = min(1, clip / (norm + 1e-6))
            runs.expect(
                math.isclose(norm,
                             math.sqrt(math.fsum(x * x for values in g.values() for x in values)),
                             rel_tol=1e-4),
                f"norm of the gradient {norm}",
            )
            wanted = {}
            for name, (shape, values) in weights.items():
                pull = decay if len(shape) > 1 else 0
                old = velocity.get(name, [0] * len(values))
                velocity[name] = [
                    factor * v + scale * x + pull * p for v, x, p in zip(old, g[name], values)
                ]
                wanted[name] = [p - rate * v for p, v in zip(values, velocity[name])]
            run = runs.train_well(
                config(in_order(tokens + [0]), f"path: {start.folder}/model", f"steps: {step + 1}",
                       optimizer), "shard.ranks=3")
            weights, model = run.tensors(), run.folder / "model"
            worst = max(
                abs(found - value) for name in wanted
                for found, value in zip(weights[name][1], wanted[name]))
            runs.expect(worst < 1e-5, f"sgd, momentum {factor}, step {step + 1}: off by {worst}")


def learning_rates():
    peak, final, warmup, steps, decay_ratio = 0.01, 0.1, 3, 10, 0.4
    stable = steps - math.floor(decay_ratio * steps)
    share = lambda s, first: (s - first) / max(1, steps - first)
    after = {
        "constant": lambda s: 1,
        "linear": lambda s: final + (1 - final) * (1 - share(s, warmup)),
        "cosine": lambda s: final + (1 - final) * (1 + math.cos(math.pi * share(s, warmup))) / 2,
        "wsd": lambda s: 1 if s < stable else final + (1 - final) * (1 - share(s, stable)),
    }
    data = in_order(steps_of_tokens(10) + [0])
    for name, formula in after.items():
        run = runs.train_well(
            config(
                data,
                train=f"steps: {steps}",
                optimizer=
                f"learning_rate: {peak}, warmup_steps: {warmup}, final_ratio: {final}, decay_ratio: {decay_ratio}",
            ),
            f"optimizer.schedule={name}",
        )
        wanted = [
            peak * (s + 1) / warmup if s < warmup else peak * formula(s) for s in range(steps)
        ]
        found = [line["learning_rate"] for line in run.metrics]
        runs.expect(all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(found, wanted)),
                    f"schedule {name}: {found}, not {wanted}")


runs.both(
    skipped_step_leaves_no_trace,
    [(n, stage, mode, dtype) for n, stage, mode, dtype in [
        (1, 3, "view", "fp32"),
        (3, 3, "copy", "bf16"),
        (2, 0, "view", "bf16"),
        (4, 1, "copy", "fp32"),
        (3, 2, "trap", "fp32"),
    ]],
)
runs.both(
    lambda test: test(),
    [(test, ) for test in (
        too_high_a_learning_rate,
        a_gradient_alone_is_not_finite,
        patience_and_stop,
        steps_without_targets,
        a_model_is_taken_as_it_is,
        clipping,
        sgd_by_arithmetic,
        learning_rates,
    )],
)
runs.finish()
