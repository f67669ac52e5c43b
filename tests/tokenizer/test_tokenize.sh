# shardwise tokenize: token files and back, ids on stdout, refusals.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
golden=$SW_SOURCE/tests/tokenizer/golden qwen=$SW_SOURCE/tests/tokenizer/golden/qwen2-style

# Ids of every case, as the file of cases has them, in the three readings.
for key in ids_no_special: ids:--special ids_literal:--literal; do
    expect 0 -- "$shardwise" tokenize --tokenizer "$qwen" --jsonl "$qwen/cases.jsonl" --print-ids ${key#*:}
    cp "$scratch/output" "$scratch/ids"
    python3 - "$qwen/cases.jsonl" "$scratch/ids" "${key%%:*}" <<'PY' || complain "ids differ: $key"
import json, sys
cases = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8", newline="\n")]
ids = [json.loads(line) for line in open(sys.argv[2])]
assert len(ids) == len(cases)
for case, given in zip(cases, ids):
    wanted = case.get(sys.argv[3], case["ids_no_special"])
    assert wanted is None or wanted == given, case
PY
done

# Raw bytes, as data.tokenizer: bytes reads them, and no end token.
printf 'A\303\251 \360\237\230\200\n' >"$scratch/bytes.txt"
echo '{"text": "\u00e9"}' >"$scratch/bytes.jsonl"
expect 0 '[65,195,169,32,240,159,152,128,10]' -- "$shardwise" tokenize --tokenizer bytes "$scratch/bytes.txt" --print-ids
expect 0 '[195,169]' -- "$shardwise" tokenize --tokenizer bytes "$scratch/bytes.jsonl" --print-ids
expect 0 '9 tokens' 'of 1 document,' -- "$shardwise" tokenize --tokenizer bytes "$scratch/bytes.txt" -o "$scratch/bytes.npy"
"$shardwise" tokenize --tokenizer bytes --decode "$scratch/bytes.npy" -o - | cmp - "$scratch/bytes.txt" || complain '-o - is not standard output'
[ -e - ] && complain '-o - makes a file that is called so'
expect 2 'the name of a token file must end in .npy' -- "$shardwise" tokenize --tokenizer bytes "$scratch/bytes.txt" -o -
"$shardwise" tokenize --tokenizer bytes --decode "$scratch/bytes.npy" | cmp - "$scratch/bytes.txt" || complain 'bytes do not come back'
echo '{"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]}' >"$scratch/chat.jsonl"
expect 3 'needs a chat template' "there is no model's chat template" -- "$shardwise" tokenize --tokenizer bytes "$scratch/chat.jsonl" --print-ids
expect 2 'the chat format "llama9" is unknown' -- "$shardwise" tokenize --tokenizer bytes --chat-format llama9 "$scratch/chat.jsonl" --print-ids
expect 0 -- "$shardwise" tokenize --tokenizer bytes --chat-format zephyr "$scratch/chat.jsonl" -o "$scratch/chat.npy"
"$shardwise" tokenize --tokenizer bytes --decode "$scratch/chat.npy" | cmp - <(printf '<|user|>\nA</s>\n<|assistant|>\nB</s>\n') || complain 'a conversation in bytes is another one'

# Text to a token file and back; each document ends with the end token.
printf 'The first rank reads.\n' >"$scratch/a.txt"
printf 'Two  blanks, 123.' >"$scratch/b.txt"
expect 0 'uint16' '2 documents' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/a.txt" "$scratch/b.txt" -o "$scratch/t.npy" --documents "$scratch/d.npy"
expect 0 -- "$shardwise" tokenize --tokenizer "$qwen" --decode "$scratch/t.npy"
[ "$output" = "The first rank reads.
<|im_end|>Two  blanks, 123.<|im_end|>" ] || complain "decoded: $output"
expect 0 -- "$shardwise" tokenize --tokenizer "$qwen" --decode "$scratch/t.npy" -o "$scratch/text"
[ -z "$output" ] || complain 'decoding into a file prints too'
[ "$(cat "$scratch/text")" = "The first rank reads.
<|im_end|>Two  blanks, 123.<|im_end|>" ] || complain 'the decoded file differs'
python3 - "$scratch/t.npy" "$scratch/d.npy" <<'PY' || complain 'the files are not as they should be'
import struct, sys
def read(path, letter):
    data = open(path, "rb").read()
    assert data[:8] == b"\x93NUMPY\x01\x00" and data[127:128] == b"\n" and struct.unpack("<H", data[8:10])[0] == 118
    header = eval(data[10:128])
    assert not header["fortran_order"] and header["descr"] == {"H": "<u2", "q": "<i8"}[letter]
    values = struct.unpack("<%d%s" % (header["shape"][0], letter), data[128:])
    return values
tokens, lengths = read(sys.argv[1], "H"), read(sys.argv[2], "q")
assert sum(lengths) == len(tokens) and len(lengths) == 2 and tokens[lengths[0] - 1] == tokens[-1] == 2002
PY

# What the ids mean stands beside them: a model of another tokenizer refuses them, one of the same with tokens added takes them.
python3 - "$scratch/t.npy" "$qwen/tokenizer.json" <<'PY' || complain "record: $(cat "$scratch/t.npy.json")"
import json, os, sys
record, tokenizer = json.load(open(sys.argv[1] + ".json")), json.load(open(sys.argv[2]))
ids = [*tokenizer["model"]["vocab"].values(), *(entry["id"] for entry in tokenizer["added_tokens"])]
assert record["format"] == 1 and record["ids"] == max(ids) + 1 and 2 * record["tokens"] == os.path.getsize(sys.argv[1]) - 128
PY
mkdir "$scratch/more" "$scratch/other"
python3 - "$qwen/tokenizer.json" "$scratch" <<'PY'
import json, sys
tokenizer, scratch = json.load(open(sys.argv[1])), sys.argv[2]
one = max(entry["id"] for entry in tokenizer["added_tokens"]) + 1
tokenizer["added_tokens"].append({"id": one, "content": "<|more|>", "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False})
json.dump(tokenizer, open(scratch + "/more/tokenizer.json", "w"), indent=3, sort_keys=True)
tokenizer["added_tokens"][0]["content"] = "<|changed|>"
json.dump(tokenizer, open(scratch + "/other/tokenizer.json", "w"))
PY
cat >"$scratch/run.yaml" <<'YAML'
model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 16, vocab: 2100, max_positions: 4}
data: {train: [t.npy], sequence_length: 4}
train: {steps: 1, batch_size: 1, micro_batch_size: 1}
shard: {ranks: 1}
checkpoint: {path: run}
YAML
for folder in "$qwen" "$scratch/more"; do
    expect 0 -- "$shardwise" train "$scratch/run.yaml" data.tokenizer="$folder" --dry-run
done
expect 0 -- "$shardwise" train "$scratch/run.yaml" --dry-run # no tokenizer is known
expect 3 't.npy: was made by another tokenizer' -- "$shardwise" train "$scratch/run.yaml" data.tokenizer="$scratch/other" --dry-run
expect 0 -- "$shardwise" tokenize --tokenizer "$scratch/other" "$scratch/a.txt" "$scratch/b.txt" -o "$scratch/t.npy"
expect 0 -- "$shardwise" train "$scratch/run.yaml" data.tokenizer="$scratch/other" --dry-run
cp "$scratch/t.npy.json" "$scratch/d.npy.json"
expect 3 'd.npy.json: says' 'd.npy has 2' -- "$shardwise" train "$scratch/run.yaml" data.train=["$scratch/d.npy"] data.tokenizer="$qwen" --dry-run
for text in '' '{"format": 2}' '{"format": 1, "tokens": "9"}' '[1]' '{"format": 1, "tokens": 2, "ids": -5, "tokenizer": ""}'; do
    echo "$text" >"$scratch/d.npy.json"
    expect 3 'd.npy' -- "$shardwise" train "$scratch/run.yaml" data.train=["$scratch/d.npy"] data.tokenizer="$qwen" --dry-run
done

# Any number of threads gives the same file; so does an order of many small rows.
python3 -c "
import json
for i in range(30000): print(json.dumps({'text': f'row {i}, it is not the same as the one before: {i * i}', 'other': 1 << 80}))" >"$scratch/rows.jsonl"
expect 0 '30000 documents' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/rows.jsonl" -o "$scratch/one.npy" --threads 1
expect 0 '30000 documents' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/rows.jsonl" -o "$scratch/four.npy" --threads 4
cmp "$scratch/one.npy" "$scratch/four.npy" || complain 'threads change the file'
expect 0 -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/rows.jsonl" -o "$scratch/plain.npy" --no-end

# Refusals: what, where; and nothing is left behind.
printf '{"text": "a"}\n{"text": 5}\n' >"$scratch/bad.jsonl"
printf 'a\377' >"$scratch/bad.txt"
: >"$scratch/empty.jsonl"
expect 3 'bad.jsonl: line 2' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/bad.jsonl" -o "$scratch/x.npy"
expect 3 'bad.txt' 'UTF-8 at its byte 1' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/bad.txt" -o "$scratch/x.npy"
expect 3 'is empty' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/empty.jsonl" -o "$scratch/x.npy"
expect 3 'none.txt' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/none.txt" -o "$scratch/x.npy"
expect 3 'tokenizer.json' -- "$shardwise" tokenize --tokenizer "$scratch" "$scratch/a.txt" -o "$scratch/x.npy"
expect 3 'ids are below' -- "$shardwise" tokenize --tokenizer "$golden/added-flags" --decode "$scratch/t.npy"
expect 2 '--tokenizer' -- "$shardwise" tokenize "$scratch/a.txt" -o "$scratch/x.npy"
expect 2 '-o OUT.npy' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/a.txt"
expect 2 'no input' -- "$shardwise" tokenize --tokenizer "$qwen" -o "$scratch/x.npy"
expect 4 'cannot be written' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/a.txt" -o "$scratch/no/folder/x.npy"
# Files that are no token file and no record are not taken for one, nor removed; a record that was written by other versions is replaced.
printf '{"text": "mine"}\n' >"$scratch/corpus.json"
expect 2 'must end in .npy' -- "$shardwise" tokenize --tokenizer "$qwen" -o "$scratch/corpus" "$scratch/corpus.json"
expect 2 'must end in .npy' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/a.txt" -o "$scratch/folder.npy/x"
[ "$(cat "$scratch/corpus.json")" = '{"text": "mine"}' ] || complain 'tokenize removes its own input'
for text in '{"text": "mine"}' 'no JSON'; do
    echo "$text" >"$scratch/x.npy.json"
    expect 3 'x.npy.json' 'move that away' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/a.txt" -o "$scratch/x.npy"
    [ "$(cat "$scratch/x.npy.json")" = "$text" ] || complain "somebody's file is replaced by a record"
done
rm "$scratch/x.npy.json"
echo '{"format": 9, "tokens": 7}' >"$scratch/old.npy.json"
expect 0 -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/a.txt" -o "$scratch/old.npy"
grep -q '"format": 1' "$scratch/old.npy.json" || complain 'a record of another version stays'

# When the tokens cannot have their name, the old ones keep their record.
cp "$scratch/old.npy.json" "$scratch/kept.json"
mkdir "$scratch/marks.npy"
expect 2 'marks.npy: is a folder' -- "$shardwise" tokenize --tokenizer "$qwen" "$scratch/b.txt" -o "$scratch/old.npy" --mask "$scratch/marks.npy"
(ulimit -f 0; "$shardwise" tokenize --tokenizer "$qwen" "$scratch/b.txt" -o "$scratch/old.npy" >/dev/null 2>&1) && complain 'tokens are written where no space is'
cmp -s "$scratch/old.npy.json" "$scratch/kept.json" || complain 'a token file loses its record'

for verdict in $(tr ' ' : <"$SW_SOURCE/tests/tokenizer/bad/verdicts.txt"); do
    code=0
    [ "${verdict#*:}" = accept ] || code=3
    expect $code -- "$shardwise" tokenize --tokenizer "$SW_SOURCE/tests/tokenizer/bad/${verdict%%:*}" "$scratch/a.txt" -o "$scratch/y.npy"
done
ls "$scratch" | grep -q partial && complain 'a partial file is left behind'
[ ! -e "$scratch/x.npy" ] || complain 'a refused run leaves a file'

# Rows have the verdicts that they have in training: the file, the line and what is wrong are named.
rows=$SW_SOURCE/tests/data/jsonl
python3 - "$rows/verdicts.jsonl" >"$scratch/verdicts" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    v = json.loads(line)
    words = [name.rsplit("/", 1)[-1] for name in v.get("message_names", [])] + ([f"line {v['line']}"] if v.get("line") else [])
    print("0" if v["verdict"] == "accept" else "3", v["file"], *words, sep="\t")
PY
[ -s "$scratch/verdicts" ] || complain 'there are no verdicts'
while IFS=$'\t' read -r -a fields; do
    expect "${fields[0]}" "${fields[@]:2}" -- "$shardwise" tokenize --tokenizer "$qwen" --chat-format chatml --jsonl "$rows/${fields[1]}" -o "$scratch/v.npy"
done <"$scratch/verdicts"
expect 3 'messages.jsonl: line 1' '--chat-format' -- "$shardwise" tokenize --tokenizer "$golden/added-flags" "$rows/good/messages.jsonl" -o "$scratch/x.npy"
expect 2 'chatm' -- "$shardwise" tokenize --tokenizer "$qwen" --chat-format chatm "$rows/good/messages.jsonl" -o "$scratch/x.npy"

# What is trained on: all of a text, the completion, what the assistant says through the end of its turn. A text and a
# completion end with the end token (2002), which ends turns too; after a conversation's last newline nothing follows.
cat >"$scratch/forms.jsonl" <<'ROWS'
{"text": "all of it"}
{"prompt": "Q: ", "completion": "A."}
{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]}
{"text": ""}
ROWS
expect 0 '3 documents' 'line 4' 'no token' -- "$shardwise" tokenize --tokenizer "$qwen" --chat-format chatml "$scratch/forms.jsonl" -o "$scratch/f.npy" --mask "$scratch/m.npy" --documents "$scratch/l.npy"
python3 - "$scratch" <<'PY' || complain 'the marks are not as they should be'
import struct, sys
def read(name, letter):
    data = open(f"{sys.argv[1]}/{name}.npy", "rb").read()
    header = eval(data[10:128])
    assert header["descr"] == {"H": "<u2", "B": "|u1", "q": "<i8"}[letter]
    return struct.unpack("<%d%s" % (header["shape"][0], letter), data[128:])
tokens, marks, lengths = read("f", "H"), read("m", "B"), read("l", "q")
assert len(tokens) == len(marks) == sum(lengths) and len(lengths) == 3 and set(marks) == {0, 1}
a, b = lengths[0], lengths[0] + lengths[1]
text, completion, chat = marks[:a], marks[a:b], marks[b:]
assert all(text) and tokens[a - 1] == 2002
first = completion.index(1)
assert first > 0 and all(completion[first:]) and tokens[b - 1] == 2002
assert tokens[-1] != 2002 and tokens[-2] == 2002 and chat[-2:] == (1, 0) and chat[0] == 0 and 0 < sum(chat) < len(chat)
PY
expect 0 -- "$shardwise" tokenize --tokenizer "$qwen" --decode "$scratch/f.npy"
[ "$output" = "all of it<|im_end|>Q: A.<|im_end|><|im_start|>user
Hi<|im_end|>
<|im_start|>assistant
Yes.<|im_end|>" ] || complain "decoded rows: $output"

# A text that has its beginning already, and gets another.
printf '<|begin_of_text|>hi' >"$scratch/twice.txt"
expect 0 'two beginning-of-text tokens' -- "$shardwise" tokenize --tokenizer "$golden/llama3-style" --special --print-ids "$scratch/twice.txt"
finish
