/* need.h: what the processes of a run take of a machine's memory, beside what it has left; and the
 * words of a refusal.
 *
 * A rank's plan is exact. Beside it a process takes what no program plans, its share: two buffers
 * through which values pass when they are loaded and saved, its code, stacks and the kernel's books
 * of it, the page tables of what it maps, and what a BLAS packs operands into. tests/run/memory.py
 * holds that against the proportional set size and against what a control group is charged. Only
 * what is still to be taken counts: what the asking process has already is no more in what is left.
 */
#ifndef SW_PLAN_NEED_H
#define SW_PLAN_NEED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory_class.h"
#include "observe/resident.h"

typedef struct sw_need {
    int n_ranks;
    int64_t plan;    /* bytes of a rank */
    int64_t share;   /* of each process, beside its plan */
    int64_t mirrors; /* of what ranks of other hosts show to those here */
    int64_t files;   /* still to be written where files lie in memory (tmpfs); else 0 */
} sw_need;

/* Of each process. `planned`: of a rank, by class; n_parameters: of the model. */
int64_t sw_process_share(int n_ranks, int n_threads, const int64_t planned[SW_N_MEMORY_CLASSES],
                         int64_t n_parameters, bool uses_blas);

/* Of ranks with such plans, by class; the other arguments as above. */
sw_need sw_need_of(int n_ranks, int n_threads, const int64_t planned[SW_N_MEMORY_CLASSES],
                   int64_t n_parameters, bool uses_blas);

/* All of it; INT64_MAX if it cannot be counted. */
int64_t sw_need_bytes(const sw_need *need);

typedef struct sw_memory_limits {
    int64_t per_rank;              /* of the plan: shard.memory_limit; INT64_MAX: none */
    sw_available_memory available; /* of all processes together; bytes INT64_MAX: not known */
} sw_memory_limits;

/* per_rank: 0: none. */
void sw_memory_limits_find(int64_t per_rank, sw_memory_limits *limits);

bool sw_need_fits(const sw_need *need, const sw_memory_limits *limits);

/* The same with a little less, for advice: what is left changes from one moment to the next. */
sw_memory_limits sw_memory_limits_for_advice(const sw_memory_limits *limits);

/* SW_NO_MEMORY: what does not fit, of what it consists, what there is, and `advice`. `what`: "the
 * run"; `most`: the largest part of a rank's plan in words. */
sw_status sw_need_refuse(const sw_need *need, const sw_memory_limits *limits, const char *what,
                         const char *most, const char *advice, sw_error *err);

/* Settings of a verb that could make it fit, each with other values that are numbered from 1, the
 * milder ones first; 0 is what is set. `price` computes what a choice of values needs (false: it
 * cannot be); `word` says it as the verb takes it ("--dtype bf16 "). */
enum { SW_MOST_ALTERNATIVES = 6 };
typedef struct sw_alternatives {
    int n;
    int n_values[SW_MOST_ALTERNATIVES];
    int64_t n_tries;   /* at most: sw_advice_tries */
    const char *names; /* of all, for the message that none helps: "--ranks, --dtype or --batch" */
    void *self;
    bool (*price)(void *self, const int value[], sw_need *need);
    void (*word)(void *self, const int value[], char *text, size_t bytes);
} sw_alternatives;

/* How many other settings are looked at for a model of so many tensors: many for a small one, few
 * for one of thousands of layers, which takes a while to plan. A number of tries and no time, so
 * that the advice is the same on every machine. */
int64_t sw_advice_tries(int64_t n_parameters);

/* Does it fit? If not, SW_NO_MEMORY as sw_need_refuse says it, with the fewest changes that were
 * computed to fit. */
sw_status sw_need_check(const sw_need *need, int64_t per_rank, const char *what, const char *most,
                        const sw_alternatives *alternatives, sw_error *err);

/* The largest class of a plan in words: "activations (1.5 GiB)". */
char *sw_need_most(const int64_t planned[SW_N_MEMORY_CLASSES], char *text, size_t bytes);

#endif
