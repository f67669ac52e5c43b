/* The roofs that kernels are held against: there where their instructions are, and numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "device/cpu/roof.h"

static void a_roof_is_there_where_its_kernel_set_runs(void **state) {
    (void)state;
    assert_true(sw_roof_runs_here(SW_ROOF_FP32_128));
    assert_int_equal(sw_roof_runs_here(SW_ROOF_FP32_256), sw_kernel_set_runs_here(SW_SET_V3));
    assert_int_equal(sw_roof_runs_here(SW_ROOF_FP32_512), sw_kernel_set_runs_here(SW_SET_V4));
    if (sw_roof_runs_here(SW_ROOF_BF16_512))
        assert_true(sw_kernel_set_runs_here(SW_SET_V4));
}

static void a_measured_roof_is_a_rate_and_an_absent_one_is_0(void **state) {
    (void)state;
    for (sw_roof roof = 0; roof < SW_N_ROOFS; roof++) {
        double rate = sw_roof_measure(roof, 0.001);
        assert_true(isfinite(rate));
        assert_int_equal(rate > 0, sw_roof_runs_here(roof));
        assert_non_null(sw_roof_name(roof));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_roof_is_there_where_its_kernel_set_runs),
        cmocka_unit_test(a_measured_roof_is_a_rate_and_an_absent_one_is_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
