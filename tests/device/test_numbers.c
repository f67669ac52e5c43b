/* Conversions of 16-bit numbers over all their values, the split master, and the exact sum with the
 * kernel that feeds it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/wide_sum.h"
#include "device/cpu/open.h"
#include "support/device_case.h"

static uint64_t next(uint64_t *state) {
    double x = device_random(state);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return *state ^ bits << 7;
}

static void bf16_survives_a_round_trip(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float wide = sw_bf16_to_float((uint16_t)bits);
        const uint16_t back = sw_float_to_bf16(wide);
        if (isnan(wide))
            assert_true(isnan(sw_bf16_to_float(back)));
        else
            assert_int_equal(back, bits);
    }
}

static void f16_survives_a_round_trip(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float wide = sw_f16_to_float((uint16_t)bits);
        const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        const double expected =
            (bits >> 15 ? -1 : 1) *
            (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25));
        const uint16_t back = sw_float_to_f16(wide);
        if (exponent == 31 && fraction) {
            assert_true(isnan(wide) && isnan(sw_f16_to_float(back)));
            continue;
        }
        assert_int_equal(back, bits);
        if (exponent == 31)
            assert_true(isinf(wide));
        else
            assert_true((double)wide == expected);
    }
}

/* Between two neighbours: the nearer, and from the middle the even one. */
static void rounding_to_16_bits_is_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x7f7f; bits++) {
        const double low = (double)sw_bf16_to_float((uint16_t)bits),
                     high = (double)sw_bf16_to_float((uint16_t)(bits + 1)), half = (low + high) / 2;
        const float middle = (float)half;
        assert_int_equal(sw_float_to_bf16(middle), bits + (bits & 1));
        assert_int_equal(sw_float_to_bf16(nextafterf(middle, 0)), bits);
        assert_int_equal(sw_float_to_bf16(nextafterf(middle, INFINITY)), bits + 1);
    }
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        const float middle =
            (sw_f16_to_float((uint16_t)bits) + sw_f16_to_float((uint16_t)(bits + 1))) / 2;
        assert_int_equal(sw_float_to_f16(middle), bits + (bits & 1));
        assert_int_equal(sw_float_to_f16(nextafterf(middle, 0)), bits);
        assert_int_equal(sw_float_to_f16(nextafterf(middle, INFINITY)), bits + 1);
        assert_int_equal(sw_float_to_f16(-middle), 0x8000u + bits + (bits & 1));
    }
}

/* Any 32 bits, numbers or not, come back; and the copy of a number is the bf16 nearest to it, ties
 * away from zero. */
static void split_masters_lose_nothing(void **state) {
    (void)state;
    sw_device *device = device_open(sw_kernel_set_best(), SW_GEMM_PLAIN);
    enum { N = 1 << 16 };
    uint32_t *master = malloc(sizeof *master * N), *back = malloc(sizeof *back * N);
    uint16_t *copy = malloc(sizeof *copy * N), *low = malloc(sizeof *low * N);
    uint64_t seed = 7;
    for (int i = 0; i < N; i++)
        master[i] = (uint32_t)(next(&seed) >> 16);
    sw_kernel_call split = {.operand = {master, copy, low}, .dim = {N}},
                   join = {.operand = {copy, low, back}, .dim = {N}};
    sw_device_kernel(device, SW_NUMBERS_BF16, SW_KERNEL_SPLIT)(device, &split);
    sw_device_kernel(device, SW_NUMBERS_BF16, SW_KERNEL_JOIN)(device, &join);
    assert_memory_equal(back, master, sizeof *master * N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(copy[i], sw_split_high(sw_bits_float(master[i])));
        const double x = (double)sw_bits_float(master[i]),
                     nearest = (double)sw_bf16_to_float(copy[i]);
        if (!(fabs(x) < 3e38))
            continue;
        const double ulp = fabs((double)sw_bf16_to_float((uint16_t)(copy[i] + 1)) - nearest);
        assert_true(fabs(x - nearest) < ulp / 2 ||
                    (fabs(x - nearest) <= ulp / 2 && fabs(nearest) >= fabs(x)));
    }
    free(master), free(back), free(copy), free(low);
    device->close(device);
}

static void the_wide_sum_is_exact(void **state) {
    (void)state;
    sw_wide_sum sum = {0};
    /* each of these is lost beside 1e300 in double */
    const double terms[] = {1e300, 3.25, -1e300, 0x1p-1074, 1e16, 1, -1e16, -0x1p-1074};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        sw_wide_sum_add(&sum, terms[i]);
    assert_true(sw_wide_sum_value(&sum) == 4.25);
    sw_wide_sum_add(&sum, -4.25);
    assert_true(sw_wide_sum_value(&sum) == 0);
    sw_wide_sum_add(&sum, -0x1p-1074);
    assert_true(sw_wide_sum_value(&sum) == -0x1p-1074);
    sw_wide_sum largest = {0};
    sw_wide_sum_add(&largest, 0x1.fffffffffffffp1023);
    assert_true(sw_wide_sum_value(&largest) == 0x1.fffffffffffffp1023);
}

static void the_wide_sum_knows_no_order(void **state) {
    (void)state;
    enum { N = 2000 };
    double x[N];
    uint64_t seed = 3;
    for (int i = 0; i < N; i++)
        x[i] = ldexp(device_random(&seed), (int)(next(&seed) % 1800) - 900);
    sw_wide_sum forward = {0}, backward = {0}, parts[3] = {{{0}, 0}}, merged = {0};
    for (int i = 0; i < N; i++) {
        sw_wide_sum_add(&forward, x[i]);
        sw_wide_sum_add(&backward, x[N - 1 - i]);
        sw_wide_sum_add(&parts[next(&seed) % 3], x[i]);
    }
    for (int i = 2; i >= 0; i--)
        sw_wide_sum_merge(&merged, &parts[i]);
    assert_memory_equal(&forward.limb, &backward.limb, sizeof forward.limb);
    assert_true(sw_wide_sum_value(&forward) == sw_wide_sum_value(&backward));
    assert_true(sw_wide_sum_value(&forward) == sw_wide_sum_value(&merged));
    for (int i = 0; i < N; i++)
        sw_wide_sum_add(&forward, -x[i]);
    assert_true(sw_wide_sum_value(&forward) == 0);
}

static void non_finite_terms_are_never_lost(void **state) {
    (void)state;
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        sw_wide_sum sum = {0}, other = {0};
        sw_wide_sum_add(&sum, 1);
        sw_wide_sum_add(&sum, bad[i]);
        sw_wide_sum_add(&sum, -1);
        assert_true(isnan(sw_wide_sum_value(&sum)));
        sw_wide_sum_merge(&other, &sum);
        assert_true(isnan(sw_wide_sum_value(&other)));
    }
}

/* Squares come in blocks of 256, so cuts at blocks change no bit; and every set gives the same sum,
 * for products of floats are exact. */
static void squares_do_not_depend_on_cuts(void **state) {
    (void)state;
    enum { BLOCKS = 24, N = BLOCKS * SW_BLOCK };
    static float x[N];
    uint64_t seed = 11;
    double expected = 0;
    for (int i = 0; i < N; i++) {
        x[i] = (float)ldexp(device_random(&seed), (int)(next(&seed) % 40) - 20);
        expected += (double)x[i] * (double)x[i];
    }
    sw_wide_sum first = {0};
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
        for (int cut = 1; cut <= BLOCKS; cut += 5) {
            sw_wide_sum sum = {0};
            for (int64_t from = 0; from < N; from += cut * SW_BLOCK) {
                const int64_t rest = N - from;
                sw_kernel_call call = {.operand = {x + from, &sum},
                                       .dim = {rest < cut * SW_BLOCK ? rest : cut * SW_BLOCK}};
                sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_SQUARES)(device, &call);
            }
            if (set == 0 && cut == 1)
                first = sum;
            assert_memory_equal(&sum, &first, sizeof sum);
            assert_true(fabs(sw_wide_sum_value(&sum) - expected) < 1e-12 * expected);
        }
        x[777] = NAN;
        sw_wide_sum bad = {0};
        sw_kernel_call call = {.operand = {x, &bad}, .dim = {N}};
        sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_SQUARES)(device, &call);
        assert_true(isnan(sw_wide_sum_value(&bad)));
        x[777] = 0;
        first = (sw_wide_sum){0};
        sw_kernel_call again = {.operand = {x, &first}, .dim = {N}};
        sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_SQUARES)(device, &again);
        expected = sw_wide_sum_value(&first);
        device->close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_survives_a_round_trip),
        cmocka_unit_test(f16_survives_a_round_trip),
        cmocka_unit_test(rounding_to_16_bits_is_to_nearest_even),
        cmocka_unit_test(split_masters_lose_nothing),
        cmocka_unit_test(the_wide_sum_is_exact),
        cmocka_unit_test(the_wide_sum_knows_no_order),
        cmocka_unit_test(non_finite_terms_are_never_lost),
        cmocka_unit_test(squares_do_not_depend_on_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
