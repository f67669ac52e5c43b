/* The elementary functions of the float kernels against the C library in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#define SW_KIND f32
#define SW_KIND_f32
#define SW_SET baseline
#define SW_VECTOR_BYTES 16
#include "device/cpu/plain/math.h"

static void exp_is_within_its_error(void **state) {
    (void)state;
    for (double x = -87; x <= 88; x += 0.00037) {
        const double expected = exp((double)(float)x), got = (double)real_exp((float)x);
        assert_true(fabs(got - expected) <= 1.5e-7 * expected);
    }
    assert_true(real_exp(0) == 1);
    assert_true(isnan(real_exp(NAN)) && isnan(real_exp(sw_bits_float(0xffffffffu))));
}

/* Never a subnormal number, and a true zero far down. */
static void exp_to_zero_is_normal_or_zero(void **state) {
    (void)state;
    for (float x = -200; x <= 0; x += 0.013f) {
        const float y = real_exp_to_zero(x);
        assert_true(x < -64 ? y == 0 : y >= 0x1p-126f);
    }
    assert_true(real_exp_to_zero(-INFINITY) == 0 && real_exp_to_zero(-3e38f) == 0);
    assert_true(isnan(real_exp_to_zero(NAN)));
}

static void log_is_within_its_error(void **state) {
    (void)state;
    for (double x = 0x1p-126; x < 3e38; x *= 1.0001) {
        const double expected = log((double)(float)x), got = (double)real_log((float)x);
        assert_true(fabs(got - expected) <= 1.5e-7 * fmax(fabs(expected), 0.5));
    }
    assert_true(real_log(1) == 0);
    assert_true(isnan(real_log(NAN)) && isnan(real_log(INFINITY)));
}

static void turns_are_within_their_error(void **state) {
    (void)state;
    for (double turns = -0.5; turns <= 0.5; turns += 0.0000137) {
        float cosine, sine;
        real_turn((float)turns, &cosine, &sine);
        const double angle = 2 * M_PI * (double)(float)turns;
        assert_true(fabs((double)cosine - cos(angle)) <= 1.5e-7 && fabs((double)sine - sin(angle)) <= 1.5e-7);
    }
}

static void sigmoid_and_its_rest_add_up(void **state) {
    (void)state;
    for (double x = -100; x <= 100; x += 0.003) {
        float rest;
        const double held = fmin(fmax((double)(float)x, -80), 80), got = (double)real_sigmoid((float)x, &rest);
        assert_true(fabs(got - 1 / (1 + exp(-held))) <= 4e-7 / (1 + exp(-held)));
        assert_true(fabs((double)rest - 1 / (1 + exp(held))) <= 4e-7 / (1 + exp(held)));
        assert_true(got >= 0x1p-126 && rest >= 0x1p-126f);
    }
    float rest;
    assert_true(isnan(real_sigmoid(NAN, &rest)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_its_error),     cmocka_unit_test(exp_to_zero_is_normal_or_zero),
        cmocka_unit_test(log_is_within_its_error),     cmocka_unit_test(turns_are_within_their_error),
        cmocka_unit_test(sigmoid_and_its_rest_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
