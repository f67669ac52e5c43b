"""late_lanes.py: in copy mode each rank computes on one lane and communicates on another, and what one lane needs of the other it waits
for. So whatever comes late on either lane, on any rank, the numbers are those of one rank: each kind of instruction of each unit is held up
in turn, for much longer than all the rest of a step takes. A wait that is missing reads what is not there yet.
"""

import runs

LENGTH = 8
tokens = runs.write_npy(runs.some_tokens(LENGTH * 40 + 1, 61))
yaml = runs.write_yaml(
    "model: {architecture: llama, layers: 2, hidden: 8, heads: 2, ffn: 16, vocab: 61, max_positions: 8}\n"
    f"data: {{train: [{tokens}], sequence_length: {LENGTH}}}\n"
    "train: {steps: 3, batch_size: 5, micro_batch_size: 1, reproducible: true, threads: 1}\noptimizer: {learning_rate: 1e-2}\n"
)
KINDS = ("gather", "sum", "publish", "acquire", "post", "forward", "backward", "reshard", "update")
UNITS = ("root", "layers.0", "layers.1")
SECONDS = 0.03

expected = runs.train_well(yaml, "shard.ranks=1")
n_struck = 0


def one(number, stage, kind, unit):
    """Another rank each time: that of the first parts, of the last, and one that idles in the last slot."""
    global n_struck
    fault = f"delay:rank={number % 3},instruction={kind}*{unit}*,step=2,seconds={SECONDS}"
    what = f"shard.mode=copy shard.stage={stage} --inject {fault}"
    run = runs.train(yaml, "shard.ranks=3", "shard.mode=copy", f"shard.stage={stage}", "--inject",
                     fault)
    runs.expect(run.code == 0, f"{what}: exit code {run.code}: {run.errors.strip()}")
    runs.expect(run.weights() == expected.weights() and runs.told(run) == runs.told(expected),
                f"{what}: not the numbers of one rank")
    n_struck += any(event["event"] == "inject" for event in run.events)
    run.forget()


cases = [(stage, kind, unit) for stage in (0, 2, 3) for kind in KINDS for unit in UNITS]
runs.both(one, [(number, *case) for number, case in enumerate(cases)])
runs.expect(n_struck > len(cases) // 2, f"{n_struck} of {len(cases)} instructions were held up")
print(f"{n_struck} of {len(cases)} instructions were held up")
runs.finish()
