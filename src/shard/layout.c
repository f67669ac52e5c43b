/* layout.c: who owns which elements: see the drawing in layout.h.
 *
 * Invariants, asserted in check() and tried over random shapes in tests/shard/test_layout.c: every element of every parameter has one
 * owner; offsets and shards are multiples of SW_BLOCK; parameters of a group do not overlap; pieces of all ranks, joined, are
 * the parameters.
 */
#include "shard/layout.h"

#include <assert.h>
#include <string.h>

static int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static int64_t parameters_of(const sw_graph *graph, const sw_unit *unit) {
    int64_t n = 0;
    for (int i = 0; i < graph->parameters.n; i++)
        if (graph->parameters.item[i]->unit == unit)
            n += graph->parameters.item[i]->n_elements;
    return n;
}

/* Graph units to shard units. With min_parameters, neighbours of one parent join until they have so many; what is left over at the end
 * joins the shard unit before it. Units without parameters get none of their own: they ride with the last one. */
static sw_status wrap_units(const sw_graph *graph, sw_wrap wrap, sw_layout *layout, sw_error *err) {
    int n = graph->units.n;
    layout->unit_of_graph_unit = sw_arena_take(&layout->arena, (size_t)n * sizeof(int));
    layout->units = sw_arena_take(&layout->arena, (size_t)n * sizeof *layout->units);
    if (!layout->unit_of_graph_unit || !layout->units)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the layout of %d units", n);
    int64_t held = 0; /* parameters of the shard unit that is being filled */
    int open = -1;
    const sw_unit *open_parent = NULL;
    for (int i = 0; i < n; i++) {
        const sw_unit *unit = graph->units.item[i];
        int64_t own = parameters_of(graph, unit);
        bool joins = open >= 0 && wrap.min_parameters > 0 && held < wrap.min_parameters && unit->parent == open_parent;
        if (unit->parent && joins) {
            layout->unit_of_graph_unit[i] = open;
            layout->units[open].name = sw_arena_format(&layout->arena, "%s+", layout->units[open].name);
            held += own;
            continue;
        }
        int id = layout->n_units++;
        layout->units[id] = (sw_shard_unit){.id = id, .name = unit->name, .is_root = !unit->parent, .trainable_group = -1, .frozen_group = -1};
        layout->unit_of_graph_unit[i] = id;
        if (unit->parent) {
            open = id;
            open_parent = unit->parent;
            held = own;
        }
    }
    if (wrap.min_parameters > 0 && open > 1 && held < wrap.min_parameters && !layout->units[open - 1].is_root) {
        for (int i = 0; i < n; i++)
            if (layout->unit_of_graph_unit[i] == open)
                layout->unit_of_graph_unit[i] = open - 1;
        layout->n_units--;
    }
    for (int i = 0; i < layout->n_units; i++) { /* "layers.0+++" -> "layers.0 to layers.3" */
        const char *first = NULL, *last = NULL;
        for (int j = 0; j < n; j++)
            if (layout->unit_of_graph_unit[j] == i) {
                first = first ? first : graph->units.item[j]->name;
                last = graph->units.item[j]->name;
            }
        layout->units[i].name = first == last ? first : sw_arena_format(&layout->arena, "%s to %s", first, last);
        if (!layout->units[i].name)
            return sw_fail(err, SW_NO_MEMORY, "no memory for the layout's names");
    }
    return SW_OK;
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
    group->shard = round_up((offset + layout->n_ranks - 1) / layout->n_ranks, layout->cut);
    *(is_trainable ? &layout->units[unit].trainable_group : &layout->units[unit].frozen_group) = layout->n_groups++;
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
        assert(group->shard % layout->cut == 0 && layout->n_ranks * group->shard >= end);
        (void)end;
    }
}

sw_status sw_layout_create(const sw_graph *graph, int n_ranks, sw_wrap wrap, int64_t cut, sw_layout *layout, sw_error *err) {
    *layout = (sw_layout){.n_ranks = n_ranks, .cut = cut, .n_parameters = graph->parameters.n};
    assert(n_ranks > 0 && cut > 0 && cut % SW_BLOCK == 0);
    sw_status status = wrap_units(graph, wrap, layout, err);
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

bool sw_layout_next_piece(const sw_layout *layout, int group_id, int rank, int *at, sw_piece *piece) {
    const sw_group *group = &layout->groups[group_id];
    int64_t begin = rank * group->shard, end = begin + group->shard;
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
