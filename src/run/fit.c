/* fit.c: the plan against memory, before anything starts; and when it does not fit, which one change would make it. */
#include "run/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "comm/control.h"
#include "device/cpu/threads.h"
#include "observe/resident.h"

/* What a process needs beside its plan: code, stacks, the BLAS's buffers. Measured at 35 MiB; held against the proportional set
 * size in tests/run/test_memory_slow.sh. */
#define PROCESS_BYTES ((int64_t)64 << 20)

/* ... with the stacks of its threads. */
static int64_t process_bytes(const sw_assembly_choice *choice) {
    return PROCESS_BYTES + (choice->n_threads - 1) * (int64_t)SW_THREAD_STACK_BYTES;
}

typedef struct limits {
    int64_t per_rank, all_ranks; /* INT64_MAX: none */
    const char *all_ranks_name;
} limits;

static bool fits(const sw_run *run, const sw_assembly_choice *choice, const limits *l) {
    sw_assembly a;
    if (sw_assembly_create(run->settings, run->options->model, choice, &a, NULL))
        return false;
    int64_t bytes = sw_compiled_bytes(a.compiled, NULL) + sw_run_transport_bytes(&a);
    sw_assembly_free(&a);
    return bytes <= l->per_rank && (bytes + process_bytes(choice)) * choice->n_ranks <= l->all_ranks;
}

/* The changes that can help, each in steps from what is set to the most that can be done. */
enum { RECOMPUTE, MICRO_BATCH, STAGE, RANKS, N_CHANGES };

/* The `step`-th stronger value of one setting; false when there is none. */
static bool strengthen(const sw_run *run, int change, int step, sw_assembly_choice *choice) {
    switch (change) {
    case RECOMPUTE:
        choice->recompute += step;
        return choice->recompute <= SW_RECOMPUTE_BLOCK;
    case MICRO_BATCH: /* the next smaller divisors of the batch */
        for (; step > 0 && choice->micro_batch_size > 1; step--)
            do
                choice->micro_batch_size--;
            while (run->settings->train.batch_size % choice->micro_batch_size);
        return step == 0;
    case STAGE:
        choice->stage += step;
        return choice->stage <= 3;
    default:
        choice->n_ranks <<= step;
        return step <= 6 && choice->n_ranks <= SW_MAX_RANKS && choice->stage > 0;
    }
}

static void word(const sw_assembly_choice *now, const sw_assembly_choice *then, char *text, size_t bytes) {
    char recompute[32] = "", micro[64] = "", stage[32] = "", ranks[32] = "";
    if (then->recompute != now->recompute)
        snprintf(recompute, sizeof recompute, "shard.recompute=%s ",
                 then->recompute == SW_RECOMPUTE_BLOCK ? "block" : "selective");
    if (then->micro_batch_size != now->micro_batch_size)
        snprintf(micro, sizeof micro, "train.micro_batch_size=%" PRId64 " ", then->micro_batch_size);
    if (then->stage != now->stage)
        snprintf(stage, sizeof stage, "shard.stage=%d ", then->stage);
    if (then->n_ranks != now->n_ranks)
        snprintf(ranks, sizeof ranks, "shard.ranks=%d ", then->n_ranks);
    snprintf(text, bytes, "%s%s%s%swould fit", recompute, micro, stage, ranks);
}

/* Try every set of `changes` (bits), each setting in its steps. */
static bool try_changes(const sw_run *run, const limits *l, unsigned changes, int change, const sw_assembly_choice *from,
                        sw_assembly_choice *found) {
    if (change == N_CHANGES) {
        *found = *from;
        return fits(run, from, l);
    }
    if (!(changes >> change & 1))
        return try_changes(run, l, changes, change + 1, from, found);
    for (int step = 1;; step++) {
        sw_assembly_choice stronger = *from;
        if (!strengthen(run, change, step, &stronger))
            return false;
        if (try_changes(run, l, changes, change + 1, &stronger, found))
            return true;
    }
}

/* The fewest changes that make it fit. */
static void suggest(const sw_run *run, const limits *l, char *text, size_t bytes) {
    sw_assembly_choice found;
    for (int n_changes = 1; n_changes <= N_CHANGES; n_changes++)
        for (unsigned changes = 1; changes < 1u << N_CHANGES; changes++)
            if (__builtin_popcount(changes) == n_changes && try_changes(run, l, changes, 0, &run->assembly.choice, &found)) {
                word(&run->assembly.choice, &found, text, bytes);
                return;
            }
    snprintf(text, bytes, "no stage, number of ranks, recompute or micro-batch makes it fit; take a smaller model or sequence");
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
    int64_t process = process_bytes(&run->assembly.choice);
    bool over_limit = rank_bytes > l.per_rank, over_machine = (rank_bytes + process) * n_ranks > l.all_ranks;
    if (!over_limit && !over_machine)
        return SW_OK;
    char need[SW_TEXT_NUMBER_BYTES], most[SW_TEXT_NUMBER_BYTES], have[SW_TEXT_NUMBER_BYTES], advice[256];
    suggest(run, &l, advice, sizeof advice);
    sw_text_bytes(over_limit ? rank_bytes : (rank_bytes + process) * n_ranks, need, sizeof need);
    sw_text_bytes(run->planned[largest], most, sizeof most);
    sw_text_bytes(over_limit ? l.per_rank : l.all_ranks, have, sizeof have);
    return sw_fail(err, SW_NO_MEMORY, "the run does not fit: %s %s, %s has %s · most of a rank's memory is %s (%s) · %s",
                   over_limit ? "a rank needs" : "all ranks together need", need,
                   over_limit ? "shard.memory_limit" : l.all_ranks_name, have, sw_memory_class_name((sw_memory_class)largest),
                   most, advice);
}
