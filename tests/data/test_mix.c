/* test_mix.c: sources by weights. */
#include "scratch.h"

#include "data/dataset.h"
#include "data/mix.h"

static sw_mix *mix_of(const double *weights, int n) {
    sw_mix *mix;
    sw_error err = {0};
    if (sw_mix_create(weights, n, &mix, &err) != SW_OK)
        fail_msg("%s", err.message);
    return mix;
}

/* Of the first j rows each source has its share, up to as many rows as there are sources; and its
 * rows come in their order. */
static void shares_hold_at_every_row_and_no_row_is_left_out(void **state) {
    (void)state;
    const double weights[][4] = {
        {1, 1, 0, 0}, {3, 1, 0, 0}, {0.7, 0.2, 0.1, 0}, {1, 2, 3, 4}, {1e-9, 1, 1e9, 0}};
    for (int w = 0; w < 5; w++) {
        sw_mix *mix = mix_of(weights[w], 4);
        double sum = weights[w][0] + weights[w][1] + weights[w][2] + weights[w][3];
        int64_t n[4] = {0};
        for (int64_t j = 0; j < 3 * SW_MIX_PERIOD; j++) {
            int source;
            int64_t nth;
            sw_mix_find(mix, j, &source, &nth);
            assert_int_equal(nth, n[source]);
            n[source]++;
            for (int s = 0; s < 4 && w < 4; s++) {
                double expected = weights[w][s] / sum * (double)(j + 1);
                assert_true((double)n[s] > expected - 4 && (double)n[s] < expected + 4);
            }
        }
        for (int s = 0; s < 4; s++)
            assert_int_equal(n[s] > 0, weights[w][s] > 0); /* however small */
        sw_mix_free(mix);
    }
}

static void weights_that_are_none_are_refused(void **state) {
    (void)state;
    const double weights[][2] = {{0, 0}, {-1, 2}, {1.0 / 0.0, 1}, {0.0 / 0.0, 1}};
    for (int w = 0; w < 4; w++) {
        sw_mix *mix;
        sw_error err = {0};
        assert_int_equal(sw_mix_create(weights[w], 2, &mix, &err), SW_BAD_CONFIG);
        assert_null(mix);
        assert_non_null(strstr(err.message, "data.mix"));
    }
}

/* Two sources of 3 and 5 rows, 1 to 3: each goes through its own rows, all of them once in each of
 * its epochs. */
static void each_source_has_epochs_of_its_own(void **state) {
    int64_t ids[11];
    const double mix[] = {1, 3};
    for (int i = 0; i < 11; i++)
        ids[i] = i;
    const char *paths[2] = {write_npy(*state, "a.npy", SW_U8, ids, 7)};
    for (int i = 0; i < 11; i++)
        ids[i] = i + 100;
    paths[1] = write_npy(*state, "b.npy", SW_U8, ids, 11);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        sw_dataset *dataset;
        sw_error err = {0};
        sw_dataset_options options = {.paths = paths,
                                      .n_paths = 2,
                                      .mix = mix,
                                      .sequence_length = 2,
                                      .shuffle = shuffle,
                                      .seed = 5};
        if (sw_dataset_open(&options, &dataset, &err) != SW_OK)
            fail_msg("%s", err.message);
        assert_int_equal(sw_dataset_describe(dataset).n_rows, 8);
        int n[2] = {0}, seen[2][5] = {{0}};
        for (int64_t j = 0; j < 60; j++) {
            int32_t tokens[2], targets[2];
            assert_int_equal(sw_dataset_row(dataset, j, tokens, targets, NULL, NULL), SW_OK);
            int source = tokens[0] >= 100, row = (tokens[0] - 100 * source) / 2,
                n_rows = source ? 5 : 3;
            assert_int_equal(targets[1], tokens[0] + 2);
            if (!shuffle)
                assert_int_equal(row, n[source] % n_rows);
            seen[source][row]++;
            n[source]++;
            for (int r = 0; r < n_rows;
                 r++) /* within an epoch of the source none is ahead by more than one */
                assert_true(seen[source][r] - n[source] / n_rows <= 1 &&
                            seen[source][r] >= n[source] / n_rows);
        }
        assert_int_equal(n[0], 15);
        assert_int_equal(n[1], 45);
        sw_dataset_close(dataset);
    }
}

/* A document that spans two files that are mixed ends with the first. */
static void documents_do_not_span_sources(void **state) {
    int64_t ids[8] = {0, 1, 2, 3, 4, 5, 6, 7}, lengths[] = {2, 12, 2};
    const double mix[] = {1, 1};
    const char *paths[] = {write_npy(*state, "a.npy", SW_U8, ids, 8),
                           write_npy(*state, "b.npy", SW_U8, ids, 8)};
    sw_dataset *dataset;
    sw_error err = {0};
    sw_dataset_options options = {.paths = paths,
                                  .n_paths = 2,
                                  .mix = mix,
                                  .packing = true,
                                  .documents = write_npy(*state, "d.npy", SW_I32, lengths, 3),
                                  .sequence_length = 7};
    if (sw_dataset_open(&options, &dataset, &err) != SW_OK)
        fail_msg("%s", err.message);
    assert_int_equal(sw_dataset_describe(dataset).n_documents, 4);
    int32_t tokens[7], targets[7], start[7];
    assert_int_equal(sw_dataset_row(dataset, 1, tokens, targets, start, NULL), SW_OK);
    assert_memory_equal(start, ((int32_t[]){0, 0, 0, 0, 0, 0, 6}), sizeof start);
    assert_memory_equal(targets, ((int32_t[]){1, 2, 3, 4, 5, -1, 7}), sizeof targets);
    sw_dataset_close(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_hold_at_every_row_and_no_row_is_left_out),
        cmocka_unit_test(weights_that_are_none_are_refused),
        cmocka_unit_test_setup_teardown(each_source_has_epochs_of_its_own, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(documents_do_not_span_sources, make_scratch,
                                        remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
