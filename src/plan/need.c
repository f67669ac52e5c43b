/* need.c: see need.h. */
#include "plan/need.h"

#include <stdio.h>

#include "base/integer.h"
#include "base/text.h"
#include "device/cpu/threads.h"
#include "hf/model_files.h"

/* A process that has computed its first step: code, stacks, heap, and what the kernel keeps of it.
 * Measured: 0.8 to 1.7 MiB. */
#define PROCESS_BYTES ((int64_t)5 << 19)

/* What OpenBLAS packs operands into, of each thread that multiplies; and no more than copies of all
 * that there is. */
#define BLAS_BYTES ((int64_t)32 << 20)

/* An entry of a page table for each page of 4096 bytes that a process maps, and the kernel's index
 * of a window's pages: together 17 bytes a page. */
enum { BYTES_A_TABLE_BYTE = 240 };

int64_t sw_process_share(int n_ranks, int n_threads, const int64_t planned[SW_N_MEMORY_CLASSES],
                         int64_t n_parameters, bool uses_blas) {
    static const sw_memory_class windows[] = {SW_MEMORY_PARAMETERS, SW_MEMORY_GRADIENTS,
                                              SW_MEMORY_REDUCE};
    int64_t plan = 0, mapped = 0, element_bytes = (int64_t)sizeof(float);
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        plan += planned[c];
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) /* those of the other ranks */
        mapped += planned[windows[w]] / BYTES_A_TABLE_BYTE * (n_ranks - 1);
    int64_t buffers = 2 * element_bytes * smaller(n_parameters, SW_PIECE_ELEMENTS);
    int64_t blas = uses_blas ? n_threads * smaller(BLAS_BYTES, 2 * plan) : 0;
    return PROCESS_BYTES + buffers + plan / BYTES_A_TABLE_BYTE + mapped +
           (n_threads - 1) * (int64_t)SW_THREAD_STACK_BYTES + blas;
}

sw_need sw_need_of(int n_ranks, int n_threads, const int64_t planned[SW_N_MEMORY_CLASSES],
                   int64_t n_parameters, bool uses_blas) {
    sw_need need = {.n_ranks = n_ranks,
                    .share =
                        sw_process_share(n_ranks, n_threads, planned, n_parameters, uses_blas)};
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        need.plan += planned[c];
    return need;
}

int64_t sw_need_bytes(const sw_need *need) {
    int64_t of_rank, all;
    if (__builtin_add_overflow(need->plan, need->share, &of_rank) ||
        __builtin_mul_overflow(of_rank, need->n_ranks, &all) ||
        __builtin_add_overflow(all, need->mirrors, &all) ||
        __builtin_add_overflow(all, need->files, &all))
        return INT64_MAX;
    return all;
}

void sw_memory_limits_find(int64_t per_rank, sw_memory_limits *limits) {
    limits->per_rank = per_rank > 0 ? per_rank : INT64_MAX;
    if (sw_available_memory_read("", &limits->available, NULL))
        limits->available = (sw_available_memory){.bytes = INT64_MAX, .limit = "this machine"};
}

bool sw_need_fits(const sw_need *need, const sw_memory_limits *limits) {
    return need->plan <= limits->per_rank && sw_need_bytes(need) <= limits->available.bytes;
}

sw_memory_limits sw_memory_limits_for_advice(const sw_memory_limits *limits) {
    const int64_t margin = (int64_t)1 << 20;
    sw_memory_limits tighter = *limits;
    if (tighter.available.bytes != INT64_MAX)
        tighter.available.bytes = larger(0, tighter.available.bytes - margin);
    return tighter;
}

char *sw_need_most(const int64_t planned[SW_N_MEMORY_CLASSES], char *text, size_t bytes) {
    char number[SW_TEXT_NUMBER_BYTES];
    int most = 0;
    for (int c = 1; c < SW_N_MEMORY_CLASSES; c++)
        most = planned[c] > planned[most] ? c : most;
    snprintf(text, bytes, "%s (%s)", sw_memory_class_name((sw_memory_class)most),
             sw_text_bytes(planned[most], number, sizeof number));
    return text;
}

int64_t sw_advice_tries(int64_t n_parameters) {
    enum { PARAMETERS = 200000, FEWEST = 10, MOST = 500 }; /* PARAMETERS: planned by all tries */
    return larger(FEWEST, smaller(MOST, PARAMETERS / larger(1, n_parameters)));
}

/* The next choice of values, as a number is counted up; false after the last. */
static bool count_up(const sw_alternatives *a, int value[]) {
    for (int k = 0; k < a->n; k++) {
        if (value[k]++ < a->n_values[k])
            return true;
        value[k] = 0;
    }
    return false;
}

static void advise(const sw_alternatives *a, const sw_memory_limits *limits, char *text,
                   size_t bytes) {
    int64_t n_left = a->n_tries;
    for (int n_changes = 1; n_changes <= a->n; n_changes++)
        for (int value[SW_MOST_ALTERNATIVES] = {0}; count_up(a, value) && n_left > 0;) {
            char words[256], number[SW_TEXT_NUMBER_BYTES];
            sw_need need;
            int n = 0;
            for (int k = 0; k < a->n; k++)
                n += value[k] > 0;
            if (n != n_changes)
                continue;
            n_left--;
            if (!a->price(a->self, value, &need) || !sw_need_fits(&need, limits))
                continue;
            a->word(a->self, value, words, sizeof words);
            snprintf(text, bytes, "%swould fit: all processes need %s then", words,
                     sw_text_bytes(sw_need_bytes(&need), number, sizeof number));
            return;
        }
    snprintf(text, bytes,
             "no other value of %s that was tried makes it fit; take a machine with more memory",
             a->names);
}

sw_status sw_need_check(const sw_need *need, int64_t per_rank, const char *what, const char *most,
                        const sw_alternatives *alternatives, sw_error *err) {
    sw_memory_limits limits, tighter;
    char advice[512];
    sw_memory_limits_find(per_rank, &limits);
    if (sw_need_fits(need, &limits))
        return SW_OK;
    tighter = sw_memory_limits_for_advice(&limits);
    advise(alternatives, &tighter, advice, sizeof advice);
    return sw_need_refuse(need, &limits, what, most, advice, err);
}

sw_status sw_need_refuse(const sw_need *need, const sw_memory_limits *limits, const char *what,
                         const char *most, const char *advice, sw_error *err) {
    char plan[SW_TEXT_NUMBER_BYTES], share[SW_TEXT_NUMBER_BYTES], all[SW_TEXT_NUMBER_BYTES],
        have[SW_TEXT_NUMBER_BYTES];
    char files[SW_TEXT_NUMBER_BYTES], of_files[96] = "";
    sw_text_bytes(need->plan, plan, sizeof plan);
    if (need->plan > limits->per_rank)
        return sw_fail(err, SW_NO_MEMORY,
                       "%s does not fit: a rank needs %s, shard.memory_limit is %s · most of a "
                       "rank's memory is %s · %s",
                       what, plan, sw_text_bytes(limits->per_rank, have, sizeof have), most,
                       advice);
    if (need->files)
        snprintf(of_files, sizeof of_files, " and %s of files, which lie in memory there",
                 sw_text_bytes(need->files, files, sizeof files));
    return sw_fail(err, SW_NO_MEMORY,
                   "%s does not fit: %d rank%s of %s planned and %s beside it for each process%s "
                   "need %s, %s leaves %s · most of a "
                   "rank's memory is %s · %s",
                   what, need->n_ranks, need->n_ranks > 1 ? "s" : "", plan,
                   sw_text_bytes(need->share, share, sizeof share), of_files,
                   sw_text_bytes(sw_need_bytes(need), all, sizeof all), limits->available.limit,
                   sw_text_bytes(limits->available.bytes, have, sizeof have), most, advice);
}
