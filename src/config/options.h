/* options.h: the table of options, one line each. settings.h says what the columns mean and makes the struct from it.
 *
 * OFF is an option that later versions build: `default` is the value that means "off", `allowed` other spellings of it, `help`
 * what is not built yet. Its value is always the off-value, so it has no field.
 */
#ifndef SW_CONFIG_OPTIONS_H
#define SW_CONFIG_OPTIONS_H

#include "optim/optimizers.h"

/* clang-format off */

#define SW_OPTIONS_MODEL(X) \
    X(model, path, PATH, "null", "", "a Hugging Face directory to start from (config.json, *.safetensors); or give the dimensions of a new model") \
    X(model, architecture, CHOICE, "null", "null|llama|gpt2", "of a new model; null where model.path is set") \
    X(model, layers, COUNT, "0", "0..2048", "blocks of a new model") \
    X(model, hidden, COUNT, "0", "0..16777216", "channels between blocks") \
    X(model, heads, COUNT, "0", "0..65536", "attention heads") \
    X(model, kv_heads, COUNT, "0", "0..65536", "key/value heads, a divisor of heads; 0: as many as heads") \
    X(model, ffn, COUNT, "0", "0..16777216", "feed-forward channels; 0 with gpt2: 4 x hidden") \
    X(model, vocab, COUNT_AUTO, "auto", "1..2147483647", "token ids that the model knows; auto: the tokenizer's") \
    X(model, max_positions, COUNT, "1024", "1..2147483647", "longest sequence that the model takes") \
    X(model, tied, BOOL, "true", "", "the output projection is the embedding table") \
    X(model, rope_theta, REAL, "10000", ">0..", "base of the rotary angles (llama)") \
    X(model, norm_epsilon, REAL, "1e-05", ">0..", "added to the variance in norms") \
    X(model, dropout, REAL_AUTO, "auto", "0..<1", "share that training zeroes: of attention's weights, and of gpt2 also of the embedding and of what blocks add; auto: the model's own, 0 for a new one") \
    X(model, init_std, REAL, "0.02", "0..", "standard deviation of new weights") \
    X(model, train, TRAIN, "all", "", "all; lora: low-rank adapters beside the frozen model (model.lora); or a list of name patterns (* and ?), the rest is frozen") \
    X(model, save_dtype, CHOICE, "bf16", "bf16|fp32|fp16", "element type of the final model directory") \
    X(model, max_shard_size, BYTES, "5GiB", "1..", "largest file of the final model directory") \
    X(model, lora, LORA, "{rank: 8, alpha: 16, targets: [q_proj, v_proj], dropout: 0, rslora: false, adapter: null}", "", "adapters of train: lora. targets: ends of the names of linear layers, patterns (* and ?) of whole names, or all-linear; rslora: scaled by alpha / sqrt(rank) in place of alpha / rank; adapter: a PEFT folder to start from")

#define SW_OPTIONS_DATA(X) \
    X(data, train, PATHS, "[]", "", "files, folders or patterns, in order: .txt, .jsonl ({text} | {prompt, completion} | {messages} | {conversations} | {instruction, input, output}), or token files (.npy, one dimension)") \
    X(data, mix, REALS, "null", "0..", "weights of the entries of data.train, in their order; null: one stream of all") \
    X(data, shuffle, BOOL, "true", "", "rows in an order drawn from the seed, anew each epoch; false: in order") \
    X(data, labels_mask, PATH, "null", "", ".npy beside one token file: 1 where the token counts as a target") \
    X(data, documents, PATH, "null", "", ".npy beside token files: lengths of their documents") \
    X(data, labels, OFF, "null", "", "training on images") \
    X(data, captions, OFF, "null", "", "training on images and captions") \
    X(data, chat_format, CHOICE, "auto", "auto|chatml|llama2|llama3|mistral|mistral-v3|mistral-v1|zephyr|gemma", "of conversations; auto: the chat template of the model's folder is run; mistral is mistral-v3") \
    X(data, chat_template, PATH, "null", "", "a file with the Jinja template that conversations are written with; null: by data.chat_format") \
    X(data, chat_now, TEXT, "null", "", "the time that a chat template tells, 2025-06-30 or 2025-06-30 12:00:00; null: of the day on which the run began") \
    X(data, columns, COLUMNS, "{}", "", "what .jsonl files call the keys that rows are read by: text, prompt, completion, messages, conversations, instruction, input, output, system, tools, documents; role and content in messages") \
    X(data, long, LONG, "split", "split|drop|error", "a document longer than a row: cut it, leave it out, or refuse the data") \
    X(data, validation, PATHS, "[]", "", "held-out files, folders or patterns; [] for none") \
    X(data, validation_rows, COUNT, "64", "1..", "rows of each evaluation") \
    X(data, tokenizer, PATH, "null", "bytes", "a tokenizer.json or its folder; bytes: every byte of a text is a token; null: the model's") \
    X(data, sequence_length, COUNT, "512", "1..2147483647", "tokens in a row") \
    X(data, packing, CHOICE, "true", "true|whole|false", "documents share rows without seeing each other. true: conversations and prompts with their completions stay whole where they fit into a row, text is cut where a row ends; whole: text stays whole too; false: each document has rows of its own, filled up with padding")

#define SW_OPTIONS_TRAIN(X) \
    X(train, steps, COUNT, "0", "0..", "steps to train for; or give epochs or tokens; 0: not given") \
    X(train, epochs, COUNT, "0", "0..", "passes over the data; 0: not given") \
    X(train, tokens, COUNT, "0", "0..", "tokens to train on, for example 1e9; 0: not given") \
    X(train, validate_every, COUNT, "0", "0..", "steps between evaluations; 0: at the end only") \
    X(train, batch_size, COUNT, "32", "1..16777216", "sequences per step over all ranks") \
    X(train, micro_batch_size, COUNT_AUTO, "4", "1..16777216", "sequences computed at a time; auto: chosen by the plan") \
    X(train, seed, COUNT, "1234", "0..", "of every random number of the run") \
    X(train, threads, COUNT_AUTO, "auto", "1..256", "threads that compute in each rank; auto: physical cores divided by ranks. No bit depends on it") \
    X(train, kernels, CHOICE, "auto", "auto|baseline|x86-64-v3|x86-64-v4", "what kernels are compiled for; auto: the widest that this CPU runs (x86-64-v3: AVX2, x86-64-v4: AVX-512). Bits differ between them") \
    X(train, restarts, COUNT, "3", "0..1000000", "times that ranks are started again, from the newest checkpoint, after one was lost or hung") \
    X(train, elastic, BOOL, "false", "", "start again with the ranks that are left, the batch the same; false: with as many as before") \
    X(train, reproducible, BOOL, "false", "", "refuse whatever could change a bit with ranks, threads or measurements")

#define SW_OPTIONS_OPTIMIZER(X) \
    X(optimizer, name, CHOICE, "adamw", &SW_OPTIMIZER_WORDS[1], "AdamW (Loshchilov and Hutter 2019) or SGD with momentum") \
    X(optimizer, learning_rate, REAL_AUTO, "auto", "0..", "at the top of the schedule; auto: 2e-5 to fine-tune a model (model.path), 2e-4 for adapters, 3e-4 for a new model") \
    X(optimizer, betas, PAIR, "[0.9, 0.95]", "0..<1", "decay of AdamW's two moments") \
    X(optimizer, epsilon, REAL, "1e-8", ">0..", "added to the root of AdamW's second moment") \
    X(optimizer, weight_decay, REAL_AUTO, "auto", "0..", "on parameters of two or more dimensions, not on biases and norms; auto: 0 with model.path, 0.1 for a new model") \
    X(optimizer, momentum, REAL, "0", "0..<1", "of sgd; 0: none") \
    X(optimizer, clip_norm, REAL, "1.0", "0..", "longest gradient; 0: gradients are not clipped") \
    X(optimizer, schedule, CHOICE, "cosine", "cosine|linear|constant|wsd", "of the learning rate after warm-up; wsd: constant, then a decay at the end") \
    X(optimizer, warmup_steps, COUNT_AUTO, "auto", "0..", "steps over which the learning rate rises to its top; auto: 3 % of the steps with model.path; for a new model 100, a tenth of the steps at most") \
    X(optimizer, decay_ratio, REAL, "0.2", "0..1", "share of the steps in which wsd decays") \
    X(optimizer, final_ratio, REAL, "0.1", "0..1", "last learning rate as a share of the top one")

#define SW_OPTIONS_SHARD(X) \
    X(shard, ranks, COUNT_AUTO, "auto", "1..256", "processes on this host; auto: one per physical core (per train.threads cores, if given), up to 8") \
    X(shard, stage, COUNT, "3", "0..3", "what is split over ranks. 0: nothing, 1: optimizer states, 2: gradients too, 3: parameters too") \
    X(shard, replicas, OFF, "1", "", "hybrid sharding") \
    X(shard, reshard_after_forward, BOOL, "true", "", "give gathered parameters back after forward and gather them again for backward") \
    X(shard, wrap, WRAP, "block", "", "what is gathered together: block, or {min_parameters: N} to join small neighbours") \
    X(shard, prefetch, COUNT, "1", "0..16", "units gathered ahead") \
    X(shard, accumulate, CHOICE, "sharded", "sharded|unsharded", "reduce every micro-batch, or once per step with more memory") \
    X(shard, param_dtype, CHOICE, "bf16", "bf16|fp32", "parameters are gathered and activations kept in; sums and masters stay fp32") \
    X(shard, reduce_dtype, CHOICE, "fp32", "fp32", "gradients are summed in") \
    X(shard, recompute, CHOICE, "none", "none|selective|block", "what backward computes again instead of keeping it; selective: what is cheap") \
    X(shard, offload, OFF, "{parameters: none, optimizer: none, path: null}", "null|none", "offloading") \
    X(shard, memory_limit, BYTES, "null", "1..", "per rank, for example 2GiB: a run that needs more is refused; null: what the machine has") \
    X(shard, mode, CHOICE, "view", "view|copy|trap", "shared memory: read in place, copied as networks do, or in place with every wrong use caught") \
    X(shard, deadline, REAL, "60", ">0..", "seconds without progress after which a rank is lost")

#define SW_OPTIONS_PARALLEL(X) \
    X(parallel, tensor, OFF, "1", "", "tensor parallelism") \
    X(parallel, pipeline, OFF, "1", "", "pipeline parallelism") \
    X(parallel, expert, OFF, "1", "", "expert parallelism") \
    X(parallel, context, OFF, "1", "", "context parallelism")

#define SW_OPTIONS_CHECKPOINT(X) \
    X(checkpoint, path, PATH, "null", "", "the run's folder: metrics, plan, checkpoints, final model") \
    X(checkpoint, every, COUNT, "200", "0..", "steps between checkpoints; one more is saved when the run ends or is asked to. 0: none at all") \
    X(checkpoint, keep, COUNT, "3", "0..", "newest checkpoints that stay; 0: all. The best by validation loss stays too") \
    X(checkpoint, keep_every, COUNT, "0", "0..", "checkpoints of steps that are a multiple of this stay for good; 0: none do") \
    X(checkpoint, async, BOOL, "true", "", "save while the next step computes; false: the step waits") \
    X(checkpoint, resume, RESUME, "auto", "", "what to do with a folder that exists. auto: go on with its run; never: refuse it; {force: [keys]}: go on although these settings (section.key) have changed")

#define SW_OPTIONS_GUARD(X) \
    X(guard, nonfinite, CHOICE, "skip", "skip|stop", "a step whose loss or gradient is not finite: skip its update, or stop the run") \
    X(guard, patience, COUNT, "10", "1..", "skipped steps in a row, for whatever reason, after which the run stops") \
    X(guard, verify_every, COUNT, "0", "0..", "every so many steps one is cross-checked before it is applied: memory, replicas, and one micro-batch of each rank computed by another too; 0: none") \
    X(guard, loss_spike, SPIKE, "null", "false|off|none", "a loss above factor times the median of the last 32: rollback to the newest checkpoint without the data that led there, skip the update, or stop. For example {factor: 3, action: rollback}; null: off") \
    X(guard, limits, LIMITS, "{min_tokens_per_s: null, max_validation_loss: null, max_hours: null}", "", "what ends the run, saved, with exit code 6: too slow over the last 20 steps, a validation loss above, hours of training over all its starts")

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
