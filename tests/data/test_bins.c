/* test_bins.c: best fit, decreasing, beside the plain way to do it: for each thing all bins are
 * looked at. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/philox.h"
#include "data/bins.h"

enum { MOST = 400 };

static uint32_t draw(uint64_t seed, uint32_t i, uint32_t below) {
    uint32_t counter[4] = {i}, word[4];
    sw_philox(counter, seed, word);
    return word[0] % below;
}

/* The numbers of things, largest first, of equals the first. */
static void sort_plainly(const uint32_t *size, int n, int *order) {
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && size[order[at - 1]] < size[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Rooms of the bins that the plain way gives, each thing into the fullest with room. */
static int fit_plainly(const uint32_t *size, int n, uint32_t capacity, uint32_t *room) {
    int order[MOST], n_bins = 0;
    sort_plainly(size, n, order);
    for (int i = 0; i < n; i++) {
        uint32_t s = size[order[i]];
        int best = -1;
        for (int b = 0; b < n_bins && s; b++)
            if (room[b] >= s && (best < 0 || room[b] < room[best]))
                best = b;
        if (!s)
            continue;
        if (best < 0)
            room[best = n_bins++] = capacity;
        room[best] -= s;
    }
    return n_bins;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The same number of bins with the same rooms, and nothing in two bins or in none. */
static void bins_are_as_full_as_those_of_the_plain_way(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        uint32_t size[MOST], bin[MOST], plain[MOST], room[MOST], n_bins;
        int n = (int)draw(seed, 0, MOST);
        uint32_t capacity = 1 + draw(seed, 1, seed % 3 ? 300 : 70000),
                 largest = 1 + draw(seed, 2, capacity);
        for (int i = 0; i < n; i++)
            bin[i] = size[i] = draw(seed, 10 + (uint32_t)i, largest + 1);
        assert_int_equal(sw_bins_fit(bin, n, capacity, &n_bins, NULL), SW_OK);
        for (uint32_t b = 0; b < n_bins; b++)
            room[b] = capacity;
        for (int i = 0; i < n; i++) {
            if (!size[i]) {
                assert_true(bin[i] == SW_NO_BIN);
                continue;
            }
            assert_true(bin[i] < n_bins && room[bin[i]] >= size[i]);
            room[bin[i]] -= size[i];
        }
        if ((int)n_bins != fit_plainly(size, n, capacity, plain))
            fail_msg("seed %d: %u bins", (int)seed, n_bins);
        qsort(room, n_bins, sizeof *room, by_number);
        qsort(plain, n_bins, sizeof *plain, by_number);
        assert_memory_equal(room, plain, n_bins * sizeof *room);
    }
}

static void equal_things_stay_in_their_order(void **state) {
    (void)state;
    uint32_t bin[] = {2, 2, 2, 2, 5, 3}, n_bins;
    assert_int_equal(sw_bins_fit(bin, 6, 5, &n_bins, NULL), SW_OK);
    assert_int_equal(n_bins, 4);
    /* 5 alone; 3 with the first 2; the other 2s two by two */
    const uint32_t expected[] = {1, 2, 2, 3, 0, 1};
    assert_memory_equal(bin, expected, sizeof expected);
}

static void nothing_has_no_bin(void **state) {
    (void)state;
    uint32_t bin[] = {0, 0, 0}, n_bins;
    assert_int_equal(sw_bins_fit(bin, 3, 8, &n_bins, NULL), SW_OK);
    assert_int_equal(n_bins, 0);
    assert_true(bin[0] == SW_NO_BIN && bin[2] == SW_NO_BIN);
    assert_int_equal(sw_bins_fit(NULL, 0, 8, &n_bins, NULL), SW_OK);
    assert_int_equal(n_bins, 0);
}

/* A capacity that no memory could have a word for each unit of. */
static void more_capacity_than_all_need_costs_nothing(void **state) {
    (void)state;
    uint32_t bin[] = {3, 1, 4, 1, 5}, n_bins;
    assert_int_equal(sw_bins_fit(bin, 5, UINT32_MAX - 1, &n_bins, NULL), SW_OK);
    assert_int_equal(n_bins, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(bin[i], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_are_as_full_as_those_of_the_plain_way),
        cmocka_unit_test(equal_things_stay_in_their_order),
        cmocka_unit_test(nothing_has_no_bin),
        cmocka_unit_test(more_capacity_than_all_need_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
