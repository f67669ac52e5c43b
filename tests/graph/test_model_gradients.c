/* test_model_gradients.c: whole models against central differences in double, after every
 * combination of passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "support/gradient_check.h"
#include "support/small_models.h"

static void models_have_right_gradients_whatever_the_passes(void **state) {
    (void)state;
    sw_device *device;
    sw_error err = {0};
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE}, &device, &err), SW_OK);
    for (int model = 0; model < N_SMALL_MODELS; model++)
        for (int passes = 0; passes < 4 * N_RECOMPUTE; passes++) {
            gradient_check_run(device, &(gradient_check){.label = SMALL_MODEL_NAMES[model],
                                                         .record = small_model_record,
                                                         .about = &SMALL_MODELS[model],
                                                         .n_rows = SMALL_MODEL_ROWS,
                                                         .n_tokens = SMALL_MODEL_TOKENS,
                                                         .n_vocabulary = SMALL_MODEL_VOCABULARY,
                                                         .recompute = passes / 4,
                                                         .joins_products = passes / 2 % 2,
                                                         .reuse_in_place = passes % 2,
                                                         .deviation = 0.4});
        }
    device->close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_right_gradients_whatever_the_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
