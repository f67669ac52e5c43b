# Products by every kernel set that runs here; the machine file is that of the set which runs take by themselves.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
export XDG_CACHE_HOME=$scratch/cache
for set in baseline x86-64-v3 x86-64-v4; do
    "$shardwise" doctor | grep -q "^kernels.* no $set" && continue
    expect 0 "kernels $set" 'all together' multiplies -- "$shardwise" bench gemm --seconds 0 --kernels $set
    [ ! -e "$XDG_CACHE_HOME" ] || complain "bench gemm --kernels $set wrote a machine file"
    expect 0 "written to $scratch/machine" -- "$shardwise" bench gemm --seconds 0 --kernels $set --output "$scratch/machine"
    grep -q "\"kernel_set\": *\"$set\"" "$scratch/machine" || complain "a machine file of $set: $(cat "$scratch/machine")"
done
finish
