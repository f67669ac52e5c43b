# Generated and evaluated text, as a user sees it: several prompts, stop texts, contexts, ranks.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
for i in $(seq 400); do echo "line $i says that $((i * 7)) is seven times $i"; done >text.txt
cat >run.yaml <<'END'
model: {architecture: llama, layers: 2, hidden: 32, heads: 2, ffn: 64, max_positions: 32, save_dtype: fp32}
data: {train: [text.txt], validation: [text.txt], validation_rows: 4, tokenizer: bytes, sequence_length: 32}
train: {steps: 30, batch_size: 4, micro_batch_size: 2}
optimizer: {learning_rate: 1e-2}
shard: {ranks: 2, param_dtype: fp32}
checkpoint: {path: run}
END
expect 0 -- "$shardwise" train run.yaml --quiet

# A text is the same alone and beside others, on any number of ranks, in batches of any size; longer than the model's positions too.
prompts=("line 1" "li" "a text that is a little longer" "7" "says")
: >alone.txt
for i in "${!prompts[@]}"; do
    [ "$i" = 0 ] || echo --- >>alone.txt
    expect 0 "${prompts[$i]}" -- "$shardwise" generate run/model --prompt "${prompts[$i]}" --max-tokens 50 --greedy
    cat "$scratch/output" >>alone.txt
done
printf '%s\n' "${prompts[@]:2}" >rest.txt
for layout in '1 8' '1 2' '2 1' '3 8'; do
    read -r ranks batch <<<"$layout"
    expect 0 -- "$shardwise" generate run/model --prompt "${prompts[0]}" --prompt "${prompts[1]}" --prompts rest.txt --max-tokens 50 --greedy \
        --ranks "$ranks" --batch "$batch"
    cmp -s "$scratch/output" alone.txt || complain "$ranks ranks, batches of $batch: another text than alone: $(cat "$scratch/output")"
done

# That a text outgrows the model's 32 positions is said, once; the last token of 4 + 29 needs no position.
for case in '0 29 line' '1 30 line' '1 30 line text'; do
    read -r n_warnings max first second <<<"$case"
    "$shardwise" generate run/model --prompt "$first" ${second:+--prompt "$second"} --max-tokens "$max" --greedy --ignore-end >/dev/null 2>told.txt ||
        complain "generate --max-tokens $max fails: $(cat told.txt)"
    [ "$(grep -c "prompt 1 has outgrown the model's 32 positions" told.txt)" = "$n_warnings" ] && [ "$(wc -l <told.txt)" = "$n_warnings" ] ||
        complain "--max-tokens $max: not $n_warnings warnings: $(cat told.txt)"
done

for max in 29 30; do
    expect 0 '"context_slid": '"$([ $max = 30 ] && echo true || echo false)" -- \
        "$shardwise" generate run/model --prompt line --max-tokens $max --greedy --ignore-end --json
done

# It ends before a stop text.
expect 0 -- "$shardwise" generate run/model --prompt line --max-tokens 20 --greedy
whole=$output
stop=${whole:10:3}
before=line$(rest=${whole:4} && printf %s "${rest%%"$stop"*}")
expect 0 -- "$shardwise" generate run/model --prompt line --max-tokens 20 --greedy --stop "$stop" --stop 'never said'
[ "$output" = "$before" ] || complain "with --stop '$stop': '$output', not '$before'"


# Folders that are no model, but from which there is a way to one.
mkdir unfinished
cp -r run/steps unfinished
expect 3 'take the folder model in it' -- "$shardwise" generate run --prompt line
expect 3 'is a checkpoint, not a model' 'shardwise checkpoint export run/latest OUT_DIR' -- "$shardwise" generate run/latest --prompt line
expect 3 'has no model yet' 'shardwise checkpoint export unfinished OUT_DIR' -- "$shardwise" generate unfinished --prompt line
expect 2 'this is a model' 'model: {path: run/model}' -- "$shardwise" plan run/model
expect 2 'name the RUN.yaml in it' -- "$shardwise" plan run

expect 2 'prompt 1' '32 positions' -- "$shardwise" generate run/model --prompt 'these are more bytes than the model has positions'
expect 2 'empty' -- "$shardwise" generate run/model --prompt a --stop ''
expect 2 '--dtype' -- "$shardwise" generate run/model --prompt a --dtype fp8
expect 2 '--chat-format' -- "$shardwise" generate run/model --prompt a --chat
expect 0 -- "$shardwise" generate run/model --prompt line --max-tokens 3 --greedy --dtype bf16
: >empty.txt
expect 2 'empty.txt' -- "$shardwise" generate run/model --prompts empty.txt

# The loss of evaluation is that of validation while training; a byte has as many bits as a token.
for ranks in 1 2 3; do
    expect 0 -- "$shardwise" eval run/model --data text.txt --sequence-length 32 --rows 4 --ranks "$ranks" --json
    cp "$scratch/output" "eval-$ranks.json"
    cmp -s eval-1.json "eval-$ranks.json" || complain "$ranks ranks: another score: $(cat "eval-$ranks.json")"
done
python3 - <<'END' || complain 'eval says something else than training'
import json, math
score = json.load(open("eval-1.json"))
source = score["sources"][0]
losses = [json.loads(line)["validation_loss"] for line in open("run/metrics.jsonl") if "validation_loss" in line]
assert abs(score["loss"] - losses[-1]) < 1e-5, (score, losses[-1])
assert source["tokens"] == source["bytes"] == 128, source
assert abs(source["bits_per_byte"] - source["loss"] / math.log(2)) < 1e-6, source
assert abs(source["perplexity"] - math.exp(source["loss"])) < 1e-5 * source["perplexity"], source
END
expect 0 'text.txt: loss' 'bits per byte' -- "$shardwise" eval run.yaml --rows 4
printf '%s\n' '{"prompt": "line 12 says", "choices": [" that", "QQQQQ"], "answer": 0}' '' \
    '{"prompt": "line 3", "choices": ["ZZZZ", " says that"], "answer": " says that"}' >choices.jsonl
expect 0 'accuracy 1.0000' '2 questions' -- "$shardwise" eval run/model --choices choices.jsonl --ranks 2
echo '{"prompt": "a", "choices": ["b", "c"], "answer": 2}' >bad.jsonl
expect 3 'bad.jsonl: line 1' 'answer 2' -- "$shardwise" eval run/model --choices bad.jsonl
echo '{"prompt": "a", "choices": ["b"], "answer": 0}' >bad.jsonl
expect 3 'bad.jsonl: line 1' 'there is 1 choice' -- "$shardwise" eval run/model --choices bad.jsonl
expect 2 '--data' -- "$shardwise" eval run/model
expect 2 '32 positions' -- "$shardwise" eval run/model --data text.txt --sequence-length 64
finish
