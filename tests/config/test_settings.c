/* run.yaml as settings: defaults, paths, overrides, and every way to get it wrong. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/expansion.h"
#include "config/settings.h"
#include "config/table.h"
#include "config/value.h"
#include "graph/graph.h"
#include "model/model.h"
#include "support/folder.h"

static sw_status parse(const char *text, const char *const *overrides, int n_overrides,
                       sw_settings *settings, sw_error *err) {
    return sw_settings_parse("run.yaml", "/folder", text, overrides, n_overrides, settings, err);
}

static void defaults_are_those_of_the_contract(void **state) {
    (void)state;
    sw_settings settings;
    sw_error err = {0};
    assert_int_equal(parse("", NULL, 0, &settings, &err), SW_OK);
    assert_null(settings.model.path);
    assert_int_equal(settings.model.train.n, 1);
    assert_string_equal(settings.model.train.item[0], "all");
    assert_int_equal(settings.model.save_dtype, SW_SAVE_BF16);
    assert_true(settings.data.shuffle);
    assert_int_equal(settings.data.validation_rows, 64);
    assert_int_equal(settings.data.sequence_length, 512);
    assert_int_equal(settings.train.batch_size, 32);
    assert_int_equal(settings.train.micro_batch_size, 4);
    assert_int_equal(settings.train.seed, 1234);
    assert_int_equal(settings.train.threads, SW_AUTO);
    assert_int_equal(settings.train.kernels, SW_KERNELS_AUTO);
    assert_int_equal(settings.optimizer.name, SW_OPTIMIZER_ADAMW);
    assert_true(settings.optimizer.learning_rate == 3e-4);
    assert_true(settings.optimizer.betas.first == 0.9 && settings.optimizer.betas.second == 0.95);
    assert_true(settings.optimizer.epsilon == 1e-8);
    assert_true(settings.optimizer.weight_decay == 0.1);
    assert_true(settings.optimizer.clip_norm == 1);
    assert_int_equal(settings.optimizer.schedule, 0 /* cosine */);
    assert_true(settings.optimizer.final_ratio == 0.1);
    assert_int_equal(settings.shard.ranks, SW_AUTO);
    assert_int_equal(settings.shard.stage, 3);
    assert_true(settings.shard.reshard_after_forward);
    assert_int_equal(settings.shard.wrap, 0);
    assert_int_equal(settings.shard.prefetch, 1);
    assert_int_equal(settings.shard.accumulate, SW_ACCUMULATE_SHARDED);
    assert_int_equal(settings.shard.param_dtype, SW_PARAM_BF16);
    assert_int_equal(settings.shard.recompute, SW_RECOMPUTE_NONE);
    assert_int_equal(settings.shard.memory_limit, 0);
    assert_int_equal(settings.shard.mode, 0);
    assert_true(settings.shard.deadline == 60);
    assert_int_equal(settings.guard.nonfinite, SW_NONFINITE_SKIP);
    assert_int_equal(settings.guard.patience, 10);
    assert_int_equal(settings.log.every, 10);
    assert_true(settings.log.metrics);
    sw_settings_free(&settings);
}

static void values_of_every_kind_are_read(void **state) {
    (void)state;
    sw_settings settings;
    sw_error err = {0};
    const char *text = "model: {architecture: gpt2, layers: 2, hidden: 8, heads: 2, vocab: 300, "
                       "tied: false, train: [a.*, '*.b'], "
                       "max_shard_size: 1.5 GiB}\n"
                       "data:\n  train:\n  - x.npy\n  - ./y/*.npy\n  - /z.npy\n  validation: "
                       "v.npy\n  sequence_length: 64\n"
                       "train: {tokens: 1e9, micro_batch_size: auto}\n"
                       "optimizer: {learning_rate: 1e-3, betas: [0.5, 0.25], schedule: wsd}\n"
                       "shard: {wrap: {min_parameters: 1000000}, memory_limit: 2GiB, mode: trap}\n"
                       "parallel: {tensor: 1, pipeline: 1, expert: 1, context: 1}\n"
                       "checkpoint: {path: runs/x}\n";
    if (parse(text, NULL, 0, &settings, &err))
        fail_msg("%s", err.message);
    assert_int_equal(settings.model.architecture, SW_ARCHITECTURE_GPT2);
    assert_int_equal(settings.model.kv_heads, 2); /* as many as heads */
    assert_int_equal(settings.model.ffn, 32);     /* 4 x hidden */
    assert_false(settings.model.tied);
    assert_int_equal(settings.model.train.n, 2);
    assert_string_equal(settings.model.train.item[1], "*.b");
    assert_int_equal(settings.model.max_shard_size, 1610612736);
    assert_int_equal(settings.data.train.n, 3);
    assert_string_equal(settings.data.train.item[0], "/folder/x.npy");
    assert_string_equal(settings.data.train.item[1], "/folder/y/*.npy");
    assert_string_equal(settings.data.train.item[2], "/z.npy");
    assert_string_equal(settings.data.validation.item[0], "/folder/v.npy");
    assert_int_equal(settings.train.tokens, 1000000000);
    assert_int_equal(settings.train.micro_batch_size, SW_AUTO);
    assert_true(settings.optimizer.learning_rate == 1e-3);
    assert_true(settings.optimizer.betas.first == 0.5 && settings.optimizer.betas.second == 0.25);
    assert_int_equal(settings.optimizer.schedule, 3 /* wsd */);
    assert_int_equal(settings.shard.wrap, 1000000);
    assert_int_equal(settings.shard.memory_limit, 2147483648);
    assert_int_equal(settings.shard.mode, 2);
    assert_string_equal(settings.checkpoint.path, "/folder/runs/x");
    sw_settings_free(&settings);
}

static void overrides_lie_over_the_file(void **state) {
    (void)state;
    static const char *const overrides[] = {"train.steps=7",
                                            "data.train=[a.txt, '*.md']",
                                            "model.path=./m",
                                            "optimizer.betas=[0, 0.5]",
                                            "shard.wrap.min_parameters=1e6",
                                            "shard.offload.optimizer=none",
                                            "guard.limits.max_hours=",
                                            "shard.offload.parameters=none",
                                            "checkpoint.path=/abs"};
    sw_settings settings;
    sw_error err = {0};
    if (parse("train: {steps: 5}\ncheckpoint: {path: r}\n", overrides, 9, &settings, &err))
        fail_msg("%s", err.message);
    assert_int_equal(settings.train.steps, 7);
    assert_int_equal(settings.data.train.n, 2);
    assert_string_equal(settings.data.train.item[1], "/folder/*.md");
    assert_string_equal(settings.model.path, "/folder/m");
    assert_true(settings.optimizer.betas.second == 0.5);
    assert_int_equal(settings.shard.wrap, 1000000);
    assert_string_equal(settings.checkpoint.path, "/abs");
    sw_settings_free(&settings);
}

/* So that a script's overrides can be followed by one's own. */
static void of_equal_overrides_the_last_counts(void **state) {
    (void)state;
    static const char *const overrides[] = {
        "train.steps=7",
        "shard.wrap.min_parameters=3",
        "guard.loss_spike=null",
        "guard.limits.max_hours=2",
        "data.train=[a.txt]",
        "train.steps=9",
        "shard.wrap=block",
        "guard.loss_spike.factor=5",
        "guard.limits.max_hours=null",
        "data.train=b.txt",
        "train.steps=8",
    };
    sw_settings settings;
    sw_error err = {0};
    if (parse("train: {steps: 5}\n", overrides, sizeof overrides / sizeof *overrides, &settings,
              &err))
        fail_msg("%s", err.message);
    assert_int_equal(settings.train.steps, 8);
    assert_int_equal(settings.shard.wrap, 0);
    assert_true(settings.guard.loss_spike.factor == 5);
    assert_true(settings.guard.limits.max_hours == 0);
    assert_int_equal(settings.data.train.n, 1);
    assert_string_equal(settings.data.train.item[0], "/folder/b.txt");
    sw_settings_free(&settings);
}

/* What stands in a file, and the words that its message must have: where, which key, what was
 * meant. */
static void every_mistake_is_named_with_its_line_and_what_was_meant(void **state) {
    (void)state;
    static const struct {
        const char *text, *words[4];
    } cases[] = {
        /* names */
        {"optimizer:\n  learing_rate: 1\n",
         {"run.yaml:2", "learing_rate", "did you mean learning_rate?"}},
        {"train:\n  learning_rate: 1\n",
         {"run.yaml:2", "learning_rate", "it belongs to optimizer"}},
        {"train:\n  steps: 1\n  num-epochs: 2\n",
         {"run.yaml:3", "num-epochs", "did you mean epochs?"}},
        {"train: {batch-size: 2}\n", {"run.yaml:1", "batch-size", "did you mean batch_size?"}},
        {"data: {columns: {prompt: a, completion: a}}\n",
         {"run.yaml:1", "prompt and completion", "the same key"}},
        {"train: {Steps: 2}\n", {"run.yaml:1", "Steps", "did you mean steps?"}},
        {"optimizer: {lr: 2}\n", {"run.yaml:1", "lr", "did you mean learning_rate?"}},
        {"model: {zero_stage: 2}\n", {"zero_stage", "did you mean shard.stage?"}},
        {"train: {xyzzy: 2}\n", {"run.yaml:1", "xyzzy", "--help"}},
        {"optimiser:\n  name: sgd\n", {"run.yaml:1", "optimiser", "did you mean optimizer?"}},
        {"learning_rate: 1\n", {"run.yaml:1", "learning_rate", "it belongs to optimizer"}},
        {"log:\n  path: x\n", {"run.yaml:2", "path", "it belongs to model or checkpoint"}},
        {"shard: {wrap: {min_params: 3}}\n",
         {"run.yaml:1", "shard.wrap", "min_params", "did you mean min_parameters?"}},
        {"shard: {offload: {optimiser: none}}\n",
         {"run.yaml:1", "shard.offload", "did you mean optimizer?"}},
        {"guard:\n  limits:\n    max_hour: 3\n",
         {"run.yaml:3", "guard.limits", "did you mean max_hours?"}},
        /* twice */
        {"train:\n  steps: 1\n  steps: 2\n", {"run.yaml:3", "steps", "twice", "line 2"}},
        {"train: {steps: 1}\ndata:\n  shuffle: true\ntrain: {seed: 1}\n",
         {"run.yaml:4", "train", "twice", "line 1"}},
        /* types and ranges */
        {"train:\n  steps: ten\n", {"run.yaml:2", "train.steps", "a whole number from 0", "ten"}},
        {"train: {steps: 1.5}\n", {"train.steps", "whole number", "1.5"}},
        {"train: {steps: \"5\"}\n", {"train.steps", "\"5\"", "remove the quotes"}},
        {"train: {steps: [1]}\n", {"train.steps", "a list"}},
        {"train: {steps: {a: 1}}\n", {"train.steps", "a map"}},
        {"train: {steps: }\n", {"train.steps", "nothing"}},
        {"train: {steps: -1}\n", {"train.steps", "-1"}},
        {"train: {steps: 99999999999999999999}\n", {"train.steps", "99999999999999999999"}},
        {"train: {steps: 010}\n", {"train.steps", "010", "write 10, or 8 if that was octal"}},
        {"train: {steps: '010'}\n", {"train.steps", "\"010\"", "write 10"}},
        {"train: {steps: 0x10}\n", {"train.steps", "write 16"}},
        {"train: {steps: 1_000}\n", {"train.steps", "write 1000"}},
        {"train: {steps: 1:30}\n", {"train.steps", "write 90"}},
        {"train: {seed: -1}\n", {"train.seed", "from 0"}},
        {"train: {threads: 010}\n", {"train.threads", "write 10"}},
        {"shard: {wrap: {min_parameters: 010}}\n", {"shard.wrap", "write 10"}},
        {"shard: {memory_limit: 2G}\n", {"shard.memory_limit", "write 2GiB, or 2GB"}},
        {"shard: {memory_limit: 010MiB}\n", {"shard.memory_limit", "write 10MiB"}},
        {"model: {lora: {rank: 010}}\n", {"model.lora.rank", "write 10"}},
        {"optimizer: {betas: [0.9, 00.95]}\n", {"optimizer.betas", "00.95", "write 0.95"}},
        {"optimizer: {betas: [0.9, .5, 010]}\n",
         {"optimizer.betas", "a list of 0.9, .5, 010", "write 10"}},
        {"optimizer: {weight_decay: 1e-400}\n", {"optimizer.weight_decay", "1e-400", "5e-324"}},
        {"guard: {limits: {max_hours: 010}}\n", {"guard.limits.max_hours", "write 10"}},
        {"guard: {loss_spike: {factor: 0x3}}\n", {"guard.loss_spike.factor", "write 3"}},
        {"checkpoint: {path: none}\n", {"checkpoint.path", "not none", "write null", "./none"}},
        {"checkpoint: {path: ~/runs}\n",
         {"checkpoint.path: ~ is not expanded", "the whole path: /somebody/runs, or ./~/runs"}},
        {"checkpoint: {path: ~other/runs}\n", {"~other is not expanded", "the whole path, or"}},
        {"checkpoint: {path: $SW_SOMEWHERE/runs}\n",
         {"run.yaml:1", "checkpoint.path: $SW_SOMEWHERE is not expanded", "path: /some/where/runs,",
          "or ./$SW_SOMEWHERE/runs"}},
        {"checkpoint: {path: 'a/${SW_SOMEWHERE}b'}\n",
         {"${SW_SOMEWHERE} is not expanded", "a//some/whereb"}},
        {"checkpoint: {path: 'a/${SW_SOMEWHERE:-b}/c'}\n",
         {"${SW_SOMEWHERE:-b} is not expanded", "write the whole path, or"}},
        {"data: {train: [a.txt, $SW_NOWHERE/b*.txt]}\n",
         {"data.train: $SW_NOWHERE is not expanded"}},
        {"model: {train: lora, lora: {adapter: $SW_NOWHERE}}\n",
         {"model.lora.adapter: $SW_NOWHERE is not expanded"}},
        {"checkpoint: {path: False}\n", {"checkpoint.path", "not False", "write null"}},
        {"data: {train: [no]}\n", {"data.train", "not no", "write []"}},
        {"<<: {train: {steps: 1}}\n", {"run.yaml:1", "<<"}},
        {"train: {batch_size: 0}\n", {"train.batch_size", "from 1"}},
        {"shard: {stage: 4}\n", {"shard.stage", "from 0 to 3", "4"}},
        {"shard: {ranks: 257}\n", {"shard.ranks", "256", "257"}},
        {"shard: {ranks: many}\n", {"shard.ranks", "auto or a whole number"}},
        {"shard: {prefetch: 17}\n", {"shard.prefetch", "from 0 to 16"}},
        {"shard: {deadline: 0}\n", {"shard.deadline", "above 0"}},
        {"shard: {memory_limit: 2 GB of}\n", {"shard.memory_limit", "2GiB", "2 GB of"}},
        {"optimizer: {learning_rate: fast}\n",
         {"optimizer.learning_rate", "a number from 0", "fast"}},
        {"optimizer: {learning_rate: .nan}\n", {"optimizer.learning_rate", ".nan"}},
        {"optimizer: {betas: [0.9, 1]}\n", {"optimizer.betas", "below 1"}},
        {"optimizer: {betas: 0.9}\n", {"optimizer.betas", "two numbers"}},
        {"optimizer: {betas: [0.9]}\n", {"optimizer.betas", "two numbers"}},
        {"model: {dropout: 1}\n", {"model.dropout", "below 1"}},
        {"model: {tied: yes}\n", {"model.tied", "true or false", "did you mean true?"}},
        {"data: {shuffle: off}\n", {"data.shuffle", "did you mean false?"}},
        {"optimizer: {schedule: cosin}\n", {"optimizer.schedule", "cosin", "did you mean cosine?"}},
        {"optimizer: {name: adam}\n", {"optimizer.name", "adamw or sgd", "did you mean adamw?"}},
        {"model: {architecture: bert}\n", {"model.architecture", "llama or gpt2", "bert"}},
        {"model: {train: none}\n", {"model.train", "all, lora or a list"}},
        {"model: {train: []}\n", {"model.train", "all, lora or a list"}},
        {"model: {path: ''}\n", {"model.path", "a path"}},
        {"model: {path: ~/m}\n", {"model.path", "~"}},
        {"data: {train: [a.txt, [b.txt]]}\n", {"data.train", "a list of paths"}},
        {"data:\n  train:\n  - a.txt\n  -\n", {"run.yaml:", "data.train"}},
        {"shard: {wrap: layer}\n", {"shard.wrap", "block"}},
        {"shard: {wrap: {min_parameters: 0}}\n", {"shard.wrap", "min_parameters"}},
        {"train: 5\n", {"run.yaml:1", "section train"}},
        {"train: [steps]\n", {"run.yaml:1", "section train"}},
        {"- train\n", {"run.yaml:1", "not a file of settings"}},
        {"hello\n", {"run.yaml:1", "not a file of settings"}},
        {"model:\n  path: m\n  lora: {rank: 4}\n",
         {"run.yaml:3", "model.lora", "write model.train: lora"}},
        {"model:\n  train: lora\n  architecture: llama\n  layers: 1\n  hidden: 8\n  heads: 1\n  "
         "ffn: 8\n  vocab: 9\n",
         {"run.yaml:2", "model.train: lora", "model.path"}},
        {"model:\n  lora:\n    rnak: 4\n",
         {"run.yaml:3", "model.lora", "rnak", "did you mean rank?"}},
        {"model: {lora: {rank: 0}}\n", {"model.lora.rank", "from 1 to 65536"}},
        {"model: {lora: {alpha: 0}}\n", {"model.lora.alpha", "above 0"}},
        {"model: {lora: {dropout: 1}}\n", {"model.lora.dropout", "below 1"}},
        {"model: {lora: {targets: []}}\n", {"model.lora.targets", "a list of names"}},
        {"model: {lora: {rslora: 1}}\n", {"model.lora.rslora", "true or false"}},
        {"model: {lora: 8}\n", {"model.lora", "a map"}},
        /* known, not built */
        {"model: {architecture: mixtral}\n",
         {"run.yaml:1", "model.architecture", "not built yet", "llama or gpt2"}},
        {"data: {packing: perhaps}\n", {"data.packing", "true, whole or false"}},
        {"data: {mix: [1, -1]}\n", {"data.mix", "a list of numbers"}},
        {"data: {mix: [1, 2], train: [a.txt]}\n", {"data.mix", "2 weights", "1 entry"}},
        {"data: {chat_format: chatlm}\n", {"data.chat_format", "chatml"}},
        {"data: {long: dropp}\n", {"data.long", "split, drop or error"}},
        {"train: {restarts: -1}\n", {"train.restarts", "a whole number from 0"}},
        {"train: {elastic: 1}\n", {"train.elastic", "true or false"}},
        {"train: {threads: 0}\n", {"train.threads", "auto or a whole number from 1 to 256"}},
        {"shard: {replicas: 2}\n", {"shard.replicas", "hybrid sharding is not built yet", "1"}},
        {"shard: {reshard_after_forward: 4}\n",
         {"shard.reshard_after_forward", "not built yet", "true or false"}},
        {"shard: {wrap: ['*.mlp']}\n", {"shard.wrap", "not built yet", "block"}},
        {"shard: {recompute: full}\n", {"shard.recompute", "none, selective or block"}},
        {"shard: {reduce_dtype: bf16}\n", {"shard.reduce_dtype", "not built yet", "fp32"}},
        {"shard:\n  offload:\n    parameters: host\n",
         {"run.yaml:3", "shard.offload.parameters", "not built yet", "none"}},
        {"parallel: {tensor: 2}\n",
         {"parallel.tensor", "tensor parallelism is not built yet", "1"}},
        {"checkpoint: {every: -1}\n", {"checkpoint.every", "a whole number from 0"}},
        {"checkpoint: {async: 1}\n", {"checkpoint.async", "true or false"}},
        {"checkpoint: {resume: always}\n", {"checkpoint.resume", "auto, never or {force"}},
        {"checkpoint: {resume: {force: }}\n", {"checkpoint.resume", "auto, never or {force"}},
        {"checkpoint:\n  resume: {forced: [train.seed]}\n",
         {"run.yaml:2", "checkpoint.resume", "did you mean force?"}},
        {"checkpoint: {resume: {force: [train.sede]}}\n",
         {"checkpoint.resume.force", "train.sede", "did you mean train.seed?"}},
        {"checkpoint: {resume: {force: [learning_rate]}}\n",
         {"checkpoint.resume.force", "it belongs to optimizer"}},
        {"guard: {loss_spike: {factor: 1}}\n", {"guard.loss_spike.factor", "above 1"}},
        {"guard: {loss_spike: {factor: 2, action: rolback}}\n",
         {"guard.loss_spike.action", "did you mean rollback?"}},
        {"guard: {loss_spike: 3}\n", {"guard.loss_spike", "{factor: above 1", "or null"}},
        {"guard: {limits: {max_hours: 0}}\n", {"guard.limits.max_hours", "above 0 or null"}},
        {"guard: {limits: {max_hours: -1}}\n", {"guard.limits.max_hours", "above 0 or null"}},
        {"log: {tensorboard: true}\n", {"log.tensorboard", "TensorBoard files is not built yet"}},
        /* options against each other */
        {"train:\n  steps: 5\n  epochs: 1\n",
         {"run.yaml:3", "train.steps", "train.epochs", "keep one"}},
        {"train: {tokens: 5, epochs: 1}\n", {"train.tokens", "train.epochs"}},
        {"train:\n  batch_size: 10\n",
         {"run.yaml:2", "train.batch_size: 10", "batch_size 8 or 12", "micro_batch_size 5"}},
        {"train: {batch_size: 2}\n", {"train.micro_batch_size: 4", "micro_batch_size: 2"}},
        {"train: {steps: 9}\noptimizer: {warmup_steps: 10}\n",
         {"run.yaml:2", "optimizer.warmup_steps: 10", "train.steps 9"}},
        {"train:\n  validate_every: 5\n",
         {"run.yaml:2", "train.validate_every", "data.validation"}},
        {"optimizer: {momentum: 0.9}\n", {"optimizer.momentum", "sgd"}},
        {"guard: {limits: {max_validation_loss: 3}}\n",
         {"guard.limits.max_validation_loss", "data.validation"}},
        {"checkpoint: {every: 0}\nguard: {loss_spike: {factor: 2}}\n",
         {"guard.loss_spike", "checkpoint.every", "action: skip"}},
        {"train: {elastic: true, restarts: 0}\n", {"train.elastic", "train.restarts"}},
        {"model: {path: m, architecture: llama}\n", {"model.path and model.architecture"}},
        {"model: {path: m, layers: 2}\n", {"model.layers", "leave it out"}},
        {"model:\n  path: m\n  rope_theta: 500\n",
         {"run.yaml:3", "model.rope_theta", "config.json"}},
        {"model: {path: m, tied: false}\n", {"model.tied", "config.json"}},
        {"model:\n  architecture: gpt2\n  layers: 1\n  hidden: 64\n  heads: 6\n",
         {"run.yaml:5", "model.hidden: 64", "model.heads 6", "heads 4"}},
        {"model: {architecture: gpt2, layers: 1, hidden: 72, heads: 6, kv_heads: 4}\n",
         {"model.heads: 6", "model.kv_heads 4", "kv_heads 3"}},
        {"model: {layers: 2}\n", {"model.layers", "model.architecture"}},
        {"model: {architecture: llama, hidden: 8, heads: 2, ffn: 8, vocab: 9}\n", {"model.layers"}},
        {"model: {architecture: llama, layers: 1, hidden: 8, heads: 2, vocab: 9}\n", {"model.ffn"}},
        {"model: {architecture: gpt2, layers: 1, hidden: 8, heads: 2}\n",
         {"model.vocab: auto", "data.tokenizer"}},
        {"model: {architecture: gpt2, layers: 1, hidden: 8, heads: 2, vocab: 9}\ndata: {tokenizer: "
         "bytes}\n",
         {"model.vocab: 9", "256"}},
        {"model: {architecture: gpt2, layers: 1, hidden: 8, heads: 2, vocab: 9, max_positions: "
         "8}\n",
         {"data.sequence_length: 512", "model.max_positions 8"}},
    };
    setenv("HOME", "/somebody", 1);
    setenv("SW_SOMEWHERE", "/some/where", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_settings settings;
        sw_error err = {0};
        sw_status status = parse(cases[i].text, NULL, 0, &settings, &err);
        if (status != SW_BAD_CONFIG)
            fail_msg("case %zu, status %d: %s", i, status, cases[i].text);
        for (int word = 0; word < 4 && cases[i].words[word]; word++)
            if (!strstr(err.message, cases[i].words[word]))
                fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].words[word]);
        if (!strstr(err.message, "run.yaml"))
            fail_msg("\"%s\" does not name the file", err.message);
        assert_null(settings.arena.chunks);
    }
}

/* ~ and $NAME where a file or folder is really called so, and what only looks alike. */
static void files_that_are_called_like_variables_are_taken(void **state) {
    static const char *const good[] = {"$REAL/b",     "a/~/b",     "$REAL",  "./$NONE/b",
                                       "./~/b",       "$",         "a$",     "$1",
                                       "price$5.txt", "${REAL-no", "x/${}/y"};
    char folder[FOLDER_BYTES], real[64];
    sw_expansion found;
    (void)state;
    assert_true(folder_make(folder));
    snprintf(real, sizeof real, "%s/$REAL", folder);
    assert_int_equal(mkdir(real, 0777), 0);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (sw_path_wants_expansion(good[i], folder, &found))
            fail_msg("%s is refused for %s", good[i], found.word);
    assert_false(sw_path_wants_expansion(real, "/", &found));
    assert_true(sw_path_wants_expansion("$REAL/$SW_NOWHERE/c", folder, &found));
    assert_string_equal(found.word, "$SW_NOWHERE");
    assert_true(sw_path_wants_expansion("~", folder, &found));
    assert_int_equal(folder_remove(folder), 0);
}

static void mistakes_on_the_command_line_are_named_too(void **state) {
    (void)state;
    static const struct {
        const char *overrides[2], *words[3];
    } cases[] = {
        {{"train.stpes=5"}, {"command line", "stpes", "did you mean steps?"}},
        {{"trian.steps=5"}, {"command line", "trian", "did you mean train?"}},
        {{"train.learning_rate=5"}, {"command line", "it belongs to optimizer"}},
        {{"steps=5"}, {"command line", "steps", "it belongs to train"}},
        {{"train.steps"}, {"command line", "train.steps", "section.key=value"}},
        {{"train.steps=ten"}, {"command line", "train.steps", "ten"}},
        {{"train.steps=[1"}, {"command line", "not YAML"}},
        {{"data.train=*.txt"}, {"command line", "train", "quotes"}},
        {{"data.train=['$SW_NOWHERE/*.txt']"}, {"command line", "$SW_NOWHERE is not expanded"}},
        {{"model.lora.rank=4"}, {"command line", "model.lora", "model.train: lora"}},
        {{"train.steps=ten", "train.steps=1"}, {"command line", "train.steps", "ten"}},
        {{"train.steps.x=1"}, {"command line", "train.steps"}},
        {{".=1"}, {"command line"}},
        {{"=1"}, {"command line"}},
        {{"train.steps=\xff"}, {"command line"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_settings settings;
        sw_error err = {0};
        if (parse("", cases[i].overrides, cases[i].overrides[1] ? 2 : 1, &settings, &err) !=
            SW_BAD_CONFIG)
            fail_msg("%s is taken", cases[i].overrides[0]);
        for (int word = 0; word < 3 && cases[i].words[word]; word++)
            if (!strstr(err.message, cases[i].words[word]))
                fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].words[word]);
    }
}

/* Every way to say "off" is taken where the feature is not built. */
static void off_values_are_taken(void **state) {
    (void)state;
    const char *text =
        "model: {lora: null}\n"
        "data: {labels: , captions: null}\n"
        "train: {restarts: 0, elastic: false}\n"
        "shard: {replicas: 1, offload: {parameters: none, path: null}}\n"
        "parallel: {tensor: 1}\n"
        "checkpoint: {every: 0, keep: 0, keep_every: 0, async: false, resume: never}\n"
        "guard: {verify_every: 0, loss_spike: null, limits: {max_hours: null}}\n"
        "log: {tensorboard: false, prometheus: null, trace: off}\n";
    sw_settings settings;
    sw_error err = {0};
    if (parse(text, NULL, 0, &settings, &err))
        fail_msg("%s", err.message);
    sw_settings_free(&settings);
    if (parse("shard: {offload: none}\nguard: {limits: null}\nparallel:\n", NULL, 0, &settings,
              &err))
        fail_msg("%s", err.message);
    sw_settings_free(&settings);
}

static void what_a_run_cannot_do_without_is_asked_for(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", "model: {path: m}\n", "model: {path: m}\ndata: {train: a.npy}\n",
        "model: {path: m}\ndata: {train: a.npy}\ntrain: {steps: 1}\n",
        "model: {path: m}\ndata: {train: a.npy}\ntrain: {steps: 1}\ncheckpoint: {path: r}\n"};
    static const char *const words[] = {"model.path", "data.train", "train.steps",
                                        "checkpoint.path", NULL};
    for (int i = 0; i < 5; i++) {
        sw_settings settings;
        sw_error err = {0};
        assert_int_equal(parse(texts[i], NULL, 0, &settings, &err), SW_OK);
        if (!sw_settings_name_model(&settings, &err))
            sw_settings_complete(&settings, &err);
        assert_int_equal(err.status, words[i] ? SW_BAD_CONFIG : SW_OK);
        if (words[i])
            assert_non_null(strstr(err.message, words[i]));
        assert_int_equal(sw_settings_name_model(&settings, &err), i ? SW_OK : SW_BAD_CONFIG);
        sw_settings_free(&settings);
    }
}

/* ---- printing ---- */

static void assert_prints_to_itself(const sw_settings *settings, const char *what) {
    char *first = sw_settings_yaml(settings);
    assert_non_null(first);
    sw_settings again;
    sw_error err = {0};
    if (sw_settings_parse("printed", "/elsewhere", first, NULL, 0, &again, &err))
        fail_msg("%s: %s", what, err.message);
    sw_settings given = *settings; /* what was chosen is a number by then, without its reason */
    given.chosen = (sw_chosen){0};
    free(first);
    first = sw_settings_yaml(&given);
    char *second = sw_settings_yaml(&again);
    assert_string_equal(first, second);
    sw_settings_free(&again);
    free(first);
    free(second);
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A value that the option may take, as a user would write it. */
static void random_value(const sw_option *option, uint32_t *seed, char *text, size_t bytes) {
    static const char *const paths[] = {"a.txt", "/b c/*.npy", "'x: #y'", "\"\\u00e9\\n\"",
                                        "./d/e"};
    static const char *const counts[] = {"1", "2", "3", "4", "8", "12", "1e2", "300"};
    static const char *const sizes[] = {"1", "1000", "3MiB", "2GiB", "0.5KiB"};
    switch (option->kind) {
    case SW_KIND_PATH:
        snprintf(text, bytes, "%s", paths[next_random(seed) % 5]);
        break;
    case SW_KIND_TEXT:
        snprintf(text, bytes, "%s", next_random(seed) % 4 ? paths[next_random(seed) % 5] : "null");
        break;
    case SW_KIND_COLUMNS:
        snprintf(text, bytes, next_random(seed) % 4 ? "{text: %s, prompt: null, role: from}" : "{}",
                 paths[next_random(seed) % 5]);
        break;
    case SW_KIND_PATHS:
    case SW_KIND_TRAIN:
        snprintf(text, bytes, "[%s, %s]", paths[next_random(seed) % 5],
                 paths[next_random(seed) % 5]);
        break;
    case SW_KIND_COUNT:
    case SW_KIND_COUNT_AUTO:
        snprintf(text, bytes, "%s", counts[next_random(seed) % 8]);
        break;
    case SW_KIND_BYTES:
        snprintf(text, bytes, "%s", sizes[next_random(seed) % 5]);
        break;
    case SW_KIND_REAL:
    case SW_KIND_REAL_AUTO:
        snprintf(text, bytes, "%.17g", (next_random(seed) + 1) / 16777217.0);
        break;
    case SW_KIND_PAIR:
        snprintf(text, bytes, "[%.17g, %.17g]", next_random(seed) / 16777217.0,
                 next_random(seed) / 16777217.0);
        break;
    case SW_KIND_REALS:
        snprintf(text, bytes, "[%.17g, 1]", next_random(seed) / 16777217.0);
        break;
    case SW_KIND_BOOL:
        snprintf(text, bytes, "%s", next_random(seed) % 2 ? "true" : "false");
        break;
    case SW_KIND_CHOICE: {
        char words[256], *rest = words, *word = words;
        snprintf(words, sizeof words, "%s", option->allowed);
        for (uint32_t n = next_random(seed) % 4 + 1; n && rest; n--)
            word = strsep(&rest, "|");
        snprintf(text, bytes, "%s", word);
        break;
    }
    case SW_KIND_SPIKE:
        snprintf(text, bytes, next_random(seed) % 2 ? "null" : "{factor: %.17g, action: stop}",
                 1 + (next_random(seed) + 1) / 1e6);
        break;
    case SW_KIND_RESUME: {
        static const char *const ways[] = {
            "auto", "never", "{force: [optimizer.betas, data.train]}", "{force: train.seed}"};
        snprintf(text, bytes, "%s", ways[next_random(seed) % 4]);
        break;
    }
    case SW_KIND_NAMES:
    case SW_KIND_LIMIT:
    case SW_KIND_MAP:
        if (!strcmp(option->key, "limits")) {
            snprintf(text, bytes,
                     next_random(seed) % 2 ? "null" : "{max_hours: %.17g, min_tokens_per_s: null}",
                     (next_random(seed) + 1) / 1e6);
            break;
        }
        snprintf(text, bytes, "{rank: %u, dropout: %.17g, adapter: %s}", next_random(seed) % 9 + 1,
                 next_random(seed) / 16777217.0, paths[next_random(seed) % 5]);
        break;
    case SW_KIND_WRAP:
        snprintf(text, bytes, next_random(seed) % 2 ? "block" : "{min_parameters: %u}",
                 next_random(seed) % 1000 + 1);
        break;
    case SW_KIND_OFF:
        snprintf(text, bytes, "%s", option->fallback);
        break;
    }
}

static void printed_settings_read_back_to_the_same(void **state) {
    (void)state;
    int n_taken = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t seed = round;
        char text[3][512];
        const char *overrides[3];
        int n_options = 1 + (int)(next_random(&seed) % 3), n = 0;
        for (int i = 0; i < n_options; i++) {
            const sw_option *option = &sw_option_table[next_random(&seed) % SW_N_OPTIONS];
            char value[256];
            random_value(option, &seed, value, sizeof value);
            snprintf(text[i], sizeof text[i], "%s.%s=%s", option->section, option->key, value);
            overrides[n++] = text[i];
        }
        sw_settings settings;
        sw_error err = {0};
        if (parse("", overrides, n, &settings, &err))
            continue; /* options that do not fit together */
        n_taken++;
        assert_prints_to_itself(&settings, text[0]);
        sw_settings_free(&settings);
    }
    assert_true(n_taken > 1000);
}

/* The optimizer's usual values by the kind of run; what is given stays, and has no reason. */
static void the_optimizer_is_chosen_by_the_kind_of_run(void **state) {
    static const struct {
        const char *text;
        double learning_rate, weight_decay;
        int64_t warmup_steps;
        const char *lines[3];
    } cases[] = {
        {"model: {architecture: llama, layers: 1, hidden: 2, heads: 1, ffn: 2, vocab: 300}\ntrain: "
         "{steps: 5000}\n",
         3e-4,
         0.1,
         100,
         {"  learning_rate: 0.0003  # auto: usual for a new model\n",
          "  weight_decay: 0.1  # auto: usual for a new model\n",
          "  warmup_steps: 100  # auto: usual for a new model\n"}},
        {"train: {steps: 999}\n",
         3e-4,
         0.1,
         99,
         {"  warmup_steps: 99  # auto: a tenth of the steps\n"}},
        {"train: {steps: 9}\n", 3e-4, 0.1, 0, {"  warmup_steps: 0  # auto"}},
        {"train: {epochs: 3}\n", 3e-4, 0.1, SW_AUTO, {"  warmup_steps: auto\n"}},
        {"model: {path: m}\ntrain: {steps: 1000}\n",
         2e-5,
         0,
         30,
         {"  learning_rate: 2e-05  # auto: usual for fine-tuning a whole model\n",
          "  weight_decay: 0  # auto: usual for fine-tuning a whole model\n",
          "  warmup_steps: 30  # auto: 3 % of the steps\n"}},
        {"model: {path: m}\ntrain: {steps: 1}\n", 2e-5, 0, 1, {NULL}},
        {"model: {path: m}\ntrain: {steps: 101}\n", 2e-5, 0, 4, {NULL}},
        {"model: {path: m}\ntrain: {steps: 9223372036854775807}\n",
         2e-5,
         0,
         276701161105643275,
         {NULL}},
        {"model: {path: m, train: [\"*.0.*\"]}\ntrain: {steps: 100}\n",
         2e-5,
         0,
         3,
         {"usual for fine-tuning parts of a model"}},
        {"model: {path: m, train: lora}\ntrain: {steps: 100}\n",
         2e-4,
         0,
         3,
         {"usual for training adapters"}},
        {"model: {path: m}\ntrain: {steps: 100}\noptimizer: {learning_rate: 1e-3, weight_decay: "
         "auto, warmup_steps: 0}\n",
         1e-3,
         0,
         0,
         {"  learning_rate: 0.001\n", "  warmup_steps: 0\n"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_settings settings;
        sw_error err = {0};
        if (parse(cases[i].text, NULL, 0, &settings, &err))
            fail_msg("%s: %s", cases[i].text, err.message);
        assert_true(settings.optimizer.learning_rate == cases[i].learning_rate);
        assert_true(settings.optimizer.weight_decay == cases[i].weight_decay);
        assert_int_equal(settings.optimizer.warmup_steps, cases[i].warmup_steps);
        char *text = sw_settings_yaml(&settings);
        for (int k = 0; k < 3 && cases[i].lines[k]; k++)
            if (!strstr(text, cases[i].lines[k]))
                fail_msg("%s: no \"%s\" in: %s", cases[i].text, cases[i].lines[k], text);
        free(text);
        sw_settings_free(&settings);
    }
}

static void every_option_is_printed(void **state) {
    (void)state;
    sw_settings settings;
    sw_error err = {0};
    assert_int_equal(parse("", NULL, 0, &settings, &err), SW_OK);
    char *text = sw_settings_yaml(&settings);
    for (int i = 0; i < SW_N_OPTIONS; i++) {
        char key[64];
        snprintf(key, sizeof key, "\n  %s: ", sw_option_table[i].key);
        assert_non_null(strstr(text, key));
    }
    free(text);
    assert_prints_to_itself(&settings, "defaults");
    sw_settings_free(&settings);
}

/* ---- files ---- */

static void every_starter_file_is_taken(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob(SW_SOURCE_FOLDER "/examples/*.yaml", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 3);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        sw_settings settings;
        sw_error err = {0};
        if (sw_settings_read(found.gl_pathv[i], NULL, 0, &settings, &err) ||
            sw_settings_name_model(&settings, &err) || sw_settings_complete(&settings, &err))
            fail_msg("%s", err.message);
        assert_string_equal(settings.directory, SW_SOURCE_FOLDER "/examples");
        assert_prints_to_itself(&settings, found.gl_pathv[i]);
        sw_settings_free(&settings);
    }
    globfree(&found);
}

static void files_that_cannot_be_settings_are_refused_by_name(void **state) {
    (void)state;
    char folder[FOLDER_BYTES], path[64];
    assert_true(folder_make(folder));
    sw_settings settings;
    sw_error err = {0};
    snprintf(path, sizeof path, "%s/run.yaml", folder);
    assert_int_equal(sw_settings_read(path, NULL, 0, &settings, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(sw_settings_read(folder, NULL, 0, &settings, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "folder"));
    FILE *file = fopen(path, "w");
    fwrite("train:\0 5\n", 1, 10, file);
    fclose(file);
    assert_int_equal(sw_settings_read(path, NULL, 0, &settings, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "zero byte"));
    file = fopen(path, "w");
    for (int i = 0; i < (1 << 20) + 1; i++)
        fputc('\n', file);
    fclose(file);
    assert_int_equal(sw_settings_read(path, NULL, 0, &settings, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "too many"));
    unlink(path);
    rmdir(folder);
}

/* Whatever a file holds, it is read or refused: every prefix of a good one, and bytes changed at
 * random. */
static void damaged_text_is_read_or_refused(void **state) {
    (void)state;
    const char *good =
        "model: {architecture: llama, layers: 2, hidden: 8, heads: 2, ffn: 16, vocab: 300}\n"
        "data:\n  train: ['a*.txt', \"b\\tc\"]\n  tokenizer: bytes\ntrain: {steps: 1e3}\n"
        "shard: {offload: {parameters: none}, wrap: {min_parameters: 3}}\n";
    uint32_t seed = 7;
    size_t length = strlen(good);
    for (int round = 0; round < 4000; round++) {
        char text[512];
        memcpy(text, good, length + 1);
        if ((size_t)round < length)
            text[round] = 0;
        else
            for (uint32_t n = next_random(&seed) % 4 + 1; n; n--)
                text[next_random(&seed) % length] = (char)(next_random(&seed) % 255 + 1);
        sw_settings settings;
        sw_error err = {0};
        sw_status status = parse(text, NULL, 0, &settings, &err);
        assert_true(status == SW_OK || (status == SW_BAD_CONFIG && *err.message));
        if (!status)
            assert_prints_to_itself(&settings, text);
        sw_settings_free(&settings);
    }
}

static void keep_model_line(void *to, const char *text) {
    if (strncmp(text, "model: ", 7) == 0)
        snprintf(to, 1024, "%s", text);
}

/* What people are told of a model that exists are not the dimensions of no other. */
static void dimensions_are_told_of_new_models_alone(void **state) {
    (void)state;
    sw_settings settings;
    sw_error err = {0};
    char line[1024] = "";
    assert_int_equal(parse("model: {path: base}", NULL, 0, &settings, &err), SW_OK);
    sw_settings_tell(&settings, keep_model_line, line);
    assert_non_null(strstr(line, "path /folder/base"));
    assert_non_null(strstr(line, "save_dtype bf16"));
    assert_null(strstr(line, "layers"));
    assert_null(strstr(line, "hidden"));
    sw_settings_free(&settings);
    assert_int_equal(
        parse("model: {architecture: llama, layers: 3, hidden: 8, heads: 2, ffn: 16, vocab: 11}",
              NULL, 0, &settings, &err),
        SW_OK);
    sw_settings_tell(&settings, keep_model_line, line);
    assert_non_null(strstr(line, "layers 3, hidden 8, heads 2"));
    sw_settings_free(&settings);
}

/* A model that exists is held to the same, by its config.json. */
static void new_models_have_as_many_layers_as_any(void **state) {
    (void)state;
    assert_true(sw_range_of(&sw_option_table[SW_OPTION_model_layers]).high == SW_MOST_LAYERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(values_of_every_kind_are_read),
        cmocka_unit_test(overrides_lie_over_the_file),
        cmocka_unit_test(of_equal_overrides_the_last_counts),
        cmocka_unit_test(every_mistake_is_named_with_its_line_and_what_was_meant),
        cmocka_unit_test(mistakes_on_the_command_line_are_named_too),
        cmocka_unit_test(files_that_are_called_like_variables_are_taken),
        cmocka_unit_test(off_values_are_taken),
        cmocka_unit_test(what_a_run_cannot_do_without_is_asked_for),
        cmocka_unit_test(printed_settings_read_back_to_the_same),
        cmocka_unit_test(the_optimizer_is_chosen_by_the_kind_of_run),
        cmocka_unit_test(every_option_is_printed),
        cmocka_unit_test(every_starter_file_is_taken),
        cmocka_unit_test(dimensions_are_told_of_new_models_alone),
        cmocka_unit_test(new_models_have_as_many_layers_as_any),
        cmocka_unit_test(files_that_cannot_be_settings_are_refused_by_name),
        cmocka_unit_test(damaged_text_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
