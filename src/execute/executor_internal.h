/* executor_internal.h: what the files of the executor share: executor.c (memory, binding),
 * executor_parameters.c, executor_step.c (the order of segments), lanes.c (running them),
 * lanes_count.c. */
#ifndef SW_EXECUTE_EXECUTOR_INTERNAL_H
#define SW_EXECUTE_EXECUTOR_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "execute/executor.h"
#include "shard/schedule.h"

/* A stretch of own elements with one weight decay, or of padding in a gradient buffer. */
typedef struct sw_stripe {
    int64_t first, n; /* elements */
    bool decays;
} sw_stripe;

/* An instruction with its addresses on this rank. */
typedef struct sw_bound {
    const sw_instruction *instruction;
    sw_kernel_fn fn;
    sw_kernel_call call;
    sw_collective collective;
    bool accumulates_later; /* REDUCE: sums of later slots are added to that of the first */
    int n_stripes;
    const sw_stripe *stripes; /* UPDATE: stretches of equal decay; PAD: gaps */
    int n_peaks;
    struct {
        int memory_class;
        int64_t end;
    } peaks[SW_MAX_OPERANDS + 1];
} sw_bound;

/* One run of one segment, as the lanes get it. */
typedef struct sw_segment_run {
    int program;
    sw_segment segment;
    int slot;
    bool is_active;     /* this rank has a micro-batch */
    bool is_last;       /* no slot of the step comes after: sums are complete */
    int n_contributors; /* ranks that have one */
    int64_t step;   /* its number in the metrics: a program that updates runs the step after those
                       that are completed */
    uint64_t epoch; /* of the parameters and gradients of the step */
    sw_positions positions;
} sw_segment_run;

enum { SW_QUEUE = 4 }; /* segment runs that a lane may lag behind the compute lane */
enum { SW_MAX_OBSERVERS = 4 };
enum { SW_STAGED_VALUES = 256 * SW_BLOCK };

/* A lane: what it has done; and, but for the compute lane, whose thread is the caller's, its thread
 * and what it was given. */
typedef struct sw_lane_state {
    struct sw_executor *executor;
    int lane;
    pthread_t thread;
    bool has_thread;
    int64_t done;    /* position that it has completed; under lock, as n_taken is */
    int64_t n_taken; /* segment runs */
} sw_lane_state;

struct sw_executor {
    sw_comm *comm;
    const sw_device *device;
    const sw_states *states;
    sw_number_kind numbers;
    int first_channel; /* programs count from 0 */
    int n_programs;
    const sw_program *const *programs;
    sw_bound **bound; /* [n_programs][n instructions] */
    sw_arena arena;

    char *private_base[SW_N_MEMORY_CLASSES];
    int64_t private_bytes[SW_N_MEMORY_CLASSES];
    sw_window window[SW_N_MEMORY_CLASSES]; /* WINDOW buffers: [n_ranks][section] */
    int64_t window_stride[SW_N_MEMORY_CLASSES];
    sw_window slices; /* SHARED_SLICE buffers, whole groups one after another */

    /* Where the device's memory is not the host's; else NULL. */
    void ***ports;                /* [n_programs][ports of the program] their host side */
    char *staging;                /* of the device: [SW_STAGED_VALUES] floats on their way */
    pthread_mutex_t staging_lock; /* a save reads beside the step */

    sw_scalars scalars;
    const sw_step_hooks *hooks;
    int n_observers;
    const sw_executor_observer *observers[SW_MAX_OBSERVERS];
    sw_wide_sum squares;
    int last_program; /* whose constants are in place; -1 */
    uint64_t epoch; /* of the trainable parameters: how often they have been made known; 0: never */
    sw_positions positions;
    sw_executor_counts counts;

    /* lanes */
    int n_lanes;
    bool has_lock; /* with more than one lane */
    sw_lane_state lane[SW_LANES];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    sw_segment_run queue[SW_QUEUE];
    int64_t n_queued; /* segment runs */
    bool stop, failed;
    sw_error lane_error;
};

/* Base of a buffer as `rank` sees its own; for shared slices the base of the whole group. */
char *sw_executor_base(const sw_executor *executor, const sw_buffer *buffer, int rank);

/* Inputs of the program to the device, or outputs from there; nothing where its memory is the
 * host's. */
void sw_executor_move_ports(sw_executor *executor, int index, bool are_outputs);

/* Trap mode at stage 3: what this rank may touch of a group from now on; nothing in other modes. */
sw_status sw_lane_protect(sw_executor *executor, int group, bool is_gathered, bool is_update,
                          sw_error *err);

sw_status sw_lanes_start(sw_executor *executor, sw_error *err);
void sw_lanes_stop(sw_executor *executor);

/* Give the next segment to the other lanes. They may lag behind by SW_QUEUE segments. */
void sw_lanes_give(sw_executor *executor, const sw_segment_run *run);

/* Run the compute lane's part of a segment, here. */
sw_status sw_lanes_compute(sw_executor *executor, const sw_segment_run *run, sw_error *err);

/* Counts of a step begin. */
void sw_lanes_count_anew(sw_executor *executor);

/* An instruction of a lane is over (runs: it was not passed over): the seconds that it worked, and
 * waited. Waiting is for other lanes first, then for peers: the decision's is for sums, then for
 * all ranks to come to it. */
void sw_lane_count(sw_executor *executor, int lane, const sw_bound *bound,
                   const sw_segment_run *run, double work, double for_lane, double for_peers,
                   bool runs);

/* End all ranks: this one failed in `lane`; its other lanes wait for it no longer. */
void sw_lanes_abort(sw_executor *executor, int lane, const sw_error *error);

/* Wait until the other lanes have done all that they were given. */
sw_status sw_lanes_settle(sw_executor *executor, sw_error *err);

#endif
