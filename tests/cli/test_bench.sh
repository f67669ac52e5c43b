# What bench prints: every collective and mode is there, in the sizes asked for, as numbers; no figure is judged.
set -u
source "$SW_SOURCE/tests/cli/command.bash"

expect 2 'a part is missing' -- "$shardwise" bench
expect 2 'did you mean comm?' -- "$shardwise" bench cmom
expect 2 'no argument is taken' -- "$shardwise" bench comm 2
expect 2 '--least' '--most' -- "$shardwise" bench comm --least 1MiB --most 1KiB
expect 2 '--most' -- "$shardwise" bench comm --most many
for n_ranks in 1 2 3; do
    expect 0 barrier publish exchange memcpy gather reduce -- "$shardwise" bench comm --ranks $n_ranks --seconds 0 --most 64KiB
    expect 0 -- "$shardwise" bench comm --ranks $n_ranks --seconds 0 --most 64KiB --json
    python3 - "$scratch/output" $n_ranks <<'PYTHON' || complain "bench comm --ranks $n_ranks --json"
import json, sys
report = json.load(open(sys.argv[1]))
calls = report["calls"]
assert report["configuration"]["ranks"] == int(sys.argv[2]) and report["machine"]["cores"] >= 1
assert {(c["call"], c["mode"]) for c in calls} == {
    ("barrier", ""), ("publish", ""), ("exchange", ""), ("memcpy", ""), ("reduce", ""),
    ("gather", "view"), ("gather", "copy"), ("gather", "trap")}
assert all(c["seconds"] > 0 and c["calls"] >= 7 for c in calls)
for mode in ("view", "copy"):
    sizes = [c["bytes"] for c in calls if c["call"] == "gather" and c["mode"] == mode]
    assert sizes == sorted(set(sizes)) and sizes[-1] >= 65536, sizes
    assert all(size % (1024 * int(sys.argv[2])) == 0 for size in sizes)
PYTHON
done
finish
