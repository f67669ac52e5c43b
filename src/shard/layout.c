/* layout.c: who owns which elements: see the drawing in layout.h.
 *
 * Invariants, asserted in check() and tried over random shapes in tests/shard/test_layout.c: every element of every parameter has
 * one owner; offsets and shards are multiples of SW_BLOCK; parameters of a group do not overlap; pieces of all ranks, joined, are
 * the parameters.
 */
#include "shard/layout.h"

#include <assert.h>
#include <string.h>

#include "base/integer.h"

static int64_t parameters_of(const sw_graph *graph, const sw_unit *unit) {
    int64_t n = 0;
    for (int i = 0; i < graph->parameters.n; i++)
        if (graph->parameters.item[i]->unit == unit)
            n += graph->parameters.item[i]->n_elements;
    return n;
}

static const sw_unit *first_member(const sw_graph *graph, const sw_layout *layout, int unit) {
    int i = 0;
    while (layout->unit_of_graph_unit[i] != unit)
        i++;
    return graph->units.item[i];
}

/* The last shard unit holds `held` parameters and gets no more: if those are too few, it joins the one before. */
static void close_unit(const sw_graph *graph, sw_wrap wrap, int n_assigned, int64_t held, sw_layout *layout) {
    int last = layout->n_units - 1;
    if (last < 2 || held >= wrap.min_parameters ||
        first_member(graph, layout, last)->parent != first_member(graph, layout, last - 1)->parent)
        return;
    for (int i = 0; i < n_assigned; i++)
        if (layout->unit_of_graph_unit[i] == last)
            layout->unit_of_graph_unit[i] = last - 1;
    layout->n_units--;
}

static sw_status name_units(const sw_graph *graph, sw_layout *layout, sw_error *err) {
    for (int i = 0; i < graph->units.n; i++) {
        sw_shard_unit *unit = &layout->units[layout->unit_of_graph_unit[i]];
        if (i + 1 < graph->units.n && layout->unit_of_graph_unit[i + 1] == unit->id)
            continue; /* not its last member */
        const char *first = first_member(graph, layout, unit->id)->name, *last = graph->units.item[i]->name;
        unit->name = first == last ? first : sw_arena_format(&layout->arena, "%s to %s", first, last);
        if (!unit->name)
            return sw_fail(err, SW_NO_MEMORY, "no memory for the layout's names");
    }
    return SW_OK;
}

/* Graph units to shard units. With min_parameters, neighbours of one parent join until they have so many; what is left over of
 * them joins the shard unit before it. */
static sw_status wrap_units(const sw_graph *graph, sw_wrap wrap, sw_layout *layout, sw_error *err) {
    int n = graph->units.n;
    layout->unit_of_graph_unit = sw_arena_take(&layout->arena, (size_t)n * sizeof(int));
    layout->units = sw_arena_take(&layout->arena, (size_t)n * sizeof *layout->units);
    if (!layout->unit_of_graph_unit || !layout->units)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the layout of %d units", n);
    int64_t held = 0; /* parameters of the last shard unit */
    for (int i = 0; i < n; i++) {
        const sw_unit *unit = graph->units.item[i];
        if (!unit->parent || held >= wrap.min_parameters || unit->parent != graph->units.item[i - 1]->parent) {
            close_unit(graph, wrap, i, held, layout);
            layout->units[layout->n_units] =
                (sw_shard_unit){.id = layout->n_units, .is_root = !unit->parent, .trainable_group = -1, .frozen_group = -1};
            layout->n_units++;
            held = 0;
        }
        layout->unit_of_graph_unit[i] = layout->n_units - 1;
        held += parameters_of(graph, unit);
    }
    close_unit(graph, wrap, n, held, layout);
    return name_units(graph, layout, err);
}

static sw_status fill_group(const sw_graph *graph, int unit, bool is_trainable, sw_layout *layout, sw_error *err) {
    int n = 0;
    for (int i = 0; i < graph->parameters.n; i++) {
        const sw_parameter *p = graph->parameters.item[i];
        n += layout->unit_of_graph_unit[p->unit->id] == unit && p->is_trainable == is_trainable;
    }
    if (!n)
        return SW_OK;
    int *ids = sw_arena_take(&layout->arena, (size_t)n * sizeof *ids);
    if (!ids)
        return sw_fail(err, SW_NO_MEMORY, "no memory for a group of %d parameters", n);
    sw_group *group = &layout->groups[layout->n_groups];
    *group = (sw_group){.id = layout->n_groups, .unit = unit, .is_trainable = is_trainable, .parameters = ids};
    int64_t offset = 0;
    for (int i = 0; i < graph->parameters.n; i++) {
        const sw_parameter *p = graph->parameters.item[i];
        if (layout->unit_of_graph_unit[p->unit->id] != unit || p->is_trainable != is_trainable)
            continue;
        layout->parameters[p->id] = (sw_slot_of_parameter){p, group->id, offset};
        ids[group->n_parameters++] = p->id;
        group->n_elements += p->n_elements;
        offset = round_up(offset + p->n_elements, SW_BLOCK);
    }
    group->shard = round_up((offset + layout->n_shards - 1) / layout->n_shards, layout->cut);
    *(is_trainable ? &layout->units[unit].trainable_group : &layout->units[unit].frozen_group) = layout->n_groups++;
    return SW_OK;
}

/* All that is ever computed from a layout, bytes of every kind over all ranks, must fit into 64 bits. */
static sw_status check_size(const sw_graph *graph, sw_error *err) {
    const int64_t most = INT64_C(1) << 56;
    int64_t n = 0;
    for (int i = 0; i < graph->parameters.n; i++) {
        n += graph->parameters.item[i]->n_elements; /* each below 2^59 */
        if (n > most)
            return sw_fail(err, SW_BAD_CONFIG, "the model has more than 2^56 parameters, at %s; are its dimensions right?",
                           graph->parameters.item[i]->name);
    }
    return SW_OK;
}

static void check(const sw_layout *layout) {
    for (int g = 0; g < layout->n_groups; g++) {
        const sw_group *group = &layout->groups[g];
        int64_t end = 0;
        for (int i = 0; i < group->n_parameters; i++) {
            const sw_slot_of_parameter *slot = &layout->parameters[group->parameters[i]];
            assert(slot->group == g && slot->offset >= end && slot->offset % SW_BLOCK == 0);
            end = slot->offset + slot->parameter->n_elements;
        }
        assert(group->shard % layout->cut == 0 && layout->n_shards * group->shard >= end);
        (void)end;
    }
}

sw_status sw_layout_create(const sw_graph *graph, const sw_mesh *mesh, sw_wrap wrap, int64_t cut, sw_layout *layout,
                           sw_error *err) {
    *layout = (sw_layout){.mesh = *mesh, .cut_over = SW_AXES(SW_AXIS_SHARD), .cut = cut, .n_parameters = graph->parameters.n};
    layout->n_shards = sw_mesh_size(mesh, layout->cut_over);
    assert(layout->n_shards > 0 && cut > 0 && cut % SW_BLOCK == 0);
    sw_status status = check_size(graph, err);
    if (!status)
        status = wrap_units(graph, wrap, layout, err);
    if (status)
        goto fail;
    layout->groups = sw_arena_take(&layout->arena, 2 * (size_t)layout->n_units * sizeof *layout->groups);
    layout->parameters = sw_arena_take(&layout->arena, (size_t)(layout->n_parameters + 1) * sizeof *layout->parameters);
    if (!layout->groups || !layout->parameters) {
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the layout of %d parameters", layout->n_parameters);
        goto fail;
    }
    for (int unit = 0; unit < layout->n_units; unit++)
        for (int frozen = 0; frozen < 2; frozen++)
            if ((status = fill_group(graph, unit, !frozen, layout, err)))
                goto fail;
    check(layout);
    return SW_OK;
fail:
    sw_layout_free(layout);
    return status;
}

void sw_layout_free(sw_layout *layout) {
    sw_arena_free(&layout->arena);
    *layout = (sw_layout){0};
}

bool sw_layout_next_piece(const sw_layout *layout, int group_id, int owner, int *at, sw_piece *piece) {
    const sw_group *group = &layout->groups[group_id];
    int64_t begin = owner * group->shard, end = begin + group->shard;
    for (; *at < group->n_parameters; ++*at) {
        const sw_slot_of_parameter *slot = &layout->parameters[group->parameters[*at]];
        int64_t first = slot->offset > begin ? slot->offset : begin;
        int64_t last = slot->offset + slot->parameter->n_elements;
        last = last < end ? last : end;
        if (first < last) {
            *piece = (sw_piece){slot->parameter, first - slot->offset, first - begin, last - first};
            ++*at;
            return true;
        }
    }
    return false;
}
