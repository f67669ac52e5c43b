/* The few things that are done with counts: against what their definitions say, tried one by
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/integer.h"

static void the_largest_divisor_is_what_a_walk_finds(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 400; n++)
        for (int64_t most = 1; most <= 420; most++) {
            int64_t found = most < n ? most : n;
            while (n % found)
                found--;
            if (largest_divisor(n, most) != found)
                fail_msg("of %d up to %d: %d, not %d", (int)n, (int)most,
                         (int)largest_divisor(n, most), (int)found);
        }
}

static void large_numbers_take_no_walk(void **state) {
    (void)state;
    const int64_t prime = INT64_C(2147483647); /* 2^31 - 1 */
    assert_int_equal(largest_divisor(INT64_C(1) << 62, (INT64_C(1) << 61) + 1), INT64_C(1) << 61);
    assert_int_equal(largest_divisor(prime, prime - 1), 1);
    assert_int_equal(largest_divisor(prime * 4, 5), 4);
    assert_int_equal(largest_divisor(prime * 4, prime * 3), prime * 2);
    assert_int_equal(largest_divisor(INT64_MAX, INT64_MAX), INT64_MAX);
}

static void a_batch_has_fewer_divisors_than_are_provided_for(void **state) {
    (void)state;
    int64_t n = 0;
    for (int64_t m = 14414400; m > 1; n++) /* has the most up to 2^24 */
        m = largest_divisor(14414400, m - 1);
    assert_int_equal(n + 1, 504);
}

static void multiples_and_halvings(void **state) {
    (void)state;
    assert_int_equal(round_up(0, 8), 0);
    assert_int_equal(round_up(1, 8), 8);
    assert_int_equal(round_up(8, 8), 8);
    assert_int_equal(halvings(1), 0);
    assert_int_equal(halvings(2), 1);
    assert_int_equal(halvings(1023), 9);
    assert_int_equal(halvings(1024), 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_divisor_is_what_a_walk_finds),
        cmocka_unit_test(large_numbers_take_no_walk),
        cmocka_unit_test(a_batch_has_fewer_divisors_than_are_provided_for),
        cmocka_unit_test(multiples_and_halvings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
