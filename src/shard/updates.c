/* updates.c: the end of a step: decision, optimizer, and the new parameters made known.
 *
 *   stage 0     gradients are gathered first, then every rank updates everything
 *   stage 1, 2  own slices are updated, then gathered into the whole copies
 *   stage 3     own slices are updated; the next forward gathers
 *
 * The decision is an exchange between all ranks: no owner writes a parameter before all ranks are
 * done reading the old ones.
 */
#include "shard/builder.h"

/* The decision needs every sum, whose squares are the norm, and at stage 0 updates need every
 * gathered gradient. Both may be the other lane's work; gradients are gathered after they are
 * summed. */
static void wait_for_gradients(sw_builder *b, sw_instruction *decide) {
    for (int i = b->program->instructions.n - 1; i >= 0 && sw_has_two_lanes(b); i--)
        if (b->program->instructions.item[i].kind == SW_DO_GATHER &&
            b->program->instructions.item[i].is_gradient) {
            sw_builder_wait(b, decide, SW_THIS_SLOT, i);
            return;
        }
    sw_builder_wait_for_all(b, decide);
}

static sw_instruction *emit(sw_builder *b, sw_instruction_kind kind, sw_lane lane, int group,
                            const char *verb) {
    int unit = group < 0 ? 0 : b->layout->groups[group].unit;
    sw_instruction *instruction =
        sw_builder_append(b, kind, SW_SEGMENT_UPDATE, lane, unit, "%s%s%s", verb,
                          group < 0 ? "" : " ", group < 0 ? "" : b->layout->units[unit].name);
    if (instruction)
        instruction->group = group;
    return instruction;
}

static void emit_publish(sw_builder *b, int group, bool is_gradient) {
    sw_reference own =
        sw_states_part(b->states, is_gradient ? SW_HELD_GRADIENT : SW_HELD_COPY, group, SW_OWN);
    sw_instruction *publish = emit(b, SW_DO_PUBLISH, SW_LANE_COMPUTE, group,
                                   is_gradient ? "publish gradient of" : "publish");
    if (!publish)
        return;
    publish->axis = SW_AXIS_SHARD;
    publish->channel = is_gradient ? b->layout->n_groups + group : group;
    publish->is_gradient = is_gradient;
    publish->by_step = true;
    if (is_gradient) /* sums may be the other lane's work */
        sw_builder_wait_for_all(b, publish);
    publish->n_operands = 1;
    publish->operand[0] = own;
}

static void emit_gather(sw_builder *b, int group, bool is_gradient) {
    int64_t size = is_gradient ? 4 : sw_dtype_bytes(b->sharding.parameter_dtype);
    sw_reference own =
        sw_states_part(b->states, is_gradient ? SW_HELD_GRADIENT : SW_HELD_COPY, group, SW_OWN);
    int whole = is_gradient ? b->states->whole_gradient[group] : b->states->copy[group];
    sw_instruction *gather = emit(b, SW_DO_GATHER, sw_moving_lane(b), group,
                                  is_gradient ? "gather gradient of" : "gather");
    if (!gather)
        return;
    gather->axis = SW_AXIS_SHARD;
    gather->channel = is_gradient ? b->layout->n_groups + group : group;
    gather->is_gradient = is_gradient;
    gather->by_step = true;
    gather->moved_bytes = (b->layout->n_shards - 1) * b->layout->groups[group].shard * size;
    gather->n_operands = 2;
    gather->operand[0] = own;
    gather->operand[1] = (sw_reference){whole, 0, sw_whole_elements(b->layout, group) * size};
    sw_builder_wait_for_all(b, gather);
}

static void emit_update(sw_builder *b, int group) {
    static const sw_kernel kernels[] = {
#define KERNEL(NAME, ...) [SW_OPTIMIZER_##NAME] = SW_KERNEL_##NAME,
        SW_OPTIMIZERS(KERNEL)
#undef KERNEL
    };
    const sw_optimizer_spec *optimizer = &b->sharding.optimizer;
    int64_t n = sw_states_updated(b->states, group);
    sw_instruction *update = emit(b, SW_DO_UPDATE, SW_LANE_COMPUTE, group, "update");
    if (!update)
        return;
    update->kernel = kernels[optimizer->kind];
    for (int held = SW_HELD_COPY; held <= SW_HELD_GRADIENT; held++)
        update->operand[update->n_operands++] =
            sw_states_updated_part(b->states, held, group, SW_OWN);
    update->bytes = 12 * (double)n; /* a master read and written, a gradient read */
    sw_optimizer_state state;
    bool is_kept;
    for (int i = 0; sw_optimizer_state_at(optimizer, i, &state, &is_kept); i++) {
        update->operand[update->n_operands++] =
            sw_states_updated_part(b->states, SW_HELD_OPTIMIZER + (int)state, group, SW_OWN);
        update->bytes += is_kept ? 8 * (double)n : 0;
    }
    update->dim[0] = n;
    sw_optimizer_attributes(optimizer, update->attribute);
    const sw_element elements[SW_MAX_OPERANDS] = {SW_ELEMENT_P,
                                                  SW_ELEMENT_U16}; /* and the rest in R */
    sw_check_kernel(b, update, elements, ~(1u << SW_HELD_GRADIENT));
}

void sw_updates_emit(sw_builder *b) {
    const sw_layout *layout = b->layout;
    int stage = b->sharding.stage;
    for (int pass = 0; pass < 2 && stage == 0; pass++)
        for (int g = 0; g < layout->n_groups && !b->status; g++)
            if (layout->groups[g].is_trainable) {
                if (pass)
                    emit_gather(b, g, true);
                else
                    emit_publish(b, g, true);
            }
    sw_instruction *decide = emit(b, SW_DO_DECIDE, SW_LANE_COMPUTE, -1, "decide");
    if (decide)
        wait_for_gradients(b, decide);
    for (int g = 0; g < layout->n_groups && !b->status; g++)
        if (layout->groups[g].is_trainable) {
            emit_update(b, g);
            if (stage > 0)
                emit_publish(b, g, false);
        }
    for (int g = 0; g < layout->n_groups && !b->status; g++)
        if (layout->groups[g].is_trainable && (stage == 1 || stage == 2))
            emit_gather(b, g, false);
}
