/* reductions.c: when gradients are brought home.
 *
 * Sharded accumulation: a unit's gradient buffer is acquired before its first gradient is written,
 * posted after the last, and summed once the next unit's buffer has been posted, so that skew
 * between ranks hides behind that unit's backward. The ring has two places: one that fills, one in
 * flight. Stages 0 and 1 keep a whole gradient in place of the ring. Unsharded accumulation: the
 * whole gradient adds up over the slots and is reduced once, in a segment of its own.
 */
#include "shard/builder.h"

static int trainable_group(const sw_builder *b, int stretch) {
    return b->layout->units[b->stretches.gradients[stretch].unit].trainable_group;
}

static bool uses_ring(const sw_builder *b, int group) {
    return b->states->whole_gradient[group] < 0;
}

static int channel_of(const sw_builder *b, int group) {
    return uses_ring(b, group)
               ? b->first_ring_channel + b->reduce_place[b->layout->groups[group].unit]
               : 2 * b->layout->n_groups + group;
}

static sw_instruction *emit(sw_builder *b, sw_instruction_kind kind, sw_segment segment,
                            sw_lane lane, int group, const char *verb) {
    int unit = b->layout->groups[group].unit;
    sw_reference buffer = sw_gradient_reference(b, group, 0, sw_whole_elements(b->layout, group));
    sw_instruction *instruction =
        sw_builder_append(b, kind, segment, lane, unit, "%s %s", verb, b->layout->units[unit].name);
    if (instruction) {
        instruction->axis = SW_AXIS_SHARD;
        instruction->group = group;
        instruction->channel = channel_of(b, group);
        instruction->n_operands = 1;
        instruction->operand[0] = buffer;
    }
    return instruction;
}

static void emit_sum(sw_builder *b, int group, sw_segment segment) {
    sw_instruction *sum = emit(b, SW_DO_REDUCE_SUM, segment, sw_moving_lane(b), group, "reduce");
    if (!sum)
        return;
    sum->n_operands = 2;
    sum->operand[1] = sw_states_part(b->states, SW_HELD_GRADIENT, group, SW_OWN);
    sum->moved_bytes = (b->layout->n_shards - 1) * b->layout->groups[group].shard * 4;
    if (b->sharding.accumulate_sharded)
        sum->accumulate_later_slots = 1u << 1;
    if (uses_ring(b, group))
        b->reduce_ring.places.item[b->reduce_place[b->layout->groups[group].unit]].holder = -1;
}

void sw_reductions_before(sw_builder *b, int i) {
    const sw_stretches *s = &b->stretches;
    for (; b->n_opened < s->n_gradients && s->gradients[b->n_opened].first == i && !b->status;
         b->n_opened++) {
        int j = b->n_opened, group = trainable_group(b, j), unit = b->layout->groups[group].unit;
        if (uses_ring(b, group)) {
            b->reduce_place[unit] =
                sw_ring_take(b, &b->reduce_ring, b->layout->units[unit].is_root, j, true);
            if (b->reduce_place[unit] < 0)
                return;
            int n_channels = channel_of(b, group) + 1;
            b->program->n_channels =
                b->program->n_channels > n_channels ? b->program->n_channels : n_channels;
        }
        emit(b, SW_DO_REDUCE_ACQUIRE, SW_SEGMENT_BACKWARD, SW_LANE_COMPUTE, group,
             "acquire gradient buffer of");
        emit(b, SW_DO_PAD, SW_SEGMENT_BACKWARD, SW_LANE_COMPUTE, group, "pad gradient buffer of");
    }
}

/* Gradient stretches end in some order; `posted` is the one before, whose sum is still due. */
void sw_reductions_after(sw_builder *b, int i) {
    if (!b->sharding.accumulate_sharded)
        return;
    const sw_stretches *s = &b->stretches;
    for (; b->n_closed < s->n_gradients &&
           s->gradients[s->gradients_by_last[b->n_closed]].last == i && !b->status;
         b->n_closed++) {
        int j = s->gradients_by_last[b->n_closed];
        emit(b, SW_DO_REDUCE_POST, SW_SEGMENT_BACKWARD, SW_LANE_COMPUTE, trainable_group(b, j),
             "post gradient of");
        if (b->posted >= 0)
            emit_sum(b, b->posted, SW_SEGMENT_BACKWARD);
        b->posted = trainable_group(b, j);
    }
}

void sw_reductions_end(sw_builder *b) {
    if (b->sharding.accumulate_sharded) {
        if (b->posted >= 0)
            emit_sum(b, b->posted, SW_SEGMENT_BACKWARD);
        b->posted = -1;
        return;
    }
    for (int j = 0; j < b->stretches.n_gradients && !b->status; j++)
        emit(b, SW_DO_REDUCE_POST, SW_SEGMENT_REDUCE, SW_LANE_COMPUTE, trainable_group(b, j),
             "post gradient of");
    for (int j = 0; j < b->stretches.n_gradients && !b->status; j++)
        emit_sum(b, trainable_group(b, j), SW_SEGMENT_REDUCE);
}
