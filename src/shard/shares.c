/* shares.c: values that ranks share along an axis, inside the graph.
 *
 *   acquire   the window may be filled: all ranks have read its last use
 *   put       the kernel: the value into the window
 *   post      it is there
 *   share     side by side, or summed, into the value that comes of it: on the lane that moves
 *
 * It is the protocol of a reduction, on windows of their own. A rank without a micro-batch leaves
 * out the first three, and the last gives it nothing: docs/design/step-program.md, "Values that
 * ranks share".
 */
#include "shard/builder.h"

enum { N_WINDOWS = 2 };

/* What nobody reads is not shared: nobody would wait for it, and its bytes would be given away
 * while it is on its way. */
static bool is_shared(const sw_builder *b, const sw_op *op) {
    return op->share && b->is_read[op->operand[1].value->id];
}

static void find_reads(sw_builder *b) {
    b->is_read =
        sw_arena_take(&b->program->arena, ((size_t)b->graph->values.n + 1) * sizeof *b->is_read);
    if (!b->is_read)
        sw_builder_fail(b, SW_NO_MEMORY, "no memory for the program");
    for (int i = 0; i < b->stretches.n_ops && b->is_read; i++)
        for (int o = 0; o < b->stretches.ops[i]->n_operands; o++) {
            const sw_operand *operand = &b->stretches.ops[i]->operand[o];
            if (operand->kind == SW_OPERAND_VALUE && operand->access != SW_WRITE)
                b->is_read[operand->value->id] = true;
        }
}

void sw_shares_begin(sw_builder *b) {
    sw_program *p = b->program;
    int n_uses[SW_N_AXES] = {0};
    find_reads(b);
    for (int i = 0; i < b->stretches.n_ops && !b->status; i++) {
        const sw_op *op = b->stretches.ops[i];
        if (!is_shared(b, op))
            continue;
        int64_t *most = &b->share_windows[op->axis].bytes[n_uses[op->axis]++ % N_WINDOWS],
                bytes = sw_value_bytes(op->operand[0].value, sw_sharding_numbers(&b->sharding));
        *most = bytes > *most ? bytes : *most;
        if (op->n_sharing != b->sharding.mesh.size[op->axis])
            sw_builder_fail(b, SW_BUG, "%s was recorded for %d ranks of axis %s, which has %d",
                            op->family->name, op->n_sharing, sw_axis_name(op->axis),
                            b->sharding.mesh.size[op->axis]);
    }
    for (int axis = 0; axis < SW_N_AXES; axis++) {
        sw_share_windows *w = &b->share_windows[axis];
        w->first_channel = p->n_channels;
        for (int i = 0; i < N_WINDOWS; i++) {
            w->buffer[i] = -1;
            p->n_channels += w->bytes[i] > 0;
        }
    }
    b->first_ring_channel = p->n_channels;
}

static sw_instruction *emit(sw_builder *b, const sw_op *op, sw_instruction_kind kind,
                            sw_segment segment, sw_reference window, int channel,
                            const char *verb) {
    int unit = b->layout->unit_of_graph_unit[op->unit->id];
    bool moves = kind == SW_DO_SHARE;
    sw_instruction *instruction =
        sw_builder_append(b, kind, segment, moves ? sw_moving_lane(b) : SW_LANE_COMPUTE, unit,
                          "%s %s %s", verb, op->unit->name, op->family->name);
    if (!instruction)
        return NULL;
    instruction->share = op->share;
    instruction->axis = op->axis;
    instruction->channel = channel;
    instruction->n_operands = 1;
    instruction->operand[0] = window;
    return instruction;
}

static void emit_put(sw_builder *b, const sw_op *op, sw_segment segment, sw_reference x,
                     sw_reference window) {
    enum { X, WINDOW };
    sw_instruction *put = emit(b, op, SW_DO_KERNEL, segment, window, -1, "put");
    if (!put)
        return;
    put->share = SW_SHARE_NOTHING;
    put->kernel = op->kernel;
    put->n_operands = 2;
    put->operand[X] = x;
    put->operand[WINDOW] = window;
    put->dim[0] = op->dim[0];
    put->attribute[0] = op->attribute[0];
    put->bytes = (double)(x.bytes + window.bytes);
    sw_wait_for_operands(b, op, put);
    sw_check_kernel(b, put, (sw_element[SW_MAX_OPERANDS]){SW_ELEMENT_A, SW_ELEMENT_A},
                    1u << WINDOW);
}

void sw_share_emit(sw_builder *b, const sw_op *op, sw_segment segment) {
    const sw_value *y = op->operand[1].value;
    if (!is_shared(b, op))
        return;
    sw_share_windows *w = &b->share_windows[op->axis];
    int which = w->n_uses++ % N_WINDOWS;
    if (w->buffer[which] < 0)
        w->buffer[which] = sw_builder_buffer(
            b,
            sw_arena_format(&b->program->arena, "shared over %s %d", sw_axis_name(op->axis), which),
            SW_MEMORY_REDUCE, SW_BUFFER_WINDOW, w->bytes[which]);
    int channel = w->first_channel + which;
    sw_reference x = sw_value_reference(b, &op->operand[0]),
                 window = {.buffer = w->buffer[which], .bytes = x.bytes};
    emit(b, op, SW_DO_REDUCE_ACQUIRE, segment, window, channel, "acquire");
    emit_put(b, op, segment, x, window);
    emit(b, op, SW_DO_REDUCE_POST, segment, window, channel, "post");
    int post = b->program->instructions.n - 1;
    sw_instruction *share = emit(b, op, SW_DO_SHARE, segment, window, channel, "share");
    if (!share)
        return;
    share->n_operands = 2;
    share->operand[1] = sw_value_reference(b, &op->operand[1]);
    int64_t others = op->n_sharing - 1, slice = x.bytes;
    if (op->share == SW_SHARE_SUM_SLICE)
        slice /= op->n_sharing;
    if (__builtin_mul_overflow(others, slice, &share->moved_bytes))
        share->moved_bytes = INT64_MAX;
    if (sw_has_two_lanes(b)) {
        sw_builder_wait(b, share, SW_THIS_SLOT, post);
        b->share_of_value[y->storage->id] = b->program->instructions.n - 1;
    }
    if (op->family->cost) {
        double bytes;
        op->family->cost(op, &share->flops, &bytes);
    }
    b->program->has_shares = true;
}
