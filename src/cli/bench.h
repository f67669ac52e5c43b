/* bench.h: the parts of the verb bench, a file each, and what their reports have in common. */
#ifndef SW_CLI_BENCH_H
#define SW_CLI_BENCH_H

#include "base/dtype.h"
#include "base/json_number.h"
#include "cli/command.h"
#include "config/settings.h"
#include "device/cpu/open.h"
#include "device/cpu/roof.h"

/* A part is a verb of two words: "bench comm". */
extern const sw_verb sw_bench_comm, sw_bench_gemm, sw_bench_roofs_part, sw_bench_step;

/* What a figure depends on beside the program: version, cpu, cores that may be used, memory,
 * kernel, load before the run. Ownership: json_decref. NULL without memory. */
json_t *sw_bench_machine(void);

/* Where a report goes beside its table on stdout. */
typedef struct sw_bench_output {
    bool as_json;     /* to stdout, instead of the table */
    const char *save; /* to this file; NULL: to none */
} sw_bench_output;

/* Put the report where it goes. SW_NO_MEMORY where it is NULL. The caller keeps it, and prints the
 * table unless as_json. */
sw_status sw_bench_put(const json_t *report, const sw_bench_output *output, sw_error *err);

/* The flags of every part. */
#define SW_BENCH_OUTPUT_FLAGS(output)                                                        \
    {"--json", NULL, "print one JSON object", SW_FLAG_SWITCH, &(output).as_json}, {          \
        "--save", "FILE", "also write the JSON object to FILE", SW_FLAG_TEXT, &(output).save \
    }

/* The kernel set of this name; the widest that runs here for NULL. Errors: SW_BAD_CONFIG: there is
 * no such set, or this CPU cannot run it. */
#define SW_BENCH_KERNELS_FLAG(name)                                                     \
    {                                                                                   \
        "--kernels", "SET",                                                             \
            "baseline, x86-64-v3 or x86-64-v4 (default: the widest that this CPU has)", \
            SW_FLAG_TEXT, &(name)                                                       \
    }
sw_status sw_bench_kernels(const char *name, sw_kernel_set *set, sw_error *err);

/* The median of `samples` [n], which are put in order. n is at least 1. */
double sw_bench_median(double *samples, int64_t n);

/* ---- bench_roofs.c ---- */

/* The cores of a run, and the product of matrices that is typical of it. */
typedef struct sw_bench_cores {
    int64_t n_ranks, n_threads, m, n, k;
    sw_dtype type; /* SW_F32 or SW_BF16 */
    sw_kernel_set set;
} sw_bench_cores;

/* Operations per second of all these cores together. */
typedef struct sw_bench_roofs {
    double rate[SW_N_ROOFS + 1]; /* the last: products of matrices */
    sw_kernel_set set;
    char gemm[64];
} sw_bench_roofs;

/* Takes about a third of a second. Ranks are forked: no thread may run. */
sw_status sw_bench_roofs_sample(const sw_bench_cores *cores, sw_bench_roofs *roofs, sw_error *err);
double
sw_bench_fma_roof(const sw_bench_roofs *roofs); /* the best width of fp32 that the kernel set has */
json_t *sw_bench_roofs_json(const sw_bench_roofs *roofs);

/* ---- bench_run.c ---- */

/* Train as `settings` say in a process that is watched from outside. out: an object with
 *
 *   steps      the objects of metrics.jsonl
 *   plan       plan.json
 *   start      the first event: kernels, gemm
 *   start_to_step_1_seconds
 *   pss_bytes  the ranks' proportional set sizes together, the most that was seen in the first
 *              n_skip steps (at least one); the steps after them run unwatched
 *
 * Errors: those of the run. Ownership: json_decref(*result). */
sw_status sw_bench_run(const sw_settings *settings, int64_t n_skip, json_t **result, sw_error *err);

#endif
