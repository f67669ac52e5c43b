/* What the tuned kernels do with one vector, tried in its AVX2 form: the exponential against the C
 * library, and lanes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <immintrin.h>
#include <math.h>

#include "base/dtype.h"
#include "device/cpu/open.h"

/* Functions from here on may use AVX2; they are called where it is. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define SW_VECTOR_BYTES 32
#include "device/cpu/tuned/vector.h"

static float exp2_of(float x) {
    return vec_first(vec_exp2_to_zero(vec_of(x)));
}

static void try_exp2(void) {
    for (double x = -92; x < 127; x += 0.00031) {
        const double expected = exp2((double)(float)x);
        assert_true(fabs((double)exp2_of((float)x) - expected) <= 2e-7 * expected);
    }
    assert_true(exp2_of(0) == 1);
    for (float x = -300; x < 0; x += 0.017f)
        assert_true(x < -92 ? exp2_of(x) == 0 : exp2_of(x) >= 0x1p-126f);
    assert_true(exp2_of(-INFINITY) == 0 && exp2_of(-3e38f) == 0);
    assert_true(isnan(exp2_of(NAN)) && isnan(exp2_of(sw_bits_float(0xffffffffu))));
}

static void try_lanes(void) {
    float x[VEC][VEC], y[VEC];
    vec row[VEC];
    for (int i = 0; i < VEC; i++)
        for (int j = 0; j < VEC; j++)
            x[i][j] = (float)(i * VEC + j);
    for (int i = 0; i < VEC; i++)
        row[i] = vec_at(x[i]);
    vec_turn(row);
    for (int i = 0; i < VEC; i++) {
        vec_put(y, row[i]);
        for (int j = 0; j < VEC; j++)
            assert_true(y[j] == x[j][i]);
        assert_true(vec_sum(row[i]) == (float)(VEC * i + VEC * VEC * (VEC - 1) / 2));
        assert_true(vec_largest(row[i]) == (float)(VEC * (VEC - 1) + i));
    }
    for (int from = -3; from < VEC + 3; from++)
        for (int to = -3; to < VEC + 3; to++) {
            vec_put(y, vec_between(vec_of(1), from, to, vec_of(2)));
            for (int j = 0; j < VEC; j++)
                assert_true(y[j] == (j >= from && j < to ? 1.0f : 2.0f));
        }
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static void exp2_is_within_its_error_and_never_subnormal(void **state) {
    (void)state;
    if (!sw_kernel_set_runs_here(SW_SET_V3))
        skip();
    try_exp2();
}

static void lanes_are_turned_folded_and_masked(void **state) {
    (void)state;
    if (!sw_kernel_set_runs_here(SW_SET_V3))
        skip();
    try_lanes();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp2_is_within_its_error_and_never_subnormal),
        cmocka_unit_test(lanes_are_turned_folded_and_masked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
