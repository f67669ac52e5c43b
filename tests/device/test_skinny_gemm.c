/* Products of so few rows that the weight is read as it lies: several weights of one x, against
 * sums in double; and the same bits for any number of threads and whatever rows are beside a
 * row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "device/sizes.h"
#include "support/device_case.h"

/* More columns than one task has in either layout of the weights, and a last task that is not
 * whole; rows of the weight that end within a vector. */
enum { IN = 603, OUT = 521 + 130 + 67, MOST_THREADS = 3 };
static const int64_t OUTS[] = {521, 130, 67};

/* In one kind of numbers. */
typedef struct product {
    sw_number_kind numbers;
    void *x, *weights[3], *biases[3], *residual; /* [SW_SKINNY_ROWS,IN], [out_i,IN] or [IN,out_i],
                                                    [out_i], [SW_SKINNY_ROWS,OUT] */
} product;

static double value(const product *p, const void *array, int64_t i) {
    return p->numbers == SW_NUMBERS_BF16  ? (double)sw_bf16_to_float(((const uint16_t *)array)[i])
           : p->numbers == SW_NUMBERS_F32 ? (double)((const float *)array)[i]
                                          : ((const double *)array)[i];
}

static void *filled(sw_number_kind numbers, uint64_t *seed, int64_t n) {
    void *array = aligned_alloc(64, (size_t)(n * 8 + 63) / 64 * 64);
    assert_non_null(array);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)device_random(seed);
        if (numbers == SW_NUMBERS_BF16)
            ((uint16_t *)array)[i] = sw_float_to_bf16(x);
        else if (numbers == SW_NUMBERS_F32)
            ((float *)array)[i] = x;
        else
            ((double *)array)[i] = (double)x;
    }
    return array;
}

static product make(sw_number_kind numbers) {
    uint64_t seed = 1;
    product p = {numbers,
                 filled(numbers, &seed, SW_SKINNY_ROWS * IN),
                 {NULL},
                 {NULL},
                 filled(numbers, &seed, SW_SKINNY_ROWS * OUT)};
    for (int i = 0; i < 3; i++) {
        p.weights[i] = filled(numbers, &seed, OUTS[i] * IN);
        p.biases[i] = filled(numbers, &seed, OUTS[i]);
    }
    return p;
}

static void free_product(product *p) {
    free(p->x);
    free(p->residual);
    for (int i = 0; i < 3; i++) {
        free(p->weights[i]);
        free(p->biases[i]);
    }
}

/* y [n,OUT] of n rows of x from row `first` on. Scratch holds NaN and is what is planned: NULL
 * where none is. */
static void *run(const sw_device *device, const product *p, bool is_out_in, int64_t first,
                 int64_t n) {
    const int64_t bytes = sw_dtype_bytes(sw_activation_type(p->numbers));
    sw_kernel_call call = {.dim = {n, IN, !is_out_in, OUTS[0], OUTS[1], OUTS[2]}};
    const int64_t scratch =
        sw_kernel_scratch_bytes(SW_KERNEL_LINEAR, call.dim, p->numbers, device->n_threads);
    call.operand[0] = (char *)p->x + first * IN * bytes;
    for (int i = 0; i < 3; i++) {
        call.operand[1 + i] = p->weights[i];
        call.operand[4 + i] = p->biases[i];
    }
    call.operand[7] = (char *)p->residual + first * OUT * bytes;
    void *y = calloc((size_t)(n * OUT), 8);
    call.operand[8] = y;
    call.scratch = scratch > 0 ? aligned_alloc(64, (size_t)(scratch + 63) / 64 * 64) : NULL;
    assert_true(y && (call.scratch || scratch == 0));
    if (call.scratch)
        memset(call.scratch, 0xff, (size_t)(scratch + 63) / 64 * 64);
    sw_device_kernel(device, p->numbers, SW_KERNEL_LINEAR)(device, &call);
    free(call.scratch);
    return y;
}

/* Sums of IN products of numbers below 1, in whatever order: at most IN roundings of sums below IN,
 * and one of the result. */
static void check(const product *p, bool is_out_in, int64_t n, const void *y) {
    const double unit = p->numbers == SW_NUMBERS_F64 ? 0x1p-53 : 0x1p-24;
    for (int64_t row = 0; row < n; row++)
        for (int64_t part = 0, first = 0; part < 3; first += OUTS[part++])
            for (int64_t o = 0; o < OUTS[part]; o++) {
                double sum = value(p, p->biases[part], o) +
                             value(p, p->residual, row * OUT + first + o),
                       size = fabs(sum);
                for (int64_t i = 0; i < IN; i++) {
                    const double term =
                        value(p, p->x, row * IN + i) *
                        value(p, p->weights[part], is_out_in ? o * IN + i : i * OUTS[part] + o);
                    sum += term;
                    size += fabs(term);
                }
                const double bound = (IN + 3) * unit * size +
                                     (p->numbers == SW_NUMBERS_BF16 ? device_half_unit(sum) : 0);
                const double difference = fabs(value(p, y, row * OUT + first + o) - sum);
                if (!(difference <= bound * 1.01))
                    fail_msg("row %d, column %d: off by %g, at most %g", (int)row, (int)(first + o),
                             difference, bound);
            }
}

static sw_device *open_with(sw_kernel_set set, int n_threads) {
    sw_device *device;
    sw_error err;
    assert_int_equal(
        sw_cpu_open(&(sw_cpu_options){.set = set, .n_threads = n_threads}, &device, &err), SW_OK);
    return device;
}

static void sums_are_right_and_bits_follow_neither_threads_nor_rows(void **state) {
    (void)state;
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *devices[MOST_THREADS];
        for (int i = 0; i < MOST_THREADS; i++)
            devices[i] = open_with((sw_kernel_set)set, i + 1);
        for (int kind = 0; kind < 2 * SW_N_NUMBER_KINDS; kind++) {
            const bool is_out_in = kind % 2 == 0;
            product p = make((sw_number_kind)(kind / 2));
            const size_t row_bytes =
                (size_t)OUT * (size_t)sw_dtype_bytes(sw_activation_type(p.numbers));
            char *all = run(devices[0], &p, is_out_in, 0, SW_SKINNY_ROWS);
            check(&p, is_out_in, SW_SKINNY_ROWS, all);
            for (int i = 0; i < MOST_THREADS; i++)
                for (int64_t n = 1; n <= SW_SKINNY_ROWS; n++) {
                    const int64_t first = SW_SKINNY_ROWS - n;
                    void *some = run(devices[i], &p, is_out_in, first, n);
                    assert_memory_equal(some, all + (size_t)first * row_bytes,
                                        (size_t)n * row_bytes);
                    free(some);
                }
            free(all);
            free_product(&p);
        }
        for (int i = 0; i < MOST_THREADS; i++)
            devices[i]->close(devices[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_and_bits_follow_neither_threads_nor_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
