/* test_layout.c: who owns what, over random graphs: every element has one owner, cuts are where
 * they may be, pieces make up the parameters. A failing graph is made smaller before it is shown.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/layout.h"

enum { MAX_UNITS = 14, MAX_PARAMETERS = 40 };

/* A graph as numbers, so that it can be made smaller. */
typedef struct plan {
    int n_units; /* with the root */
    int parent[MAX_UNITS];
    int n_parameters;
    struct {
        int unit;
        int64_t rows, columns; /* columns 0: one dimension */
        bool is_frozen;
    } parameter[MAX_PARAMETERS];
    int n_ranks;
    sw_wrap wrap;
    int64_t cut;
} plan;

static uint64_t chance_state;

static int64_t below(int64_t n) {
    chance_state = chance_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((chance_state >> 33) % (uint64_t)n);
}

static plan random_plan(uint64_t seed) {
    static const int64_t sizes[] = {1, 2, 3, 7, 8, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000};
    static const int ranks[] = {1, 2, 3, 4, 7, 8, 64};
    static const int64_t wraps[] = {0, 1, 300, 1000, 5000, 1000000}, cuts[] = {256, 1024, 2048};
    chance_state = seed;
    plan p = {.n_units = 1 + (int)below(MAX_UNITS), .n_parameters = (int)below(MAX_PARAMETERS + 1)};
    p.parent[0] = -1;
    for (int u = 1; u < p.n_units; u++)
        p.parent[u] = below(4) ? 0 : (int)below(u);
    for (int i = 0; i < p.n_parameters; i++) {
        p.parameter[i].unit = (int)below(p.n_units);
        p.parameter[i].rows = sizes[below(15)];
        p.parameter[i].columns = below(3) ? 0 : sizes[below(9)];
        p.parameter[i].is_frozen = below(4) == 0;
    }
    p.n_ranks = ranks[below(7)];
    p.wrap.min_parameters = wraps[below(6)];
    p.cut = cuts[below(3)];
    return p;
}

static sw_graph *record(const plan *p) {
    sw_graph *graph = NULL;
    sw_unit *units[MAX_UNITS];
    assert_int_equal(sw_graph_create(1, 1, &graph, NULL), SW_OK);
    for (int u = 0; u < p->n_units; u++) {
        char name[16];
        snprintf(name, sizeof name, "u%d", u);
        units[u] = sw_unit_declare(graph, u ? units[p->parent[u]] : NULL, name);
    }
    for (int i = 0; i < p->n_parameters; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        int64_t dimensions[] = {p->parameter[i].rows, p->parameter[i].columns};
        sw_parameter *parameter =
            sw_parameter_declare(graph, units[p->parameter[i].unit], name,
                                 p->parameter[i].columns ? 2 : 1, dimensions, SW_INIT_ZEROS, 0);
        if (p->parameter[i].is_frozen)
            sw_parameter_freeze(parameter);
    }
    assert_int_equal(sw_graph_status(graph, NULL), SW_OK);
    return graph;
}

static const char *wrong_offsets(const sw_layout *layout) {
    for (int g = 0; g < layout->n_groups; g++) {
        const sw_group *group = &layout->groups[g];
        int64_t n = 0, end = 0;
        if (group->n_parameters < 1)
            return "a group has no parameters";
        if (group->shard < 1 || group->shard % layout->cut)
            return "a shard is no multiple of the cut";
        for (int i = 0; i < group->n_parameters; i++) {
            const sw_slot_of_parameter *slot = &layout->parameters[group->parameters[i]];
            n += slot->parameter->n_elements;
            if (slot->group != g || slot->parameter->is_trainable != group->is_trainable)
                return "a parameter is in a group that is not its own";
            if (i && group->parameters[i] <= group->parameters[i - 1])
                return "parameters do not keep their order";
            if (slot->offset % SW_BLOCK || slot->offset < end)
                return "an offset is no multiple of a block, or parameters overlap";
            if (slot->offset >= end + SW_BLOCK)
                return "a gap is larger than a block";
            end = slot->offset + slot->parameter->n_elements;
        }
        if (n != group->n_elements)
            return "n_elements is not the sum of the parameters";
        if (end > layout->n_shards * group->shard ||
            layout->n_shards * (group->shard - layout->cut) >=
                (end + SW_BLOCK - 1) / SW_BLOCK * SW_BLOCK)
            return "shards are too short, or longer than need be";
    }
    return NULL;
}

/* Every element of every parameter is in one piece of one rank, where offset and cut say. */
static const char *wrong_owners(const sw_graph *graph, const sw_layout *layout) {
    const char *wrong = NULL;
    for (int i = 0; i < graph->parameters.n && !wrong; i++) {
        const sw_parameter *p = graph->parameters.item[i];
        const sw_slot_of_parameter *slot = &layout->parameters[i];
        const sw_group *group = &layout->groups[slot->group];
        char *n_owners = calloc((size_t)p->n_elements, 1);
        assert_non_null(n_owners);
        for (int rank = 0; rank < layout->n_shards; rank++) {
            sw_piece piece;
            int64_t end = 0;
            for (int at = 0; sw_layout_next_piece(layout, slot->group, rank, &at, &piece);) {
                if (piece.length < 1 || piece.shard_offset < end ||
                    piece.shard_offset + piece.length > group->shard)
                    wrong = "pieces are empty, out of order or outside of the shard";
                end = piece.shard_offset + piece.length;
                if (piece.parameter != p)
                    continue;
                if (piece.first < 0 || piece.first + piece.length > p->n_elements)
                    wrong = "a piece is outside of its parameter";
                else
                    for (int64_t e = piece.first; e < piece.first + piece.length; e++)
                        n_owners[e]++;
                if (rank * group->shard + piece.shard_offset != slot->offset + piece.first)
                    wrong = "a piece does not lie where the flat buffer has it";
            }
        }
        for (int64_t e = 0; e < p->n_elements; e++)
            if (n_owners[e] != 1)
                wrong = "an element has not exactly one owner";
        free(n_owners);
    }
    return wrong;
}

/* One shard unit for each graph unit, or runs of neighbours of one parent; the root stays alone. */
static const char *wrong_units(const plan *p, const sw_layout *layout) {
    int64_t held[MAX_UNITS] = {0}, n_members[MAX_UNITS] = {0};
    int parent_of[MAX_UNITS], last = -1;
    if (layout->unit_of_graph_unit[0] != 0 || !layout->units[0].is_root)
        return "the root is not unit 0";
    for (int u = 0; u < p->n_units; u++) {
        int unit = layout->unit_of_graph_unit[u];
        if (unit != last && unit != last + 1)
            return "units do not keep their order";
        if (unit == last && unit == 0)
            return "a block joined the root";
        if (n_members[unit]++ && p->parent[u] != parent_of[unit])
            return "blocks of different parents joined";
        parent_of[unit] = p->parent[u];
        last = unit;
        for (int i = 0; i < p->n_parameters; i++)
            if (p->parameter[i].unit == u)
                held[unit] +=
                    p->parameter[i].rows * (p->parameter[i].columns ? p->parameter[i].columns : 1);
    }
    if (last + 1 != layout->n_units)
        return "there are units without a graph unit";
    for (int unit = 1; unit < layout->n_units; unit++) {
        if (!p->wrap.min_parameters && n_members[unit] != 1)
            return "blocks joined unasked";
        /* a small one has no neighbour of its parent that it could have joined */
        if (held[unit] < p->wrap.min_parameters &&
            ((unit > 1 && parent_of[unit - 1] == parent_of[unit]) ||
             (unit + 1 < layout->n_units && parent_of[unit + 1] == parent_of[unit])))
            return "a unit is too small, and has a neighbour to join";
    }
    return NULL;
}

static const char *wrong_in(const plan *p) {
    sw_graph *graph = record(p);
    sw_layout layout;
    sw_error err = {0};
    const char *wrong = sw_layout_create(graph, (sw_mesh[]){sw_mesh_flat(p->n_ranks)}, p->wrap,
                                         p->cut, &layout, &err)
                            ? "sw_layout_create failed"
                            : NULL;
    if (!wrong) {
        wrong = wrong_offsets(&layout);
        if (!wrong)
            wrong = wrong_owners(graph, &layout);
        if (!wrong)
            wrong = wrong_units(p, &layout);
        sw_layout_free(&layout);
    }
    sw_graph_free(graph);
    return wrong;
}

static plan without_parameter(plan p, int i) {
    memmove(&p.parameter[i], &p.parameter[i + 1],
            (size_t)(p.n_parameters - i - 1) * sizeof p.parameter[0]);
    p.n_parameters--;
    return p;
}

static plan without_last_unit(plan p) {
    p.n_units--;
    for (int i = p.n_parameters - 1; i >= 0; i--)
        if (p.parameter[i].unit == p.n_units)
            p = without_parameter(p, i);
    return p;
}

static plan shrunk(plan p) {
    for (bool is_smaller = true; is_smaller;) {
        is_smaller = false;
        plan fewer = without_last_unit(p);
        if (fewer.n_units > 0 && wrong_in(&fewer)) {
            p = fewer;
            is_smaller = true;
        }
        for (int i = 0; i < p.n_parameters; i++) {
            fewer = without_parameter(p, i);
            if (wrong_in(&fewer)) {
                p = fewer;
                is_smaller = true;
            }
        }
    }
    return p;
}

static void show(uint64_t seed, const plan *p, const char *wrong) {
    print_error("seed %" PRIu64 ": %s\n%d ranks, min_parameters %" PRId64 ", cut %" PRId64 "\n",
                seed, wrong, p->n_ranks, p->wrap.min_parameters, p->cut);
    for (int u = 0; u < p->n_units; u++) {
        print_error("u%d in u%d:", u, p->parent[u]);
        for (int i = 0; i < p->n_parameters; i++)
            if (p->parameter[i].unit == u)
                print_error(" %" PRId64 "x%" PRId64 "%s", p->parameter[i].rows,
                            p->parameter[i].columns, p->parameter[i].is_frozen ? " frozen" : "");
        print_error("\n");
    }
}

static void every_element_has_one_owner_and_units_join_neighbours_only(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        plan p = random_plan(seed);
        if (!wrong_in(&p))
            continue;
        p = shrunk(p);
        show(seed, &p, wrong_in(&p));
        fail();
    }
}

/* A parameter smaller than the number of ranks leaves ranks without a piece; their shard is there
 * all the same, and as long. */
static void ranks_without_elements_have_a_shard_of_padding(void **state) {
    (void)state;
    plan p = {.n_units = 1,
              .parent = {-1},
              .n_parameters = 1,
              .parameter = {{0, 3, 0, false}},
              .n_ranks = 8,
              .cut = 256};
    sw_graph *graph = record(&p);
    sw_layout layout;
    assert_int_equal(
        sw_layout_create(graph, (sw_mesh[]){sw_mesh_flat(8)}, p.wrap, 256, &layout, NULL), SW_OK);
    assert_int_equal(layout.groups[0].shard, 256);
    for (int rank = 0; rank < 8; rank++) {
        sw_piece piece;
        int at = 0, n = 0;
        for (; sw_layout_next_piece(&layout, 0, rank, &at, &piece); n++)
            assert_int_equal(piece.length, 3);
        assert_int_equal(n, rank == 0);
    }
    sw_layout_free(&layout);
    sw_graph_free(graph);
}

/* 2 x 2^58 elements: byte counts of parameters, gradients and moments would pass 2^63. */
static void a_model_beyond_64_bit_sizes_is_refused(void **state) {
    (void)state;
    plan p = {.n_units = 2, .parent = {-1, 0}, .n_parameters = 2, .n_ranks = 4, .cut = 256};
    for (int i = 0; i < 2; i++) {
        p.parameter[i].unit = i;
        p.parameter[i].rows = p.parameter[i].columns = INT64_C(1) << 29;
    }
    sw_graph *graph = record(&p);
    sw_layout layout;
    sw_error err = {0};
    assert_int_equal(
        sw_layout_create(graph, (sw_mesh[]){sw_mesh_flat(4)}, p.wrap, 256, &layout, &err),
        SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "2^56"));
    sw_graph_free(graph);
}

/* Of a joined unit, the name says from where to where. */
static void joined_units_are_named_by_their_first_and_last_block(void **state) {
    (void)state;
    plan p = {.n_units = 6,
              .parent = {-1, 0, 0, 0, 0, 0},
              .n_parameters = 5,
              .n_ranks = 1,
              .cut = 256,
              .wrap = {20}};
    for (int i = 0; i < 5; i++) {
        p.parameter[i].unit = i + 1;
        p.parameter[i].rows = 10;
    }
    sw_graph *graph = record(&p);
    sw_layout layout;
    assert_int_equal(
        sw_layout_create(graph, (sw_mesh[]){sw_mesh_flat(1)}, p.wrap, 256, &layout, NULL), SW_OK);
    assert_int_equal(layout.n_units, 3);
    assert_string_equal(layout.units[0].name, "u0");
    assert_string_equal(layout.units[1].name, "u1 to u2");
    assert_string_equal(layout.units[2].name, "u3 to u5"); /* what is left over joins the last */
    sw_layout_free(&layout);
    sw_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_one_owner_and_units_join_neighbours_only),
        cmocka_unit_test(ranks_without_elements_have_a_shard_of_padding),
        cmocka_unit_test(a_model_beyond_64_bit_sizes_is_refused),
        cmocka_unit_test(joined_units_are_named_by_their_first_and_last_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
