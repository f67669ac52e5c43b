# Verbs, flags, help, messages and exit codes of the command.
set -u
source "$SW_SOURCE/tests/cli/command.bash"

expect 0 'shardwise 0.' -- "$shardwise" --version
expect 0 train generate eval tokenize plan checkpoint doctor bench -- "$shardwise" --help
for verb in profile; do
    grep -qw "$verb" "$scratch/output" && complain "--help lists $verb, which is not built"
    expect 2 "$verb is not built yet" -- "$shardwise" "$verb" x
done
expect 2 'RUN.yaml' -- "$shardwise"
expect 2 'did you mean train?' -- "$shardwise" trian
expect 2 'no verb xyzzy' -- "$shardwise" xyzzy

for verb in train generate eval tokenize plan checkpoint doctor bench; do
    expect 0 "shardwise $verb" --help -- "$shardwise" "$verb" --help
    expect 0 "shardwise $verb" -- "$shardwise" "$verb" -h
    expect 2 'unknown flag --hlep' 'did you mean --help?' -- "$shardwise" "$verb" --hlep
done
expect 0 'batch_size: 32' 'learning_rate: auto' -- "$shardwise" train --help
grep -qE 'offload|tensorboard' "$scratch/output" && complain 'train --help lists what is not built'

# A setting as other programs take them.
expect 2 'unknown flag --train.steps' 'a setting is written section.key=value, without dashes' -- "$shardwise" train run.yaml --train.steps=5
expect 2 'unknown flag --steps' 'a setting is written section.key=value, without dashes' -- "$shardwise" plan --steps 5 run.yaml

# Help is found where people look for it.
expect 0 train generate checkpoint -- "$shardwise" help
expect 0 train generate checkpoint -- "$shardwise" help help
expect 0 'shardwise 0.' -- "$shardwise" -V
for verb in train generate eval tokenize plan checkpoint doctor bench; do
    "$shardwise" "$verb" --help >"$scratch/help"
    expect 0 -- "$shardwise" help "$verb"
    cmp -s "$scratch/output" "$scratch/help" || complain "help $verb is not $verb --help"
done
expect 0 'shardwise checkpoint list RUN_DIR' -- "$shardwise" help checkpoint list
expect 0 'shardwise checkpoint list RUN_DIR' -- "$shardwise" checkpoint help list
expect 0 'shardwise checkpoint ACTION' -- "$shardwise" checkpoint help
expect 0 'shardwise bench comm' -- "$shardwise" help bench comm
expect 2 'did you mean train?' -- "$shardwise" help trian
expect 2 'did you mean list?' -- "$shardwise" help checkpoint lst
expect 2 'no option --verison' 'did you mean --version?' -- "$shardwise" --verison
expect 2 'did you mean help?' -- "$shardwise" hlep
expect 2 'did you mean --help?' -- "$shardwise" --hepl

# Completion asks the command: verbs, actions, the flags of actions, settings.
PATH=$SW_BUILD:$PATH
completes() { # WORDS... :: REPLY...: what the last word may become
    local words=()
    while [ "$1" != :: ]; do
        words+=("$1")
        shift
    done
    shift
    bash -c 'source "$1"; shift; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shardwise; printf "%s\n" "${COMPREPLY[@]}"' \
        - "$SW_SOURCE/packaging/completion.bash" "${words[@]}" >"$scratch/replies"
    for reply in "$@"; do
        grep -qxF -- "$reply" "$scratch/replies" || complain "completion of '${words[*]}' lacks $reply: $(tr '\n' ' ' <"$scratch/replies")"
    done
}
completes shardwise '' :: train checkpoint help --help
completes shardwise checkpoint '' :: list verify diff prune import export merge
completes shardwise checkpoint l :: list
completes shardwise checkpoint list -- :: --json --help
completes shardwise checkpoint diff a b -- :: --summary --json
completes shardwise bench '' :: step comm gemm roofs
completes shardwise help ch :: checkpoint
completes shardwise doctor -- :: --json
completes shardwise train run.yaml shard. :: shard.ranks= shard.stage=
completes shardwise bench step run.yaml train.st :: train.steps=

# Arguments.
expect 2 'RUN.yaml' -- "$shardwise" train
expect 2 'RUN.yaml' -- "$shardwise" plan
expect 2 'twice' -- "$shardwise" train --quiet --quiet x.yaml
expect 2 'takes no value' -- "$shardwise" train --quiet=1 x.yaml
expect 2 'keep one' -- "$shardwise" plan --json --print-program x.yaml
expect 2 '--prompt' -- "$shardwise" generate model
expect 2 '--prompt' -- "$shardwise" generate model --prompt ''
expect 2 'needs a value' -- "$shardwise" generate model --prompt
expect 2 '--max-tokens' 'from 1' -- "$shardwise" generate model --prompt a --max-tokens 0
expect 2 '--top-p' -- "$shardwise" generate model --prompt a --top-p=1.5
expect 2 'keep one' -- "$shardwise" generate model --prompt a --greedy --temperature 0.5
expect 2 'quotes' -- "$shardwise" generate model --prompt Once upon
expect 2 'no argument' -- "$shardwise" doctor now

# Settings: file, line, key and what was meant; nothing is written.
mkdir "$scratch/place"
cd "$scratch/place" || exit 1
printf 'model: {path: m}\noptimizer:\n  learing_rate: 1\n' >bad.yaml
expect 2 'bad.yaml:3' learing_rate 'did you mean learning_rate?' -- "$shardwise" train bad.yaml
expect 2 'missing.yaml' -- "$shardwise" train missing.yaml
expect 2 'folder' -- "$shardwise" train .
# Settings may come through a pipe of the shell, whose paths count from here; a pipe with a name, a socket and a device are not waited for.
(sleep 14 | timeout 60 "$shardwise" train /dev/stdin; echo "exit code $?") >"$scratch/silent" 2>&1 &
expect 2 'layers takes' '/dev/fd/' -- "$shardwise" train <(sleep 1; echo 'model: {layers: x}')
expect 2 "too many for settings" -- "$shardwise" train <(yes)
expect 2 'nothing came' -- "$shardwise" train <(true)
expect 0 "$PWD/a.txt" -- "$shardwise" train <(echo 'data: {train: a.txt}') --print-config
expect 0 "$PWD/a.txt" -- bash -c 'echo "data: {train: a.txt}" | "$0" train --print-config /dev/stdin' "$shardwise"
mkfifo fifo
ln -s fifo link.yaml
for strange in fifo link.yaml; do
    expect 2 'is a pipe, not a file of settings' "$strange" '/dev/stdin' -- "$shardwise" train "$strange"
    expect 2 'is a pipe' "$strange" -- "$shardwise" plan "$strange"
done
expect 2 'is a pipe' link.yaml -- "$shardwise" eval link.yaml
expect 2 'is a device' /dev/zero -- "$shardwise" train /dev/zero
expect 2 '/dev/stdin' -- "$shardwise" train -
rm fifo link.yaml
printf 'model: {path: m}\n' >run.yaml
expect 2 'run.yaml' 'data.train' -- "$shardwise" train run.yaml
expect 2 'command line' 'train.steps' ten -- "$shardwise" train run.yaml train.steps=ten
expect 0 'steps: 2' -- "$shardwise" train run.yaml train.steps=1 train.steps=2 --print-config
expect 2 'write 10, or 8' -- "$shardwise" train run.yaml train.steps=010
expect 2 'from 1' 'write 16' -- "$shardwise" generate model --prompt a --max-tokens 0x10
expect 2 '--max-shard-size' 'write 2GiB, or 2GB' -- "$shardwise" checkpoint import a b --max-shard-size 2G
expect 2 '--max-shard-size' 'write 10MiB' -- "$shardwise" checkpoint export a b --max-shard-size 010MiB
expect 2 'write 0.5' -- "$shardwise" generate model --prompt a --top-p 0,5
expect 2 'step=N' 'write 3' -- "$shardwise" train run.yaml --inject kill:rank=1,step=03
expect 2 'command line' 'section.key=value' -- "$shardwise" train run.yaml other.yaml
expect 3 'nowhere' -- "$shardwise" generate nowhere --prompt a
[ "$(ls)" = "$(printf 'bad.yaml\nrun.yaml')" ] || complain "something was written: $(ls)"

# Folders of a run that are taken for the model's.
mkdir -p "$scratch/runs/whole/model" "$scratch/runs/lora/model"
echo '{}' >"$scratch/runs/whole/model/config.json"
echo '{}' >"$scratch/runs/lora/model/adapter_config.json"
expect 3 'folder of a run' 'the folder model' -- "$shardwise" generate "$scratch/runs/whole" --prompt a
expect 3 'adapter' 'checkpoint merge' -- "$shardwise" generate "$scratch/runs/lora/model" --prompt a

# Settings printed read back to the same; a path on the command line counts from the file's folder.
expect 0 'seed: 7' "path: $scratch/place/m" -- "$shardwise" train run.yaml --print-config train.seed=7
mkdir elsewhere
cp "$scratch/output" elsewhere/again.yaml
expect 0 -- "$shardwise" train elsewhere/again.yaml --print-config
cmp -s "$scratch/output" elsewhere/again.yaml || complain 'printed settings do not read back to the same'
expect 0 "path: $scratch/place/elsewhere/n" -- "$shardwise" train elsewhere/again.yaml --print-config model.path=n

# Output that cannot be written is an error; names do not move a terminal's cursor; no colour where nobody sees it.
if [ -w /dev/full ]; then
    "$shardwise" train --help >/dev/full 2>"$scratch/errors"
    [ $? = 4 ] || complain '/dev/full is taken'
fi
expect 2 -- "$shardwise" train "$(printf 'a\033[31mb')"
grep -q "$(printf '\033')" "$scratch/errors" && complain 'an escape reaches the terminal'
wait
grep -q 'nothing came through the pipe for 10 s · /dev/stdin' "$scratch/silent" && grep -q 'exit code 2' "$scratch/silent" ||
    complain "a silent pipe: $(cat "$scratch/silent")"
finish
