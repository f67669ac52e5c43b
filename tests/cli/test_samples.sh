# Samples of generate: several for a prompt, as JSON, from standard input; how they are chosen.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
for i in $(seq 300); do echo "line $i says that $((i * 7)) is seven times $i"; done >text.txt
cat >run.yaml <<'END'
model: {architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 64, max_positions: 64, save_dtype: fp32}
data: {train: [text.txt], tokenizer: bytes, sequence_length: 32}
train: {steps: 20, batch_size: 4, micro_batch_size: 2}
optimizer: {learning_rate: 1e-2}
shard: {ranks: 1, param_dtype: fp32}
checkpoint: {path: run}
END
expect 0 -- "$shardwise" train run.yaml --quiet
model=run/model

# A sample is the same whatever their number, the number of ranks and of texts that grow at once; the first is that of a single text.
expect 0 -- "$shardwise" generate $model --prompt 'line 1' --prompt 'says' --max-tokens 20 -n 5 --json --seed 7
cp "$scratch/output" five.jsonl
[ "$(wc -l <five.jsonl)" = 10 ] || complain "2 prompts of 5 samples: $(wc -l <five.jsonl) objects"
for layout in '2 1 8' '8 3 8' '5 2 1'; do
    read -r n ranks batch <<<"$layout"
    expect 0 -- "$shardwise" generate $model --prompt 'line 1' --prompt 'says' --max-tokens 20 -n "$n" --json --seed 7 --ranks "$ranks" --batch "$batch"
    cp "$scratch/output" "samples-$n-$ranks.jsonl"
done
expect 0 -- "$shardwise" generate $model --prompt 'line 1' --prompt 'says' --max-tokens 20 --seed 7
cp "$scratch/output" plain.txt
expect 0 -- "$shardwise" generate $model --prompt 'says' --max-tokens 20 -n 2 --seed 8
cp "$scratch/output" alone.txt
expect 0 -- "$shardwise" generate $model --prompt 'a"\' --max-tokens 20 --json --stop e --seed 7 -n 40
cp "$scratch/output" stopped.jsonl
python3 - <<'END' || complain 'samples are not what they should be'
import json
def fail(word):
    raise ValueError(word)
def read(name):
    return [json.loads(line, parse_constant=fail) for line in open(name)]
five = read("five.jsonl")
assert [(o["prompt"], o["prompt_index"], o["sample"], o["seed"]) for o in five] == [(p, i, s, 7 + i) for i, p in enumerate(("line 1", "says")) for s in range(5)], five
assert all(set(o) == {"prompt", "text", "prompt_index", "sample", "prompt_tokens", "tokens", "finish_reason", "context_slid", "seed"} for o in five)
assert all(o["tokens"] == 20 and o["finish_reason"] == "length" and o["prompt_tokens"] == len(o["prompt"]) for o in five), five
assert len({o["text"] for o in five}) == 10, "samples repeat one another"
texts = {(o["prompt_index"], o["sample"]): o["text"] for o in five}
for name, n in (("samples-2-1.jsonl", 2), ("samples-8-3.jsonl", 8), ("samples-5-2.jsonl", 5)):
    found = {(o["prompt_index"], o["sample"]): o["text"] for o in read(name)}
    assert len(found) == 2 * n and all(found[key] == texts[key] for key in found if key in texts), name
plain = open("plain.txt", newline="").read()
assert plain == f"line 1{texts[0, 0]}\n---\nsays{texts[1, 0]}\n", plain
alone, wanted = open("alone.txt", newline="").read(), f"says{texts[1, 0]}\n---\nsays{texts[1, 1]}\n"
assert alone == wanted, (alone, wanted)
for o in read("stopped.jsonl"):
    assert o["prompt"] == 'a"\\' and "e" not in o["text"] and o["finish_reason"] in ("stop", "length"), o
    assert (o["finish_reason"] == "length") == (o["tokens"] == 20) or o["tokens"] == 20, o
assert any(o["finish_reason"] == "stop" for o in read("stopped.jsonl"))
END

# Standard input is a prompt where it is asked for, or nothing else is there; or lines of prompts.
said() { "$shardwise" generate $model --max-tokens 9 --seed 3 "$@" 2>&1; }
straight=$(said --prompt 'line 1' </dev/null)
[ "$(printf 'line 1\n' | said)" = "$straight" ] || complain 'a prompt from standard input gives another text'
[ "$(printf '\xef\xbb\xbfline 1' | said --prompt -)" = "$straight" ] || complain '--prompt - gives another text'
[ "$(printf 'line 1\r\n' | said --prompt=-)" = "$straight" ] || complain '--prompt=- gives another text'
[ "$(printf 'line 1\n' | said --prompts -)" = "$straight" ] || complain '--prompts - gives another text'
[ "$(echo never read | said --prompt 'line 1')" = "$straight" ] || complain 'standard input is read though there is a prompt'
[ "$(printf 'two\nlines\n' | said)" = "$(said --prompt "$(printf 'two\nlines')" </dev/null)" ] || complain 'a prompt of two lines is cut'
[ "$(printf 'one\n\ntwo' | said --prompts - --prompt zero)" = "$(said --prompt zero --prompt one --prompt two </dev/null)" ] || complain 'lines of standard input'
expect 2 'standard input is empty' -- "$shardwise" generate $model
expect 2 'standard input is empty' -- "$shardwise" generate $model --prompt -
expect 2 'standard input) is given 2 times' -- "$shardwise" generate $model --prompt - --prompt -
expect 2 'standard input) is given 2 times' -- "$shardwise" generate $model --prompt - --prompts -
expect 2 'no line of it holds a prompt' -- "$shardwise" generate $model --prompts -
printf '\xff\xfel\0i\0' >wide.txt
expect 3 'UTF-16' -- "$shardwise" generate $model --prompts wide.txt
expect 3 'standard input' 'UTF-16' -- bash -c "'$shardwise' generate $model <wide.txt"

# The likeliest token alone: three ways to say it. A penalty is heard of, by greedy choices too; without one nothing changes.
greedy=$(said --prompt 'line 1' --greedy </dev/null)
for flag in --min-p=1 --top-k=1 --top-p=1e-9 --temperature=0; do
    [ "$(said --prompt 'line 1' $flag </dev/null)" = "$greedy" ] || complain "$flag is not the likeliest token"
done
[ "$(said --prompt 'line 1' --min-p 0 --repetition-penalty 1 </dev/null)" = "$straight" ] || complain 'a penalty of 1, or min-p 0, changes the text'
expect 0 -- "$shardwise" generate $model --prompt 'qqqq' --max-tokens 12 --greedy --repetition-penalty 1000 --json
python3 -c "import json, sys; t = [c for c in json.loads(sys.argv[1])['text'] if c != '\ufffd']; assert t and len(set(t)) == len(t) and 'q' not in t, t" "$output" || complain "a penalty of 1000 lets tokens come twice: $output"

expect 2 '--min-p takes a number from 0 to 1, not 1.5' -- "$shardwise" generate $model --prompt a --min-p 1.5
expect 2 '--min-p' -- "$shardwise" generate $model --prompt a --min-p nan
expect 2 '--repetition-penalty' 'above 0' -- "$shardwise" generate $model --prompt a --repetition-penalty 0
expect 2 '--repetition-penalty' -- "$shardwise" generate $model --prompt a --repetition-penalty -1
expect 2 '-n takes a whole number from 1' -- "$shardwise" generate $model --prompt a -n 0
expect 2 '-n takes a whole number' -- "$shardwise" generate $model --prompt a -n 1.5
expect 2 'the same text every time' -- "$shardwise" generate $model --prompt a -n 2 --greedy
expect 2 '--top-p' -- "$shardwise" generate $model --prompt a --top-p 1.01
expect 2 'top_p is 0' -- "$shardwise" generate $model --prompt a --top-p 0
finish
