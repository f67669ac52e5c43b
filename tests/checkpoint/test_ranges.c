/* test_ranges.c: how many ranges a rank's part has, counted at once and walked one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "checkpoint/ranges.h"
#include "checkpoint/state_files.h"

static uint64_t random_state;

static int64_t below(int64_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}

enum { N_UNITS = 4, N_PARAMETERS = 6 };

/* Parameters of a few elements up to a few ranges, some frozen. */
static sw_graph *make_graph(int64_t most_elements) {
    sw_graph *graph;
    assert_int_equal(sw_graph_create(1, 1, &graph, NULL), SW_OK);
    sw_unit *root = sw_unit_declare(graph, NULL, "root");
    for (int u = 0; u < N_UNITS; u++) {
        char name[32];
        snprintf(name, sizeof name, "unit %d", u);
        sw_unit *unit = sw_unit_declare(graph, root, name);
        for (int p = 0; p < N_PARAMETERS; p++) {
            snprintf(name, sizeof name, "p%d.%d", u, p);
            int64_t n = 1 + (below(2) ? below(100) : below(most_elements));
            sw_parameter *made = sw_parameter_declare(graph, unit, name, 1, &n, SW_INIT_ZEROS, 0);
            if (below(5) == 0)
                sw_parameter_freeze(made);
        }
    }
    assert_int_equal(sw_graph_status(graph, NULL), SW_OK);
    return graph;
}

static void plan(const sw_graph *graph, sw_state_files *files) {
    sw_state_parameter parameters[N_UNITS * N_PARAMETERS];
    sw_state_parameters_of(graph, false, parameters);
    assert_int_equal(
        sw_state_files_plan(parameters, graph->parameters.n, 1u << SW_STATE_MASTER, files, NULL),
        SW_OK);
}

static int64_t walk(const sw_layout *layout, const int64_t *offset, int group, int rank) {
    sw_range_walk w;
    sw_range_part part;
    int64_t n = 0;
    sw_range_walk_begin(layout, offset, group, rank, &w);
    while (sw_range_walk_next(&w, &part))
        n += part.ends_range;
    return n;
}

static void counting_and_walking_agree(void **state) {
    (void)state;
    for (int seed = 1; seed <= 60; seed++) {
        random_state = (uint64_t)seed;
        sw_graph *graph = make_graph(seed % 3 ? 3 * SW_RANGE_BYTES / 4 : 1000);
        sw_mesh mesh = sw_mesh_flat(1 + (int)below(7));
        sw_layout layout;
        sw_state_files files;
        plan(graph, &files);
        assert_int_equal(
            sw_layout_create(graph, &mesh, (sw_wrap){below(2) * 10000}, SW_BLOCK, &layout, NULL),
            SW_OK);
        for (int g = 0; g < layout.n_groups; g++)
            for (int rank = 0; rank < mesh.n_ranks; rank++) {
                const int64_t *offset = files.file[SW_STATE_MASTER].offset;
                int64_t counted = sw_range_count(&layout, offset, g, rank),
                        walked = walk(&layout, offset, g, rank);
                if (counted != walked)
                    fail_msg("seed %d, group %d, rank %d: %lld counted, %lld walked", seed, g, rank,
                             (long long)counted, (long long)walked);
            }
        sw_layout_free(&layout);
        sw_state_files_free(&files);
        sw_graph_free(graph);
    }
}

/* 2^50 elements are 2^52 bytes: 2^32 ranges of 2^20 bytes, or one more where the header ends inside
 * one. */
static void a_huge_parameter_is_counted_at_once(void **state) {
    (void)state;
    sw_graph *graph;
    int64_t n = INT64_C(1) << 50;
    sw_mesh mesh = sw_mesh_flat(1);
    sw_layout layout;
    sw_state_files files;
    assert_int_equal(sw_graph_create(1, 1, &graph, NULL), SW_OK);
    assert_non_null(sw_parameter_declare(graph, sw_unit_declare(graph, NULL, "root"), "p", 1, &n,
                                         SW_INIT_ZEROS, 0));
    plan(graph, &files);
    assert_int_equal(sw_layout_create(graph, &mesh, (sw_wrap){0}, SW_BLOCK, &layout, NULL), SW_OK);
    int64_t counted = sw_range_count(&layout, files.file[SW_STATE_MASTER].offset, 0, 0),
            least = 4 * n / SW_RANGE_BYTES;
    assert_true(counted == least || counted == least + 1);
    sw_layout_free(&layout);
    sw_state_files_free(&files);
    sw_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting_and_walking_agree),
        cmocka_unit_test(a_huge_parameter_is_counted_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
