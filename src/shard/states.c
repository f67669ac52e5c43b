/* states.c: what outlives a step, by ZeRO stage.
 *
 *                      stage 0       stage 1       stage 2          stage 3
 *   compute copy       all           all (window)  all (window)     own slice (shared)
 *   low halves (bf16)  all           own           own              own
 *   moments            all           own           own              own
 *
 * With accumulate: sharded
 *   whole gradient     all (window)  all (window)  ring of program  ring of program
 *   own gradient sum   own (window)  own           own              own
 *
 * With accumulate: unsharded
 *   whole gradient     all (window)  all (window)  all (window)     all (window)
 *   own gradient sum   its own slice of the whole gradient
 *
 * In fp32 the compute copy is the master. Masters of frozen parameters do not exist: their compute
 * copy is all there is.
 */
#include "shard/placement.h"

#include <unistd.h>

int64_t sw_sharding_cut(const sw_sharding *s) {
    if (s->mode != SW_SHM_TRAP || s->stage != 3)
        return SW_BLOCK;
    int64_t elements = sysconf(_SC_PAGESIZE) / sw_dtype_bytes(s->parameter_dtype);
    return elements > SW_BLOCK ? elements : SW_BLOCK;
}

static int add_buffer(sw_states *states, const char *what, const sw_group *group,
                      sw_memory_class memory_class, sw_buffer_kind kind, int64_t bytes) {
    const char *unit = states->layout->units[group->unit].name;
    int id = states->buffers.n++;
    states->buffers.item[id] =
        (sw_buffer){.id = id,
                    .name = sw_arena_format(&states->arena, "%s of %s%s", what, unit,
                                            group->is_trainable ? "" : " (frozen)"),
                    .memory_class = memory_class,
                    .kind = kind,
                    .is_persistent = true,
                    .bytes = bytes};
    return id;
}

int64_t sw_states_updated(const sw_states *states, int group) {
    int64_t shard = states->layout->groups[group].shard;
    return states->sharding.stage == 0 ? shard * states->layout->n_shards : shard;
}

int64_t sw_held_bytes(const sw_states *states, int held) {
    return held == SW_HELD_COPY  ? sw_dtype_bytes(states->sharding.parameter_dtype)
           : held == SW_HELD_LOW ? 2
                                 : 4;
}

sw_reference sw_states_part(const sw_states *states, int held, int group, int owner) {
    int stage = states->sharding.stage;
    int buffer = held == SW_HELD_COPY       ? states->copy[group]
                 : held == SW_HELD_LOW      ? states->low[group]
                 : held == SW_HELD_GRADIENT ? states->gradient[group]
                                            : states->optimizer[held - SW_HELD_OPTIMIZER][group];
    bool is_whole = held == SW_HELD_COPY       ? stage < 3
                    : held == SW_HELD_GRADIENT ? buffer < 0
                                               : stage == 0;
    bool is_sliced =
        is_whole || held == SW_HELD_COPY; /* a shared slice lies among those of the others */
    if (held == SW_HELD_GRADIENT && is_whole)
        buffer = states->whole_gradient[group];
    int64_t bytes = states->layout->groups[group].shard * sw_held_bytes(states, held);
    sw_reference part = {buffer, owner != SW_OWN && is_whole ? owner * bytes : 0, bytes};
    if (owner == SW_OWN && is_sliced) /* a place of the axes that the layout is cut over: the last
                                         one counts fastest */
        for (int axis = SW_N_AXES - 1; axis >= 0; axis--)
            if (states->layout->cut_over >> axis & 1) {
                part.own_stride[axis] = bytes;
                bytes *= states->layout->mesh.size[axis];
            }
    return part;
}

sw_reference sw_states_updated_part(const sw_states *states, int held, int group, int owner) {
    sw_reference part = sw_states_part(states, held, group, owner);
    if (states->sharding.stage > 0)
        return part;
    if (held == SW_HELD_GRADIENT)
        part.buffer = states->whole_gradient[group];
    return (sw_reference){part.buffer, 0,
                          sw_states_updated(states, group) * sw_held_bytes(states, held)};
}

static void create_group(sw_states *states, const sw_group *group, bool is_trained) {
    const sw_sharding *s = &states->sharding;
    int g = group->id;
    int64_t whole = group->shard * states->layout->n_shards, updated = sw_states_updated(states, g);
    int64_t copy_bytes = sw_dtype_bytes(s->parameter_dtype);
    sw_buffer_kind copy_kind = s->stage == 3   ? SW_BUFFER_SHARED_SLICE
                               : s->stage == 0 ? SW_BUFFER_PRIVATE
                                               : SW_BUFFER_WINDOW;
    states->copy[g] = add_buffer(states, "parameters", group, SW_MEMORY_PARAMETERS, copy_kind,
                                 copy_bytes * (s->stage == 3 ? group->shard : whole));
    if (!group->is_trainable || !is_trained)
        return;
    if (s->parameter_dtype == SW_BF16)
        states->low[g] = add_buffer(states, "low halves", group, SW_MEMORY_OPTIMIZER,
                                    SW_BUFFER_PRIVATE, 2 * updated);
    if (s->stage < 2 || !s->accumulate_sharded)
        states->whole_gradient[g] = add_buffer(states, "whole gradient", group, SW_MEMORY_GRADIENTS,
                                               SW_BUFFER_WINDOW, 4 * whole);
    if (s->accumulate_sharded)
        states->gradient[g] =
            add_buffer(states, "gradient", group, SW_MEMORY_GRADIENTS,
                       s->stage == 0 ? SW_BUFFER_WINDOW : SW_BUFFER_PRIVATE, 4 * group->shard);
    sw_optimizer_state kept;
    bool is_kept;
    for (int i = 0; sw_optimizer_state_at(&s->optimizer, i, &kept, &is_kept); i++)
        if (is_kept)
            states->optimizer[kept][g] =
                add_buffer(states, sw_optimizer_state_name(kept), group, SW_MEMORY_OPTIMIZER,
                           SW_BUFFER_PRIVATE, 4 * updated);
}

sw_status sw_states_create(const sw_layout *layout, const sw_sharding *sharding, bool is_trained,
                           sw_states *states, sw_error *err) {
    *states = (sw_states){.sharding = *sharding, .layout = layout};
    enum { N_KINDS = 4 + SW_N_OPTIMIZER_STATES };
    int **by_group[N_KINDS] = {&states->copy, &states->low, &states->gradient,
                               &states->whole_gradient};
    for (int i = 0; i < SW_N_OPTIMIZER_STATES; i++)
        by_group[4 + i] = &states->optimizer[i];
    for (int i = 0; i < N_KINDS; i++) {
        *by_group[i] = sw_arena_take(&states->arena, (size_t)(layout->n_groups + 1) * sizeof(int));
        if (!*by_group[i])
            goto short_of_memory;
        for (int g = 0; g < layout->n_groups; g++)
            (*by_group[i])[g] = -1;
    }
    states->buffers.capacity = N_KINDS * layout->n_groups;
    states->buffers.item =
        sw_arena_take(&states->arena, ((size_t)states->buffers.capacity + 1) * sizeof(sw_buffer));
    if (!states->buffers.item)
        goto short_of_memory;
    for (int g = 0; g < layout->n_groups; g++)
        create_group(states, &layout->groups[g], is_trained);
    int64_t address[SW_N_MEMORY_CLASSES] = {0};
    for (int i = 0; i < states->buffers.n; i++) {
        sw_buffer *buffer = &states->buffers.item[i];
        if (!buffer->name)
            goto short_of_memory;
        buffer->address = address[buffer->memory_class];
        address[buffer->memory_class] += sw_buffer_aligned(buffer->bytes);
    }
    return SW_OK;
short_of_memory:
    sw_states_free(states);
    return sw_fail(err, SW_NO_MEMORY, "no memory for the list of buffers of %d groups",
                   layout->n_groups);
}

sw_status sw_states_keep(sw_states *states, const sw_graph *graph, sw_error *err) {
    states->kept = sw_arena_take(&states->arena, ((size_t)graph->n_states + 1) * sizeof(int));
    for (int i = 0; states->kept && i < graph->values.n; i++) {
        const sw_value *value = graph->values.item[i];
        if (!value->state)
            continue;
        sw_buffer *grown = sw_arena_grow(&states->arena, states->buffers.item, states->buffers.n,
                                         &states->buffers.capacity, sizeof(sw_buffer));
        const char *name = sw_arena_format(&states->arena, "cache %d", value->state);
        if (!grown || !name)
            return sw_fail(err, SW_NO_MEMORY, "no memory for the list of %d caches",
                           graph->n_states);
        states->buffers.item = grown;
        int id = states->buffers.n++;
        int64_t address = 0;
        for (int b = 0; b < id; b++)
            if (grown[b].memory_class == SW_MEMORY_ACTIVATIONS)
                address = sw_buffer_aligned(grown[b].address + grown[b].bytes);
        grown[id] =
            (sw_buffer){.id = id,
                        .name = name,
                        .memory_class = SW_MEMORY_ACTIVATIONS,
                        .kind = SW_BUFFER_PRIVATE,
                        .is_persistent = true,
                        .bytes = sw_value_bytes(value, sw_sharding_numbers(&states->sharding)),
                        .address = address};
        states->kept[value->state - 1] = id;
        states->n_kept = value->state;
    }
    return states->kept
               ? SW_OK
               : sw_fail(err, SW_NO_MEMORY, "no memory for the list of %d caches", graph->n_states);
}

void sw_states_free(sw_states *states) {
    sw_arena_free(&states->arena);
    *states = (sw_states){0};
}
