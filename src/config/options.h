/* options.h: the table of options, one line each. settings.h says what the columns mean and makes
 * the struct from it.
 *
 * OFF is an option that later versions build: `default` is the value that means "off", `allowed`
 * other spellings of it, `help` what is not built yet. Its value is always the off-value, so it has
 * no field.
 */
#ifndef SW_CONFIG_OPTIONS_H
#define SW_CONFIG_OPTIONS_H

#include "optim/optimizers.h"

/* clang-format off */

#define SW_OPTIONS_MODEL(X) \
    X(model, path, PATH, "null", "", "an existing model: a Hugging Face folder (config.json, *.safetensors); or leave it out and give the dimensions of a new model") \
    X(model, architecture, CHOICE, "null", "null|llama|gpt2", "of a new model; null with model.path") \
    X(model, layers, COUNT, "0", "0..2048", "number of blocks") \
    X(model, hidden, COUNT, "0", "0..16777216", "channels between blocks (hidden size)") \
    X(model, heads, COUNT, "0", "0..65536", "attention heads") \
    X(model, kv_heads, COUNT, "0", "0..65536", "key/value heads, which must divide heads; 0: as many as heads") \
    X(model, ffn, COUNT, "0", "0..16777216", "feed-forward channels (intermediate size); with gpt2 0 means 4 x hidden") \
    X(model, vocab, COUNT_AUTO, "auto", "1..2147483647", "size of the vocabulary; auto: the tokenizer's") \
    X(model, max_positions, COUNT, "1024", "1..2147483647", "longest sequence that the model takes") \
    X(model, tied, BOOL, "true", "", "the output projection is the embedding table") \
    X(model, rope_theta, REAL, "10000", ">0..", "base of the rotary angles (llama)") \
    X(model, norm_epsilon, REAL, "1e-05", ">0..", "added to the variance in norms") \
    X(model, dropout, REAL_AUTO, "auto", "0..<1", "share of values set to zero in training: attention weights and, with gpt2, also the embedding and the outputs of blocks; auto: the model's own, 0 for a new one") \
    X(model, init_std, REAL, "0.02", "0..", "standard deviation of new weights") \
    X(model, train, TRAIN, "all", "", "what is trained. all: every parameter; lora: low-rank adapters, the model is frozen (model.lora); or a list of name patterns (* and ?), the rest is frozen") \
    X(model, save_dtype, CHOICE, "bf16", "bf16|fp32|fp16", "element type of the final model") \
    X(model, max_shard_size, BYTES, "5GiB", "1..", "size at which the final model is split into several files") \
    X(model, lora, LORA, "{rank: 8, alpha: 16, targets: [q_proj, v_proj], dropout: 0, rslora: false, adapter: null}", "", "for train: lora. targets: all-linear, or names of linear layers (the end of a name is enough), or patterns (* and ?) of whole names; rslora: scale by alpha / sqrt(rank), not alpha / rank; adapter: a PEFT folder to start from")

#define SW_OPTIONS_DATA(X) \
    X(data, train, PATHS, "[]", "", "files, folders or patterns, read in this order: .txt; .jsonl with rows of {text}, {prompt, completion}, {messages}, {conversations} or {instruction, input, output}; or token files (.npy, one dimension)") \
    X(data, mix, REALS, "null", "0..", "how much is drawn from each entry of data.train, as weights in the same order; null: all entries are read as one") \
    X(data, shuffle, BOOL, "true", "", "take rows in random order, another in each epoch; false: in the order of the data") \
    X(data, labels_mask, PATH, "null", "", "a .npy file for a single token file: 1 where a token is a target (is trained on), else 0") \
    X(data, documents, PATH, "null", "", "a .npy file for token files: the lengths of their documents") \
    X(data, labels, OFF, "null", "", "training on images") \
    X(data, captions, OFF, "null", "", "training on images and captions") \
    X(data, chat_format, CHOICE, "auto", "auto|chatml|llama2|llama3|mistral|mistral-v3|mistral-v1|zephyr|gemma", "how conversations are written; auto: by the chat template in the model's folder; mistral means mistral-v3") \
    X(data, chat_template, PATH, "null", "", "a file with a Jinja chat template; null: data.chat_format decides") \
    X(data, chat_now, TEXT, "null", "", "the time that a chat template sees as now, 2025-06-30 or 2025-06-30 12:00:00; null: the day on which the run began") \
    X(data, columns, COLUMNS, "{}", "", "other names that .jsonl files have for these keys: text, prompt, completion, messages, conversations, instruction, input, output, system, tools, documents; role and content in messages") \
    X(data, long, LONG, "split", "split|drop|error", "what to do with a document longer than a row: cut it, leave it out, or refuse the data") \
    X(data, validation, PATHS, "[]", "", "held-out files, folders or patterns; [] for none") \
    X(data, validation_rows, COUNT, "64", "1..", "rows in each evaluation") \
    X(data, tokenizer, PATH, "null", "bytes", "a tokenizer.json or its folder; bytes: every byte of a text is a token; null: the model's") \
    X(data, sequence_length, COUNT, "512", "1..2147483647", "tokens in a row") \
    X(data, packing, CHOICE, "true", "true|whole|false", "whether documents share rows (they never see each other). true: they do; a conversation, or a prompt with its completion, that fits into a row is not cut, text is cut where a row ends; whole: text that fits is not cut either; false: each document gets rows of its own, filled up with padding")

#define SW_OPTIONS_TRAIN(X) \
    X(train, steps, COUNT, "0", "0..", "steps to train for; or give epochs or tokens; 0: not given") \
    X(train, epochs, COUNT, "0", "0..", "passes over the data; 0: not given") \
    X(train, tokens, COUNT, "0", "0..", "tokens to train on, for example 1e9; 0: not given") \
    X(train, validate_every, COUNT, "0", "0..", "steps between evaluations; 0: only at the end") \
    X(train, batch_size, COUNT, "32", "1..16777216", "rows in a step, over all ranks") \
    X(train, micro_batch_size, COUNT_AUTO, "4", "1..16777216", "rows that a rank computes at a time; auto: the plan chooses") \
    X(train, seed, COUNT, "1234", "0..", "for all random numbers of the run") \
    X(train, threads, COUNT_AUTO, "auto", "1..256", "threads that compute in each rank; auto: physical cores divided by ranks. It does not change results") \
    X(train, kernels, CHOICE, "auto", "auto|baseline|x86-64-v3|x86-64-v4", "the instruction set of the kernels; auto: the widest that this CPU has (baseline: any CPU, x86-64-v3: AVX2, x86-64-v4: AVX-512). Each gives slightly different bits") \
    X(train, restarts, COUNT, "3", "0..1000000", "how often the ranks are started again, from the newest checkpoint, after one died or hung") \
    X(train, elastic, BOOL, "false", "", "after a rank was lost, start again with those that are left and the same batch; false: with as many as before") \
    X(train, reproducible, BOOL, "false", "", "refuse everything that could change a bit of the result with ranks, threads or measurements")

#define SW_OPTIONS_OPTIMIZER(X) \
    X(optimizer, name, CHOICE, "adamw", &SW_OPTIMIZER_WORDS[1], "AdamW (Loshchilov and Hutter 2019) or SGD with momentum") \
    X(optimizer, learning_rate, REAL_AUTO, "auto", "0..", "the highest rate of the schedule; auto: 2e-5 to fine-tune a model (model.path), 2e-4 for adapters, 3e-4 for a new model") \
    X(optimizer, betas, PAIR, "[0.9, 0.95]", "0..<1", "beta1 and beta2 of AdamW") \
    X(optimizer, epsilon, REAL, "1e-8", ">0..", "epsilon of AdamW, added to the root of the second moment") \
    X(optimizer, weight_decay, REAL_AUTO, "auto", "0..", "applies to parameters of two or more dimensions, not to biases and norms; auto: 0 with model.path, 0.1 for a new model") \
    X(optimizer, momentum, REAL, "0", "0..<1", "momentum of sgd; 0: none") \
    X(optimizer, clip_norm, REAL, "1.0", "0..", "gradients with a larger norm are scaled down to it; 0: gradients are not clipped") \
    X(optimizer, schedule, CHOICE, "cosine", "cosine|linear|constant|wsd", "how the learning rate changes after warm-up; wsd: constant, then a decay at the end") \
    X(optimizer, warmup_steps, COUNT_AUTO, "auto", "0..", "steps over which the learning rate rises from 0; auto: 3 % of the steps with model.path; for a new model 100, but at most a tenth of the steps") \
    X(optimizer, decay_ratio, REAL, "0.2", "0..1", "part of the steps in which wsd decays") \
    X(optimizer, final_ratio, REAL, "0.1", "0..1", "last learning rate, as a part of the highest")

#define SW_OPTIONS_SHARD(X) \
    X(shard, ranks, COUNT_AUTO, "auto", "1..256", "processes on this machine; auto: one for each physical core (for each train.threads cores, if given), up to 8; under mpirun, mpiexec or srun: those that it started") \
    X(shard, stage, COUNT, "3", "0..3", "what is split over ranks. 0: nothing, 1: optimizer states, 2: gradients as well, 3: parameters as well") \
    X(shard, replicas, OFF, "1", "", "hybrid sharding") \
    X(shard, reshard_after_forward, BOOL, "true", "", "release gathered parameters after forward and gather them again for backward") \
    X(shard, wrap, WRAP, "block", "", "what is gathered at one time. block: one block of the model; {min_parameters: N}: small neighbours are joined") \
    X(shard, prefetch, COUNT, "1", "0..16", "units gathered ahead of use") \
    X(shard, accumulate, CHOICE, "sharded", "sharded|unsharded", "sum gradients over ranks after every micro-batch (sharded), or once a step, which needs more memory (unsharded)") \
    X(shard, param_dtype, CHOICE, "bf16", "bf16|fp32", "type of gathered parameters and of activations; sums and masters stay fp32") \
    X(shard, reduce_dtype, CHOICE, "fp32", "fp32", "type in which gradients are summed") \
    X(shard, recompute, CHOICE, "none", "none|selective|block", "activations that are computed again in backward instead of kept. none; selective: those that are cheap to compute; block: all within a block (activation checkpointing)") \
    X(shard, offload, OFF, "{parameters: none, optimizer: none, path: null}", "null|none", "offloading") \
    X(shard, memory_limit, BYTES, "null", "1..", "of each rank, for example 2GiB: a run that needs more is refused; null: what the machine has") \
    X(shard, mode, CHOICE, "view", "view|copy|trap", "how ranks use shared memory. view: they read each other's parts in place; copy: they copy them, as on a network; trap: in place, and every wrong use is caught") \
    X(shard, deadline, REAL, "60", ">0..", "seconds without progress after which a rank counts as lost")

#define SW_OPTIONS_PARALLEL(X) \
    X(parallel, tensor, OFF, "1", "", "tensor parallelism") \
    X(parallel, pipeline, OFF, "1", "", "pipeline parallelism") \
    X(parallel, expert, OFF, "1", "", "expert parallelism") \
    X(parallel, context, OFF, "1", "", "context parallelism")

#define SW_OPTIONS_CHECKPOINT(X) \
    X(checkpoint, path, PATH, "null", "", "the run's folder: metrics, plan, checkpoints, final model") \
    X(checkpoint, every, COUNT, "200", "0..", "steps between checkpoints; one more is saved at the end of the run and on request. 0: none at all") \
    X(checkpoint, keep, COUNT, "3", "0..", "how many of the newest checkpoints are kept; 0: all. The one with the best validation loss is kept too") \
    X(checkpoint, keep_every, COUNT, "0", "0..", "checkpoints of steps that are a multiple of this are kept for good; 0: none") \
    X(checkpoint, async, BOOL, "true", "", "save while the next steps compute; false: training waits") \
    X(checkpoint, resume, RESUME, "auto", "", "what to do if the folder has a run already. auto: continue it; never: refuse; {force: [keys]}: continue although these settings (section.key) have changed")

#define SW_OPTIONS_GUARD(X) \
    X(guard, nonfinite, CHOICE, "skip", "skip|stop", "what to do with a step whose loss or gradient is not finite: skip its update, or stop the run") \
    X(guard, patience, COUNT, "10", "1..", "the run stops after this many skipped steps in a row, for whatever reason") \
    X(guard, verify_every, COUNT, "0", "0..", "every so many steps, one is checked before it is applied: memory, replicas, and one micro-batch of each rank, which another rank computes as well; 0: never") \
    X(guard, loss_spike, SPIKE, "null", "false|off|none", "what to do when the loss is above factor times the median of the last 32. rollback: return to the newest checkpoint and leave out the data since; skip: skip the update; stop. For example {factor: 3, action: rollback}; null: off") \
    X(guard, limits, LIMITS, "{min_tokens_per_s: null, max_validation_loss: null, max_hours: null}", "", "limits that save and end the run, with exit code 6: fewer tokens per second over the last 20 steps, a higher validation loss, more hours of training (all starts together)")

#define SW_OPTIONS_LOG(X) \
    X(log, every, COUNT, "10", "1..", "steps between lines of the log and of metrics.jsonl") \
    X(log, metrics, BOOL, "true", "", "write metrics.jsonl") \
    X(log, tensorboard, OFF, "false", "null|off", "TensorBoard files") \
    X(log, prometheus, OFF, "null", "false|off", "a Prometheus endpoint") \
    X(log, trace, OFF, "off", "null|false", "a trace of the run")

/* Every section in the order of the file: Y(section, its options). */
#define SW_SECTIONS(Y) \
    Y(model, SW_OPTIONS_MODEL) \
    Y(data, SW_OPTIONS_DATA) \
    Y(train, SW_OPTIONS_TRAIN) \
    Y(optimizer, SW_OPTIONS_OPTIMIZER) \
    Y(shard, SW_OPTIONS_SHARD) \
    Y(parallel, SW_OPTIONS_PARALLEL) \
    Y(checkpoint, SW_OPTIONS_CHECKPOINT) \
    Y(guard, SW_OPTIONS_GUARD) \
    Y(log, SW_OPTIONS_LOG)

/* clang-format on */

/* The indices of CHOICE words that code compares. */
enum { SW_ARCHITECTURE_UNSET, SW_ARCHITECTURE_LLAMA, SW_ARCHITECTURE_GPT2 };
enum { SW_PACKING_TRUE, SW_PACKING_WHOLE, SW_PACKING_FALSE };
enum { SW_SAVE_BF16, SW_SAVE_FP32, SW_SAVE_FP16 };
enum { SW_KERNELS_AUTO, SW_KERNELS_BASELINE, SW_KERNELS_V3, SW_KERNELS_V4 };
enum { SW_ACCUMULATE_SHARDED, SW_ACCUMULATE_UNSHARDED };
enum { SW_PARAM_BF16, SW_PARAM_FP32 };
enum { SW_SPIKE_ROLLBACK, SW_SPIKE_SKIP, SW_SPIKE_STOP };
enum { SW_NONFINITE_SKIP, SW_NONFINITE_STOP };

#endif
