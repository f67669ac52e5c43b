/* sharded_internal.h: what sharded.c (from registration to commit) and sharded_step.c (what a step
 * calls) share. */
#ifndef SW_EXECUTE_SHARDED_INTERNAL_H
#define SW_EXECUTE_SHARDED_INTERNAL_H

#include <shardwise/sharded.h>

#include "execute/executor.h"
#include "shard/compile.h"

#define SW_SHARDED_VOTE_BYTES 1024 /* at most; of one rank */

/* Where a unit is in its step. Shard units and graph units are the same here, by id; the root, 0,
 * holds nothing. */
typedef struct sw_sharded_unit_state {
    bool is_gathered;
    int buffer;          /* that its gradients lie in; -1: they are not open */
    int n_reduced;       /* since the last step */
    sw_wide_sum squares; /* of own slice, as it was reduced last */
} sw_sharded_unit_state;

/* One place of the ring that gradients are written to and reduced from. */
typedef struct sw_sharded_buffer {
    bool is_taken;
    int64_t last_taken; /* a count: the place that was taken longest ago is taken next, as peers may
                           still read the others */
} sw_sharded_buffer;

struct sw_sharded {
    sw_comm *comm;
    sw_sharded_options options;
    sw_graph *graph; /* declares units and parameters, and has no operations; `compiled`'s once
                        there is one */
    SW_LIST(sw_initial) initials; /* by parameter id; in `arena` */
    sw_arena arena;
    bool is_committed, has_failed; /* has_failed: sw_sharded_commit has */

    sw_device *device;
    sw_compiled *compiled; /* an update alone */
    sw_executor *executor;

    sw_sharded_unit_state *units; /* [layout.n_units] */
    const char **gathered;        /* [layout.n_groups] whole group; NULL while not gathered */
    char *copies; /* copy mode: room for every gathered group, at page offsets; pages exist while it
                     is gathered */
    int64_t copies_bytes;
    int64_t *copy_offset; /* [layout.n_groups] */

    sw_window window; /* of gradient buffers: [n_ranks][n_gradient_buffers][buffer_bytes] */
    int64_t buffer_bytes;
    int first_channel; /* of the buffers */
    sw_sharded_buffer *buffers;
    int64_t n_taken;

    int64_t step, n_updates; /* completed; those that changed the parameters */
    double norm;             /* of the last step */
    int n_calls;             /* in this step, for the record of what this rank does */
    void *votes;             /* [n_ranks] of the exchange that decides a step */
};

/* Is it this object's? `what` is what the caller is doing, for messages. */
sw_status sw_sharded_own_unit(const sw_sharded *sharded, const char *what, const sw_unit *unit,
                              sw_error *err);
sw_status sw_sharded_own_parameter(const sw_sharded *sharded, const char *what,
                                   const sw_parameter *parameter, sw_error *err);

#endif
