/* The mesh: coordinates, places of a set of axes, and how micro-batches are dealt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "comm/mesh.h"

/* 3 replicas of shard groups of 4. */
static sw_mesh three_by_four(void) {
    sw_mesh mesh = sw_mesh_flat(12); /* every other axis has one coordinate */
    mesh.size[SW_AXIS_REPLICATE] = 3, mesh.stride[SW_AXIS_REPLICATE] = 4;
    mesh.size[SW_AXIS_SHARD] = 4, mesh.stride[SW_AXIS_SHARD] = 1;
    return mesh;
}

static void a_rank_has_one_coordinate_on_each_axis(void **state) {
    (void)state;
    sw_mesh mesh = three_by_four();
    for (int rank = 0; rank < mesh.n_ranks; rank++) {
        int replica = sw_mesh_coordinate(&mesh, SW_AXIS_REPLICATE, rank),
            shard = sw_mesh_coordinate(&mesh, SW_AXIS_SHARD, rank);
        assert_int_equal(replica, rank / 4);
        assert_int_equal(shard, rank % 4);
        assert_int_equal(sw_mesh_place(&mesh, SW_AXES(SW_AXIS_SHARD), rank), shard);
        assert_int_equal(sw_mesh_place(&mesh, SW_AXES(SW_AXIS_REPLICATE), rank), replica);
        assert_int_equal(sw_mesh_place(&mesh, SW_DATA_AXES, rank), rank);
        assert_int_equal(sw_mesh_place(&mesh, 0, rank), 0);
        assert_true(sw_mesh_counts(&mesh, SW_DATA_AXES, rank));
        assert_int_equal(sw_mesh_counts(&mesh, SW_AXES(SW_AXIS_SHARD), rank), replica == 0);
        assert_int_equal(sw_mesh_counts(&mesh, 0, rank), rank == 0);
    }
    assert_int_equal(sw_mesh_size(&mesh, 0), 1);
    assert_int_equal(sw_mesh_size(&mesh, SW_AXES(SW_AXIS_SHARD)), 4);
    assert_int_equal(sw_mesh_size(&mesh, SW_DATA_AXES), 12);
}

static void a_flat_group_is_the_shard_axis_alone(void **state) {
    (void)state;
    for (int n = 1; n <= 7; n++) {
        sw_mesh mesh = sw_mesh_flat(n);
        assert_int_equal(sw_mesh_size(&mesh, SW_AXES(SW_AXIS_SHARD)), n);
        assert_int_equal(sw_mesh_size(&mesh, SW_AXES(SW_AXIS_REPLICATE)), 1);
        for (int rank = 0; rank < n; rank++)
            assert_int_equal(sw_mesh_coordinate(&mesh, SW_AXIS_SHARD, rank), rank);
    }
    assert_string_equal(sw_axis_name(SW_AXIS_REPLICATE), "replicate");
    assert_string_equal(sw_axis_name(SW_AXIS_SHARD), "shard");
}

/* The ranks of a line differ in one coordinate, and those of them that have a micro-batch are its
 * first. */
static void a_line_is_the_ranks_along_an_axis(void **state) {
    (void)state;
    sw_mesh mesh = three_by_four();
    for (int rank = 0; rank < mesh.n_ranks; rank++)
        for (int axis = 0; axis < SW_N_AXES; axis++) {
            sw_line line = sw_mesh_line(&mesh, (sw_axis)axis, rank);
            assert_int_equal(line.n, mesh.size[axis]);
            for (int i = 0; i < line.n; i++) {
                int other = line.first + i * line.step;
                assert_int_equal(sw_mesh_coordinate(&mesh, (sw_axis)axis, other), i);
                for (int a = 0; a < SW_N_AXES; a++)
                    assert_true(a == axis || sw_mesh_coordinate(&mesh, (sw_axis)a, other) ==
                                                 sw_mesh_coordinate(&mesh, (sw_axis)a, rank));
            }
            for (int n_places = 0; n_places <= mesh.n_ranks; n_places++) {
                int n = sw_mesh_line_contributors(&mesh, (sw_axis)axis, rank, n_places);
                for (int i = 0; i < line.n; i++)
                    assert_int_equal(i < n, line.first + i * line.step < n_places);
            }
        }
}

/* Ranks at one place of the axes along which programs differ are of one class, whatever their other
 * coordinates. */
static void a_class_is_a_place_of_the_axes_along_which_programs_differ(void **state) {
    (void)state;
    sw_mesh mesh = three_by_four();
    const sw_axes both = SW_AXES(SW_AXIS_REPLICATE) | SW_AXES(SW_AXIS_SHARD);
    for (int rank = 0; rank < mesh.n_ranks; rank++) {
        char name[64];
        sw_rank_class class = sw_mesh_class(&mesh, SW_AXES(SW_AXIS_REPLICATE), rank);
        snprintf(name, sizeof name, "replicate %d", rank / 4);
        assert_int_equal(class.number, rank / 4);
        assert_string_equal(class.name, name);
        class = sw_mesh_class(&mesh, both, rank);
        snprintf(name, sizeof name, "replicate %d, shard %d", rank / 4, rank % 4);
        assert_int_equal(class.number, rank);
        assert_string_equal(class.name, name);
        class = sw_mesh_class(&mesh, SW_PROGRAM_AXES, rank); /* all run one program today */
        assert_int_equal(class.number, 0);
        assert_string_equal(class.name, "");
    }
    mesh = sw_mesh_flat(3); /* an axis of size 1 makes no class */
    assert_string_equal(sw_mesh_class(&mesh, SW_AXES(SW_AXIS_REPLICATE), 2).name, "");
}

/* The table that runs print. */
static void lines_say_which_ranks_and_where(void **state) {
    (void)state;
    char line[SW_MESH_LINE_BYTES];
    sw_mesh mesh = three_by_four(), flat = sw_mesh_flat(6);
    sw_mesh_describe(&flat, SW_AXIS_SHARD, 6, line);
    assert_string_equal(line, "shard      6   ranks 0-5                     inside one host");
    sw_mesh_describe(&flat, SW_AXIS_SHARD, 2, line);
    assert_string_equal(line, "shard      6   ranks 0-5                     across hosts");
    sw_mesh_describe(&mesh, SW_AXIS_SHARD, 4, line);
    assert_string_equal(line, "shard      4   ranks 0-3, 4-7, 8-11          inside each host");
    sw_mesh_describe(&mesh, SW_AXIS_REPLICATE, 4, line);
    assert_string_equal(line, "replicate  3   ranks 0+4+8, 1+5+9, 2+6+10, .. across hosts");
    sw_mesh_describe(&mesh, SW_AXIS_SHARD, 6, line);
    assert_string_equal(line, "shard      4   ranks 0-3, 4-7, 8-11          across hosts");
    mesh.size[SW_AXIS_REPLICATE] = 64, mesh.n_ranks = 256;
    sw_mesh_describe(&mesh, SW_AXIS_REPLICATE, 256, line);
    assert_string_equal(
        line, "replicate  64  ranks 0+4+..+252, 1+5+..+253, 2+6+..+254, .. inside one host");
}

/* Every micro-batch is computed once, at place k mod n in slot k div n, and those of a slot stand
 * at its first places. */
static void every_micro_batch_is_dealt_once(void **state) {
    (void)state;
    for (int n = 1; n <= 7; n++)
        for (int64_t n_micro_batches = 1; n_micro_batches <= 20; n_micro_batches++) {
            sw_mesh mesh = sw_mesh_flat(n);
            sw_deal deal = sw_mesh_deal(&mesh, n_micro_batches);
            int64_t n_dealt = 0;
            for (int slot = 0; slot < sw_deal_slots(deal); slot++) {
                int n_contributors = sw_deal_contributors(deal, slot);
                assert_in_range(n_contributors, 1, n);
                for (int place = 0; place < n; place++) {
                    int64_t k = sw_deal_micro_batch(deal, place, slot);
                    assert_true(k % n == place && k / n == slot);
                    assert_true((k < n_micro_batches) == (place < n_contributors));
                    n_dealt += k < n_micro_batches;
                }
            }
            assert_true(n_dealt == n_micro_batches);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_has_one_coordinate_on_each_axis),
        cmocka_unit_test(a_flat_group_is_the_shard_axis_alone),
        cmocka_unit_test(a_line_is_the_ranks_along_an_axis),
        cmocka_unit_test(a_class_is_a_place_of_the_axes_along_which_programs_differ),
        cmocka_unit_test(lines_say_which_ranks_and_where),
        cmocka_unit_test(every_micro_batch_is_dealt_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
