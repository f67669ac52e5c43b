/* fit.c: the plan against memory, before anything starts; and when it does not fit, which one change would make it. */
#include "run/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "comm/control.h"
#include "observe/resident.h"

/* What a process needs beside its plan: code, stacks, the BLAS's buffers. Measured at 35 MiB; held against the proportional set size in
 * tests/run/test_memory_slow.sh. */
#define PROCESS_BYTES ((int64_t)64 << 20)

typedef struct limits {
    int64_t per_rank, all_ranks; /* INT64_MAX: none */
    const char *all_ranks_name;
} limits;

static bool fits(const sw_run *run, const sw_assembly_choice *choice, const limits *l) {
    sw_assembly a;
    if (sw_assembly_create(run->settings, run->options->model, choice, &a, NULL))
        return false;
    int64_t bytes = sw_assembly_bytes(&a, NULL) + sw_control_bytes(choice->n_ranks) / choice->n_ranks;
    sw_assembly_free(&a);
    return bytes <= l->per_rank && (bytes + PROCESS_BYTES) * choice->n_ranks <= l->all_ranks;
}

/* One change at a time, the cheapest first. */
static void suggest(const sw_run *run, const limits *l, char *text, size_t bytes) {
    const sw_assembly_choice now = run->assembly.choice;
    sw_assembly_choice tried = now;
    static const char *const recompute[] = {"none", "selective", "block"};
    for (tried.recompute = now.recompute + 1; tried.recompute <= SW_RECOMPUTE_BLOCK; tried.recompute++)
        if (fits(run, &tried, l)) {
            snprintf(text, bytes, "shard.recompute=%s would fit", recompute[tried.recompute]);
            return;
        }
    tried = now;
    for (tried.micro_batch_size = now.micro_batch_size - 1; tried.micro_batch_size > 0; tried.micro_batch_size--)
        if (run->settings->train.batch_size % tried.micro_batch_size == 0 && fits(run, &tried, l)) {
            snprintf(text, bytes, "train.micro_batch_size=%" PRId64 " would fit", tried.micro_batch_size);
            return;
        }
    tried = now;
    for (tried.stage = now.stage + 1; tried.stage <= 3; tried.stage++)
        if (fits(run, &tried, l)) {
            snprintf(text, bytes, "shard.stage=%d would fit", tried.stage);
            return;
        }
    tried = now;
    for (tried.n_ranks = 2 * now.n_ranks; tried.n_ranks <= SW_MAX_RANKS && now.stage > 0; tried.n_ranks *= 2)
        if (fits(run, &tried, l)) {
            snprintf(text, bytes, "shard.ranks=%d would fit", tried.n_ranks);
            return;
        }
    tried = (sw_assembly_choice){.n_ranks = now.n_ranks, .micro_batch_size = 1, .stage = 3, .recompute = SW_RECOMPUTE_BLOCK};
    if (fits(run, &tried, l))
        snprintf(text, bytes, "shard.stage=3 shard.recompute=block train.micro_batch_size=1 together would fit");
    else
        snprintf(text, bytes, "no stage, recompute or micro-batch makes it fit on %d ranks; take a smaller model or sequence", now.n_ranks);
}

sw_status sw_fit_check(const sw_run *run, sw_error *err) {
    limits l = {run->settings->shard.memory_limit > 0 ? run->settings->shard.memory_limit : INT64_MAX, INT64_MAX, ""};
    sw_available_memory available;
    if (!sw_available_memory_read("", &available, NULL)) {
        l.all_ranks = available.bytes;
        l.all_ranks_name = available.limit;
    }
    int n_ranks = run->assembly.choice.n_ranks, largest = 0;
    int64_t rank_bytes = 0;
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++) {
        rank_bytes += run->planned[c];
        largest = run->planned[c] > run->planned[largest] ? c : largest;
    }
    bool over_limit = rank_bytes > l.per_rank, over_machine = (rank_bytes + PROCESS_BYTES) * n_ranks > l.all_ranks;
    if (!over_limit && !over_machine)
        return SW_OK;
    char need[SW_TEXT_NUMBER_BYTES], most[SW_TEXT_NUMBER_BYTES], have[SW_TEXT_NUMBER_BYTES], advice[256];
    suggest(run, &l, advice, sizeof advice);
    sw_text_bytes(over_limit ? rank_bytes : (rank_bytes + PROCESS_BYTES) * n_ranks, need, sizeof need);
    sw_text_bytes(run->planned[largest], most, sizeof most);
    sw_text_bytes(over_limit ? l.per_rank : l.all_ranks, have, sizeof have);
    return sw_fail(err, SW_NO_MEMORY, "the run does not fit: %s %s, %s has %s · most of a rank's memory is %s (%s) · %s",
                   over_limit ? "a rank needs" : "all ranks together need", need, over_limit ? "shard.memory_limit" : l.all_ranks_name, have,
                   sw_memory_class_name((sw_memory_class)largest), most, advice);
}
