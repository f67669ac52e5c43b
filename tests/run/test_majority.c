/* Whose number is another than that of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train/majority.h"

static void
the_odd_ones_are_named_where_there_is_a_majority_and_all_where_there_is_none(void **state) {
    static const struct {
        uint64_t values[5];
        int n;
        bool is_odd[5];
    } cases[] = {
        {{7}, 1, {false}},
        {{7, 7}, 2, {false, false}},
        {{7, 8}, 2, {true, true}},
        {{7, 8, 8}, 3, {true, false, false}},
        {{8, 7, 8}, 3, {false, true, false}},
        {{1, 2, 3}, 3, {true, true, true}},
        {{1, 1, 2, 2}, 4, {true, true, true, true}},
        {{1, 2, 1, 1}, 4, {false, true, false, false}},
        {{5, 6, 5, 7, 5}, 5, {false, true, false, true, false}},
        {{5, 6, 5, 7, 8}, 5, {true, true, true, true, true}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_odd[5];
        int n_odd = 0;
        for (int k = 0; k < cases[i].n; k++)
            n_odd += cases[i].is_odd[k];
        assert_int_equal(sw_majority(cases[i].values, cases[i].n, is_odd), n_odd);
        for (int k = 0; k < cases[i].n; k++)
            assert_int_equal(is_odd[k], cases[i].is_odd[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(
        the_odd_ones_are_named_where_there_is_a_majority_and_all_where_there_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
