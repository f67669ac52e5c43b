"""bits.py fast|slow: settings that must not change a bit do not; planned memory is what is touched; bytes moved are those of the formulas.

Of every case, runs over stages, transport modes, prefetch, recompute, wrapping, resharding and numbers of ranks and threads, so that every pair of
settings meets: the same losses, norms and final fp32 weights. With unsharded accumulation, the same at an equal number of ranks.
"""

import sys

import cases
import formulas
import runs
from covering import covering

MANY = 30000  # more parameters than one block has: neighbours are joined
SETTINGS = {
    "shard.stage": [0, 1, 2, 3],
    "shard.mode": ["view", "copy", "trap"],
    "shard.prefetch": [0, 1, 2, 3, 16],
    "shard.recompute": ["none", "block", "selective"],
    "shard.wrap": ["block", f"{{min_parameters: {MANY}}}"],
    "shard.reshard_after_forward": ["true", "false"],
    "shard.ranks": [1, 2, 3, 4, 7, 8],
    "train.threads": [1, 2, 3],
}


def check_memory(run, what):
    for line in run.metrics:
        memory = line["memory"]
        runs.expect(
            memory["planned"] == memory["peak"],
            f"{what}: step {line['step']}: planned {memory['planned']}, peak {memory['peak']}")


def check_formulas(case, row, run, shapes, is_sharded):
    units = formulas.units_of(shapes, case.patterns, MANY if "min" in row["shard.wrap"] else 0)
    sharding = formulas.Sharding(
        units,
        row["shard.ranks"],
        row["shard.stage"],
        case.parameter_bytes,
        row["shard.mode"] == "trap",
        row["shard.reshard_after_forward"] == "true",
        row["shard.prefetch"],
    )
    for line in run.metrics:
        n_micro_batches = -(-line["tokens"] // (case.micro * cases.LENGTH))
        n_slots = -(-n_micro_batches // row["shard.ranks"])
        found = (line["gather_bytes"], line["reduce_bytes"])
        wanted = (sharding.gather_bytes(n_slots), sharding.reduce_bytes(n_slots, is_sharded))
        runs.expect(
            found == wanted,
            f"{case.name} {row}: step {line['step']} moves {found}, the formulas say {wanted}")
        states = sharding.states(is_sharded, case.n_moments)
        planned = {key: line["memory"]["planned"][key] for key in states}
        runs.expect(planned == states,
                    f"{case.name} {row}: states take {planned}, the formulas say {states}")
    full = -(-case.batch // case.micro)
    plan, n_slots = run.plan, -(-full // row["shard.ranks"])
    runs.expect(
        (plan["gather_bytes"], plan["reduce_bytes"]) == (sharding.gather_bytes(n_slots),
                                                         sharding.reduce_bytes(n_slots,
                                                                               is_sharded)),
        f"{case.name} {row}: plan.json and the formulas differ",
    )


def outcome(run):
    return [(line["loss"], line["grad_norm"], line["supervised_tokens"],
             line.get("validation_loss")) for line in run.metrics], run.weights()


def one(case, row, is_sharded, outcomes, shapes):
    accumulate = "sharded" if is_sharded else "unsharded"
    run = runs.train_well(case.config, *(f"{key}={value}" for key, value in row.items()),
                          f"shard.accumulate={accumulate}")
    outcomes.append((row, outcome(run)))
    check_memory(run, f"{case.name} {row} {accumulate}")
    check_formulas(case, row, run, shapes, is_sharded)
    run.forget()


def compare(case, outcomes, what):
    reference_row, reference = outcomes[0]
    for row, found in outcomes[1:]:
        for name, mine, theirs in zip(("losses, norms or counts", "weights"), found, reference):
            runs.expect(mine == theirs,
                        f"{case.name}, {what}: {name} of {row} are not those of {reference_row}")


def check_case(case, seed, with_unsharded):
    alone = runs.train_well(case.config, "shard.ranks=1", "shard.stage=0")
    shapes = {name: shape for name, (shape, _) in alone.tensors().items()}
    losses = [line["loss"] for line in alone.metrics]
    runs.expect(
        len(losses) == 3 and len(set(losses)) == 3,
        f"{case.name}: three steps with losses of their own are wanted, not {losses}")
    outcomes = [({"alone": True}, outcome(alone))]
    rows = covering(SETTINGS, seed)
    runs.both(one, [(case, row, True, outcomes, shapes) for row in rows])
    compare(case, outcomes, "sharded")
    for n_ranks in (3, 8) if with_unsharded else ():
        outcomes = []
        rows = covering({**SETTINGS, "shard.ranks": [n_ranks]}, seed)
        runs.both(one, [(case, row, False, outcomes, shapes) for row in rows])
        compare(case, outcomes, f"unsharded at {n_ranks} ranks")


if sys.argv[1] == "fast":
    for number, case in enumerate(cases.fast_cases()):
        check_case(case, number, False)
else:
    for number, case in enumerate(cases.slow_cases()):
        check_case(case, 100 + number, number % 2 == 0)
    for number, case in enumerate(cases.fast_cases()):
        check_case(case, 200 + number, number == 0)
runs.finish()
