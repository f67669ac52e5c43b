# A small run from text to generated text, as a user does it, and what the command shows of it.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
for i in $(seq 400); do echo "line $i says that $((i * 7)) is seven times $i"; done >text.txt
cat >run.yaml <<'END'
model: {architecture: llama, layers: 1, hidden: 32, heads: 2, ffn: 64, max_positions: 32}
data: {train: [text.txt], validation: [text.txt], validation_rows: 4, tokenizer: bytes, sequence_length: 32}
train: {steps: 4, batch_size: 4, micro_batch_size: 2}
optimizer: {learning_rate: 1e-2}
shard: {ranks: 2}
checkpoint: {path: run}
log: {every: 2}
END

expect 0 'sequence_length 32' 'gradients' -- "$shardwise" train run.yaml --dry-run
[ -e run ] && complain '--dry-run wrote something'
expect 0 'gradients' -- "$shardwise" plan run.yaml
expect 0 '"gradients"' -- "$shardwise" plan run.yaml --json
python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$scratch/output" || complain 'plan --json is not JSON'
expect 0 gather reduce 'one instruction on each line' 'moves N B   bytes that come from other ranks' -- "$shardwise" plan run.yaml --print-program
for word in $(sed -n 's/^ *[0-9]* \(prepare\|forward\|backward\|reduce\|update\) *\(comp\|comm\) \([a-z]*\) .*/\3/p' "$scratch/output" | sort -u); do
    [ "$word" = prepare ] || grep -q "^           .*$word\|^  what  .*$word" "$scratch/output" || complain "plan --print-program does not explain $word"
done

expect 0 'step 2/4' 'step 4/4' 'validation loss' -- "$shardwise" train run.yaml
grep -q "$(printf '[\033\r]')" "$scratch/output" && complain 'a log has the marks of a terminal'
expect 0 'is finished' -- "$shardwise" train run.yaml
expect 2 'run' -- "$shardwise" train run.yaml checkpoint.resume=never
expect 0 'gradients' -- "$shardwise" train run.yaml --dry-run # which writes nothing, so the folder may be there
expect 0 -- "$shardwise" train run.yaml --quiet checkpoint.path=quiet
[ -z "$output$errors" ] || complain "--quiet prints: $output $errors"
expect 0 -- "$shardwise" train run.yaml --json checkpoint.path=json
cmp -s "$scratch/output" json/metrics.jsonl || complain '--json prints something else than metrics.jsonl'

expect 0 -- "$shardwise" train run/run.yaml --print-config
sed 's/  # auto: .*//' run/run.yaml | cmp -s "$scratch/output" || complain "the run's own run.yaml does not read back to itself"

expect 0 'line' -- "$shardwise" generate run/model --prompt line --max-tokens 5 --seed 3
cp "$scratch/output" first
expect 0 -- "$shardwise" generate run/model --prompt line --max-tokens 5 --seed 3
cmp -s "$scratch/output" first || complain 'the same seed gives another text'
expect 0 -- "$shardwise" generate run/model --prompt line --max-tokens 5 --greedy
[ "$(wc -c <"$scratch/output")" -ge 6 ] || complain 'greedy text is empty'

# Conversations in bytes, in the format that is set; without one there is no way to write them.
for _ in $(seq 20); do echo '{"messages": [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "answer"}]}'; done >chat.jsonl
expect 3 'needs a chat template' -- "$shardwise" train run.yaml 'data.train=[chat.jsonl]' 'data.validation=[]' checkpoint.path=chat
expect 0 -- "$shardwise" train run.yaml 'data.train=[chat.jsonl]' 'data.validation=[]' data.chat_format=zephyr log.every=1 checkpoint.path=chat
grep -q '"tokens": 128, "supervised_tokens": 128,' chat/metrics.jsonl && complain 'what users say is trained on'

# A live line, where the output is a terminal.
if command -v script >/dev/null; then
    script -qec "$shardwise train run.yaml checkpoint.path=live" /dev/null >live.txt 2>&1 </dev/null || complain 'a run on a terminal fails'
    grep -q "$(printf '\033\\[K')" live.txt || complain 'a terminal shows no live line'
fi

# Asked to stop, a run ends cleanly with the signal's exit code.
for signal in INT TERM; do
    "$shardwise" train run.yaml checkpoint.path="stop-$signal" train.steps=1000000 log.every=1 >stop.txt 2>errors.txt &
    pid=$!
    for _ in $(seq 200); do
        grep -q '^step' stop.txt && break
        sleep 0.1
    done
    kill -s "$signal" "$pid"
    wait "$pid"
    code=$?
    [ "$code" = "$([ "$signal" = INT ] && echo 130 || echo 143)" ] || complain "SIG$signal: exit code $code: $(cat errors.txt)"
    grep -q 'error:' errors.txt && complain "SIG$signal: a stop that was asked for is called an error: $(cat errors.txt)"
done

# SIGQUIT asks what every rank is doing, and the run goes on.
"$shardwise" train run.yaml checkpoint.path=report train.steps=1000000 log.every=1 >report.txt 2>errors.txt &
pid=$!
for _ in $(seq 200); do
    grep -q '^step' report.txt && break
    sleep 0.1
done
kill -s QUIT "$pid"
for _ in $(seq 100); do
    grep -q 'rank 1' report.txt && break
    sleep 0.1
done
grep -q 'rank 1' report.txt || complain 'SIGQUIT reports nothing of rank 1'
kill -s TERM "$pid"
wait "$pid"
[ $? = 143 ] || complain "a run does not go on after SIGQUIT: $(cat errors.txt)"
finish
