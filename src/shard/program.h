/* program.h: a training step as a list of instructions, known before the first step runs.
 *
 * The list is written once for all ranks: operands are references (buffer, offset), and where a
 * rank's own part is meant the offset has a stride that is multiplied by the rank when the program
 * is bound. Running, pricing, checking and printing all read this list.
 *
 * Instructions form five segments: prepare (once), forward, backward, reduce, update. A schedule, a
 * list of (segment, slot), puts them in order: see schedule.h. A rank without a micro-batch in a
 * slot runs the idle variant of forward and backward: every collective, no kernel. See
 * docs/design/step-program.md.
 */
#ifndef SW_SHARD_PROGRAM_H
#define SW_SHARD_PROGRAM_H

#include "base/memory_class.h"
#include "comm/lane.h"
#include "device/device.h"
#include "optim/optimizers.h"
#include "shard/layout.h"

#include <shardwise/launch.h>

/* How a step graph is spread over ranks. */
typedef struct sw_sharding {
    sw_mesh mesh;
    int n_threads; /* of a rank, at least 1: kernels have working space for each */
    int stage;     /* ZeRO: 0 replicate, 1 optimizer, 2 + gradients, 3 + parameters */
    bool reshard_after_forward;
    int prefetch;             /* units gathered ahead */
    bool accumulate_sharded;  /* reduce every micro-batch; else once a step */
    sw_dtype parameter_dtype; /* SW_F32 or SW_BF16 */
    sw_shm_mode mode;
    sw_wrap wrap;
    sw_recompute recompute; /* what training computes again */
    sw_optimizer_spec optimizer;
} sw_sharding;

static inline sw_number_kind sw_sharding_numbers(const sw_sharding *sharding) {
    return sharding->parameter_dtype == SW_BF16 ? SW_NUMBERS_BF16 : SW_NUMBERS_F32;
}

/* Lanes that its programs use: in copy mode what moves bytes has one of its own; else there is one,
 * whose order is all. */
static inline int sw_sharding_lanes(const sw_sharding *sharding) {
    return sharding->mode == SW_SHM_COPY ? 2 : 1;
}

/* The layout's `cut`, in elements: SW_BLOCK, or a page where pages are protected. */
int64_t sw_sharding_cut(const sw_sharding *sharding);

typedef enum sw_buffer_kind {
    SW_BUFFER_PRIVATE,      /* this rank's memory */
    SW_BUFFER_SHARED_SLICE, /* one object of n_ranks slices, every rank maps all of it; this rank's
                               memory is its slice */
    SW_BUFFER_WINDOW        /* every rank has one of these, and all ranks map all of them */
} sw_buffer_kind;

/* Lifetimes are positions in the instruction list. A persistent buffer lives from the run's first
 * instruction to its last. */
typedef struct sw_buffer {
    int id;
    const char *name;
    sw_memory_class memory_class;
    sw_buffer_kind kind;
    bool is_persistent;
    int64_t bytes;   /* this rank's memory: one slice, or one whole buffer */
    int64_t address; /* from the start of the section of its class in this rank's memory; set by the
                        memory map */
    int first, last; /* transient: first and last instruction that touches it */
} sw_buffer;

typedef struct sw_reference {
    int buffer; /* -1: none */
    int64_t offset;
    int64_t bytes;                 /* that are touched from there */
    int64_t own_stride[SW_N_AXES]; /* bytes, times the coordinate on each axis: where a rank's own
                                      slice lies */
} sw_reference;

typedef enum sw_instruction_kind {
    SW_DO_KERNEL,
    SW_DO_PUBLISH, /* own slice of the unit's parameters holds the new values */
    SW_DO_GATHER,  /* bring the unit's slices together: operand 0 own slice, operand 1 destination
                      (copied) or none (view) */
    SW_DO_RESHARD, /* the gathered unit is not needed any more */
    SW_DO_REDUCE_ACQUIRE, /* the unit's gradient buffer may be filled */
    SW_DO_PAD,            /* zero the padding between the parameters of a gradient buffer */
    SW_DO_REDUCE_POST,    /* the unit's gradient buffer is filled */
    SW_DO_REDUCE_SUM, /* sum own slice over ranks: operand 0 gradient buffer, operand 1 own slice.
                         In the step's last slot it adds the squares of the sums to the norm */
    SW_DO_SHARE,      /* a value over the ranks of an axis: operand 0 what this one has put into the
                         window, operand 1 what is made of what all have put there */
    SW_DO_DECIDE,     /* exchange loss, norm and wishes; decide whether the step proceeds */
    SW_DO_UPDATE      /* optimizer on own slice: copy, low, gradient, m, v */
} sw_instruction_kind;

typedef enum sw_segment {
    SW_SEGMENT_PREPARE,
    SW_SEGMENT_FORWARD,
    SW_SEGMENT_BACKWARD,
    SW_SEGMENT_REDUCE,
    SW_SEGMENT_UPDATE,
    SW_N_SEGMENTS
} sw_segment;

/* In which order segments run: some for every slot, some at the end of the step. Data, made by a
 * rule and read by schedule.h. */
typedef struct sw_turns {
    const char *rule; /* "accumulation" */
    int n_each_slot, n_at_end;
    sw_segment each_slot[SW_N_SEGMENTS], at_end[SW_N_SEGMENTS];
} sw_turns;

#define SW_BUFFER_ALIGNMENT 64 /* bytes; every buffer starts at a multiple */

/* What an instruction waits for on another lane: schedule.h says what that means for one that
 * runs. */
typedef enum sw_when {
    SW_THIS_SLOT,   /* an instruction, in this slot or, at the end of a step, in its last one */
    SW_SLOT_BEFORE, /* an instruction, in the slot before */
    SW_ALL_BEFORE   /* all that the lane had to do before this segment */
} sw_when;

typedef struct sw_wait {
    sw_when when;
    sw_lane lane;
    int instruction; /* index; -1: all */
} sw_wait;

#define SW_MAX_WAITS 4

typedef struct sw_instruction {
    sw_instruction_kind kind;
    sw_segment segment;
    sw_lane lane;
    int n_waits;
    sw_wait wait[SW_MAX_WAITS];
    sw_kernel kernel;
    bool is_recomputed;
    sw_share share;   /* of a value; ACQUIRE and POST before it too */
    int unit;         /* shard unit */
    sw_axis axis;     /* of collectives: along which they go */
    int group;        /* of collectives and updates; -1 */
    int channel;      /* of collectives; -1 */
    bool is_gradient; /* GATHER, PUBLISH: of gradients (stage 0), else of parameters */
    bool by_step;     /* its data changes with every step, so its epoch follows the step; else it is
                         published once */
    int n_operands;
    sw_reference operand[SW_MAX_OPERANDS];
    sw_reference scratch;
    int64_t dim[SW_MAX_DIMENSIONS];
    double attribute[SW_MAX_ATTRIBUTES];
    uint32_t accumulate;             /* bits of operands that are added to */
    uint32_t accumulate_later_slots; /* ... in every slot but the first */
    int64_t moved_bytes;             /* that this rank receives */
    double flops, bytes;             /* cost: arithmetic, and memory read and written */
    int n_peers;                     /* ranks that it hears from, or tells */
    const char *label;               /* "backward layers.3 linear_grad_weight" */
} sw_instruction;

/* What is filled before a slot, or read after it: a port of the graph, and where it lies. */
typedef struct sw_program_port {
    const char *name;
    bool is_output;
    int buffer;
} sw_program_port;

typedef struct sw_program {
    sw_arena arena;
    sw_sharding sharding;
    const sw_layout *layout;
    SW_LIST(sw_buffer) buffers;
    SW_LIST(sw_instruction) instructions;
    int segment_first[SW_N_SEGMENTS], segment_count[SW_N_SEGMENTS];
    sw_turns turns;
    int n_channels;
    bool has_shares; /* among its instructions: ranks run it side by side, slot by slot */
    int64_t class_end[SW_N_MEMORY_CLASSES]; /* planned: the highest byte of each class in its
                                               section, this rank */
    int64_t packing_live, packing_arena;    /* activations, logits and scratch: most bytes alive at
                                               once; room for them */
    SW_LIST(sw_program_port) ports;         /* of the graph */
} sw_program;

/* Buffers that outlive a step and are shared by every program over one layout: parameters,
 * gradients, optimizer state. By group; -1 where there is none. */
typedef struct sw_states {
    sw_arena arena;
    sw_sharding sharding;
    const sw_layout *layout;
    SW_LIST(sw_buffer) buffers;
    int *copy;     /* compute copy: a slice (stage 3) or the whole group */
    int *low;      /* low halves of the masters beside a bf16 copy */
    int *gradient; /* own slice: the sum so far; or -1 when it is the slice of `whole_gradient` */
    int *whole_gradient; /* stages 0-1, and every stage unsharded; else rings of the program */
    int *optimizer[SW_N_OPTIMIZER_STATES];
    int *kept; /* values that live across runs, by number (sw_states_keep) */
    int n_kept;
} sw_states;

/* What a rank holds of a group's elements, besides its whole gradient. */
enum {
    SW_HELD_COPY,
    SW_HELD_LOW,
    SW_HELD_GRADIENT,  /* the sum so far */
    SW_HELD_OPTIMIZER, /* + an sw_optimizer_state */
    SW_N_HELD = SW_HELD_OPTIMIZER + SW_N_OPTIMIZER_STATES
};
enum { SW_OWN = -1 };

/* Bytes of one element. */
int64_t sw_held_bytes(const sw_states *states, int held);

/* The one map of what outlives a step: where the part of a group that `owner` updates lies on a
 * rank, which holds its own part and, where the stage replicates, everybody's. SW_OWN: the part of
 * whoever runs the program, by own_stride. Its buffer is -1 where nobody holds such a thing. */
sw_reference sw_states_part(const sw_states *states, int held, int group, int owner);

/* The same for what a rank itself updates: its own part, or at stage 0 all. */
sw_reference sw_states_updated_part(const sw_states *states, int held, int group, int owner);

/* Elements of a group that this rank's optimizer updates: its shard, or at stage 0 all. */
int64_t sw_states_updated(const sw_states *states, int group);

/* `is_trained`: with gradients and optimizer state; without, parameters alone. */
sw_status sw_states_create(const sw_layout *layout, const sw_sharding *sharding, bool is_trained,
                           sw_states *states, sw_error *err);
void sw_states_free(sw_states *states);

/* Add the values of `graph` that live across runs (the caches of decoding), zero at first. Graphs
 * of all programs over these states have the same. Call it once, before programs are made. */
sw_status sw_states_keep(sw_states *states, const sw_graph *graph, sw_error *err);

/* Lower a graph to a program over `states`: kernels, then the passes that emit gathers, reductions
 * and updates, then the memory map. A graph that is not differentiated gives a forward program
 * (evaluation, generation); one that counts as differentiated and has no operations gives an update
 * alone. The program's first buffers are those of `states`, with the same ids. The graph and states
 * must outlive the program. */
sw_status sw_program_create(const sw_graph *graph, const sw_states *states, sw_program *program,
                            sw_error *err);
void sw_program_free(sw_program *program);

/* The buffer of that port; -1: the program has none of that name. */
int sw_program_buffer_of(const sw_program *program, const char *port);

/* Give every transient buffer an address: sections by class, packed by lifetime. */
sw_status sw_program_map_memory(sw_program *program, sw_error *err);

/* One instruction as a line, without what differs from rank to rank; returns the bytes of all of
 * it, as snprintf does. */
size_t sw_instruction_print(const sw_program *program, int index, char *line, size_t bytes);

/* What stands in such a line, in plain words, line by line. */
void sw_program_explain(void (*line)(void *to, const char *text), void *to);

/* A hash of all lines: equal on ranks that will do the same. */
uint64_t sw_program_hash(const sw_program *program);

/* Bytes that a rank receives in a step of n_slots slots, and the arithmetic that it does, from the
 * instructions: each counts as often as its segment runs. INT64_MAX bytes are that or more. */
void sw_program_traffic(const sw_program *program, int n_slots, int64_t *gather_bytes,
                        int64_t *reduce_bytes);
double sw_program_flops(const sw_program *program, int n_slots);

#endif
