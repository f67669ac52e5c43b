# examples/finetune-smollm2 does what it says, on a tiny model and questions of its own in place of those it would fetch.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
ln -s "$shardwise" shardwise
work=$scratch/finetune-smollm2
mkdir "$work"

# A model that has seen nothing but a few numbers, and talks in the way of chatml.
for i in $(seq 200); do echo "line $i says that $((i * 7)) is seven times $i"; done >text.txt
cat >run.yaml <<END
model: {architecture: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 192, max_positions: 256, save_dtype: fp32}
data: {train: [text.txt], tokenizer: $SW_SOURCE/tests/tokenizer/golden/qwen2-style, sequence_length: 64}
train: {steps: 2, batch_size: 2, micro_batch_size: 1}
shard: {ranks: 1}
checkpoint: {path: run}
END
expect 0 -- "$shardwise" train run.yaml --quiet
mv run/model "$work/model"
cat >"$work/model/chat_template.jinja" <<'END'
{% for message in messages %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}
END
pair() { printf '{"messages": [{"role": "user", "content": "What does the word \\"%s\\" mean?"}, {"role": "assistant", "content": "The %s of a %s."}]}\n' "$@"; }
things=(house tree river stone) parts=(side top end colour age)
for i in $(seq 160); do pair "word$i" "${parts[$((i % 5))]}" "${things[$((i / 5 % 4))]}"; done >"$work/train.jsonl"
for i in $(seq 161 200); do pair "word$i" "${parts[$((i % 5))]}" "${things[$((i / 5 % 4))]}"; done >"$work/held-out.jsonl"

export BUILD=$scratch
expect 0 'held-out loss after' 'optimizer per rank' 'LoRA, merged:' -- "$SW_SOURCE/examples/finetune-smollm2" optimizer.learning_rate=1e-2 optimizer.warmup_steps=0 optimizer.weight_decay=0.1 train.steps=40
[ "$n_failed" = 0 ] || exit 1
cp "$scratch/output" said.txt

python3 - "$work" said.txt <<'PYTHON' || complain 'the runs are not what they should be'
import json, pathlib, struct, sys

work, said = pathlib.Path(sys.argv[1]), open(sys.argv[2]).read()
def read(path):
    return json.loads(path.read_text())
def shapes(path):
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}
def metrics(name):
    return [json.loads(line) for line in (work / name / "metrics.jsonl").read_text().splitlines()]

# Both learned how answers are made. Validation while training says what eval says of the saved model, up to its rounding to bf16.
before = read(work / "before.json")["loss"]
for name in "full", "lora":
    after, validation = read(work / f"{name}.json")["loss"], metrics(name)[-1]["validation_loss"]
    assert after < before - 1, (name, before, after)
    assert abs(after - validation) < 0.05, (name, after, validation)
    assert f"{after:.4f}" in said

# What is frozen has no gradient and no optimizer state: a rank has its quarter of those of the adapters, in buffers cut at multiples
# of 256 elements in each of 3 units. A gradient has 4 bytes; two moments and the low half of the master, which bf16 leaves off, have 10.
model, adapter, merged = shapes(work / "model/model.safetensors"), shapes(work / "lora/model/adapter_model.safetensors"), shapes(work / "merged/model.safetensors")
assert merged == model and set(shapes(work / "full/model/model.safetensors")) == set(model)
assert len(adapter) == 2 * 7 * 2, sorted(adapter)
most = 4 * (sum(-(-a * b // 256) * 256 for a, b in adapter.values()) // 4 + 3 * 256)
peak = metrics("lora")[-1]["memory"]["peak"]
least = sum(a * b for a, b in adapter.values())
assert least <= peak["gradients"] <= most and 2.5 * least <= peak["optimizer"] <= 2.5 * most, (peak, least, most)
assert metrics("full")[-1]["memory"]["peak"]["gradients"] > 4 * peak["gradients"]
PYTHON

# The merged model goes on to GGUF and back, and answers alike.
expect 0 'The' -- "$shardwise" generate "$work/merged" --chat --prompt 'What does the word "word7" mean?' --greedy --max-tokens 20
answer=$output
expect 0 -- "$shardwise" checkpoint export "$work/merged" merged.gguf --type F32
expect 0 -- "$shardwise" checkpoint import merged.gguf again
expect 0 -- "$shardwise" generate again --chat --prompt 'What does the word "word7" mean?' --greedy --max-tokens 20
[ "$output" = "$answer" ] || complain "after GGUF: '$output', not '$answer'"
finish
