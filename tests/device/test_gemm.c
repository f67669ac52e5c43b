/* Both matrix products against three plain loops, over ragged shapes, turned operands, strides, alpha and beta. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "support/device_case.h"

typedef struct problem {
    bool a_turned, b_turned;
    int64_t m, n, k, a_stride, b_stride, c_stride;
    double alpha, beta;
} problem;

static const int64_t sides[] = {1, 2, 7, 16, 33, 65, 200};
static const double factors[][2] = {{1, 0}, {1, 1}, {0.5, 0}, {-2, 0.25}};
enum { N_SIDES = 7, LONG_K = 600 };

/* Pseudo-random problems; the sides of the first N_SIDES^2 are all pairs. */
static problem problem_number(int i) {
    const int64_t m = sides[i % N_SIDES], n = sides[i / N_SIDES % N_SIDES],
                  k = i % 11 == 0 ? LONG_K : sides[(i * 5 + i / N_SIDES) % N_SIDES];
    const bool a_turned = i & 1, b_turned = i >> 1 & 1;
    return (problem){a_turned,
                     b_turned,
                     m,
                     n,
                     k,
                     (a_turned ? m : k) + i % 3,
                     (b_turned ? k : n) + i % 5,
                     n + i % 2,
                     factors[i % 4][0],
                     factors[i / 3 % 4][1]};
}
enum { N_PROBLEMS = 4 * N_SIDES * N_SIDES };

/* Run in float (`single` or, when NULL, `cblas`) or double; C outside its n columns must stay. Returns the largest error over the
 * magnitude of the terms. */
static double try(const problem *p, sw_sgemm_fn single, sw_cblas_sgemm_fn cblas, sw_dgemm_fn twice, uint64_t seed) {
    const int64_t a_n = (p->a_turned ? p->k : p->m) * p->a_stride, b_n = (p->b_turned ? p->n : p->k) * p->b_stride,
                  c_n = p->m * p->c_stride;
    double *a = malloc(sizeof *a * (size_t)a_n), *b = malloc(sizeof *b * (size_t)b_n), *c = malloc(sizeof *c * (size_t)c_n);
    float *fa = malloc(sizeof *fa * (size_t)a_n), *fb = malloc(sizeof *fb * (size_t)b_n), *fc = malloc(sizeof *fc * (size_t)c_n);
    double *got = malloc(sizeof *got * (size_t)c_n), worst = 0;
    for (int64_t i = 0; i < a_n; i++)
        a[i] = fa[i] = (float)device_random(&seed);
    for (int64_t i = 0; i < b_n; i++)
        b[i] = fb[i] = (float)device_random(&seed);
    for (int64_t i = 0; i < c_n; i++) /* with beta = 0, C is not read */
        c[i] = got[i] = fc[i] = p->beta == 0 && i % p->c_stride < p->n ? NAN : (float)device_random(&seed);
    if (twice)
        twice(p->a_turned, p->b_turned, p->m, p->n, p->k, p->alpha, a, p->a_stride, b, p->b_stride, p->beta, got, p->c_stride);
    else if (single)
        single(p->a_turned, p->b_turned, p->m, p->n, p->k, (float)p->alpha, fa, p->a_stride, fb, p->b_stride, (float)p->beta, fc,
               p->c_stride);
    else
        cblas(SW_CBLAS_ROW_MAJOR, p->a_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES,
              p->b_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES, (int)p->m, (int)p->n, (int)p->k, (float)p->alpha, fa,
              (int)p->a_stride, fb, (int)p->b_stride, (float)p->beta, fc, (int)p->c_stride);
    for (int64_t row = 0; row < p->m; row++)
        for (int64_t column = 0; column < p->c_stride; column++) {
            const int64_t at = row * p->c_stride + column;
            const double result = twice ? got[at] : (double)fc[at];
            if (column >= p->n) {
                worst = result == c[at] ? worst : INFINITY;
                continue;
            }
            double expected = p->beta == 0 ? 0 : p->beta * c[at], size = fabs(expected);
            for (int64_t k = 0; k < p->k; k++) {
                const double term = p->alpha * a[p->a_turned ? k * p->a_stride + row : row * p->a_stride + k] *
                                    b[p->b_turned ? column * p->b_stride + k : k * p->b_stride + column];
                expected += term;
                size += fabs(term);
            }
            const double error = fabs(result - expected) / (size > 0 ? size : 1);
            worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
        }
    free(a), free(b), free(c), free(fa), free(fb), free(fc), free(got);
    return worst;
}

static void plain_products_are_right(void **state) {
    (void)state;
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        const sw_sgemm_fn single = sw_kernel_set_table_of(SW_NUMBERS_F32, (sw_kernel_set)set)->plain_sgemm;
        const sw_dgemm_fn twice = sw_kernel_set_table_of(SW_NUMBERS_F64, (sw_kernel_set)set)->plain_dgemm;
        for (int i = 0; i < N_PROBLEMS; i++) {
            const problem p = problem_number(i);
            if (try(&p, single, NULL, NULL, (uint64_t)i) > 5e-7 || try(&p, NULL, NULL, twice, (uint64_t)i) > 1e-15)
                fail_msg("problem %d, %s: wrong", i, sw_kernel_set_name((sw_kernel_set)set));
        }
    }
}

static void the_blas_is_right_where_there_is_one(void **state) {
    (void)state;
    sw_device *device = device_open(sw_kernel_set_best(), true);
    const sw_cblas_sgemm_fn cblas = ((sw_cpu_device *)device)->sgemm;
    assert_true((cblas != NULL) == (strcmp(device->gemm, "plain") != 0));
    assert_true(cblas || strlen(sw_cpu_gemm_note(device)) > 0);
    for (int i = 0; cblas && i < N_PROBLEMS; i++) {
        const problem p = problem_number(i);
        if (try(&p, NULL, cblas, NULL, (uint64_t)i) > 5e-7)
            fail_msg("problem %d, %s: wrong", i, device->gemm);
    }
    device->close(device);
    if (!cblas)
        skip();
}

/* An empty inner length leaves beta * C. */
static void no_terms_scale_c(void **state) {
    (void)state;
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        float c[2][40], one[1] = {1};
        for (int i = 0; i < 80; i++)
            c[i / 40][i % 40] = (float)i;
        sw_kernel_set_table_of(SW_NUMBERS_F32, (sw_kernel_set)set)
            ->plain_sgemm(false, false, 2, 39, 0, 1, one, 1, one, 1, 0.5f, &c[0][0], 40);
        for (int i = 0; i < 80; i++)
            assert_true(c[i / 40][i % 40] == (float)i * (i % 40 < 39 ? 0.5f : 1));
    }
}

/* An element of the plain product is the same sum whatever surrounds it: bits of a row do not change with the number of rows. */
static void rows_do_not_depend_on_their_number(void **state) {
    (void)state;
    enum { M = 70, N = 50, K = 300 };
    static float a[M * K], b[K * N], all[M * N], some[M * N];
    uint64_t seed = 1;
    for (int i = 0; i < M * K; i++)
        a[i] = (float)device_random(&seed);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)device_random(&seed);
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        const sw_sgemm_fn multiply = sw_kernel_set_table_of(SW_NUMBERS_F32, (sw_kernel_set)set)->plain_sgemm;
        multiply(false, false, M, N, K, 1, a, K, b, N, 0, all, N);
        for (int m = 1; m < M; m += 8) {
            multiply(false, false, m, N, K, 1, a + (M - m) * K, K, b, N, 0, some, N);
            assert_memory_equal(some, all + (M - m) * N, sizeof(float) * (size_t)m * N);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_products_are_right),
        cmocka_unit_test(the_blas_is_right_where_there_is_one),
        cmocka_unit_test(no_terms_scale_c),
        cmocka_unit_test(rows_do_not_depend_on_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
