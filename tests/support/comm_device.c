/* comm_device.c: FOLD, SQUARES and what sums values, element by element. */
#include "support/comm_device.h"

#include <string.h>

#include "base/wide_sum.h"

#define KERNELS(type)                                                                 \
    static void fold_##type(const sw_device *device, const sw_kernel_call *call) {    \
        (void)device;                                                                 \
        const type *source = call->operand[0];                                        \
        type *sum = call->operand[1];                                                 \
        for (int64_t i = 0; i < call->dim[0]; i++)                                    \
            sum[i] = call->accumulate & 2 ? sum[i] + source[i] : source[i];           \
    }                                                                                 \
    static void squares_##type(const sw_device *device, const sw_kernel_call *call) { \
        (void)device;                                                                 \
        const type *x = call->operand[0];                                             \
        for (int64_t i = 0; i < call->dim[0]; i++)                                    \
            sw_wide_sum_add(call->operand[1], (double)x[i] * (double)x[i]);           \
    }

KERNELS(float)
KERNELS(double)

static void copy(const sw_device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    memcpy(to, from, (size_t)bytes);
}

static void store_double(const sw_device *device, const sw_kernel_call *call) {
    copy(device, call->operand[1], call->operand[0], call->dim[0] * (int64_t)sizeof(double));
}

const sw_device *comm_test_device(void) {
    static const sw_kernel_fn kernels[SW_N_NUMBER_KINDS][SW_N_KERNELS] = {
        [SW_NUMBERS_F32][SW_KERNEL_FOLD] = fold_float,
        [SW_NUMBERS_F32][SW_KERNEL_SQUARES] = squares_float,
        [SW_NUMBERS_BF16][SW_KERNEL_FOLD] = fold_float,
        [SW_NUMBERS_BF16][SW_KERNEL_SQUARES] = squares_float,
        [SW_NUMBERS_F64][SW_KERNEL_FOLD] = fold_double,
        [SW_NUMBERS_F64][SW_KERNEL_SQUARES] = squares_double,
        [SW_NUMBERS_F64][SW_KERNEL_FOLD_VALUES] = fold_double,
        [SW_NUMBERS_F64][SW_KERNEL_ROUND_SUM] = store_double,
    };
    static const sw_device device = {.name = "test",
                                     .kernel_set = "test",
                                     .gemm = "none",
                                     .kernels = kernels,
                                     .n_threads = 1,
                                     .is_host = true,
                                     .copy = copy,
                                     .alone = &device};
    return &device;
}
