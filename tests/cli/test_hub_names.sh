# Names of the Hugging Face Hub where paths are wanted: the command that fetches them, and the setting that goes with it.
set -u
source "$SW_SOURCE/tests/cli/command.bash"
cd "$scratch" || exit 1
mkdir runs there
echo text >a.txt
cat >run.yaml <<'END'
model: {path: HuggingFaceTB/SmolLM2-135M}
data: {train: [a.txt], tokenizer: gpt2}
train: {steps: 2}
checkpoint: {path: r}
END
expect 3 'model.path' 'hf download HuggingFaceTB/SmolLM2-135M --local-dir SmolLM2-135M' 'write model.path: SmolLM2-135M' -- "$shardwise" train run.yaml
expect 3 'hf download HuggingFaceTB/SmolLM2-135M --local-dir SmolLM2-135M' -- "$shardwise" plan run.yaml
expect 3 'hf download HuggingFaceTB/SmolLM2-135M --local-dir SmolLM2-135M' -- "$shardwise" eval run.yaml --data a.txt
expect 3 'hf download gpt2 --local-dir gpt2' 'model.path: gpt2' -- "$shardwise" train run.yaml model.path=https://huggingface.co/gpt2
new=(model.path=null model.architecture=llama model.layers=1 model.hidden=16 model.heads=2 model.ffn=32)
expect 3 "hf download gpt2 --local-dir gpt2 --include 'tokenizer*'" 'data.tokenizer: gpt2' -- "$shardwise" train run.yaml "${new[@]}"
expect 3 'hf download a/b --repo-type dataset --local-dir b' 'data.train: b' -- "$shardwise" train run.yaml "${new[@]}" data.tokenizer=bytes 'data.train=[a/b]'
expect 3 'model.lora.adapter' 'hf download a/b --local-dir b' -- "$shardwise" train run.yaml data.tokenizer=bytes model.path=there model.train=lora model.lora.adapter=a/b
(cd / && "$shardwise" train "$scratch/run.yaml") >"$scratch/output" 2>&1
grep -qF -- "--local-dir $scratch/SmolLM2-135M" "$scratch/output" || complain "from another folder: $(cat "$scratch/output")"

expect 3 'hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B' './Llama-3.2-1B' -- "$shardwise" generate meta-llama/Llama-3.2-1B --prompt a
expect 3 'hf download gpt2 --local-dir gpt2' -- "$shardwise" eval gpt2 --data a.txt
expect 3 "hf download openai-community/gpt2 --local-dir gpt2 --include 'tokenizer*'" -- "$shardwise" tokenize --tokenizer openai-community/gpt2 a.txt --print-ids
expect 3 'hf download a/b --local-dir b' -- "$shardwise" checkpoint import a/b out
expect 3 'hf download a/b --local-dir b' -- "$shardwise" checkpoint merge a/b c/d out

# What is a path is taken for one.
for path in runs/x ./gpt2 ../a/b /gpt2 a/b/c x.json; do
    expect 3 'check the path' -- "$shardwise" generate "$path" --prompt a
    grep -q 'hf download' "$scratch/errors" && complain "$path is taken for a name of the Hub"
done
finish
