# A program that was built with the headers of an older release works with today's shared library: what its structs do not have keeps
# its default, and functions whose arguments have grown do for it what they did.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if grep -q '^SW_SANITIZE:STRING=.' "$SW_BUILD/CMakeCache.txt"; then
    echo "a sanitizer build: a program without its run-time cannot use it"
    exit 0
fi
printf 'some text to train on, long enough for a row or two of it\n%.0s' 1 2 3 4 5 6 7 8 >"$folder/text.txt"
cat >"$folder/run.yaml" <<'YAML'
model: {architecture: llama, layers: 1, hidden: 8, heads: 2, ffn: 16, max_positions: 16}
data: {train: [text.txt], tokenizer: bytes, sequence_length: 16}
train: {steps: 1, batch_size: 2, micro_batch_size: 1}
shard: {ranks: 2}
checkpoint: {path: run}
YAML
cc -std=gnu11 -Wall -I"$SW_SOURCE/tests/abi/0.1.0" "$SW_SOURCE/tests/house/abi_0_1_0.c" -L"$SW_BUILD" -lshardwise -o "$folder/program"
LD_LIBRARY_PATH=$SW_BUILD "$folder/program" "$folder/run.yaml"
