/* The elementary functions of the float kernels against the C library in double: over evenly spaced
 * arguments, and over every 4093rd of all floats (a prime, so that all exponents and low bits
 * come). */
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
        assert_true(fabs((double)cosine - cos(angle)) <= 1.5e-7 &&
                    fabs((double)sine - sin(angle)) <= 1.5e-7);
    }
}

static void sigmoid_and_its_rest_add_up(void **state) {
    (void)state;
    for (double x = -100; x <= 100; x += 0.003) {
        float rest;
        const double held = fmin(fmax((double)(float)x, -80), 80),
                     got = (double)real_sigmoid((float)x, &rest);
        assert_true(fabs(got - 1 / (1 + exp(-held))) <= 4e-7 / (1 + exp(-held)));
        assert_true(fabs((double)rest - 1 / (1 + exp(held))) <= 4e-7 / (1 + exp(held)));
        assert_true(got >= 0x1p-126 && rest >= 0x1p-126f);
    }
    float rest;
    assert_true(isnan(real_sigmoid(NAN, &rest)));
}

/* ---- every 4093rd float ---- */

enum { STEP = 4093 };

/* The next float of the sweep that lies in least .. most; false behind the last. */
static bool next_float(uint64_t *bits, double least, double most, float *x) {
    for (; *bits <= UINT32_MAX; *bits += STEP) {
        *x = sw_bits_float((uint32_t)*bits);
        if ((double)*x >= least && (double)*x <= most) {
            *bits += STEP;
            return true;
        }
    }
    return false;
}

static void holds_at(const char *function, float x, double got, double expected, double bound) {
    if (!(fabs(got - expected) <= bound))
        fail_msg("%s(%a): %a, not %a: off by %g", function, (double)x, got, expected,
                 got - expected);
}

static void exp_holds_over_the_floats(void **state) {
    (void)state;
    float x;
    for (uint64_t bits = 0; next_float(&bits, -87, 88, &x);)
        holds_at("exp", x, (double)real_exp(x), exp((double)x), 1.5e-7 * exp((double)x));
    for (uint64_t bits = 0; next_float(&bits, -INFINITY, 88, &x);)
        holds_at("exp_to_zero", x, (double)real_exp_to_zero(x), exp((double)x),
                 x < -64 ? 0x1p-92 : 1.5e-7 * exp((double)x));
}

static void log_holds_over_the_floats(void **state) {
    (void)state;
    float x;
    for (uint64_t bits = 0; next_float(&bits, 0x1p-126, 0x1.fffffep127, &x);) {
        const double expected = log((double)x);
        holds_at("log", x, (double)real_log(x), expected, fmax(1.5e-7 * fabs(expected), 1e-7));
    }
}

static void tanh_holds_over_the_floats(void **state) {
    (void)state;
    float x;
    for (uint64_t bits = 0; next_float(&bits, -INFINITY, INFINITY, &x);) {
        const double expected = tanh((double)x);
        holds_at("tanh", x, (double)real_tanh(x), expected, 1.5e-7 * fabs(expected) + 0x1p-149);
    }
    assert_true(isnan(real_tanh(NAN)));
}

/* Norms divide by it: a square root and a division, each rounded to nearest. */
static void one_over_a_square_root_holds_over_the_floats(void **state) {
    (void)state;
    float x;
    for (uint64_t bits = 0; next_float(&bits, 0x1p-126, 0x1.fffffep127, &x);) {
        const double expected = 1 / sqrt((double)x);
        holds_at("1 / sqrt", x, (double)(1 / real_sqrt(x)), expected, 1.2e-7 * expected);
    }
}

static void erfcx_holds_over_the_floats(void **state) {
    (void)state;
    float z;
    for (uint64_t bits = 0; next_float(&bits, 0, 10, &z);) {
        const long double wide = z;
        const double expected = (double)(expl(wide * wide) * erfcl(wide));
        holds_at("erfcx", z, (double)real_erfcx(z), expected, 5e-7 * expected);
    }
}

/* A square that is rounded moves its exponential the more, the larger it is. Beyond 12 both stay
 * where they are. */
static void normal_distribution_holds_over_the_floats(void **state) {
    (void)state;
    float x, density;
    for (uint64_t bits = 0; next_float(&bits, -12, 12, &x);) {
        const double wide = (double)x, part = erfc(-wide * M_SQRT1_2) / 2,
                     bell = exp(-wide * wide / 2) / sqrt(2 * M_PI);
        const double got = (double)real_normal(x, &density);
        holds_at("normal", x, got, part, (9e-7 + 3e-8 * wide * wide) * part);
        holds_at("normal density", x, (double)density, bell, (2e-7 + 3e-8 * wide * wide) * bell);
    }
    float at_end, beyond;
    assert_true(real_normal(-12, &at_end) == real_normal(-1e30f, &beyond) && at_end == beyond);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_its_error),
        cmocka_unit_test(exp_to_zero_is_normal_or_zero),
        cmocka_unit_test(log_is_within_its_error),
        cmocka_unit_test(turns_are_within_their_error),
        cmocka_unit_test(sigmoid_and_its_rest_add_up),
        cmocka_unit_test(exp_holds_over_the_floats),
        cmocka_unit_test(log_holds_over_the_floats),
        cmocka_unit_test(tanh_holds_over_the_floats),
        cmocka_unit_test(one_over_a_square_root_holds_over_the_floats),
        cmocka_unit_test(erfcx_holds_over_the_floats),
        cmocka_unit_test(normal_distribution_holds_over_the_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
