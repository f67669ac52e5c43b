/* test_schedule.c: learning rates against the golden run's and against arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "optim/schedule.h"

static void assert_near(double is, double expected) {
    if (!(fabs(is - expected) <= 1e-14 * fabs(expected)))
        fail_msg("%.17g is not %.17g", is, expected);
}

/* The golden case llama-schedule: what PyTorch used in each of its 20 steps (expect.json). */
static void cosine_with_warmup_is_that_of_the_golden_run(void **state) {
    (void)state;
    const double expected[] = {0.0006000000000000001,
                               0.0012000000000000001,
                               0.0018000000000000002,
                               0.0024000000000000002,
                               0.003,
                               0.003,
                               0.0029704992609906377,
                               0.002883286367817511,
                               0.002742172942406179,
                               0.0025533263185844586,
                               0.0023250000000000002,
                               0.002067172942406179,
                               0.0017911134254113322,
                               0.0015088865745886682,
                               0.0012328270575938213,
                               0.0009750000000000004,
                               0.0007466736814155418,
                               0.0005578270575938212,
                               0.00041671363218248874,
                               0.00032950073900936237};
    const sw_schedule schedule = {SW_SCHEDULE_COSINE, 0.003, 5, 20, 0.1, 0};
    for (int64_t step = 0; step < 20; step++)
        assert_near(sw_learning_rate(&schedule, step), expected[step]);
}

static void warmup_rises_evenly_to_the_peak_in_every_kind(void **state) {
    (void)state;
    for (int kind = SW_SCHEDULE_COSINE; kind <= SW_SCHEDULE_WSD; kind++) {
        const sw_schedule schedule = {kind, 8.0, 4, 100, 0.1, 0.2};
        const double expected[] = {2, 4, 6, 8, 8};
        for (int64_t step = 0; step < 5; step++)
            assert_near(sw_learning_rate(&schedule, step), expected[step]);
    }
}

static void constant_stays_at_the_peak(void **state) {
    (void)state;
    const sw_schedule schedule = {.kind = SW_SCHEDULE_CONSTANT, .peak = 3e-4, .n_steps = 10};
    for (int64_t step = 0; step < 20; step++)
        assert_near(sw_learning_rate(&schedule, step), 3e-4);
}

static void cosine_is_halfway_in_the_middle(void **state) {
    (void)state;
    const sw_schedule schedule = {SW_SCHEDULE_COSINE, 1.0, 10, 110, 0.2, 0};
    assert_near(sw_learning_rate(&schedule, 10), 1.0);
    assert_near(sw_learning_rate(&schedule, 60), 0.6);
    assert_near(sw_learning_rate(&schedule, 110), 0.2);
    assert_near(sw_learning_rate(&schedule, 500), 0.2); /* beyond the end it stays */
}

static void linear_falls_evenly(void **state) {
    (void)state;
    const sw_schedule schedule = {SW_SCHEDULE_LINEAR, 10.0, 0, 4, 0.2, 0};
    const double expected[] = {10, 8, 6, 4, 2, 2};
    for (int64_t step = 0; step < 6; step++)
        assert_near(sw_learning_rate(&schedule, step), expected[step]);
}

static void wsd_decays_in_the_last_share_of_the_steps(void **state) {
    (void)state;
    const sw_schedule schedule = {SW_SCHEDULE_WSD, 1.0, 2, 20, 0.0, 0.25};
    for (int64_t step = 2; step <= 15; step++)
        assert_near(sw_learning_rate(&schedule, step), 1.0);
    const double expected[] = {0.8, 0.6, 0.4, 0.2, 0.0};
    for (int64_t i = 0; i < 5; i++)
        assert_true(fabs(sw_learning_rate(&schedule, 16 + i) - expected[i]) < 1e-15);
    /* A decay longer than what the warm-up leaves begins at the warm-up's end; none at all is
     * constant. */
    const sw_schedule all = {SW_SCHEDULE_WSD, 1.0, 10, 20, 0.5, 1.0},
                      none = {SW_SCHEDULE_WSD, 1.0, 0, 20, 0.5, 0.0};
    assert_near(sw_learning_rate(&all, 10), 1.0);
    assert_near(sw_learning_rate(&all, 15), 0.75);
    assert_near(sw_learning_rate(&none, 19), 1.0);
}

/* A run that is all warm-up, or one step long, divides by nothing that is zero. */
static void degenerate_runs_have_finite_rates(void **state) {
    (void)state;
    for (int kind = SW_SCHEDULE_COSINE; kind <= SW_SCHEDULE_WSD; kind++)
        for (int64_t warmup = 0; warmup < 4; warmup++)
            for (int64_t n_steps = 1; n_steps < 4; n_steps++)
                for (int64_t step = 0; step <= n_steps; step++) {
                    const sw_schedule schedule = {kind, 1.0, warmup, n_steps, 0.1, 0.5};
                    double rate = sw_learning_rate(&schedule, step);
                    assert_true(rate > 0.0999 && rate <= 1.0);
                }
}

static void bias_correction_is_one_minus_the_power(void **state) {
    (void)state;
    assert_near(sw_bias_correction(0.9, 1), 1.0 - 0.9);
    assert_near(sw_bias_correction(0.5, 3), 0.875);
    assert_near(sw_bias_correction(0.95, 10),
                0.40126306076162109); /* 1 - 0.95^10 by exact fractions */
    assert_near(sw_bias_correction(0.999, 1000000), 1.0);
    assert_near(sw_bias_correction(0.0, 1), 1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosine_with_warmup_is_that_of_the_golden_run),
        cmocka_unit_test(warmup_rises_evenly_to_the_peak_in_every_kind),
        cmocka_unit_test(constant_stays_at_the_peak),
        cmocka_unit_test(cosine_is_halfway_in_the_middle),
        cmocka_unit_test(linear_falls_evenly),
        cmocka_unit_test(wsd_decays_in_the_last_share_of_the_steps),
        cmocka_unit_test(degenerate_runs_have_finite_rates),
        cmocka_unit_test(bias_correction_is_one_minus_the_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
