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

# Roofs: every width that the CPU has, and products of matrices.
expect 0 '128 bits' products -- "$shardwise" bench roofs --ranks 1
expect 2 'no argument is taken' -- "$shardwise" bench roofs fast

# A report takes no name of a device or a link: root could lose /dev/null that way.
mkfifo "$scratch/pipe"
ln -s pipe "$scratch/link"
expect 2 'is a pipe' -- "$shardwise" bench roofs --ranks 1 --save "$scratch/pipe"
expect 2 'is a link' -- "$shardwise" bench roofs --ranks 1 --save "$scratch/link"
[ -p "$scratch/pipe" ] && [ -L "$scratch/link" ] || complain 'bench replaced a pipe or a link'

# Products: every way to multiply, and a machine file that says which is the fastest.
expect 2 'no argument is taken' -- "$shardwise" bench gemm all
expect 2 'the name is empty' -- "$shardwise" bench gemm --output ''
export XDG_CACHE_HOME=$scratch/cache
expect 0 'written to' -- "$shardwise" bench gemm --seconds 0 --save "$scratch/report.json"
expect 0 'machine file: the fastest' "measured   $XDG_CACHE_HOME" -- "$shardwise" doctor
python3 - "$scratch/report.json" "$XDG_CACHE_HOME/shardwise/machine.json" <<'PYTHON' || complain 'bench gemm'
import json, math, sys
report, machine = (json.load(open(path)) for path in sys.argv[1:3])
assert machine["format"] == 1 and machine["roofs"]["fp32, 128 bits"] > 0
for product in report["products"]:
    results = product["results"]
    work = [2 * r["m"] * r["n"] * r["k"] for r in results]
    assert math.isclose(product["flops"], sum(work) / sum(w / r["flops"] for w, r in zip(work, results)), rel_tol=1e-4)
    assert math.isclose(machine["products_of_" + product["operands"]][product["kind"]], product["flops"], rel_tol=1e-3)
assert {product["operands"] for product in report["products"]} == {"fp32", "bf16"}
PYTHON

# Another kernel set: its products against its roof, and no machine file of a set that runs do not take by themselves.
expect 2 'no set x86-64-v5' 'did you mean x86-64-v' -- "$shardwise" bench gemm --kernels x86-64-v5
for set in baseline x86-64-v3 x86-64-v4; do
    if "$shardwise" doctor | grep -q "^kernels.* no $set"; then
        expect 2 "cannot run the kernel set $set" 'it runs baseline' -- "$shardwise" bench roofs --ranks 1 --kernels $set
        expect 2 train.kernels "cannot run the kernel set $set" -- "$shardwise" bench step llama-8m train.kernels=$set
    else
        expect 0 -- "$shardwise" bench roofs --ranks 1 --kernels $set --json
        python3 - "$scratch/output" $set <<'PYTHON' || complain "bench roofs --kernels $set"
import json, sys
report = json.load(open(sys.argv[1]))
bits = [128, 256, 512][["baseline", "x86-64-v3", "x86-64-v4"].index(sys.argv[2]) :]
roofs = {width: report["roofs"][f"fp32, {width} bits"] for width in (128, 256, 512)}
assert report["configuration"]["kernel_set"] == sys.argv[2]
assert report["roofs"]["fma"] == max(rate for width, rate in roofs.items() if width <= bits[0])
PYTHON
    fi
done

# A step: the work of a token by arithmetic, memory as planned, nothing left behind.
expect 2 'an argument is missing' -- "$shardwise" bench step
expect 2 'did you mean smollm2-135m?' -- "$shardwise" bench step smollm2-136m
expect 2 'leaves none' -- "$shardwise" bench step llama-8m --steps 2
expect 2 'did you mean mode?' -- "$shardwise" bench step llama-8m shard.modee=copy
for key in checkpoint.path=$scratch/run log.metrics=false data.shuffle=true train.steps=4 shard.ranks=1; do
    expect 2 'the benchmark sets this itself' -- "$shardwise" bench step llama-8m $key
done
expect 2 'say it with --rows' -- "$shardwise" bench step llama-8m train.micro_batch_size=4
mkdir "$scratch/temporary"
export TMPDIR=$scratch/temporary
expect 0 tokens/s 'of roofs' activations -- "$shardwise" bench step llama-8m --ranks 2 --rows 1 --sequence 16 --steps 2 --skip 1 model.layers=1
expect 0 'kernels         baseline' -- "$shardwise" bench step llama-8m --ranks 1 --rows 1 --sequence 16 --steps 2 --skip 1 model.layers=1 train.kernels=baseline
expect 0 -- "$shardwise" bench step llama-8m --ranks 2 --rows 1 --sequence 16 --steps 3 --skip 1 --rounds 2 --json model.layers=1 model.tied=false
python3 - "$scratch/output" <<'PYTHON' || complain 'bench step --json'
import json, sys
report = json.load(open(sys.argv[1]))
hidden, kv, ffn, vocabulary, sequence = 256, 4 * 32, 688, 4096, 16
layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * ffn + 2 * hidden
assert report["parameters"] == 2 * vocabulary * hidden + layer + hidden
assert report["flops_per_token"] == 6 * (vocabulary * hidden + layer + hidden) + 6 * (sequence + 1) * hidden, report["flops_per_token"]
assert report["memory_planned"].keys() == report["memory_measured"].keys()
assert len(report["roofs"]) == 3 and all(roof["fma"] > 0 and roof["gemm"] > 0 for roof in report["roofs"])
assert [len(losses) for losses in report["loss_each"]] == [3, 3] and report["loss_each"][0] == report["loss_each"][1]
assert report["pss_bytes"] > 0 and report["tokens_per_second"] > 0 and "wait_seconds" in report["waiting"]
PYTHON

# Growth: points may be measured apart, and come together where they were measured alike. The figures are a script's.
mkdir "$scratch/growth"
cat >"$scratch/growth/shardwise" <<'END'
#!/bin/sh
[ "$1" = --version ] && echo 'shardwise 0' || echo '{"parameters": 9, "tokens_per_second": 8, "flops_per_token": 7, "of_fma_roof": 0.5, "of_gemm": 0.5, "memory_measured": {"activations": 1048576}, "pss_bytes": 2097152}'
END
chmod +x "$scratch/growth/shardwise"
scaling=("$SW_SOURCE/bench/scaling" --build "$scratch/growth")
"${scaling[@]}" --only stages 2>&1 | grep -q 'stages is not an axis; there are ranks, stage, sequence, model' || complain 'scaling: a wrong axis'
"${scaling[@]}" --only ranks=1,9 2>&1 | grep -q '9 is not a point of ranks; there are 1, 2, 4, 8' || complain 'scaling: a wrong point'
expect 0 '| stage | 3 |' 'scaling.svg' -- "${scaling[@]}" --only stage=3
expect 0 '| stage | 0 |' '| stage | 3 |' '| sequence | 4096 |' -- "${scaling[@]}" --only stage=0 --only sequence
expect 0 '| stage | 0 |' -- "${scaling[@]}" --only stage=0 shard.mode=copy
grep -q '| stage | 3 |' "$scratch/output" && complain 'scaling shows points of other settings as its own'
sed -i 's/"rows": 4,/"rows": 5,/' "$scratch/growth/bench/scaling.json"
expect 0 '| sequence | 4096 |' -- "${scaling[@]}" --only sequence=4096 shard.mode=copy
grep -q '| stage | 0 |' "$scratch/output" && complain 'scaling shows points of other shapes as its own'
echo '# another' >>"$scratch/growth/shardwise"
expect 0 '| stage | 1 |' -- "${scaling[@]}" --only stage=1 shard.mode=copy
grep -q '| sequence | 4096 |' "$scratch/output" && complain 'scaling shows points of another build as its own'
expect 0 '| ranks | 8 |' '| stage | 3 |' '| model | smollm2-360m |' -- "${scaling[@]}"

# Decoding takes as many cores as it is told, or none.
for cores in 0 100000; do
    "$SW_SOURCE/bench/decode" "$scratch" --cores $cores 2>&1 | grep -q "cores $cores: 1 to" || complain "decode: $cores cores"
done
[ -z "$(ls "$TMPDIR")" ] || complain "bench step leaves $(ls "$TMPDIR")"
finish
