# A path that the system refuses to look at is not taken for one where nothing is, nor for one where something is: whichever verb
# is given it, the message has the system's reason.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
for i in $(seq 100); do echo "line $i of a text"; done >text.txt
cat >run.yaml <<'END'
model: {architecture: llama, layers: 1, hidden: 16, heads: 2, ffn: 32, max_positions: 32}
data: {train: [text.txt], tokenizer: bytes, sequence_length: 16}
train: {steps: 1, batch_size: 2, micro_batch_size: 1}
shard: {ranks: 1}
checkpoint: {path: run, every: 1}
END
expect 0 -- "$shardwise" train run.yaml --quiet
ln -s circle circle
long=$(printf 'x%.0s' $(seq 300))

# CODE REASON PATH: every verb with it, in every place where a path is wanted.
refused() {
    local reason=$1 path=$2
    for code in 3 4; do
        while read -r wanted arguments; do
            [ "$wanted" = "$code" ] || continue
            # shellcheck disable=SC2086
            expect "$code" "$reason" -- "$shardwise" ${arguments//PATH/$path}
        done <<'END'
3 eval PATH --data text.txt
3 eval run/model --data PATH.txt
3 eval run/model --data text.txt --adapter PATH
3 eval run/model --data text.txt --chat-template PATH
3 eval run/model --choices PATH
3 generate PATH --prompt a
3 generate run/model --prompt a --adapter PATH
3 tokenize --tokenizer PATH text.txt -o tokens.npy
3 tokenize --tokenizer bytes PATH.txt -o tokens.npy
4 tokenize --tokenizer bytes text.txt -o PATH/tokens.npy
3 checkpoint list PATH
3 checkpoint verify PATH
3 checkpoint prune PATH --keep 1
3 checkpoint diff run PATH
3 checkpoint export PATH out
4 checkpoint export run PATH/out
4 checkpoint export run/model PATH/out.gguf
3 checkpoint import PATH out
4 checkpoint import run/model PATH/out
3 checkpoint merge run/model PATH out
4 checkpoint merge run/model run/model PATH/out
4 train run.yaml checkpoint.path=PATH/new
3 train run.yaml checkpoint.path=new data.tokenizer=PATH
3 train run.yaml checkpoint.path=new data.train=PATH.txt
3 train run.yaml checkpoint.path=new data.chat_template=PATH
END
    done
    [ ! -e out ] && [ ! -e new ] || complain "$reason: something is made"
}
refused 'Too many levels of symbolic links' circle/x
refused 'File name too long' "$long"
if [ "$(id -u)" != 0 ]; then
    mkdir -p locked/x
    chmod 000 locked
    refused 'Permission denied' locked/x
    chmod 700 locked
fi
expect 3 'No such file or directory' -- "$shardwise" checkpoint list nowhere
finish
