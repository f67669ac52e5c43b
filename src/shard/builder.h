/* builder.h: the state that the passes share while a program is being written: shard/program.c puts
 * the passes in order. */
#ifndef SW_SHARD_BUILDER_H
#define SW_SHARD_BUILDER_H

#include "device/operands.h"
#include "shard/program.h"
#include "shard/stretches.h"

/* One place of a ring of buffers. */
typedef struct sw_ring_place {
    int buffer;
    bool is_root;
    int holder;     /* index of the stretch that holds it, -1: free */
    int last_touch; /* last instruction of the holder before; -1: none in this slot */
} sw_ring_place;

typedef struct sw_ring {
    SW_LIST(sw_ring_place) places;
    int64_t bytes[2]; /* of one place: [0] of blocks, [1] of the root */
    sw_memory_class memory_class;
    sw_buffer_kind kind;
    const char *name;
} sw_ring;

/* What ranks put values into that they share along an axis: two, in turn, so that one fills while
 * the other is read. */
typedef struct sw_share_windows {
    int64_t bytes[2]; /* of the largest value that each is for; 0: none */
    int buffer[2];    /* made when first used */
    int first_channel;
    int n_uses;
} sw_share_windows;

typedef struct sw_builder {
    const sw_graph *graph;
    const sw_layout *layout;
    const sw_states *states;
    sw_sharding sharding;
    sw_program *program;
    sw_error *err;
    sw_status status;
    sw_stretches stretches;
    int *buffer_of_value; /* [n values] by id of the storage value; -1: none yet */
    bool *is_read;        /* [n values] some operation reads it */
    int *share_of_value;  /* [n values] by id of the storage value: the last SHARE that writes it;
                             -1 */
    sw_share_windows share_windows[SW_N_AXES];
    int *gather_place;       /* [n_gathers] place in the gather ring; -1 */
    int *gather_instruction; /* [n_gathers] */
    int *open_gather;        /* [n_units] stretch that has the unit gathered now; -1 */
    int *reduce_place;       /* [n_units] place in the reduce ring; -1 */
    sw_ring gather_ring, reduce_ring;
    int first_ring_channel;  /* of the reduce ring */
    int n_started, n_issued; /* gathers, in their order, that have started at this operation, and
                                that are issued */
    int n_ended, n_opened,
        n_closed; /* gathers that have ended; gradients that have begun, and that have ended */
    int posted;   /* group whose gradient is posted and not summed; -1 */
    int waited;   /* furthest gather or SHARE that the compute lane has waited for; -1 */
} sw_builder;

/* Do gathers copy, on a lane of their own? Else nothing waits for a lane. */
static inline bool sw_has_two_lanes(const sw_builder *b) {
    return sw_sharding_lanes(&b->sharding) > 1;
}
static inline sw_lane sw_moving_lane(const sw_builder *b) {
    return sw_has_two_lanes(b) ? SW_LANE_COMMUNICATION : SW_LANE_COMPUTE;
}

/* Remember the first failure; returns NULL. */
void *sw_builder_fail(sw_builder *b, sw_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Append an instruction, or a buffer; their addresses hold until the next append. NULL and -1 after
 * a failure. */
sw_instruction *sw_builder_append(sw_builder *b, sw_instruction_kind kind, sw_segment segment,
                                  sw_lane lane, int unit, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
int sw_builder_buffer(sw_builder *b, const char *name, sw_memory_class memory_class,
                      sw_buffer_kind kind, int64_t bytes);

/* Add what an instruction waits for: an instruction of another lane; or all that other lanes had to
 * do before its segment. */
void sw_builder_wait(sw_builder *b, sw_instruction *instruction, sw_when when, int for_instruction);
void sw_builder_wait_for_all(sw_builder *b, sw_instruction *instruction);

/* A free place of the ring for a block or the root; a new one is made only if `grow`. -1 if
 * none. */
int sw_ring_take(sw_builder *b, sw_ring *ring, bool is_root, int holder, bool grow);

/* shard/lower.c: the kernel instruction of an operation. */
void sw_lower_op(sw_builder *b, const sw_op *op, sw_segment segment);

/* Where a value lies: its buffer is made when it is first asked for. */
sw_reference sw_value_reference(sw_builder *b, const sw_operand *operand);

/* In copy mode: the instruction waits for what the other lane brings of the operation's operands.
 */
void sw_wait_for_operands(sw_builder *b, const sw_op *op, sw_instruction *instruction);

/* shard/shares.c: before the first operation: which values are shared. And an operation that
 * shares one. */
void sw_shares_begin(sw_builder *b);
void sw_share_emit(sw_builder *b, const sw_op *op, sw_segment segment);

/* Is the complete instruction a call as the table of kernels has it (device/operands.h)? `written`:
 * bits of operands. */
void sw_check_kernel(sw_builder *b, const sw_instruction *instruction, const sw_element *elements,
                     uint32_t written);

/* shard/gathers.c: before and after operation `i`; and at the end of the slot: what the first
 * gather into each place of the ring waits for, which is the last touch of that place in the slot
 * before. */
void sw_gathers_before(sw_builder *b, int i, sw_segment segment);
void sw_gathers_after(sw_builder *b, int i, sw_segment segment);
void sw_gathers_end(sw_builder *b);

/* shard/reductions.c: before and after operation `i`; what is left at the end of backward; the
 * reduce segment of unsharded accumulation. */
void sw_reductions_before(sw_builder *b, int i);
void sw_reductions_after(sw_builder *b, int i);
void sw_reductions_end(sw_builder *b);

/* shard/updates.c: decision, optimizer, publication. */
void sw_updates_emit(sw_builder *b);

/* shard/costs.c: what instructions that are no kernels cost. */
void sw_costs_count(sw_program *program);

int64_t sw_whole_elements(const sw_layout *layout, int group);

/* Where a group's gathered parameters, or its gradient buffer, lie at this point of the program,
 * from `element` on. */
sw_reference sw_parameter_reference(const sw_builder *b, int group, int64_t element, int64_t n);
sw_reference sw_gradient_reference(const sw_builder *b, int group, int64_t element, int64_t n);

#endif
