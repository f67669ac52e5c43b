/* stretches.h: when each unit's parameters and gradients are touched, as positions in the list of
 * forward and backward operations. */
#ifndef SW_SHARD_STRETCHES_H
#define SW_SHARD_STRETCHES_H

#include "shard/program.h"

/* A stretch of operations over which a unit stays gathered, or its gradient buffer is being
 * filled. */
typedef struct sw_stretch {
    int unit;
    int first, last; /* operations, inclusive */
} sw_stretch;

typedef struct sw_stretches {
    int n_ops;     /* forward and backward operations, in order; dropped ones are not among them */
    int n_forward; /* the first of them */
    const sw_op **ops; /* [n_ops] */
    int n_gathers;
    sw_stretch *gathers;  /* in order of `first`; the root's is first among equals */
    int *gathers_by_last; /* [n_gathers] the same, in order of `last` */
    int *gather_before;   /* [n_gathers] the one before it of the same unit; -1 */
    int n_gradients;
    sw_stretch *gradients; /* in order of `first` */
    int *gradients_by_last;
} sw_stretches;

/* Find them in `graph` under `layout`. A unit that forward and backward both use has two gathers,
 * except the root and the n_staying units that forward leaves last: they stay gathered, and
 * backward begins with them. */
sw_status sw_stretches_find(const sw_graph *graph, const sw_layout *layout, int n_staying,
                            sw_arena *arena, sw_stretches *uses, sw_error *err);

#endif
