# Models from and to GGUF files, and a final model in several files, as a user has them.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
gguf=$SW_SOURCE/tests/checkpoint/gguf/tiny-gpt2.gguf

expect 0 list verify diff prune import export merge -- "$shardwise" checkpoint --help
for action in list verify diff prune; do
    expect 0 "shardwise checkpoint $action" -- "$shardwise" checkpoint "$action" --help
    expect 2 'an argument is missing' -- "$shardwise" checkpoint "$action"
done
expect 3 'nowhere: cannot be read: No such file or directory; check the path' -- "$shardwise" checkpoint list nowhere
expect 3 'nowhere: cannot be read: No such file or directory; check the path' -- "$shardwise" checkpoint verify nowhere
expect 2 'did you mean --keep?' -- "$shardwise" checkpoint prune . --kep 3
expect 2 'an action is missing' -- "$shardwise" checkpoint
expect 2 'did you mean import?' -- "$shardwise" checkpoint inport
expect 0 -- "$shardwise" checkpoint import --help
expect 2 'an argument is missing' -- "$shardwise" checkpoint import "$gguf"
expect 2 'one file and one folder' -- "$shardwise" checkpoint import "$gguf" a b
expect 2 '--dtype is fp32, bf16 or fp16, not int8' -- "$shardwise" checkpoint import "$gguf" a --dtype int8
expect 2 '--max-shard-size takes' -- "$shardwise" checkpoint import "$gguf" a --max-shard-size 0
expect 2 '--format is gguf or huggingface, not onnx' -- "$shardwise" checkpoint export a b --format onnx
expect 2 '--type is F16, BF16 or F32' -- "$shardwise" checkpoint export a b.gguf --type Q4_0
expect 2 '--model is for a folder' -- "$shardwise" checkpoint export a b.gguf --model c
expect 2 '--max-shard-size is for a folder' -- "$shardwise" checkpoint export a b.gguf --max-shard-size 5GiB
expect 3 "neither a run's folder nor a checkpoint's" -- "$shardwise" checkpoint export . b
expect 3 'nowhere: cannot be read: No such file or directory; check the path' -- "$shardwise" checkpoint import nowhere a
expect 3 'nowhere: cannot be read: No such file or directory; check the path' -- "$shardwise" checkpoint export nowhere a
expect 3 'nowhere: cannot be read: No such file or directory; check the path' -- "$shardwise" checkpoint diff nowhere a
expect 3 'nowhere.gguf' -- "$shardwise" checkpoint import nowhere.gguf a
expect 3 'README.md: is plain text ("# Shardwise"), not a GGUF file' -- "$shardwise" checkpoint import "$SW_SOURCE/README.md" a
[ -z "$(ls -d a* 2>/dev/null)" ] || complain 'a refused import leaves something'

expect 0 'model: model' -- "$shardwise" checkpoint import "$gguf" model
expect 2 'exists already' -- "$shardwise" checkpoint import "$gguf" model
expect 0 'model: out.gguf' -- "$shardwise" checkpoint export model out.gguf --format gguf --type F32
expect 2 'exists already' -- "$shardwise" checkpoint export model out.gguf
expect 0 -- "$shardwise" checkpoint import out.gguf again
for file in model.safetensors config.json tokenizer.json chat_template.jinja; do
    cmp -s "model/$file" "again/$file" || complain "$file changes on its way through a GGUF file"
done

# Most published folders say in digits that the longest text has 1e30 tokens.
sed -i '1s/{/{"model_max_length": 1000000000000000019884624838656,/' model/tokenizer_config.json
expect 0 'model: large.gguf' -- "$shardwise" checkpoint export model large.gguf

# Fine-tuned by two ranks, saved in several files with the tokenizer's files of the folder it came from, and read by one and three.
for i in $(seq 100); do echo "line $i says that $((i * 7)) is seven times $i"; done >text.txt
cat >run.yaml <<'END'
model: {path: model, max_shard_size: 20000, save_dtype: fp32}
data: {train: [text.txt], tokenizer: bytes, sequence_length: 32}
train: {steps: 2, batch_size: 4, micro_batch_size: 2}
optimizer: {learning_rate: 0}
shard: {ranks: 2, param_dtype: fp32}
checkpoint: {path: run}
END
expect 0 'step 2/2' -- "$shardwise" train run.yaml log.every=1
for file in model.safetensors.index.json model-00001-of-00006.safetensors tokenizer.json generation_config.json; do
    [ -e "run/model/$file" ] || complain "run/model has no $file: $(ls run/model)"
done
[ -e run/model/model.safetensors ] && complain 'a split model has model.safetensors too'
[ -e run/model/chat_template.jinja ] && complain 'raw bytes are said to have the chat template of another tokenizer'
expect 0 'step 2/2' -- "$shardwise" train run.yaml log.every=1 model.path=run/model shard.ranks=3 model.max_shard_size=5GiB checkpoint.path=next
expect 0 'step 2/2' -- "$shardwise" train run.yaml log.every=1 model.path=next/model shard.ranks=1 checkpoint.path=last
# The first run learnt nothing at rate 0 but made its zeros +0, which the others find so: the weights are the same to the bit.
expect 0 -- "$shardwise" checkpoint import run/model whole
cmp -s next/model/model.safetensors whole/model.safetensors || complain 'weights change on their way through saves and loads'
for file in run/model/model*; do
    cmp -s "$file" "last/model/$(basename "$file")" || complain "$(basename "$file") depends on the number of ranks"
done

# Checkpoints as a script reads them, and differences in short.
expect 0 -- "$shardwise" train run.yaml checkpoint.path=saved checkpoint.every=1 checkpoint.keep=0 --quiet
expect 0 -- "$shardwise" checkpoint list saved --json
python3 -c 'import json, sys
steps = json.load(sys.stdin)
assert [s["step"] for s in steps] == [2, 1] and all(s["state"] == "whole" and s["bytes"] > 0 for s in steps), steps' <"$scratch/output" ||
    complain "list --json: $output"
echo x >saved/steps/00000001/manifest.json
expect 0 '"state": "damaged"' '"reason"' -- "$shardwise" checkpoint list saved --json
expect 0 -- "$shardwise" train run.yaml checkpoint.path=other train.seed=7 checkpoint.every=1 data.shuffle=false optimizer.learning_rate=1e-2 --quiet
expect 0 'parameters: ' 'by ' 'tensors differ' -- "$shardwise" checkpoint diff saved other --summary
[ "$(grep -c 'parameters: ' "$scratch/output")" = 1 ] || complain "diff --summary: $output"
expect 0 'equal: ' -- "$shardwise" checkpoint diff saved saved --summary
expect 2 'keep one' -- "$shardwise" checkpoint diff saved saved --summary --json

# Models are compared too, but not with checkpoints; and a model is not taken for a damaged checkpoint.
expect 0 'equal: ' 'every bit' -- "$shardwise" checkpoint diff run/model whole
expect 0 'parameters: ' 'tensors differ' -- "$shardwise" checkpoint diff saved/model other/model --summary
expect 0 '"difference": "values"' '"step": [null, null]' -- "$shardwise" checkpoint diff saved/model other/model --json
expect 0 -- "$shardwise" checkpoint import saved/model half --dtype bf16
expect 0 -- "$shardwise" checkpoint import half single --dtype fp32
expect 0 'the same numbers, as another element type' -- "$shardwise" checkpoint diff half single
expect 2 'saved/model is a model and saved is a checkpoint' 'checkpoint export' -- "$shardwise" checkpoint diff saved/model saved
expect 3 'is a model, not a checkpoint' -- "$shardwise" checkpoint verify saved/model
expect 3 'nowhere: cannot be read' -- "$shardwise" checkpoint diff saved/model nowhere

# A project with a run.yaml and steps/ of its own is no run's folder.
mkdir -p mine/steps/00000002 && echo mine | tee mine/steps/1.txt mine/steps/00000002/manifest.json >mine/run.yaml
expect 3 "is no run's folder" -- "$shardwise" checkpoint list mine
expect 3 "is no run's folder" -- "$shardwise" checkpoint prune mine --keep 1
expect 3 'neither a checkpoint' -- "$shardwise" checkpoint verify mine
expect 2 'is not the folder of a run' -- "$shardwise" train run.yaml checkpoint.path=mine
rm mine/run.yaml
expect 2 'is not the folder of a run' -- "$shardwise" train run.yaml checkpoint.path=mine
[ "$(find mine -type f | wc -l)" = 2 ] || complain "what was there: $(find mine)"
expect 2 'did you mean --json?' -- "$shardwise" checkpoint list saved --jsn
finish
