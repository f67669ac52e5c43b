/* states.c: what outlives a step, by ZeRO stage.
 *
 *                     stage 0        stage 1          stage 2          stage 3
 *   compute copy      all            all (window)     all (window)     own slice (shared)
 *   low halves (bf16) all            own              own              own
 *   moments           all            own              own              own
 *   whole gradient    all (window)   all (window)     ring of program  ring of program      accumulate: sharded
 *   own gradient sum  own (window)   own              own              own
 *   whole gradient    all (window)   all (window)     all (window)     all (window)         accumulate: unsharded
 *   own gradient sum  its own slice of the whole gradient
 *
 * In fp32 the compute copy is the master. Masters of frozen parameters do not exist: their compute copy is all there is.
 */
#include "shard/program.h"

#include <unistd.h>

int64_t sw_sharding_cut(const sw_sharding *s) {
    if (s->mode != SW_SHM_TRAP || s->stage != 3)
        return SW_BLOCK;
    int64_t elements = sysconf(_SC_PAGESIZE) / sw_dtype_bytes(s->parameter_dtype);
    return elements > SW_BLOCK ? elements : SW_BLOCK;
}

static int64_t aligned(int64_t bytes) {
    return (bytes + SW_BUFFER_ALIGNMENT - 1) / SW_BUFFER_ALIGNMENT * SW_BUFFER_ALIGNMENT;
}

static int add_buffer(sw_states *states, const char *what, const sw_group *group, sw_memory_class memory_class,
                      sw_buffer_kind kind, int64_t bytes) {
    const char *unit = states->layout->units[group->unit].name;
    int id = states->buffers.n++;
    states->buffers.item[id] =
        (sw_buffer){.id = id,
                    .name = sw_arena_format(&states->arena, "%s of %s%s", what, unit, group->is_trainable ? "" : " (frozen)"),
                    .memory_class = memory_class,
                    .kind = kind,
                    .is_persistent = true,
                    .bytes = bytes};
    return id;
}

int64_t sw_states_updated(const sw_states *states, int group) {
    int64_t shard = states->layout->groups[group].shard;
    return states->sharding.stage == 0 ? shard * states->layout->n_ranks : shard;
}

static void create_group(sw_states *states, const sw_group *group, bool is_trained) {
    const sw_sharding *s = &states->sharding;
    int g = group->id;
    int64_t whole = group->shard * states->layout->n_ranks, updated = sw_states_updated(states, g);
    int64_t copy_bytes = sw_dtype_bytes(s->parameter_dtype);
    sw_buffer_kind copy_kind = s->stage == 3 ? SW_BUFFER_SHARED_SLICE : s->stage == 0 ? SW_BUFFER_PRIVATE : SW_BUFFER_WINDOW;
    states->copy[g] = add_buffer(states, "parameters", group, SW_MEMORY_PARAMETERS, copy_kind,
                                 copy_bytes * (s->stage == 3 ? group->shard : whole));
    if (!group->is_trainable || !is_trained)
        return;
    if (s->parameter_dtype == SW_BF16)
        states->low[g] = add_buffer(states, "low halves", group, SW_MEMORY_OPTIMIZER, SW_BUFFER_PRIVATE, 2 * updated);
    if (s->stage < 2 || !s->accumulate_sharded)
        states->whole_gradient[g] = add_buffer(states, "whole gradient", group, SW_MEMORY_GRADIENTS, SW_BUFFER_WINDOW, 4 * whole);
    if (s->accumulate_sharded)
        states->gradient[g] = add_buffer(states, "gradient", group, SW_MEMORY_GRADIENTS,
                                         s->stage == 0 ? SW_BUFFER_WINDOW : SW_BUFFER_PRIVATE, 4 * group->shard);
    if (s->optimizer.kind == SW_OPTIMIZER_KIND_ADAMW || s->optimizer.momentum != 0)
        states->first_moment[g] = add_buffer(states, "first moment", group, SW_MEMORY_OPTIMIZER, SW_BUFFER_PRIVATE, 4 * updated);
    if (s->optimizer.kind == SW_OPTIMIZER_KIND_ADAMW)
        states->second_moment[g] =
            add_buffer(states, "second moment", group, SW_MEMORY_OPTIMIZER, SW_BUFFER_PRIVATE, 4 * updated);
}

sw_status sw_states_create(const sw_layout *layout, const sw_sharding *sharding, bool is_trained, sw_states *states,
                           sw_error *err) {
    *states = (sw_states){.sharding = *sharding, .layout = layout};
    int **by_group[] = {&states->copy,           &states->low,          &states->gradient,
                        &states->whole_gradient, &states->first_moment, &states->second_moment};
    enum { N_KINDS = sizeof by_group / sizeof *by_group };
    for (int i = 0; i < N_KINDS; i++) {
        *by_group[i] = sw_arena_take(&states->arena, (size_t)(layout->n_groups + 1) * sizeof(int));
        if (!*by_group[i])
            goto short_of_memory;
        for (int g = 0; g < layout->n_groups; g++)
            (*by_group[i])[g] = -1;
    }
    states->buffers.capacity = N_KINDS * layout->n_groups;
    states->buffers.item = sw_arena_take(&states->arena, ((size_t)states->buffers.capacity + 1) * sizeof(sw_buffer));
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
        address[buffer->memory_class] += aligned(buffer->bytes);
    }
    return SW_OK;
short_of_memory:
    sw_states_free(states);
    return sw_fail(err, SW_NO_MEMORY, "no memory for the list of buffers of %d groups", layout->n_groups);
}

sw_status sw_states_keep(sw_states *states, const sw_graph *graph, sw_error *err) {
    states->kept = sw_arena_take(&states->arena, ((size_t)graph->n_states + 1) * sizeof(int));
    for (int i = 0; states->kept && i < graph->values.n; i++) {
        const sw_value *value = graph->values.item[i];
        if (!value->state)
            continue;
        sw_buffer *grown =
            sw_arena_grow(&states->arena, states->buffers.item, states->buffers.n, &states->buffers.capacity, sizeof(sw_buffer));
        const char *name = sw_arena_format(&states->arena, "cache %d", value->state);
        if (!grown || !name)
            return sw_fail(err, SW_NO_MEMORY, "no memory for the list of %d caches", graph->n_states);
        states->buffers.item = grown;
        int id = states->buffers.n++;
        int64_t address = 0;
        for (int b = 0; b < id; b++)
            if (grown[b].memory_class == SW_MEMORY_ACTIVATIONS)
                address = aligned(grown[b].address + grown[b].bytes);
        grown[id] = (sw_buffer){.id = id,
                                .name = name,
                                .memory_class = SW_MEMORY_ACTIVATIONS,
                                .kind = SW_BUFFER_PRIVATE,
                                .is_persistent = true,
                                .bytes = sw_value_bytes(value, sw_sharding_numbers(&states->sharding)),
                                .address = address};
        states->kept[value->state - 1] = id;
        states->n_kept = value->state;
    }
    return states->kept ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for the list of %d caches", graph->n_states);
}

void sw_states_free(sw_states *states) {
    sw_arena_free(&states->arena);
    *states = (sw_states){0};
}
