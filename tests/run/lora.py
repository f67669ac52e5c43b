"""lora.py: adapters in whole runs: bits and memory over ranks and stages, what is saved, what is refused, what merging gives."""
import json
import math
import shutil

import formulas
import runs
from lora_files import ADAPTER_FILES, GPT2, LLAMA, base_of, changed, read, shell, write


def adapter(run):
    return read(run.folder / "model" / "adapter_model.safetensors")


def losses(run):
    return [line["loss"] for line in run.metrics]


NEW = ("model.lora.adapter=null", "model.lora.dropout=0.1", "train.steps=3")


def one(case, n_ranks, stage, more, outcomes, shapes):
    what = f"{case.name}, {n_ranks} ranks, stage {stage} {more}"
    run = runs.train_well(case / "run.yaml", *NEW, f"shard.ranks={n_ranks}", f"shard.stage={stage}",
                          *more)
    outcomes.append(
        (what, ([(line["loss"], line["grad_norm"])
                 for line in run.metrics], (run.folder / "model" / ADAPTER_FILES[1]).read_bytes())))
    runs.expect(
        sorted(path.name for path in (run.folder / "model").iterdir()) == ADAPTER_FILES,
        f"{what}: more is saved than the adapter")
    sharding = formulas.Sharding(formulas.units_of(shapes, ("base_model.*", )), n_ranks, stage, 4,
                                 "shard.mode=trap" in more)
    n_slots = -(-12 // n_ranks)
    for line in run.metrics:
        memory = line["memory"]
        runs.expect(memory["planned"] == memory["peak"],
                    f"{what}: planned {memory['planned']}, peak {memory['peak']}")
        states = sharding.states(True)
        runs.expect({key: memory["planned"][key]
                     for key in states} == states,
                    f"{what}: states take {memory['planned']}, the formulas say {states}")
        moved = (line["gather_bytes"], line["reduce_bytes"])
        runs.expect(moved == (sharding.gather_bytes(n_slots), sharding.reduce_bytes(n_slots, True)),
                    f"{what}: {moved} bytes are moved")
    run.forget()


def bits_and_memory_do_not_depend_on_ranks_and_stages(case):
    """Dropout and newly drawn adapters too; gradients and optimizer states are those of the adapters alone; what is moved follows."""
    alone = runs.train_well(case / "run.yaml", *NEW)
    shapes = {
        name: shape
        for name, (_, shape,
                   _) in {**read(base_of(case) / "model.safetensors"), **adapter(alone)}.items()
    }
    modes = ["view", "copy", "trap"]
    outcomes = []
    items = [(case, n, stage, (f"shard.mode={modes[(n + stage) % 3]}",
                               *(("shard.recompute=block", ) if stage == 3 and n % 2 else
                                 ())), outcomes, shapes) for n in (1, 2, 3, 4)
             for stage in (0, 1, 2, 3)]
    runs.both(one, items)
    for what, found in outcomes:
        runs.expect(found == outcomes[0][1], f"{what}: other bits than {outcomes[0][0]}")
    runs.expect(len(outcomes) == len(items), "not all runs ended")


def new_adapters_start_at_the_model():
    """B is zero: the first loss is the base's, up to where its sums are rounded. A is uniform within 1 / sqrt(in)."""
    for case in (LLAMA, GPT2):
        still = ("model.lora.adapter=null", "train.steps=1", "optimizer.learning_rate=0",
                 "model.lora.rank=64")
        run = runs.train_well(case / "run.yaml", *still, "shard.ranks=2")
        base = runs.train_well(case / "run.yaml", "model.train=all", "model.lora=null",
                               "train.steps=1", "optimizer.learning_rate=0")
        runs.expect(math.isclose(losses(run)[0],
                                 losses(base)[0], rel_tol=1e-6),
                    f"{case.name}: first loss {losses(run)}, of the base {losses(base)}")
        for name, (_, shape, values) in adapter(run).items():
            if "lora_B" in name:
                runs.expect(not any(values), f"{name} does not start at zero")
                continue
            n, bound = len(values), 1 / math.sqrt(shape[1])
            variance = sum(v * v for v in values) / n
            runs.expect(max(map(abs, values)) <= bound, f"{name} leaves its bound")
            runs.expect(
                abs(sum(values) / n) < 5 * bound / math.sqrt(3 * n),
                f"{name}: mean {sum(values) / n}")
            # of the square of a uniform number: mean 1/3, variance 4/45
            runs.expect(
                abs(variance / bound**2 - 1 / 3) < 5 * math.sqrt(4 / 45 / n),
                f"{name}: variance {variance}")


def saved_adapters_go_on(case):
    """Half the steps, and the other half from the saved adapter in new runs of any stage: a saved fp32 adapter is the trained one."""
    first = runs.train_well(case / "run.yaml", "train.steps=2", "shard.ranks=3")
    saved = (first.folder / "model" / ADAPTER_FILES[1]).read_bytes()
    for stage in (0, 1, 2, 3):
        again = runs.train_well(case / "run.yaml", f"model.lora.adapter={first.folder / 'model'}",
                                "train.steps=1", "optimizer.learning_rate=0", "shard.ranks=2",
                                f"shard.stage={stage}", "shard.mode=copy")
        runs.expect((again.folder / "model" / ADAPTER_FILES[1]).read_bytes() == saved,
                    f"{case.name}: stage {stage} saves another adapter than it loaded")
        whole = read(case / "adapter" / "adapter_model.safetensors")
        runs.expect({name: shape
                     for name, (_, shape, _) in whole.items()
                     } == {name: shape
                           for name, (_, shape, _) in adapter(again).items()},
                    "names and shapes of the adapter")
        again.forget()


def a_frozen_model_costs_its_parameters_alone():
    """99 % frozen: gradients and optimizer states are those of the rest, and the plan says so before the run."""
    tokens = runs.write_npy(runs.some_tokens(64 * 16 + 1, 512))
    data = f"data: {{train: [{tokens}], sequence_length: 16}}\ntrain: {{steps: 1, batch_size: 4, micro_batch_size: 1}}\nshard: {{ranks: 2}}\ncheckpoint: {{path: run}}\nlog: {{every: 1}}\n"
    model = "architecture: llama, layers: 4, hidden: 128, heads: 4, ffn: 344, vocab: 512, max_positions: 64, tied: true"
    base = runs.train_well(runs.write_yaml(f"model: {{{model}}}\n" + data))
    yaml = runs.write_yaml(
        f"model: {{path: {base.folder}/model, train: lora, lora: {{rank: 2, alpha: 4}}}}\n" + data)
    for stage in (0, 3):
        run = runs.train_well(yaml, f"shard.stage={stage}")
        plan = run.plan
        share = plan["trained_parameters"] / plan["parameters"]
        runs.expect(0 < share < 0.01, f"{share} of the parameters train")
        memory, elements = plan["memory"], plan["trained_parameters"]
        padded = elements + 16 * formulas.BLOCK * 2  # A and B of two layers in four blocks, each rounded up to a block; and shards
        mine = padded * (1 if stage == 0 else 0.5) + 4 * formulas.BLOCK
        runs.expect(memory["gradients"] <= 2 * 4 * mine and memory["optimizer"] <= 10 * mine,
                    f"stage {stage}: {memory} for {elements} trained parameters")
        runs.expect(all(line["memory"]["peak"] == memory for line in run.metrics),
                    f"stage {stage}: planned {memory}, measured {run.metrics}")
        full = runs.train_well(yaml, f"shard.stage={stage}", "model.train=all",
                               "model.lora=null").plan["memory"]
        runs.expect(
            memory["gradients"] + memory["optimizer"]
            < 0.05 * (full["gradients"] + full["optimizer"]),
            f"{memory} beside {full} of a full run")


def dropout_is_off_in_evaluation():
    held = runs.write_npy(runs.some_tokens(5 * 64 + 1, 259, seed=7))
    still = ("train.steps=1", "optimizer.learning_rate=0", f"data.validation=[{held}]")
    a, b = (runs.train_well(LLAMA / "run.yaml", *still, f"model.lora.dropout={p}",
                            "shard.ranks=2").metrics[-1] for p in (0, 0.5))
    runs.expect(a["validation_loss"] == b["validation_loss"] and a["loss"] != b["loss"],
                "dropout touches the evaluation, or not the training")
    runs.expect(
        a["memory"]["planned"] == a["memory"]["peak"]
        and b["memory"]["planned"] == b["memory"]["peak"], "memory with validation")


def merged_models_compute_the_same(case):
    trained = runs.train_well(case / "run.yaml")
    base, saved = base_of(case), trained.folder / "model"
    beside = losses(
        runs.train_well(case / "run.yaml", f"model.lora.adapter={saved}", "train.steps=1"))
    split = runs.train_well(case / "run.yaml", "model.train=all", "model.lora=null",
                            "train.steps=1", "optimizer.learning_rate=0",
                            "model.max_shard_size=100KiB").folder / "model"
    for where in (base, split):
        out = runs.fresh("merged")
        done = shell("checkpoint", "merge", where, saved, out)
        runs.expect(done.returncode == 0 and str(out) in done.stdout,
                    f"merge: {done.returncode} {done.stderr}")
        found = losses(
            runs.train_well(case / "run.yaml", "model.train=all", "model.lora=null",
                            f"model.path={out}", "train.steps=1"))
        runs.expect(math.isclose(found[0], beside[0], rel_tol=1e-6),
                    f"{case.name}: merged {found}, beside each other {beside}")
        runs.expect(
            sorted(path.name for path in out.iterdir()) == sorted(path.name
                                                                  for path in where.iterdir()),
            f"{out} holds other files than {where}")
    # Element by element, in double: W + scale B A; what has no adapter stays bit by bit.
    config = json.loads((saved / "adapter_config.json").read_text())
    scale = config["lora_alpha"] / (math.sqrt(config["r"]) if config["use_rslora"] else config["r"])
    out = runs.fresh("merged")
    shell("checkpoint", "merge", base, saved, out)
    before, after, factors = read(base / "model.safetensors"), read(
        out / "model.safetensors"), read(saved / "adapter_model.safetensors")
    runs.expect(list(before) == list(after), "merging changes the order of the tensors")
    for name, (dtype, shape, values) in before.items():
        key = f"base_model.model.{name[: -len('.weight')]}.lora_A.weight"
        if key not in factors:
            runs.expect(after[name] == before[name], f"merging changes {name}")
            continue
        (_, (rank, n_in), a), (_, (n_out, _),
                               b) = factors[key], factors[key.replace("lora_A", "lora_B")]
        worst = 0
        for i in range(0, shape[0], 7):
            for j in range(0, shape[1], 5):
                row, column = (i, j) if not config["fan_in_fan_out"] else (j, i)
                wanted = values[i * shape[1] +
                                j] + scale * sum(b[row * rank + r] * a[r * n_in + column]
                                                 for r in range(rank))
                worst = max(worst,
                            abs(after[name][2][i * shape[1] + j] - wanted) / max(abs(wanted), 1e-3))
        runs.expect(worst < 1e-7, f"{name}: merged elements are off by {worst}")


def merging_keeps_the_type_and_fails_cleanly():
    trained = runs.train_well(LLAMA / "run.yaml", "train.steps=1")
    saved = trained.folder / "model"
    half, fp16 = runs.fresh("bf16"), runs.fresh("fp16")
    for folder, dtype in ((half, "bf16"), (fp16, "fp16")):
        runs.expect(
            shell("checkpoint", "import", base_of(LLAMA), folder, "--dtype", dtype).returncode == 0,
            f"a base in {dtype}")
    out = runs.fresh("merged")
    runs.expect(
        shell("checkpoint", "merge", half, saved, out).returncode == 0, "merging into a bf16 model")
    runs.expect({dtype
                 for dtype, _, _ in read(out / "model.safetensors").values()} == {"BF16"},
                "merging changes the element type")
    again = shell("checkpoint", "merge", half, saved, out)
    runs.expect(again.returncode == 2 and "exists already" in again.stderr,
                f"merging over a folder: {again.returncode} {again.stderr}")
    other = runs.fresh("merged")
    wrong = shell("checkpoint", "merge", base_of(GPT2), saved, other)
    runs.expect(wrong.returncode == 3 and "base_model.model.model.layers.0" in wrong.stderr,
                f"merging into another model: {wrong.returncode} {wrong.stderr}")
    absent = shell("checkpoint", "merge", half, half, other)
    runs.expect(absent.returncode == 3 and "adapter_config.json" in absent.stderr,
                f"merging without an adapter: {absent.returncode} {absent.stderr}")
    runs.expect(not other.exists() and not list(other.parent.glob("*.partial")),
                "a failed merge leaves something behind")
    for arguments in ((), (half, ), (half, saved), (half, saved, other, other)):
        done = shell("checkpoint", "merge", *arguments)
        runs.expect(done.returncode == 2,
                    f"merge of {len(arguments)} folders: {done.returncode} {done.stderr}")
    # Beyond fp16's range an element is not written as infinite.
    large = runs.fresh("large")
    shutil.copytree(saved, large)
    tensors = read(saved / ADAPTER_FILES[1])
    write(
        large / ADAPTER_FILES[1], {
            name: (dtype, shape, [1e6 * v for v in values])
            for name, (dtype, shape, values) in tensors.items()
        })
    done = shell("checkpoint", "merge", fp16, large, other)
    runs.expect(done.returncode == 2 and "beyond" in done.stderr and not other.exists(),
                f"merging beyond fp16: {done.returncode} {done.stderr}")
    runs.expect(not list(other.parent.glob("*.partial")), "a failed merge leaves something behind")


def changed_adapter(name, config=None, tensors=None):
    """The case's adapter with other keys in its configuration and its tensors passed through a function."""
    return changed(LLAMA / "adapter", config, tensors, name)


def other_adapters_are_refused():
    first = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    without = lambda tensors: {name: t for name, t in tensors.items() if name != first}
    wider = lambda tensors: {**tensors, first: ("F32", [3, 50], [0.0] * 150)}
    deeper = lambda tensors: {**tensors, first.replace("layers.0", "layers.9"): tensors[first]}
    for name, folder, overrides, words in [
        ("another rank", LLAMA / "adapter", ("model.lora.rank=4", ),
         ["rank is 3", "model.lora.rank is 4"]),
        ("another alpha", LLAMA / "adapter", ("model.lora.alpha=6", ),
         ["alpha is 5", "model.lora.alpha is 6"]),
        ("another scale", LLAMA / "adapter", ("model.lora.rslora=true", ), ["use_rslora is false"]),
        ("fewer targets", LLAMA / "adapter", ("model.lora.targets=[q_proj]", ),
         ["target_modules", "model.layers.0.self_attn.k_proj"]),
        ("other targets", changed_adapter("targets", {"target_modules": ["q_proj"]}), (),
         ["target_modules", "leave out", "self_attn.k_proj"]),
        ("a missing tensor", changed_adapter("missing", tensors=without), (), [first,
                                                                               "is missing"]),
        ("another shape", changed_adapter("shape",
                                          tensors=wider), (), [first, "[3, 50]", "[3, 48]"]),
        ("a surplus tensor", changed_adapter("surplus", tensors=deeper), (),
         ["layers.9", "belongs to no target"]),
        ("DoRA", changed_adapter("dora", {"use_dora": True}), (), ["use_dora"]),
        ("another kind", changed_adapter("ia3", {"peft_type": "IA3"}), (), ["peft_type", "IA3"]),
        ("one of GPT-2", GPT2 / "adapter", ("model.lora.rank=4", "model.lora.alpha=3",
                                            "model.lora.rslora=true"),
         ["leave out model.layers.0.self_attn.q_proj"]),
        ("none", LLAMA, (), ["adapter_config.json"]),
    ]:
        run = runs.train(LLAMA / "run.yaml", f"model.lora.adapter={folder}", *overrides)
        runs.expect(run.code == 3 and all(word in run.message for word in words),
                    f"{name}: {run.code} {run.errors.strip()}")
        runs.expect(not run.folder.exists(), f"{name}: a refused run leaves its folder")
    run = runs.train(LLAMA / "run.yaml", "model.lora.adapter=null",
                     "model.lora.targets=[q_proj, c_attn]")
    runs.expect(run.code == 2 and '"c_attn"' in run.message and "q_proj, k_proj" in run.message,
                f"a target that is none: {run.code} {run.errors}")


for each in (LLAMA, GPT2):
    bits_and_memory_do_not_depend_on_ranks_and_stages(each)
    saved_adapters_go_on(each)
    merged_models_compute_the_same(each)
new_adapters_start_at_the_model()
dropout_is_off_in_evaluation()
a_frozen_model_costs_its_parameters_alone()
merging_keeps_the_type_and_fails_cleanly()
other_adapters_are_refused()
runs.finish()
