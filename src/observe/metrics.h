/* metrics.h: metrics.jsonl, one object per logged step.
 *
 * The keys are part of the product's contract. Rank 0 writes them. Losses, norms and bytes are the
 * same on every rank; seconds and flops are rank 0's own; memory is the worst rank's.
 */
#ifndef SW_OBSERVE_METRICS_H
#define SW_OBSERVE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/memory_class.h"
#include "observe/json_line.h"

typedef struct sw_step_metrics {
    int64_t step; /* completed steps: the first is 1 */
    double loss, grad_norm, grad_norm_clipped, learning_rate;
    int64_t tokens, supervised_tokens; /* of this step */
    double tokens_per_second, step_seconds;
    /* of the compute lane: in kernels; in all else; and of that, waiting for parameters to be
     * gathered, for gradients to be reduced, for the ranks' common decision */
    double compute_seconds, wait_seconds, gather_wait_seconds, reduce_wait_seconds,
        decide_wait_seconds;
    double moving_seconds; /* copying what is gathered, summing what is reduced: in copy mode on a
                              lane of its own */
    double communication_wait_seconds; /* of that lane, waiting for peers and for buffers */
    int64_t gather_bytes, reduce_bytes;
    double flops_per_second;
    struct {
        int64_t planned[SW_N_MEMORY_CLASSES], peak[SW_N_MEMORY_CLASSES]; /* bytes */
        int64_t resident;                                                /* bytes */
        int rank; /* the worst one, whose numbers these are */
    } memory;
    bool has_validation_loss; /* evaluated after this step */
    double validation_loss;
    const char *skipped; /* why the step changed nothing; NULL for an ordinary step */
} sw_step_metrics;

/* The step as one line, newline included. */
void sw_metrics_format(const sw_step_metrics *metrics, sw_json_line *line);

/* A file that a run goes on with after `step`: lines of later steps are cut off, and one that was
 * not finished. No file: nothing is done. */
sw_status sw_metrics_cut(const char *path, int64_t step, sw_error *err);

/* Append one line by one write. No allocation. Errors: as of sw_json_lines_append. */
sw_status sw_metrics_write(sw_json_lines *metrics, const sw_step_metrics *step, sw_error *err);

#endif
