/* layout.c: who owns which elements: see the drawing in layout.h.
 *
 * Invariants, asserted in check() and tried over random shapes in tests/shard/test_layout.c: every
 * element of every parameter has one owner; offsets and shards are multiples of SW_BLOCK;
 * parameters of a group do not overlap; pieces of all ranks, joined, are the parameters.
 */
#include "shard/layout.h"

#include <assert.h>
#include <string.h>

#include "base/integer.h"

/* What is asked of graph units and shard units again and again while they are made. */
typedef struct members {
    int64_t *n_elements; /* [n graph units] of a unit's own parameters */
    int *first; /* [n graph units] first graph unit of each shard unit: the members of one follow
                   each other */
    int *begin; /* [n graph units + 1] of each shard unit's parameters among `ids` */
    int *ids;   /* [n parameters] in their order */
} members;

/* The last shard unit holds `held` parameters and gets no more: if those are too few, it joins the
 * one before. */
static void close_unit(const sw_graph *graph, sw_wrap wrap, int n_assigned, int64_t held,
                       const members *m, sw_layout *layout) {
    int last = layout->n_units - 1;
    if (last < 2 || held >= wrap.min_parameters ||
        graph->units.item[m->first[last]]->parent != graph->units.item[m->first[last - 1]]->parent)
        return;
    for (int i = m->first[last]; i < n_assigned; i++)
        layout->unit_of_graph_unit[i] = last - 1;
    layout->n_units--;
}

static sw_status name_units(const sw_graph *graph, const members *m, sw_layout *layout,
                            sw_error *err) {
    for (int i = 0; i < graph->units.n; i++) {
        sw_shard_unit *unit = &layout->units[layout->unit_of_graph_unit[i]];
        if (i + 1 < graph->units.n && layout->unit_of_graph_unit[i + 1] == unit->id)
            continue; /* not its last member */
        const char *first = graph->units.item[m->first[unit->id]]->name,
                   *last = graph->units.item[i]->name;
        unit->name =
            first == last ? first : sw_arena_format(&layout->arena, "%s to %s", first, last);
        if (!unit->name)
            return sw_fail(err, SW_NO_MEMORY, "no memory for the layout's names");
    }
    return SW_OK;
}

/* Graph units to shard units. With min_parameters, neighbours of one parent join until they have so
 * many; what is left over of them joins the shard unit before it. */
static sw_status wrap_units(const sw_graph *graph, sw_wrap wrap, const members *m,
                            sw_layout *layout, sw_error *err) {
    int n = graph->units.n;
    int64_t held = 0; /* parameters of the last shard unit */
    for (int i = 0; i < graph->parameters.n; i++)
        m->n_elements[graph->parameters.item[i]->unit->id] += graph->parameters.item[i]->n_elements;
    for (int i = 0; i < n; i++) {
        const sw_unit *unit = graph->units.item[i];
        if (!unit->parent || held >= wrap.min_parameters ||
            unit->parent != graph->units.item[i - 1]->parent) {
            close_unit(graph, wrap, i, held, m, layout);
            m->first[layout->n_units] = i;
            layout->units[layout->n_units] = (sw_shard_unit){.id = layout->n_units,
                                                             .is_root = !unit->parent,
                                                             .trainable_group = -1,
                                                             .frozen_group = -1};
            layout->n_units++;
            held = 0;
        }
        layout->unit_of_graph_unit[i] = layout->n_units - 1;
        held += m->n_elements[i];
    }
    close_unit(graph, wrap, n, held, m, layout);
    return name_units(graph, m, layout, err);
}

/* Parameters by shard unit. */
static void sort_parameters(const sw_graph *graph, const sw_layout *layout, members *m) {
    for (int i = 0; i < graph->parameters.n; i++)
        m->begin[layout->unit_of_graph_unit[graph->parameters.item[i]->unit->id] + 1]++;
    for (int u = 0; u < layout->n_units; u++)
        m->begin[u + 1] += m->begin[u];
    for (int i = graph->parameters.n - 1; i >= 0;
         i--) /* back to front, so that `begin` ends where each unit's parameters do */
        m->ids[--m->begin[layout->unit_of_graph_unit[graph->parameters.item[i]->unit->id] + 1]] = i;
    for (int u = 0; u < layout->n_units; u++)
        m->begin[u] = m->begin[u + 1];
    m->begin[layout->n_units] = graph->parameters.n;
}

static sw_status fill_group(const sw_graph *graph, int unit, bool is_trainable, const members *m,
                            sw_layout *layout, sw_error *err) {
    int n = 0;
    for (int k = m->begin[unit]; k < m->begin[unit + 1]; k++)
        n += graph->parameters.item[m->ids[k]]->is_trainable == is_trainable;
    if (!n)
        return SW_OK;
    int *ids = sw_arena_take(&layout->arena, (size_t)n * sizeof *ids);
    if (!ids)
        return sw_fail(err, SW_NO_MEMORY, "no memory for a group of %d parameters", n);
    sw_group *group = &layout->groups[layout->n_groups];
    *group = (sw_group){
        .id = layout->n_groups, .unit = unit, .is_trainable = is_trainable, .parameters = ids};
    int64_t offset = 0;
    for (int k = m->begin[unit]; k < m->begin[unit + 1]; k++) {
        const sw_parameter *p = graph->parameters.item[m->ids[k]];
        if (p->is_trainable != is_trainable)
            continue;
        layout->parameters[p->id] = (sw_slot_of_parameter){p, group->id, offset};
        ids[group->n_parameters++] = p->id;
        group->n_elements += p->n_elements;
        offset = round_up(offset + p->n_elements, SW_BLOCK);
    }
    group->shard = round_up((offset + layout->n_shards - 1) / layout->n_shards, layout->cut);
    *(is_trainable ? &layout->units[unit].trainable_group : &layout->units[unit].frozen_group) =
        layout->n_groups++;
    return SW_OK;
}

/* All that is ever computed from a layout, bytes of every kind over all ranks, must fit into 64
 * bits. */
static sw_status check_size(const sw_graph *graph, sw_error *err) {
    const int64_t most = INT64_C(1) << 56;
    int64_t n = 0;
    for (int i = 0; i < graph->parameters.n; i++) {
        n += graph->parameters.item[i]->n_elements; /* each below 2^59 */
        if (n > most)
            return sw_fail(
                err, SW_BAD_CONFIG,
                "the model has more than 2^56 parameters, at %s; are its dimensions right?",
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

static sw_status take_memory(const sw_graph *graph, sw_arena *scratch, members *m,
                             sw_layout *layout, sw_error *err) {
    size_t n_units = (size_t)graph->units.n + 1, n_parameters = (size_t)graph->parameters.n + 1;
    layout->unit_of_graph_unit = sw_arena_take(&layout->arena, n_units * sizeof(int));
    layout->units = sw_arena_take(&layout->arena, n_units * sizeof *layout->units);
    layout->groups = sw_arena_take(&layout->arena, 2 * n_units * sizeof *layout->groups);
    layout->parameters = sw_arena_take(&layout->arena, n_parameters * sizeof *layout->parameters);
    m->n_elements = sw_arena_take(scratch, n_units * sizeof *m->n_elements);
    m->first = sw_arena_take(scratch, n_units * sizeof *m->first);
    m->begin = sw_arena_take(scratch, (n_units + 1) * sizeof *m->begin);
    m->ids = sw_arena_take(scratch, n_parameters * sizeof *m->ids);
    bool is_taken = layout->unit_of_graph_unit && layout->units && layout->groups &&
                    layout->parameters && m->n_elements && m->first && m->begin && m->ids;
    return is_taken ? SW_OK
                    : sw_fail(err, SW_NO_MEMORY,
                              "no memory for the layout of %d units and %d parameters",
                              graph->units.n, graph->parameters.n);
}

sw_status sw_layout_create(const sw_graph *graph, const sw_mesh *mesh, sw_wrap wrap, int64_t cut,
                           sw_layout *layout, sw_error *err) {
    *layout = (sw_layout){.mesh = *mesh,
                          .cut_over = SW_AXES(SW_AXIS_SHARD),
                          .cut = cut,
                          .n_parameters = graph->parameters.n};
    layout->n_shards = sw_mesh_size(mesh, layout->cut_over);
    assert(layout->n_shards > 0 && cut > 0 && cut % SW_BLOCK == 0);
    sw_status status = check_size(graph, err);
    sw_arena scratch = {0};
    members m = {0};
    if (!status)
        status = take_memory(graph, &scratch, &m, layout, err);
    if (!status)
        status = wrap_units(graph, wrap, &m, layout, err);
    if (!status)
        sort_parameters(graph, layout, &m);
    for (int unit = 0; unit < layout->n_units && !status; unit++)
        for (int frozen = 0; frozen < 2 && !status; frozen++)
            status = fill_group(graph, unit, !frozen, &m, layout, err);
    sw_arena_free(&scratch);
    if (status)
        sw_layout_free(layout);
    else
        check(layout);
    return status;
}

void sw_layout_free(sw_layout *layout) {
    sw_arena_free(&layout->arena);
    *layout = (sw_layout){0};
}

bool sw_layout_next_piece(const sw_layout *layout, int group_id, int owner, int *at,
                          sw_piece *piece) {
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
