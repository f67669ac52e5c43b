/* blas_check.c: is the product of a BLAS right? Libraries have been wrong for single CPUs and
 * shapes, and a wrong product trains quietly. */
#include <stdio.h>
#include <string.h>

#include "device/cpu/cpu.h"

/* Small numbers with few bits whose products and sums are exact in float in any order: equal must
 * mean equal. */
static void fill(int64_t n, uint32_t seed, float *x) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int)(seed >> 28) - 8) * 0.25f;
    }
}

/* Does the BLAS give what the plain kernel gives for one shape? The shapes end inside tiles of any
 * size. */
static bool agrees(sw_cblas_sgemm_fn sgemm, sw_product_fn plain, bool a_turned, bool b_turned,
                   int m, int n, int k, bool adds, void *space) {
    float *a = (float *)((char *)space + SW_PRODUCT_WORKSPACE), *b = a + m * k,
          *expected = b + k * n, *got = expected + m * n;
    const int a_stride = a_turned ? m : k, b_stride = b_turned ? k : n;
    fill((int64_t)m * k, 1, a);
    fill((int64_t)k * n, 2, b);
    fill((int64_t)m * n, 3, expected);
    memcpy(got, expected, sizeof(float) * (size_t)m * (size_t)n);
    const sw_product product = {.m = m,
                                .n = n,
                                .k = k,
                                .alpha = 0.5,
                                .a = {a, a_stride, a_turned, SW_F32},
                                .b = {b, b_stride, b_turned, SW_F32},
                                .c = expected,
                                .c_stride = n,
                                .c_type = SW_F32,
                                .addend = adds ? expected : NULL,
                                .addend_stride = n,
                                .workspace = space};
    plain(NULL, &product);
    sgemm(SW_CBLAS_ROW_MAJOR, a_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES,
          b_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES, m, n, k, 0.5f, a, a_stride, b, b_stride,
          adds ? 1.0f : 0.0f, got, n);
    for (int i = 0; i < m * n; i++)
        if (!(got[i] == expected[i]))
            return false;
    return true;
}

bool sw_blas_is_right(const sw_blas *blas, sw_product_fn plain, void *space,
                      char note[SW_NOTE_BYTES]) {
    static const int shapes[][3] = {
        {1, 1, 1}, {7, 33, 5}, {65, 17, 130}, {64, 96, 64}, {130, SW_BLAS_CHECK_SIDE, 67}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int way = 0; way < 8; way++) {
            const bool a_turned = way & 1, b_turned = way & 2;
            const int m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            const bool adds = way >> 2;
            if (!agrees(blas->sgemm, plain, a_turned, b_turned, m, n, k, adds, space)) {
                snprintf(note, SW_NOTE_BYTES,
                         "%s gives a wrong product [%d,%d]%s x [%d,%d]%s%s: the plain kernel "
                         "multiplies, more slowly; "
                         "another OPENBLAS_CORETYPE may be right",
                         blas->name, m, k, a_turned ? " turned" : "", k, n,
                         b_turned ? " turned" : "", adds ? ", added" : "");
                return false;
            }
        }
    return true;
}
