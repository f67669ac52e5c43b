# What goes wrong around the command: closed streams, readers that leave, signals at odd moments, limits, two runs at once.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
for i in $(seq 400); do echo "line $i says that $((i * 7)) is seven times $i"; done >text.txt
cat >run.yaml <<'END_OF_RUN'
model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_positions: 64}
data: {train: [text.txt], tokenizer: bytes, sequence_length: 16}
train: {steps: 2, batch_size: 4, micro_batch_size: 2}
shard: {ranks: 2}
checkpoint: {path: run}
END_OF_RUN

# The number of a closed stream is not taken by a file of the run, into which the progress would go.
"$shardwise" train run.yaml <&- >&- 2>/dev/null
[ $? = 4 ] || complain 'a closed standard output is not said'
grep -qv '^{.*}$' run/events.jsonl run/metrics.jsonl && complain "what was printed is in a file: $(cat run/events.jsonl)"

if [ -w /dev/full ]; then
    "$shardwise" train run.yaml --json checkpoint.path=unread >/dev/full 2>errors.out
    [ $? = 4 ] || complain 'steps that could not be printed are not said'
    [ "$(wc -l <errors.out)" = 1 ] || complain "steps that could not be printed: $(cat errors.out)"
fi

# Editors that begin a file with a byte order mark.
printf '\357\273\277' | cat - run.yaml >marked.yaml
expect 0 -- "$shardwise" train marked.yaml --print-config

# A generation ends when it is asked to, and when nobody reads it.
for signal in INT:130 TERM:143; do
    rm -f text.out
    "$shardwise" generate run/model --prompt line --max-tokens 100000000 >text.out 2>errors.out &
    until [ -s text.out ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
    kill -"${signal%:*}" $!
    wait $!
    [ $? = "${signal#*:}" ] || complain "generate does not end by SIG${signal%:*}"
    [ "$(grep -c '^shardwise: stopped by' errors.out)" = 1 ] || complain "one line says that it was stopped: $(cat errors.out)"
done
"$shardwise" generate run/model --prompt line --max-tokens 100000000 2>errors.out | head -c 5 >text.out
[ "$(grep -c '^shardwise: error: .*its reader is gone' errors.out)" = 1 ] || complain "a reader that left: $(cat errors.out)"
# The text may have outgrown the context before the reader was seen to be gone, which is told too.
[ "$(grep -vc "has outgrown" errors.out)" = 1 ] || complain "a reader that left: $(cat errors.out)"

# A reader that pauses longer than shard.deadline does not cost the run.
mkfifo paused
{ sleep 2.5 && cat; } <paused >text.out &
"$shardwise" train run.yaml checkpoint.path=paused_run train.steps=100000000 log.every=1 shard.deadline=1 >paused 2>errors.out &
sleep 3.5
kill -TERM $!
wait $!
[ $? = 143 ] || complain "a reader that pauses: $(cat errors.out)"

# Data may take long to check: a signal ends that at once, and nothing is written.
truncate -s 10T long.txt 2>/dev/null || truncate -s 1T long.txt
"$shardwise" train run.yaml 'data.train=[long.txt]' checkpoint.path=early >text.out 2>errors.out &
sleep 0.5
kill -TERM $!
wait $!
[ $? = 143 ] || complain "a check of data does not end by SIGTERM: $(cat errors.out)"
[ "$(cat errors.out)" = 'shardwise: stopped by a signal before the run began' ] || complain "stopped early: $(cat errors.out)"
[ -e early ] && complain 'a run that never began wrote something'
rm long.txt

# Data that change under a run: what was being done is said. A guard is no rank's own.
for i in $(seq 20000); do echo "line $i"; done >moving.txt
"$shardwise" train run.yaml 'data.train=[moving.txt]' checkpoint.path=moved train.steps=1000000 log.every=1 --quiet 2>errors.out &
until [ -s moved/metrics.jsonl ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
truncate -s 100 moving.txt
wait $!
[ $? = 3 ] || complain "data that were cut: $(cat errors.out)"
grep -q 'in "reading data": .*moving.txt' errors.out || complain "data that were cut: $(cat errors.out)"
expect 6 'error: step 2 was stopped by guard.nonfinite' -- "$shardwise" train run.yaml checkpoint.path=guarded guard.nonfinite=stop \
    optimizer.learning_rate=1e30 train.steps=9

# A folder belongs to one run, whoever comes first. The others are refused; or, where runs may go on, they find it done.
for i in 1 2 3 4 5; do
    for resume in never auto; do
        processes=() n_done=0 path="shared-$resume$i"
        for _ in 1 2 3; do
            "$shardwise" train run.yaml checkpoint.path="$path" checkpoint.resume="$resume" --quiet 2>>"$path.err" &
            processes+=($!)
        done
        for process in "${processes[@]}"; do
            wait "$process"
            case $? in
            0) n_done=$((n_done + 1)) ;;
            2) ;;
            *) complain "two runs in one folder end otherwise: $(cat "$path.err")" ;;
            esac
        done
        if [ $n_done = 0 ] || { [ $resume = never ] && [ $n_done != 1 ]; }; then complain "$n_done runs took the same folder"; fi
        [ "$(grep -c '"all steps are done"' "$path/events.jsonl")" = 1 ] || complain "$path was trained more than once"
    done
done

# A terminal that is closed ends a run, a checkpoint saved; nohup is respected.
"$shardwise" train run.yaml checkpoint.path=hung train.steps=1000000 --quiet 2>errors.out &
until [ -s hung/metrics.jsonl ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -HUP $!
wait $!
[ $? = 129 ] || complain 'SIGHUP does not end a run'
[ -e hung/latest/manifest.json ] || complain 'SIGHUP loses what was trained'
# A second signal does not wait for the step, which here takes long.
"$shardwise" train run.yaml checkpoint.path=twice train.batch_size=1000000 --quiet 2>errors.out &
until [ -s twice/events.jsonl ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -TERM $!
sleep 0.1
kill -TERM $!
wait $!
[ $? = 143 ] || complain 'a second signal does not end a run'
grep -qx 'shardwise: stopped at once by a second signal; nothing more is saved' errors.out || complain "twice: $(cat errors.out)"
(trap '' HUP && exec "$shardwise" train run.yaml checkpoint.path=kept train.steps=300 --quiet) &
until [ -s kept/metrics.jsonl ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -HUP $! 2>/dev/null
wait $!
[ $? = 0 ] || complain 'nohup is not respected'

# Without /sys (some containers) the machine is read in another way, and nothing is said of it.
if unshare --map-root-user --mount mount -t tmpfs none /sys 2>/dev/null; then
    unshare --map-root-user --mount sh -c 'mount -t tmpfs none /sys && exec "$@"' sh "$shardwise" train run.yaml checkpoint.path=bare train.steps=1 --quiet >text.out 2>&1 || complain 'a run without /sys fails'
    [ -s text.out ] && complain "a run without /sys says: $(cat text.out)"
fi

# Limits: one message, and a folder in which no rank began is not left to stand in the way of the next attempt.
(ulimit -f 1 && exec "$shardwise" train run.yaml checkpoint.path=limited) >text.out 2>errors.out
[ $? = 4 ] || complain "ulimit -f: $(cat errors.out)"
[ -e limited ] && complain "ulimit -f leaves $(ls limited)"
(ulimit -f 1 && exec "$shardwise" doctor) >text.out 2>errors.out
[ $? -lt 128 ] || complain 'doctor dies of ulimit -f'
if (ulimit -s 256) 2>/dev/null; then
    (ulimit -s 256 && exec "$shardwise" plan run.yaml) >text.out 2>errors.out
    [ $? = 4 ] || complain "ulimit -s 256: $(cat errors.out)"
    grep -q 'ulimit -s' errors.out || complain "ulimit -s 256: $(cat errors.out)"
fi
for kilobytes in 10000 60000 100000; do
    { (ulimit -v $kilobytes && exec "$shardwise" --version); } >/dev/null 2>&1 || continue # a sanitizer needs more
    (ulimit -v $kilobytes && exec timeout 30 "$shardwise" train run.yaml checkpoint.path=limited) >text.out 2>errors.out
    code=$?
    [ $code = 4 ] || [ $code = 0 ] || complain "ulimit -v $kilobytes: exit code $code: $(cat errors.out)"
    [ $code = 4 ] && [ -e limited ] && [ ! -e limited/events.jsonl ] && complain "ulimit -v $kilobytes leaves $(ls limited)"
    rm -rf limited
    (ulimit -v $kilobytes && exec timeout 30 "$shardwise" doctor) >text.out 2>errors.out || complain "ulimit -v $kilobytes: doctor: $(cat errors.out)"
done
finish
