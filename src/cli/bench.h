/* bench.h: the parts of the verb bench, a file each, and what their reports have in common. */
#ifndef SW_CLI_BENCH_H
#define SW_CLI_BENCH_H

#include <jansson.h>

#include "cli/command.h"

/* A part is a verb of two words: "bench comm". */
extern const sw_verb sw_bench_comm;

/* What a figure depends on beside the program: version, cpu, cores that may be used, memory, kernel, load before the run.
 * Ownership: json_decref. NULL without memory. */
json_t *sw_bench_machine(void);

/* Print `report` on stdout, and forget it. SW_NO_MEMORY where it is NULL. */
sw_status sw_bench_print(json_t *report, sw_error *err);

/* The median of `samples` [n], which are put in order. n is at least 1. */
double sw_bench_median(double *samples, int64_t n);

#endif
