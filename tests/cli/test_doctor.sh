# doctor names what this machine has, and ends well where ranks can share memory.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
expect 0 shardwise CPU cores kernels baseline BLAS products memory memfd limits libyaml -- "$shardwise" doctor
expect 0 -- "$shardwise" doctor --json
python3 -c 'import json, sys
o = json.load(sys.stdin)
assert o["cores"] >= 1 and o["missing"] == [] and "baseline" in o["kernels"]["run_here"] and o["memory"]["bytes"] > 0' <"$scratch/output" ||
    complain "doctor --json: $output"

# A machine file is believed if it is of this machine (test_bench.sh).
export XDG_CACHE_HOME=$scratch/cache
expect 0 'no machine file' "$XDG_CACHE_HOME/shardwise/machine.json" 'bench gemm' -- "$shardwise" doctor
mkdir -p "$XDG_CACHE_HOME/shardwise"
echo '{"format": 1, "cpu": "another", "version": "0", "kernel_set": "baseline", "roofs": {}, "products_of_fp32": {}, "products_of_bf16": {}}' > "$XDG_CACHE_HOME/shardwise/machine.json"
expect 0 'not this machine' 'another' -- "$shardwise" doctor
echo '{' > "$XDG_CACHE_HOME/shardwise/machine.json"
expect 0 'not usable' -- "$shardwise" doctor
finish
