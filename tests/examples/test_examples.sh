# The examples are built as a user builds them, from what is installed, and do what their first comment says.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

fail() {
    echo "$*" >&2
    exit 1
}

if grep -q '^SW_SANITIZE:STRING=.' "$SW_BUILD/CMakeCache.txt"; then
    echo "a sanitizer build links only with its own flags: skipped"
    exit 0
fi
cmake --install "$SW_BUILD" --prefix "$prefix" >"$folder/install.log"
libraries=$(dirname "$(find "$prefix" -name libshardwise.a)")
export LD_LIBRARY_PATH=$libraries
flags() { PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --define-variable=prefix="$prefix" --define-variable=libdir="$libraries" --define-variable=includedir="$prefix/include" "$@" shardwise; }

for name in custom-model own-compute; do
    # shellcheck disable=SC2046
    cc "$SW_SOURCE/examples/$name.c" $(flags --cflags --libs) -lm -o "$folder/$name"
    mkdir "$folder/in-$name"
done
[ "$(wc -l <"$SW_SOURCE/examples/custom-model.c")" -le 130 ] || fail "custom-model.c has grown beyond 130 lines"

cd "$folder/in-own-compute"
"$folder/own-compute" >out || fail "own-compute: $(cat out)"
[ "$(grep -c '^ranks: [123], loss' out)" = 3 ] || fail "own-compute did not train with 1, 2 and 3 ranks: $(cat out)"

cd "$folder/in-custom-model"
echo "of a user" >run.yaml # stays as it is
cp run.yaml text.txt
"$folder/custom-model" >out || fail "custom-model: $(cat out)"
grep -q '^step 40 of 40: loss' out || fail "custom-model did not say how it went: $(cat out)"
[ ! -e custom-model-run/model/config.json ] || fail "a custom model has no Hugging Face config.json"
for file in run.yaml metrics.jsonl events.jsonl plan.json model/model.safetensors model/tokenizer.json; do
    [ -s "custom-model-run/$file" ] || fail "custom-model left no $file"
done
[ "$(cat run.yaml text.txt | sort -u)" = "of a user" ] || fail "custom-model wrote over a file that was there"
python3 - <<'PYTHON'
import json, struct
losses = [json.loads(line)["loss"] for line in open("custom-model-run/metrics.jsonl")]
assert losses[-1] < 1 and losses[-1] < losses[0] / 2, losses
with open("custom-model-run/model/model.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
shapes = {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}
layer = {"norm": [64], "q": [64, 64], "k": [32, 64], "v": [32, 64], "out": [64, 64], "gate": [128, 64], "up": [128, 64], "down": [64, 128]}
expected = {f"layers.{i}.{part}": shape for i in range(2) for part, shape in layer.items()} | {"table": [256, 64], "norm": [64]}
assert shapes == expected, shapes
PYTHON
"$folder/custom-model" >again 2>&1 || fail "a second run does not find the first one finished"
[ "$(grep -c . again)" = 1 ] || fail "a second run trained again: $(cat again)"
grep -q '^She sells .* shells' again || fail "custom-model does not say what it has learned: $(cat again)"
