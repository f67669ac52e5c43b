# Evaluation as a user sees it: texts of any length, windows, scores that are no numbers, strict JSON, models of every mask, and GPT-2
# as Hugging Face writes it.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
for i in $(seq 400); do echo "line $i says that $((i * 7)) is seven times $i"; done >text.txt
cat >run.yaml <<'END'
model: {architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 64, max_positions: 48, save_dtype: fp32}
data: {train: [text.txt], tokenizer: bytes, sequence_length: 32}
train: {steps: 20, batch_size: 4, micro_batch_size: 2}
optimizer: {learning_rate: 1e-2}
shard: {ranks: 2, param_dtype: fp32}
checkpoint: {path: run}
END
expect 0 -- "$shardwise" train run.yaml --quiet

# A member of the last output, which must be JSON as its standard has it: no NaN, no Infinity.
member() {
    python3 -c 'import json, sys
def refuse(word): raise ValueError(word)
value = json.loads(open(sys.argv[1]).read(), parse_constant=refuse)
for key in sys.argv[2:]:
    value = value[int(key) if key.lstrip("-").isdigit() else key]
print(value)' "$scratch/output" "$@" || complain "not JSON, or without $*: $(cat "$scratch/output")"
}
is_near() { # A B MOST
    [ "$(python3 -c 'import sys; a, b, most = map(float, sys.argv[1:]); print(abs(a - b) < most)' "$@")" = True ]
}

# Every byte but the first is scored, whatever the length, and a text is what its row of .jsonl is.
printf 'line 7' >short.txt
printf '{"text": "line 7"}\n' >short.jsonl
head -c 131 text.txt >held.txt
for file in short.txt short.jsonl; do
    expect 0 -- "$shardwise" eval run/model --data "$file" --json
    [ "$(member tokens)" = 5 ] || complain "$file: $(cat "$scratch/output")"
    member loss >"$file.loss"
done
cmp -s short.txt.loss short.jsonl.loss || complain "a text and its .jsonl have other losses: $(cat short.*.loss)"
for stride in '' 1 5 31 32; do
    expect 0 -- "$shardwise" eval run/model --data held.txt --sequence-length 32 ${stride:+--stride "$stride"} --json
    [ "$(member tokens)" = 130 ] || complain "--stride $stride: $(cat "$scratch/output")"
    [ "$(member sources 0 bytes)" = 130 ] || complain "--stride $stride: $(cat "$scratch/output")"
    member loss >"stride-$stride.loss"
done
cmp -s stride-.loss stride-32.loss || complain 'a stride of a row is not what there is without one'
cmp -s stride-.loss stride-5.loss && complain 'windows that overlap have the loss of rows that do not'
printf 'model: {path: run/model}\ndata: {validation: [short.txt], sequence_length: 32}\n' >folderless.yaml
printf 'model: {architecture: llama, layers: 1, hidden: 8, heads: 2, ffn: 16, vocab: 256}\ndata: {validation: [short.txt]}\n' >modelless.yaml
expect 0 'short.txt: loss' -- "$shardwise" eval folderless.yaml
expect 2 'does not exist yet, and there is no model.path' 'train it first' -- "$shardwise" eval modelless.yaml
expect 2 'a stride of 33' 'rows of 32' -- "$shardwise" eval run/model --data held.txt --sequence-length 32 --stride 33
expect 2 '--stride' -- "$shardwise" eval run/model --data held.txt --stride 0
printf a >one.txt
expect 3 'one.txt' 'no document has at least two tokens' -- "$shardwise" eval run/model --data one.txt
expect 0 'held.txt: loss' '130 tokens in' 'short.txt: loss' 'all: loss' '135 tokens in' -- "$shardwise" eval run/model --data held.txt --data short.txt
printf '{"prompt": "line", "choices": [" 1"], "answer": 0}\n' >alone.jsonl
expect 3 'line 1: there is 1 choice; 2 to' -- "$shardwise" eval run/model --choices alone.jsonl
printf '{"prompt": "line 7", "completion": " says"}\n{"text": "li"}\n' >mixed.jsonl
expect 0 -- "$shardwise" eval run/model --data mixed.jsonl --json
[ "$(member tokens)" = 6 ] || complain "of a completion and two bytes of text: $(cat "$scratch/output")"

# A number that is none ends it as it ends generate, and says where it comes from; one beyond all numbers is null.
change() { # FOLDER what python does with the weights
    rm -rf "$1"
    cp -r run/model "$1"
    python3 - "$1/model.safetensors" "$2" <<'PYTHON'
import json, math, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
n = struct.unpack_from("<Q", data)[0]
header = json.loads(data[8 : 8 + n])
def write(name, at, value):
    struct.pack_into("<f", data, 8 + n + header[name]["data_offsets"][0] + 4 * at, value)
def scale(name, factor):
    first, end = header[name]["data_offsets"]
    for at in range(8 + n + first, 8 + n + end, 4):
        struct.pack_into("<f", data, at, factor * struct.unpack_from("<f", data, at)[0])
exec(sys.argv[2])
open(sys.argv[1], "wb").write(data)
PYTHON
}
change damaged 'write("model.layers.1.mlp.up_proj.weight", 77, math.nan)'
change infinite 'write("model.norm.weight", 3, math.inf)'
change huge 'scale("model.norm.weight", 1e4)'
printf '%s\n' '{"prompt": "line 3", "choices": ["ZZZZ", " says that"], "answer": 1}' >choices.jsonl
for ranks in 1 2; do
    expect 3 'text.txt: row 1' 'is nan' 'element 77 of model.layers.1.mlp.up_proj.weight is nan' -- \
        "$shardwise" eval damaged --data text.txt --rows 2 --ranks "$ranks" --json
    expect 3 'choices.jsonl: question 1' 'model.layers.1.mlp.up_proj.weight' -- "$shardwise" eval damaged --choices choices.jsonl --ranks "$ranks"
done
[ -s "$scratch/output" ] && complain "a score that is none is printed: $(cat "$scratch/output")"
expect 3 'element 3 of model.norm.weight is infinite' -- "$shardwise" eval infinite --data text.txt --rows 2
for ranks in 1 2; do
    expect 3 'the logit of token 0 is nan' 'element 77 of model.layers.1.mlp.up_proj.weight is nan' 'files are damaged' -- \
        "$shardwise" generate damaged --prompt line --ranks "$ranks"
done
expect 3 'element 3 of model.norm.weight is infinite' -- "$shardwise" generate infinite --prompt line --greedy
change beyond 'scale("model.norm.weight", 1e38)'
expect 3 'the logit of token' 'though every weight in beyond is a number' -- "$shardwise" generate beyond --prompt line
expect 0 -- "$shardwise" eval huge --data text.txt --rows 2 --json
[ "$(member sources 0 perplexity)" = None ] || complain "the perplexity of a loss of $(member loss) is a number"
expect 0 'beyond 1e308' -- "$shardwise" eval huge --data text.txt --rows 2

# A model whose tokens see those after them: another loss, none of it from padding; it can be trained, saved and scored, not continued.
cp -r run/model full
python3 - full/config.json <<'PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
json.dump(dict(config, is_causal=False, attention_dropout=0.125), open(sys.argv[1], "w"))
PYTHON
expect 0 -- "$shardwise" eval run/model --data short.txt --json
causal=$(member loss)
expect 0 -- "$shardwise" eval full --data short.txt --json
full=$(member loss)
is_near "$causal" "$full" 1e-3 && complain "is_causal: false changes nothing: $full"
printf '{"text": "line 7"}\n{"text": "a longer line, so that the other one is filled up"}\n' >two.jsonl
expect 0 -- "$shardwise" eval full --data two.jsonl --rows 1 --json
is_near "$(member loss)" "$full" 1e-5 || complain "padding is seen: $(member loss), not $full"
expect 3 'full/config.json: is_causal is false' 'shardwise eval' -- "$shardwise" generate full --prompt line
cat >more.yaml <<'END'
model: {path: full, save_dtype: fp32}
data: {train: [text.txt], validation: [text.txt], validation_rows: 4, tokenizer: bytes, sequence_length: 32}
train: {steps: 3, batch_size: 4, micro_batch_size: 2}
shard: {ranks: 2, param_dtype: fp32}
checkpoint: {path: more}
END
expect 0 -- "$shardwise" train more.yaml --quiet
python3 - <<'PYTHON' || complain "what is trained has another configuration: $(cat more/model/config.json)"
import json
config = json.load(open("more/model/config.json"))
assert config["is_causal"] is False and config["attention_dropout"] == 0.125, config
PYTHON
grep -q is_causal run/model/config.json && complain 'a causal model says so, which no older reader knows'
expect 0 -- "$shardwise" checkpoint export more/latest exported
expect 0 -- "$shardwise" checkpoint export exported model.gguf --type F32 --no-tokenizer
expect 0 -- "$shardwise" checkpoint import model.gguf imported --dtype fp32
expect 3 'held.txt' 'imported: has no tokenizer.json' '.npy' -- "$shardwise" eval imported --data held.txt
cp exported/tokenizer.json imported
for model in exported imported; do
    expect 0 -- "$shardwise" eval "$model" --data held.txt --json
    member loss >"$model.loss"
    grep -q '"is_causal": false' "$model/config.json" || complain "$model is causal"
done
is_near "$(cat exported.loss)" "$(cat imported.loss)" 1e-4 || complain 'GGUF has another model'

# GPT-2 with the dropout that Hugging Face's has: it is scored, continued and exported; training drops, and refuses what cannot be.
cat >gpt2.yaml <<'END'
model: {architecture: gpt2, layers: 2, hidden: 32, heads: 2, max_positions: 48, dropout: 0.1, save_dtype: fp32}
data: {train: [text.txt], tokenizer: bytes, sequence_length: 32}
train: {steps: 2, batch_size: 4, micro_batch_size: 2}
shard: {ranks: 2, param_dtype: fp32}
checkpoint: {path: gpt2}
END
expect 0 -- "$shardwise" train gpt2.yaml --quiet
python3 - <<'PYTHON' || complain "model.dropout is not in $(cat gpt2/model/config.json)"
import json
config = json.load(open("gpt2/model/config.json"))
assert config["attn_pdrop"] == config["resid_pdrop"] == config["embd_pdrop"] == 0.1, config
PYTHON
for dropout in 0.0 0.1 1.0; do
    rm -rf stock
    cp -r gpt2/model stock
    sed -i "s/\"attn_pdrop\": [0-9.]*/\"attn_pdrop\": $dropout/" stock/config.json
    expect 0 -- "$shardwise" eval stock --data held.txt --json
    member loss >"gpt2-$dropout.loss"
    cmp -s "gpt2-$dropout.loss" gpt2-0.0.loss || complain "attn_pdrop $dropout changes the loss of evaluation"
    expect 0 -- "$shardwise" generate stock --prompt line --max-tokens 3
    expect 0 -- "$shardwise" checkpoint import stock "copy-$dropout" --dtype bf16
done
sed -e 's/model: .*/model: {path: stock, save_dtype: fp32}/' -e 's/path: gpt2}/path: tuned}/' gpt2.yaml >tuned.yaml
expect 3 'stock/config.json' 'attn_pdrop is 1' 'below 1' -- "$shardwise" train tuned.yaml --dry-run
sed -i 's/"attn_pdrop": 1.0/"attn_pdrop": 0.5/' stock/config.json
expect 0 -- "$shardwise" train tuned.yaml --quiet
python3 - <<'PYTHON' || complain "what is tuned drops otherwise: $(cat tuned/model/config.json)"
import json
config = json.load(open("tuned/model/config.json"))
assert (config["attn_pdrop"], config["resid_pdrop"], config["embd_pdrop"]) == (0.5, 0.1, 0.1), config
PYTHON
# model.dropout is for all of them, 0 too; a run goes on with what it began with.
loss_of() { sed -n '/"step": 1,/s/.*"loss": \([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
for dropout in auto 0 0.1; do
    expect 0 -- "$shardwise" train tuned.yaml --quiet "model.dropout=$dropout" "checkpoint.path=dropped-$dropout" log.every=1
done
[ "$(loss_of dropped-0)" != "$(loss_of dropped-0.1)" ] && [ "$(loss_of dropped-auto)" != "$(loss_of dropped-0.1)" ] ||
    complain "model.dropout changes nothing: $(loss_of dropped-auto) $(loss_of dropped-0) $(loss_of dropped-0.1)"
grep -q '"attn_pdrop": 0.0' dropped-0/model/config.json || complain 'model.dropout: 0 is not written'
expect 2 'model.path' -- "$shardwise" train tuned.yaml --quiet model.dropout=0 checkpoint.path=dropped-auto train.steps=4
expect 0 -- "$shardwise" train tuned.yaml --quiet checkpoint.path=dropped-auto train.steps=4
finish
