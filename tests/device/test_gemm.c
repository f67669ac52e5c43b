/* The matrix product of every kernel set against three loops in double: types, turned operands,
 * ragged shapes, strides, alpha, bias, addend; and that its bits depend on nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/cpu/open.h"
#include "device/sizes.h"
#include "support/device_case.h"
#include "support/product_case.h"

enum { MOST_DEVICES = 32, MOST_THREADS = 3 };

/* Every way to multiply that this machine has, and each of them once more with threads. */
typedef struct fixture {
    sw_device *devices[MOST_DEVICES];
    int n_devices;
    void *workspace;
} fixture;

static int open_devices(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->workspace = aligned_alloc(64, MOST_THREADS * (size_t)SW_PRODUCT_WORKSPACE);
    for (int set = 0; set < SW_N_KERNEL_SETS; set++)
        for (int gemm = 0; gemm < SW_N_GEMM_KINDS; gemm++) {
            const sw_cpu_options options = {
                .set = (sw_kernel_set)set, .gemm = (sw_gemm_kind)gemm, .n_threads = 1};
            sw_error err = {0};
            if (!sw_kernel_set_runs_here(options.set) ||
                !sw_gemm_runs_here(options.gemm, options.set))
                continue;
            if (gemm == SW_GEMM_BLAS && options.set != sw_kernel_set_best())
                continue; /* one BLAS is enough */
            if (sw_cpu_open(&options, &f->devices[f->n_devices], &err))
                return 1;
            f->n_devices++;
        }
    *state = f;
    return 0;
}

static int close_devices(void **state) {
    fixture *f = *state;
    for (int i = 0; i < f->n_devices; i++)
        f->devices[i]->close(f->devices[i]);
    free(f->workspace);
    free(f);
    return 0;
}

static void describe(const product_shape *s, const sw_device *device, char text[256]) {
    snprintf(text, 256,
             "%s, %s: [%lld,%lld]%s %s x %s [%lld,%lld]%s -> %s, alpha %g, addend %d, bias %d",
             device->kernel_set, device->gemm, (long long)s->m, (long long)s->k,
             s->a_is_turned ? "^T" : "", sw_dtype_name(s->a_type), sw_dtype_name(s->b_type),
             (long long)s->k, (long long)s->n, s->b_is_turned ? "^T" : "", sw_dtype_name(s->c_type),
             s->alpha, s->addend, s->has_bias);
}

/* Workspace holds NaN when a product begins. */
static void multiply(fixture *f, const sw_device *device, product_case *c) {
    memset(f->workspace, 0xff, MOST_THREADS * (size_t)SW_PRODUCT_WORKSPACE);
    product_reset(c);
    c->product.workspace = f->workspace;
    sw_multiply(device, &c->product);
}

static void check_all(fixture *f, const product_shape *s, uint64_t seed) {
    product_case c = product_make(s, seed);
    for (int i = 0; i < f->n_devices; i++) {
        multiply(f, f->devices[i], &c);
        const char *wrong = product_is_wrong(&c);
        if (wrong) {
            char text[256];
            describe(s, f->devices[i], text);
            fail_msg("%s: %s", text, wrong);
        }
    }
    product_free(&c);
}

/* Shape number i of a walk through all of them: types, ways of lying, sides, strides and what is
 * added vary together. */
static product_shape shape_number(int i) {
    static const int64_t sides[] = {1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 48, 49, 65, 97, 101};
    static const int64_t depths[] = {1, 2, 3, 15, 16, 33, 64, 97, 130, 577};
    static const sw_dtype types[][3] = {
        {SW_BF16, SW_BF16, SW_BF16}, {SW_BF16, SW_BF16, SW_F32}, {SW_F32, SW_F32, SW_F32},
        {SW_F32, SW_BF16, SW_F32},   {SW_BF16, SW_F32, SW_F32},  {SW_F32, SW_F32, SW_BF16},
        {SW_F32, SW_BF16, SW_BF16},  {SW_BF16, SW_F32, SW_BF16}, {SW_F64, SW_F64, SW_F64}};
    static const double alphas[] = {1, 1, 0.5, -2, 0.3};
    const sw_dtype *type = types[i % 9];
    uint64_t seed = (uint64_t)i * 7919 + 1;
    for (int j = 0; j < 3; j++)
        device_random(&seed);
    const int draw = (int)(seed >> 33);
    return (product_shape){.m = sides[draw % 16],
                           .n = sides[draw / 16 % 16],
                           .k = depths[draw / 256 % 10],
                           .a_is_turned = i / 9 & 1,
                           .b_is_turned = i / 18 & 1,
                           .a_type = type[0],
                           .b_type = type[1],
                           .c_type = type[2],
                           .a_more = draw / 2560 % 4,
                           .b_more = draw / 10240 % 3,
                           .c_more = draw / 30720 % 5,
                           .alpha = alphas[i % 5],
                           .addend = i / 36 % 3,
                           .has_bias = i % 7 < 2,
                           .bias_type = type[2] == SW_F64 ? SW_F64
                                        : i % 7 == 0      ? SW_BF16
                                                          : SW_F32};
}

static void products_of_every_kind_are_right(void **state) {
    for (int i = 0; i < 1500; i++) {
        const product_shape s = shape_number(i);
        check_all(*state, &s, (uint64_t)i);
    }
}

/* Sums that are too long for one block of the workspace, and matrices of more than one block. */
static void long_sums_and_large_matrices_are_right(void **state) {
    static const int64_t sides[][3] = {
        {9, 50, 12001}, {300, 30, 2049}, {70, 1100, 97}, {431, 433, 131}};
    static const sw_dtype types[][3] = {{SW_BF16, SW_BF16, SW_BF16},
                                        {SW_BF16, SW_BF16, SW_F32},
                                        {SW_F32, SW_BF16, SW_BF16},
                                        {SW_F32, SW_F32, SW_F32},
                                        {SW_F64, SW_F64, SW_F64}};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 5; j++) {
            const product_shape s = {sides[i][0],     sides[i][1],  sides[i][2],    (i + j) % 2,
                                     (i + j) / 2 % 2, types[j][0],  types[j][1],    types[j][2],
                                     .c_more = 2,     .alpha = 0.5, .addend = j % 3};
            check_all(*state, &s, (uint64_t)(10 * i + j));
        }
}

/* With no terms, C is bias plus addend. */
static void an_empty_sum_leaves_bias_and_addend(void **state) {
    for (int addend = 0; addend < 3; addend++)
        for (int type = 0; type < 2; type++) {
            const product_shape s = {.m = 2,
                                     .n = 39,
                                     .k = 0,
                                     .a_type = type ? SW_BF16 : SW_F32,
                                     .b_type = type ? SW_BF16 : SW_F32,
                                     .c_type = SW_F32,
                                     .c_more = 1,
                                     .alpha = 1,
                                     .addend = addend,
                                     .has_bias = true,
                                     .bias_type = SW_F32};
            check_all(*state, &s, 1);
        }
}

/* The same bits for 1, 2 and 3 threads, for the product that one thread does alone, and for a
 * product of a few of the rows and columns only. */
static void bits_do_not_depend_on_threads_or_on_what_surrounds_an_element(void **state) {
    fixture *f = *state;
    static const sw_dtype types[][3] = {
        {SW_BF16, SW_BF16, SW_BF16}, {SW_BF16, SW_BF16, SW_F32}, {SW_F32, SW_F32, SW_F32}};
    for (int i = 0; i < 12; i++) {
        const product_shape s = {.m = 203,
                                 .n = 331,
                                 .k = 301,
                                 .a_is_turned = i / 3 & 1,
                                 .b_is_turned = i / 6 & 1,
                                 .a_type = types[i % 3][0],
                                 .b_type = types[i % 3][1],
                                 .c_type = types[i % 3][2],
                                 .alpha = 0.3,
                                 .addend = 2};
        product_case c = product_make(&s, (uint64_t)i);
        const size_t bytes = product_bytes(&c);
        void *first = malloc(bytes);
        for (int d = 0; d < f->n_devices; d++) {
            const sw_cpu_device *cpu = (const sw_cpu_device *)f->devices[d];
            multiply(f, f->devices[d], &c);
            memcpy(first, c.product.c, bytes);
            for (int n_threads = 2; n_threads <= MOST_THREADS; n_threads++) {
                sw_device *device = NULL;
                sw_error err = {0};
                sw_cpu_options options = cpu->options;
                options.n_threads = n_threads;
                assert_int_equal(sw_cpu_open(&options, &device, &err), SW_OK);
                multiply(f, device, &c);
                assert_memory_equal(first, c.product.c, bytes);
                product_reset(&c);
                sw_multiply_alone(device, &c.product);
                assert_memory_equal(first, c.product.c, bytes);
                device->close(device);
            }
            if (cpu->sgemm)
                continue; /* promises nothing of parts */
            product_reset(&c);
            sw_product part = c.product;
            enum { ROW = 5, COLUMN = 19, ROWS = 37, COLUMNS = 101 };
            part.m = ROWS, part.n = COLUMNS;
            part.a.at = (const char *)part.a.at +
                        (s.a_is_turned ? ROW : ROW * part.a.stride) * sw_dtype_bytes(s.a_type);
            part.b.at =
                (const char *)part.b.at +
                (s.b_is_turned ? COLUMN * part.b.stride : COLUMN) * sw_dtype_bytes(s.b_type);
            const int64_t at = (ROW * part.c_stride + COLUMN) * sw_dtype_bytes(s.c_type);
            part.addend = part.c = (char *)part.c + at;
            sw_multiply(f->devices[d], &part);
            for (int64_t row = 0; row < ROWS; row++) {
                const int64_t from = row * part.c_stride * sw_dtype_bytes(s.c_type);
                assert_memory_equal((char *)part.c + from, (char *)first + at + from,
                                    COLUMNS * (size_t)sw_dtype_bytes(s.c_type));
            }
        }
        free(first);
        product_free(&c);
    }
}

/* Infinities and NaN reach the elements whose sums they are in, and no others. */
static void what_is_not_finite_stays_in_its_row(void **state) {
    fixture *f = *state;
    for (int type = 0; type < 2; type++) {
        const product_shape s = {.m = 10,
                                 .n = 20,
                                 .k = 33,
                                 .a_type = type ? SW_BF16 : SW_F32,
                                 .b_type = type ? SW_BF16 : SW_F32,
                                 .c_type = SW_BF16,
                                 .alpha = 1};
        product_case c = product_make(&s, 3);
        for (int kind = 0; kind < 2; kind++) {
            void *at = (char *)c.product.a.at +
                       (3 * 33 + 32) * sw_dtype_bytes(s.a_type); /* the last term of row 3 */
            const uint32_t bits = kind ? 0x7fc00000u : 0x7f800000u;
            memcpy(at, (const char *)&bits + (type ? 2 : 0), (size_t)sw_dtype_bytes(s.a_type));
            for (int d = 0; d < f->n_devices; d++) {
                multiply(f, f->devices[d], &c);
                for (int i = 0; i < 10 * 20; i++) {
                    const uint16_t got = ((const uint16_t *)c.product.c)[i];
                    const bool is_finite = (got & 0x7f80u) != 0x7f80u,
                               is_nan = !is_finite && (got & 0x7fu);
                    assert_int_equal(is_finite, i / 20 != 3);
                    assert_int_equal(is_nan, i / 20 == 3 && kind == 1);
                }
            }
        }
        product_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_every_kind_are_right),
        cmocka_unit_test(long_sums_and_large_matrices_are_right),
        cmocka_unit_test(an_empty_sum_leaves_bias_and_addend),
        cmocka_unit_test(bits_do_not_depend_on_threads_or_on_what_surrounds_an_element),
        cmocka_unit_test(what_is_not_finite_stays_in_its_row),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
