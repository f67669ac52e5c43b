/* test_linear.c: several products of one x: weights that lie one after another, and weights that
 * lie apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "device/cpu/open.h"
#include "support/device_case.h"

enum { ROWS = 37, IN = 96, OUT = 64 + 32 + 32, LARGEST = 1024 * 1024 };
static const int64_t OUTS[] = {64, 32, 32}; /* of IN columns: multiples of 256 elements */

/* Weights [OUT, IN] in one piece, or each in a piece of its own; likewise their gradients. */
typedef struct pieces {
    float *x, *dy, *dx, *y, *weight, *gradient, *bias,
        *bias_gradient; /* dx and y of the kind's activations, the others fp32 */
    uint16_t *narrow, *narrow_x, *narrow_dy; /* the weight, x and dy in bf16 */
    float *scratch;
    int64_t gap; /* elements between one weight and the next */
} pieces;

static float *filled(uint64_t seed, int64_t n) {
    float *piece = aligned_alloc(64, LARGEST * sizeof *piece);
    assert_non_null(piece);
    for (int64_t i = 0; i < LARGEST; i++) {
        piece[i] = i < n ? sw_bf16_to_float(sw_float_to_bf16((float)device_random(&seed))) : NAN;
    }
    return piece;
}

static uint16_t *narrowed(const float *from) {
    uint16_t *piece = calloc(LARGEST, sizeof *piece);
    assert_non_null(piece);
    for (int64_t i = 0; i < LARGEST; i++)
        piece[i] = sw_float_to_bf16(from[i]);
    return piece;
}

static pieces make(int64_t gap) {
    pieces p = {.gap = gap,
                .x = filled(1, ROWS * IN),
                .dy = filled(2, ROWS * OUT),
                .dx = filled(3, ROWS * IN),
                .y = filled(4, ROWS * OUT),
                .weight = filled(5, 0),
                .gradient = filled(6, 0),
                .bias = filled(7, OUT),
                .bias_gradient = filled(8, OUT),
                .scratch = filled(9, 0)};
    p.narrow = narrowed(p.weight);
    p.narrow_x = narrowed(p.x);
    p.narrow_dy = narrowed(p.dy);
    int64_t at = 0, first = 0;
    for (int i = 0; i < 3; at += OUTS[i] * IN + gap, first += OUTS[i++])
        for (int64_t k = 0; k < OUTS[i] * IN; k++) {
            uint64_t seed = 1000000 + (uint64_t)(first * IN + k);
            p.narrow[at + k] = sw_float_to_bf16((float)device_random(&seed));
            p.weight[at + k] = sw_bf16_to_float(p.narrow[at + k]);
            p.gradient[at + k] = (float)device_random(&seed);
        }
    return p;
}

static void free_pieces(pieces *p) {
    float *all[] = {
        p->x, p->dy, p->dx, p->y, p->weight, p->gradient, p->bias, p->bias_gradient, p->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(p->narrow);
    free(p->narrow_x);
    free(p->narrow_dy);
}

/* `adds`: to what dx and the weights' gradients hold already. */
static void run(const sw_device *device, sw_number_kind numbers, sw_kernel kernel, pieces *p,
                bool adds) {
    sw_kernel_call call = {.dim = {ROWS, IN, 0, OUTS[0], OUTS[1], OUTS[2]}, .scratch = p->scratch};
    int64_t at = 0, first = 0;
    assert_true(sw_kernel_scratch_bytes(kernel, call.dim, numbers, 1) <=
                LARGEST * (int64_t)sizeof *p->scratch);
    for (int i = 0; i < 3; at += OUTS[i] * IN + p->gap, first += OUTS[i++]) {
        void *weight =
            numbers == SW_NUMBERS_BF16 ? (void *)(p->narrow + at) : (void *)(p->weight + at);
        if (kernel == SW_KERNEL_LINEAR_GRAD_WEIGHT) {
            call.operand[2 + i] = p->gradient + at;
            call.operand[5 + i] = p->bias_gradient + first;
        } else {
            call.operand[1 + i] = weight;
        }
    }
    void *x = numbers == SW_NUMBERS_BF16 ? (void *)p->narrow_x : p->x;
    void *dy = numbers == SW_NUMBERS_BF16 ? (void *)p->narrow_dy : p->dy;
    switch (kernel) {
    case SW_KERNEL_LINEAR:
        call.operand[0] = x;
        call.operand[8] = p->y;
        break;
    case SW_KERNEL_LINEAR_GRAD_INPUT:
        call.operand[0] = dy;
        call.operand[4] = p->dx;
        call.accumulate = adds ? 1u << 4 : 0;
        break;
    default:
        call.operand[0] = dy;
        call.operand[1] = x;
        call.accumulate = adds ? 0xfc : 0;
    }
    sw_device_kernel(device, numbers, kernel)(device, &call);
}

static double element(sw_number_kind numbers, const float *array, int64_t i) {
    return (double)(numbers == SW_NUMBERS_BF16
                        ? sw_bf16_to_float(((const uint16_t *)(const void *)array)[i])
                        : array[i]);
}

/* Outputs and the gradients of weights are the same sums, bit for bit; a gradient of x, a sum over
 * the outputs of all, is the same up to the order of its terms; in bf16 it is rounded once or three
 * times, and no sum on the way is twice the largest. */
static void weights_apart_give_what_weights_together_give(void **state) {
    (void)state;
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
        for (int numbers = SW_NUMBERS_F32; numbers <= SW_NUMBERS_BF16; numbers++)
            for (int adds = 0; adds < 2; adds++) {
                pieces together = make(0), apart = make(512);
                pieces *both[] = {&together, &apart};
                for (int i = 0; i < 2; i++) {
                    run(device, (sw_number_kind)numbers, SW_KERNEL_LINEAR, both[i], adds);
                    run(device, (sw_number_kind)numbers, SW_KERNEL_LINEAR_GRAD_INPUT, both[i],
                        adds);
                    run(device, (sw_number_kind)numbers, SW_KERNEL_LINEAR_GRAD_WEIGHT, both[i],
                        adds);
                }
                const size_t bytes =
                    (size_t)sw_dtype_bytes(sw_activation_type((sw_number_kind)numbers));
                assert_memory_equal(together.y, apart.y, ROWS * OUT * bytes);
                assert_memory_equal(together.bias_gradient, apart.bias_gradient,
                                    OUT * sizeof(float));
                for (int64_t i = 0, first = 0; i < 3; first += OUTS[i++] * IN)
                    assert_memory_equal(together.gradient + first, apart.gradient + first + i * 512,
                                        (size_t)(OUTS[i] * IN) * sizeof(float));
                double largest = 0, difference = 0;
                for (int64_t i = 0; i < ROWS * IN; i++) {
                    const double a = element((sw_number_kind)numbers, together.dx, i);
                    const double b = element((sw_number_kind)numbers, apart.dx, i);
                    assert_true(isfinite(a) && isfinite(b));
                    largest = fmax(largest, fabs(a));
                    difference = fmax(difference, fabs(a - b));
                }
                assert_true(
                    difference <=
                    (numbers == SW_NUMBERS_BF16 ? 4 * device_half_unit(2 * largest) : 1e-5));
                free_pieces(&together);
                free_pieces(&apart);
            }
        device->close(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_apart_give_what_weights_together_give)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
