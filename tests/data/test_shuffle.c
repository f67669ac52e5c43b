/* test_shuffle.c: the computed permutation is one, and looks like chance. */
#include "scratch.h"

#include "base/philox.h"
#include "data/shuffle.h"

static void assert_bijection(uint64_t seed, int64_t epoch, int64_t n) {
    uint8_t *seen = calloc(1, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t to = sw_shuffle(seed, epoch, n, i);
        assert_in_range(to, 0, n - 1);
        if (seen[to])
            fail_msg("seed %llu, epoch %lld: two indices below %lld go to %lld",
                     (unsigned long long)seed, (long long)epoch, (long long)n, (long long)to);
        seen[to] = 1;
    }
    free(seen);
}

static void every_small_size_is_permuted(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 200; n++)
        for (int64_t epoch = 0; epoch < 3; epoch++)
            assert_bijection(1234, epoch, n);
}

/* Sizes around powers of four, where the domain changes, and arbitrary ones. */
static void larger_sizes_are_permuted(void **state) {
    (void)state;
    for (int64_t power = 256; power <= 65536; power *= 4)
        for (int64_t n = power - 1; n <= power + 1; n++)
            assert_bijection(7, 0, n);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t counter[4] = {i}, word[4];
        sw_philox(counter, 99, word);
        assert_bijection(word[0], word[1] % 1000, 1 + word[2] % 60000);
    }
}

/* Beyond what can be enumerated: results stay in range and are distinct. */
static void indices_beyond_32_bits_are_permuted(void **state) {
    (void)state;
    const int64_t n = INT64_MAX;
    int64_t before = -1;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t to = sw_shuffle(1, 0, n, n - 1 - i);
        assert_true(to >= 0 && to < n && to != before);
        before = to;
    }
}

static int same_places(uint64_t seed_a, int64_t epoch_a, uint64_t seed_b, int64_t epoch_b) {
    int n_same = 0;
    for (int64_t i = 0; i < 1000; i++)
        n_same += sw_shuffle(seed_a, epoch_a, 1000, i) == sw_shuffle(seed_b, epoch_b, 1000, i);
    return n_same;
}

/* Two unrelated permutations agree in one place on average; 20 would happen once in 10^18. */
static void epochs_and_seeds_have_orders_of_their_own(void **state) {
    (void)state;
    assert_in_range(same_places(1, 0, 1, 1), 0, 20);
    assert_in_range(same_places(1, 0, 2, 0), 0, 20);
    assert_in_range(same_places(1, 0, 1, INT64_C(1) << 32), 0, 20);
}

/* All six orders of three rows come about equally often: 1000 expected of 6000, deviation 29. */
static void all_orders_of_three_are_equally_likely(void **state) {
    (void)state;
    int count[27] = {0};
    for (int64_t epoch = 0; epoch < 6000; epoch++)
        count[9 * sw_shuffle(5, epoch, 3, 0) + 3 * sw_shuffle(5, epoch, 3, 1) +
              sw_shuffle(5, epoch, 3, 2)]++;
    const int orders[] = {9 * 0 + 3 * 1 + 2, 9 * 0 + 3 * 2 + 1, 9 * 1 + 3 * 0 + 2,
                          9 * 1 + 3 * 2 + 0, 9 * 2 + 3 * 0 + 1, 9 * 2 + 3 * 1 + 0};
    for (int i = 0; i < 6; i++)
        assert_in_range(count[orders[i]], 1000 - 6 * 29, 1000 + 6 * 29);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_size_is_permuted),
        cmocka_unit_test(larger_sizes_are_permuted),
        cmocka_unit_test(indices_beyond_32_bits_are_permuted),
        cmocka_unit_test(epochs_and_seeds_have_orders_of_their_own),
        cmocka_unit_test(all_orders_of_three_are_equally_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
