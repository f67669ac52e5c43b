/* A whole training run with ranks as threads of one process, so that race checkers see all of it:
 * both transport modes that threads can take, every stage, with evaluation and recompute, more
 * ranks than micro-batches. What comes out is what processes compute, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <shardwise.h>

#include "base/file.h"
#include "support/folder.h"

typedef struct run_folder {
    char path[256], yaml[300];
    int n_runs;
} run_folder;

/* Of an even number of blocks the ring's place that is lent first in a slot is the one whose
 * gradients peers read last in the slot before. */
static const char settings[] =
    "model: {architecture: llama, layers: 4, hidden: 16, heads: 2, ffn: 20, max_positions: 16, "
    "dropout: 0.1, save_dtype: fp32}\n"
    "data: {train: [text.txt], validation: [text.txt], validation_rows: 5, tokenizer: bytes, "
    "sequence_length: 16}\n"
    "train: {steps: 3, batch_size: 5, micro_batch_size: 1, validate_every: 2}\n"
    "optimizer: {learning_rate: 1e-2}\n"
    "checkpoint: {path: run, every: 1}\n"
    "log: {every: 1}\n";

static int make_folder(void **state) {
    run_folder *folder = calloc(1, sizeof *folder);
    char path[300], text[2048];
    if (!folder)
        return -1;
    if (!folder_make(folder->path))
        return -1;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    snprintf(path, sizeof path, "%s/text.txt", folder->path);
    snprintf(folder->yaml, sizeof folder->yaml, "%s/run.yaml", folder->path);
    *state = folder;
    return sw_file_write(path, text, sizeof text, NULL) ||
                   sw_file_write(folder->yaml, settings, sizeof settings - 1, NULL)
               ? -1
               : 0;
}

static int remove_folder(void **state) {
    run_folder *folder = *state;
    int code = folder_remove(folder->path);
    free(folder);
    return code;
}

/* Train, and return the final model's file, which the caller frees. */
static char *train(run_folder *folder, bool as_threads, const char *mode, int stage, int n_ranks,
                   const char *more, int64_t *bytes) {
    char run[64], path[400], mode_text[32], stage_text[32], ranks_text[32], *model = NULL;
    snprintf(run, sizeof run, "checkpoint.path=run%d", ++folder->n_runs);
    snprintf(mode_text, sizeof mode_text, "shard.mode=%s", mode);
    snprintf(stage_text, sizeof stage_text, "shard.stage=%d", stage);
    snprintf(ranks_text, sizeof ranks_text, "shard.ranks=%d", n_ranks);
    const char *overrides[] = {run, mode_text, stage_text, ranks_text, more};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    sw_error err = {0};
    options.as_threads = as_threads;
    if (sw_train_file(folder->yaml, overrides, 5, &options, &err) != SW_OK)
        fail_msg("%s, %s, %s, %s: %s", mode_text, stage_text, ranks_text, more, err.message);
    snprintf(path, sizeof path, "%s/run%d/model/model.safetensors", folder->path, folder->n_runs);
    if (sw_file_read(path, 1 << 24, &model, bytes, &err) != SW_OK)
        fail_msg("%s", err.message);
    return model;
}

static void threads_compute_what_processes_compute(void **state) {
    static const struct {
        const char *mode, *more;
        int stage, n_ranks;
    } runs[] = {
        {"view", "shard.recompute=none", 3, 2},
        {"view", "shard.recompute=block", 2, 4},
        {"view", "shard.prefetch=2", 0, 3},
        {"view", "shard.prefetch=0", 1, 4},
        {"view", "train.threads=2", 3, 2},
        {"copy", "train.threads=3", 3, 2},
        {"copy", "train.threads=2", 2, 3},
        {"copy", "shard.recompute=none", 3, 4},
        {"copy", "shard.recompute=block", 3, 2},
        {"copy", "shard.prefetch=3", 3, 3},
        {"copy", "shard.prefetch=0", 2, 4},
        {"copy", "shard.prefetch=1", 1, 3},
        {"copy", "shard.recompute=block", 0, 4},
        {"copy", "shard.reshard_after_forward=false", 3, 4},
    };
    int64_t bytes, found_bytes;
    char *wanted = train(*state, false, "view", 3, 2, "shard.prefetch=1", &bytes);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char *found = train(*state, true, runs[i].mode, runs[i].stage, runs[i].n_ranks,
                            runs[i].more, &found_bytes);
        assert_int_equal(found_bytes, bytes);
        assert_memory_equal(found, wanted, bytes);
        free(found);
    }
    free(wanted);
}

/* Sums depend on the number of ranks here, so runs are compared at one number. */
static void unsharded_accumulation_too(void **state) {
    int64_t bytes, found_bytes;
    char *wanted = train(*state, false, "view", 3, 3, "shard.accumulate=unsharded", &bytes);
    for (int stage = 0; stage < 4; stage++) {
        char *found = train(*state, true, stage % 2 ? "copy" : "view", stage, 3,
                            "shard.accumulate=unsharded", &found_bytes);
        assert_int_equal(found_bytes, bytes);
        assert_memory_equal(found, wanted, bytes);
        free(found);
    }
    free(wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_compute_what_processes_compute),
        cmocka_unit_test(unsharded_accumulation_too),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
