/* gathers.c: stage 3: when units are gathered and given back.
 *
 * A unit is wanted from the first to the last operation of its stretch. Gathers are issued in the
 * order of stretches, `prefetch` of them ahead of the one that has started, if the ring has a place
 * and the unit is not gathered already; the ring grows only for a stretch that must start now,
 * which happens when units are used inside each other. In view and trap mode there is no ring: a
 * gather is a fence.
 */
#include "shard/builder.h"

static void emit_gather(sw_builder *b, int stretch, int group, int64_t destination_offset,
                        sw_segment segment) {
    const sw_group *g = &b->layout->groups[group];
    const sw_shard_unit *unit = &b->layout->units[g->unit];
    int64_t size = sw_dtype_bytes(b->sharding.parameter_dtype);
    sw_instruction *gather =
        sw_builder_append(b, SW_DO_GATHER, segment, sw_moving_lane(b), g->unit, "gather %s%s",
                          unit->name, g->is_trainable ? "" : " (frozen)");
    if (!gather)
        return;
    b->gather_instruction[stretch] = b->program->instructions.n - 1;
    gather->group = group;
    gather->axis = SW_AXIS_SHARD;
    gather->channel = group;
    gather->by_step = g->is_trainable;
    gather->moved_bytes = (b->layout->n_shards - 1) * g->shard * size;
    gather->n_operands = 2;
    gather->operand[0] = sw_states_part(b->states, SW_HELD_COPY, group, SW_OWN);
    if (sw_has_two_lanes(b)) {
        const sw_ring_place *place = &b->gather_ring.places.item[b->gather_place[stretch]];
        gather->operand[1] = (sw_reference){place->buffer, destination_offset,
                                            sw_whole_elements(b->layout, group) * size};
        if (place->last_touch >= 0)
            sw_builder_wait(b, gather, SW_THIS_SLOT, place->last_touch);
    }
}

static bool issue(sw_builder *b, int stretch, bool must, sw_segment segment) {
    int unit_id = b->stretches.gathers[stretch].unit;
    const sw_shard_unit *unit = &b->layout->units[unit_id];
    if (sw_has_two_lanes(b)) {
        int n_places = 0; /* of this class */
        for (int i = 0; i < b->gather_ring.places.n; i++)
            n_places += b->gather_ring.places.item[i].is_root == unit->is_root;
        bool grow = must || n_places < (unit->is_root ? 1 : b->sharding.prefetch + 1);
        b->gather_place[stretch] = sw_ring_take(b, &b->gather_ring, unit->is_root, stretch, grow);
        if (b->gather_place[stretch] < 0)
            return false;
    }
    if (unit->trainable_group >= 0)
        emit_gather(b, stretch, unit->trainable_group, 0, segment);
    if (unit->frozen_group >= 0)
        emit_gather(b, stretch, unit->frozen_group,
                    unit->trainable_group >= 0
                        ? sw_whole_elements(b->layout, unit->trainable_group) *
                              sw_dtype_bytes(b->sharding.parameter_dtype)
                        : 0,
                    segment);
    return true;
}

/* Is the unit of `stretch` still gathered, or about to be, for an earlier stretch that is not over
 * at operation i? */
static bool is_held(const sw_builder *b, int stretch, int i) {
    for (int j = b->stretches.gather_before[stretch]; j >= 0; j = b->stretches.gather_before[j])
        if (b->stretches.gathers[j].last >= i)
            return true;
    return false;
}

void sw_gathers_before(sw_builder *b, int i, sw_segment segment) {
    const sw_stretches *s = &b->stretches;
    int first = b->n_started;
    while (b->n_started < s->n_gathers && s->gathers[b->n_started].first <= i)
        b->n_started++;
    for (; b->n_issued < s->n_gathers && b->n_issued < b->n_started + b->sharding.prefetch &&
           !b->status;
         b->n_issued++)
        /* Gathered ahead for backward while forward still holds it, a unit would be given back by
         * forward's end. */
        if (is_held(b, b->n_issued, i) ||
            !issue(b, b->n_issued, b->n_issued < b->n_started, segment))
            break;
    for (int j = first; j < b->n_started; j++)
        b->open_gather[s->gathers[j].unit] = j;
}

void sw_gathers_after(sw_builder *b, int i, sw_segment segment) {
    const sw_stretches *s = &b->stretches;
    for (; b->n_ended < s->n_gathers && s->gathers[s->gathers_by_last[b->n_ended]].last == i &&
           !b->status;
         b->n_ended++) {
        int j = s->gathers_by_last[b->n_ended], unit = s->gathers[j].unit;
        b->open_gather[unit] = -1;
        sw_instruction *reshard =
            sw_builder_append(b, SW_DO_RESHARD, segment, SW_LANE_COMPUTE, unit, "reshard %s",
                              b->layout->units[unit].name);
        if (!reshard)
            return;
        if (sw_has_two_lanes(b)) {
            sw_ring_place *place = &b->gather_ring.places.item[b->gather_place[j]];
            const sw_buffer *buffer = &b->program->buffers.item[place->buffer];
            reshard->n_operands = 1;
            reshard->operand[0] = (sw_reference){place->buffer, 0, buffer->bytes};
            place->holder = -1;
            place->last_touch = b->program->instructions.n - 1;
        }
    }
}

void sw_gathers_end(sw_builder *b) {
    for (int i = 0; i < b->program->instructions.n && !b->status; i++) {
        sw_instruction *gather = &b->program->instructions.item[i];
        bool is_first = gather->kind == SW_DO_GATHER && gather->n_waits == 0;
        for (int p = 0; p < b->gather_ring.places.n && is_first; p++)
            if (b->gather_ring.places.item[p].buffer == gather->operand[1].buffer)
                sw_builder_wait(b, gather, SW_SLOT_BEFORE,
                                b->gather_ring.places.item[p].last_touch);
    }
}
