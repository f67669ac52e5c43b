/* executor.h: runs programs on a device and a transport. It knows nothing of how a program was
 * made.
 *
 * All memory is taken when the executor is created: a section per memory class, as the program's
 * memory map says; nothing is allocated after that. In copy mode the communication lane has a
 * thread of its own.
 */
#ifndef SW_EXECUTE_EXECUTOR_H
#define SW_EXECUTE_EXECUTOR_H

#include "base/wide_sum.h"
#include "comm/comm.h"
#include "shard/program.h"

typedef struct sw_executor sw_executor;

/* Collective. Bind `programs` over `states` on this rank: windows, memory, addresses. Device,
 * states and programs must outlive it. Errors: SW_NO_MEMORY with what was asked for. */
sw_status sw_executor_create(sw_comm *comm, const sw_device *device, const sw_states *states,
                             const sw_program *const *programs, int n_programs,
                             sw_executor **executor, sw_error *err);
void sw_executor_free(sw_executor *executor);

/* The address of a buffer of program `index` on this rank (a shared slice: own part): the device's.
 * NULL for -1. */
void *sw_executor_address(sw_executor *executor, int index, int buffer);

/* What lies at an address of this rank's memory, for the host to read: there, all of *bytes, or a
 * copy of the first ones in `room` [SW_VIEW_BYTES]; out: *bytes, how many. */
enum { SW_VIEW_BYTES = 16 << 10 };
const void *sw_executor_view(const sw_executor *executor, const void *memory, void *room,
                             int64_t *bytes);

/* The host's memory of a port of program `index`: inputs are taken from there when the program
 * runs, outputs are left there. NULL: it has none of that name. */
void *sw_executor_port(sw_executor *executor, int index, const char *port);

/* Collective. All parameters have been put: make them known, fill replicated copies. Later calls,
 * each after sw_executor_reopen, are for trainable parameters that have been put anew; frozen ones
 * stay as they were. */
sw_status sw_executor_publish(sw_executor *executor, sw_error *err);

/* Collective. Between steps: all ranks are done reading parameters, and this rank may put trainable
 * ones anew. */
sw_status sw_executor_reopen(sw_executor *executor, sw_error *err);

/* Stage 3, outside of a program, for callers with compute of their own. Gather a group's parameters
 * as they are now into `destination` [whole group], or where they lie (NULL); out: *whole. Reshard
 * when they are not read any more. gather is collective. */
sw_status sw_executor_gather(sw_executor *executor, int group, void *destination,
                             const void **whole, sw_error *err);
sw_status sw_executor_reshard(sw_executor *executor, int group, sw_error *err);

/* What UPDATE's decision needs and gives. `decide` runs between the last reduction and the update,
 * with the exact sum of squares of this rank's slices, as the program's reductions have summed
 * them; it exchanges and sets scalars->clip_factor and proceed. */
typedef struct sw_step_hooks {
    void *self;
    /* Before forward of an active slot: fill tokens and targets, set scalars->first_row. */
    sw_status (*fill)(void *self, int slot, sw_scalars *scalars, sw_error *err);
    /* After the last kernel of an active slot: read loss or logits. */
    sw_status (*collect)(void *self, int slot, sw_error *err);
    sw_status (*decide)(void *self, const sw_wide_sum *squares, sw_scalars *scalars, sw_error *err);
    /* Before the optimizer writes this rank's part of a group, in the order of groups; may be
     * NULL. */
    sw_status (*before_update)(void *self, int group, sw_error *err);
    /* This rank's contribution to a group's gradient [bytes] is complete, and will be summed; may
     * be NULL. */
    void (*gradient)(void *self, const void *gradient, int64_t bytes);
} sw_step_hooks;

/* Where an instruction begins or ends, on its lane's thread. */
typedef struct sw_boundary {
    int lane;
    int64_t step; /* completed steps */
    int program, index;
    const sw_instruction *instruction;
} sw_boundary;

/* Who looks on: before and after each instruction that runs. An error ends the run as the
 * instruction's own would. */
typedef struct sw_executor_observer {
    void *self;
    sw_status (*before)(void *self, const sw_boundary *boundary, sw_error *err);
    sw_status (*after)(void *self, const sw_boundary *boundary, sw_error *err);
} sw_executor_observer;

/* Between steps: one more looks on, in the order in which they came. It must outlive the executor;
 * nobody costs nothing. Errors: SW_BUG: more than four. */
sw_status sw_executor_observe(sw_executor *executor, const sw_executor_observer *observer,
                              sw_error *err);

/* Run the schedule of one step of program `index`: n_micro_batches dealt to ranks in turn. A
 * forward program (evaluation, generation) has no decision. */
sw_status sw_executor_step(sw_executor *executor, int index, int64_t n_micro_batches,
                           sw_scalars *scalars, const sw_step_hooks *hooks, sw_error *err);

/* Run a forward program's micro-batch once, or only its collectives where this rank has none.
 * Inputs have been filled, outputs are there when it returns. Ranks may run different programs over
 * the same states at once: their collectives are the same. */
sw_status sw_executor_forward(sw_executor *executor, int index, bool is_active, sw_scalars *scalars,
                              sw_error *err);

/* One instruction of a step that took long: in working, or in waiting for peers and for the other
 * lane. */
typedef struct sw_long_instruction {
    double seconds;
    const sw_instruction *instruction; /* of the program; label, kind, unit; NULL: none */
    int slot;
} sw_long_instruction;

enum { SW_N_LONGEST = 10 };

/* What instructions wait for. GATHER: parameters (stage 0: gradients) to be there. REDUCE: gradient
 * buffers to be read by peers, and peers' gradients. DECIDE: all ranks to come to the end of the
 * step. */
typedef enum sw_wait_kind {
    SW_WAITS_FOR_GATHER,
    SW_WAITS_FOR_REDUCE,
    SW_WAITS_FOR_DECISION,
    SW_N_WAIT_KINDS
} sw_wait_kind;

typedef struct sw_lane_counts {
    double work_seconds, wait_seconds[SW_N_WAIT_KINDS];
} sw_lane_counts;

/* `peak` counts since creation, all else in the last step. */
typedef struct sw_executor_counts {
    int64_t peak[SW_N_MEMORY_CLASSES];    /* highest byte of each class, in its section, that an
                                             executed operand touched */
    int64_t gather_bytes, reduce_bytes;   /* moved */
    double compute_seconds, wait_seconds; /* of the compute lane: kernels, everything else */
    double moving_seconds; /* in which gathers copied and reductions summed, on whichever lane */
    double flops;
    sw_lane_counts lane[SW_LANES];
    sw_long_instruction longest_work[SW_N_LONGEST], longest_wait[SW_N_LONGEST]; /* longest first */
} sw_executor_counts;

const sw_executor_counts *sw_executor_count(const sw_executor *executor);

#endif
