/* Heads that are turned as a product is stored (LINEAR with a table), and turned back as
 * attention's gradient is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "support/device_case.h"

enum { MOST_THREADS = 2 };

typedef struct variant {
    sw_kernel_set set;
    sw_gemm_kind gemm;
    sw_number_kind numbers;
} variant;

/* Every way to multiply that runs here, by number; false at the end. */
static bool variant_number(int i, variant *v) {
    for (int set = 0; set < SW_N_KERNEL_SETS; set++)
        for (int gemm = 0; gemm < SW_N_GEMM_KINDS; gemm++)
            for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++) {
                *v = (variant){(sw_kernel_set)set, (sw_gemm_kind)gemm, (sw_number_kind)numbers};
                const bool is_plain = gemm == SW_GEMM_PLAIN || numbers != SW_NUMBERS_F64;
                if (sw_gemm_runs_here(v->gemm, v->set) && is_plain && i-- == 0)
                    return true;
            }
    return false;
}

static sw_device *open_with(const variant *v, int n_threads) {
    sw_device *device;
    sw_error err;
    assert_int_equal(
        sw_cpu_open(&(sw_cpu_options){.set = v->set, .gemm = v->gemm, .n_threads = n_threads},
                    &device, &err),
        SW_OK);
    return device;
}

/* x [n,in] times three weights, of which two are turned, in blocks of whole heads; with heads that
 * no block holds; with a k that is cut. `together`: the weights are one, which is what the layout
 * of a model gives. `in_store`: the sets whose own kernels turn heads before they are rounded;
 * where k is cut, 192 columns are whole heads of a block in v4, 64 in v3. */
enum { NEITHER, V4 = 1 << SW_SET_V4, BOTH = V4 | 1 << SW_SET_V3 };
typedef struct product_shape {
    int64_t n, in, D, T, outs[3];
    bool is_out_in, has_residual, together;
    int in_store;
} product_shape;

static const product_shape product_shapes[] = {
    {61, 576, 64, 37, {9 * 64, 3 * 64, 3 * 64}, true, false, true, BOTH},
    {61, 576, 64, 100, {9 * 64, 3 * 64, 3 * 64}, true, true, false, BOTH},
    {61, 130, 32, 37, {6 * 32, 6 * 32, 200}, false, true, false, BOTH},
    {33, 2050, 128, 7, {4 * 128, 128, 128}, true, false, true, NEITHER}, /* own-bf16 alone does */
    {10, 6200, 64, 10, {3 * 64, 64, 64}, true, true, true, BOTH},
    {10, 6200, 96, 10, {2 * 96, 96, 96}, true, false, true, V4},
    {10, 6200, 160, 10, {160, 160, 32}, true, true, true, NEITHER},
    {33, 100, 48, 11, {4 * 48, 48, 48}, true, true, true, NEITHER},
    {5, 100, 64, 2, {2 * 64, 64, 64}, true, true, false, NEITHER},
    {150, 64, 160, 64, {4 * 160, 160, 160}, true, false, true, BOTH},
};

static device_case product_case(sw_arena *arena, const product_shape *s, const sw_device *oracle) {
    const device_shape shape = {.n = s->n,
                                .in = s->in,
                                .out = s->outs[0],
                                .out1 = s->outs[1],
                                .out2 = s->outs[2],
                                .T = s->T,
                                .D = s->D,
                                .layout = !s->is_out_in};
    device_case c = device_make(arena, SW_KERNEL_LINEAR, &shape, oracle, 11);
    c.dim[6] = (s->outs[0] + s->outs[1]) / s->D;
    c.absent = s->has_residual ? 0 : 1u << 7;
    return c;
}

/* As device_run, with the weights one after another. */
static void run_together(sw_arena *arena, const sw_device *device, sw_number_kind numbers,
                         device_case *c, double **result) {
    const device_case apart = *c;
    const int64_t n[] = {c->operand[1].n, c->operand[2].n, c->operand[3].n};
    double *all = sw_arena_take(arena, (size_t)(n[0] + n[1] + n[2]) * sizeof *all);
    double *biases =
        sw_arena_take(arena, (size_t)(c->dim[3] + c->dim[4] + c->dim[5]) * sizeof *biases);
    for (int i = 0, weight = 0, bias = 0; i < 3;
         weight += (int)n[i], bias += (int)c->dim[3 + i], i++) {
        memcpy(all + weight, apart.operand[1 + i].value, (size_t)n[i] * sizeof *all);
        memcpy(biases + bias, apart.operand[4 + i].value, (size_t)c->dim[3 + i] * sizeof *biases);
    }
    c->operand[1].value = all, c->operand[1].n = n[0] + n[1] + n[2];
    c->operand[4].value = biases, c->operand[4].n = c->dim[3] + c->dim[4] + c->dim[5];
    c->dim[3] += c->dim[4] + c->dim[5];
    c->dim[4] = c->dim[5] = c->operand[2].n = c->operand[3].n = c->operand[5].n = c->operand[6].n =
        0;
    device_run(arena, device, numbers, c, result);
    *c = apart;
}

/* Pairs (low, high) of a case's turned columns, and what an error e of either makes: at most 2 e,
 * as its cosines are below 1. */
static void check_product(const product_shape *s, const variant *v, const device_case *c,
                          const double *got, const double *expected, bool is_turned_in_store) {
    const int64_t out = s->outs[0] + s->outs[1] + s->outs[2];
    const double unit = v->numbers == SW_NUMBERS_F64 ? 0x1p-53 : 0x1p-24;
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < s->n * out; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < s->n * out; i++) {
        const bool is_turned = i % out < c->dim[6] * s->D;
        double allowed = 2 * 8 * sqrt((double)s->in) * unit * largest + 4 * unit * largest;
        if (v->numbers == SW_NUMBERS_BF16) /* a sum before it is turned is no larger than twice the
                                              largest afterwards */
            allowed += device_half_unit(fmax(fabs(got[i]), fabs(expected[i]))) +
                       (is_turned && !is_turned_in_store ? 2 * device_half_unit(4 * largest) : 0);
        worst = fmax(worst, fabs(got[i] - expected[i]) / allowed);
    }
    if (!(worst <= 1))
        fail_msg("%ld x %ld, heads of %ld, %s, %s, numbers %d: %g times what is allowed",
                 (long)s->n, (long)s->in, (long)s->D, sw_kernel_set_name(v->set),
                 sw_gemm_kind_name(v->gemm), (int)v->numbers, worst);
}

static void products_are_turned_as_they_are_stored(void **state) {
    (void)state;
    sw_device *oracle = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN);
    variant v;
    for (size_t k = 0; k < sizeof product_shapes / sizeof *product_shapes; k++)
        for (int i = 0; variant_number(i, &v); i++) {
            const product_shape *s = &product_shapes[k];
            sw_arena arena = {0};
            device_case c = product_case(&arena, s, oracle);
            for (int64_t t = 0; t < s->T;
                 t++) /* a rotation: what is turned stays as large as it was */
                for (int64_t j = 0; j < s->D / 2; j++) {
                    const double angle = 3 * c.operand[9].value[t * s->D + 2 * j];
                    c.operand[9].value[t * s->D + 2 * j] = cos(angle);
                    c.operand[9].value[t * s->D + 2 * j + 1] = sin(angle);
                }
            device_round(&c, v.numbers);
            double *expected[SW_MAX_OPERANDS], *first[SW_MAX_OPERANDS], *got[SW_MAX_OPERANDS];
            device_run(&arena, oracle, SW_NUMBERS_F64, &c, expected);
            const bool is_own = v.gemm == SW_GEMM_OWN || v.gemm == SW_GEMM_OWN_BF16;
            for (int n_threads = 1; n_threads <= (is_own ? MOST_THREADS : 1);
                 n_threads++) { /* test_kernels.c tries the others */
                sw_device *device = open_with(&v, n_threads);
                if (s->together)
                    run_together(&arena, device, v.numbers, &c, got);
                else
                    device_run(&arena, device, v.numbers, &c, got);
                check_product(s, &v, &c, got[8], expected[8], is_own && s->in_store >> v.set & 1);
                if (n_threads == 1)
                    memcpy(first, got, sizeof first);
                else if (memcmp(first[8], got[8], (size_t)c.operand[8].n * sizeof(double)) != 0)
                    fail_msg("%d threads change bits (%s, %s, numbers %d)", n_threads,
                             sw_kernel_set_name(v.set), sw_gemm_kind_name(v.gemm), (int)v.numbers);
                device->close(device);
            }
            sw_arena_free(&arena);
        }
    oracle->close(oracle);
}

/* dq and dk with a table are dq and dk without, turned back; dv is the same, bit for bit. */
static void attention_turns_its_gradients_back(void **state) {
    (void)state;
    static const device_shape shapes[] = {{.B = 2, .T = 70, .H = 6, .K = 2, .D = 64, .packed = 1},
                                          {.B = 1, .T = 33, .H = 4, .K = 4, .D = 80, .span = 20},
                                          {.B = 1, .T = 40, .H = 3, .K = 1, .D = 12, .packed = 1}};
    sw_device *oracle = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN);
    variant v;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int i = 0; variant_number(i, &v); i++) {
            const int64_t D = shapes[k].D;
            sw_arena arena = {0};
            device_case c = device_make(&arena, SW_KERNEL_ATTENTION_GRAD, &shapes[k], oracle, 5);
            device_round(&c, v.numbers);
            sw_device *device = open_with(&v, 2);
            double *turned[SW_MAX_OPERANDS], *plain[SW_MAX_OPERANDS];
            device_run(&arena, device, v.numbers, &c, turned);
            c.absent = 1u << 10;
            device_run(&arena, device, v.numbers, &c, plain);
            for (int o = 6; o <= 8; o++) {
                const int64_t stride = c.dim[o == 6 ? 5 : 6],
                              n_heads = o == 6 ? shapes[k].H : shapes[k].K;
                for (int64_t token = 0; token < shapes[k].B * shapes[k].T; token++)
                    for (int64_t j = 0; j < n_heads * D; j++) {
                        const int64_t at = token * stride + j, pair = j % D % (D / 2),
                                      low = token * stride + j / D * D + pair;
                        const double *turn =
                            c.operand[10].value + token % shapes[k].T * D + 2 * pair;
                        const double a = plain[o][low], b = plain[o][low + D / 2], cosine = turn[0],
                                     sine = turn[1];
                        const double expected = o == 8      ? plain[o][at]
                                                : at == low ? a * cosine + b * sine
                                                            : b * cosine - a * sine;
                        const double unit = v.numbers == SW_NUMBERS_F64 ? 0x1p-50 : 0x1p-22;
                        double allowed = o == 8 ? 0 : unit * (fabs(a) + fabs(b));
                        if (v.numbers == SW_NUMBERS_BF16 && o != 8)
                            allowed += device_half_unit(a) + device_half_unit(b) +
                                       device_half_unit(fmax(fabs(expected), fabs(turned[o][at])));
                        if (!(fabs(turned[o][at] - expected) <= allowed))
                            fail_msg(
                                "operand %d, element %ld: %g instead of %g (%s, %s, numbers %d)", o,
                                (long)at, turned[o][at], expected, sw_kernel_set_name(v.set),
                                sw_gemm_kind_name(v.gemm), (int)v.numbers);
                    }
            }
            device->close(device);
            sw_arena_free(&arena);
        }
    oracle->close(oracle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_turned_as_they_are_stored),
        cmocka_unit_test(attention_turns_its_gradients_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
