/* blas_product.c: the product of gemm.h by a BLAS that knows fp32 alone.
 *
 * C is computed a block at a time in the workspace. Operands that lie in fp32 are read where they
 * are; those in bf16 are widened a block at a time, and k is cut where they are, later parts being
 * added to the block. Then the block goes out to C, with bias and addend. An fp32 C without either
 * is written by the BLAS itself.
 */
#include <limits.h>
#include <string.h>

#include "base/integer.h"
#include "device/cpu/cpu.h"
#include "device/cpu/open.h"
#include "device/sizes.h"

enum { SIDE = 384, DEPTH = 640 };

typedef struct space {
    float a[SIDE * DEPTH], b[DEPTH * SIDE];
    float sums[SIDE * SIDE];
} space;
_Static_assert(sizeof(space) <= SW_PRODUCT_WORKSPACE,
               "one thread's workspace holds a block of each matrix");

/* A block of op(X), as it lies: where it is, or widened. */
static sw_matrix as_floats(const sw_matrix *x, int64_t row, int64_t column, int64_t n_rows,
                           int64_t n_columns, float *widened) {
    const int64_t outer = x->is_turned ? column : row, inner = x->is_turned ? row : column;
    const int64_t n_outer = x->is_turned ? n_columns : n_rows,
                  n_inner = x->is_turned ? n_rows : n_columns;
    if (x->type == SW_F32)
        return (sw_matrix){(const float *)x->at + outer * x->stride + inner, x->stride,
                           x->is_turned, SW_F32};
    const uint16_t *from = (const uint16_t *)x->at + outer * x->stride + inner;
    for (int64_t i = 0; i < n_outer; i++)
        for (int64_t j = 0; j < n_inner; j++)
            widened[i * n_inner + j] = sw_bf16_to_float(from[i * x->stride + j]);
    return (sw_matrix){widened, n_inner, x->is_turned, SW_F32};
}

static float element(const void *from, sw_dtype type, int64_t i) {
    return type == SW_BF16 ? sw_bf16_to_float(((const uint16_t *)from)[i])
                           : ((const float *)from)[i];
}

static void store_row(const sw_product *p, int64_t row, int64_t column, int64_t n, float *sums) {
    for (int64_t i = 0; p->bias && i < n; i++)
        sums[i] += element(p->bias, p->bias_type, column + i);
    for (int64_t i = 0; p->addend && i < n; i++)
        sums[i] += element(p->addend, p->c_type, row * p->addend_stride + column + i);
    const int64_t at = row * p->c_stride + column;
    if (p->c_type == SW_F32) {
        memcpy((float *)p->c + at, sums, (size_t)n * sizeof *sums);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)p->c)[at + i] = sw_float_to_bf16(sums[i]);
}

static void multiply_block(sw_cblas_sgemm_fn sgemm, const sw_product *p, int64_t row, int64_t m,
                           int64_t column, int64_t n, space *s) {
    const bool goes_out = p->c_type != SW_F32 || p->bias || p->addend;
    const bool widens = p->a.type != SW_F32 || p->b.type != SW_F32;
    float *to = goes_out ? s->sums : (float *)p->c + row * p->c_stride + column;
    const int64_t stride = goes_out ? n : p->c_stride, step = widens ? DEPTH : p->k;
    int64_t k = 0;
    do {
        const int64_t depth = smaller(step, p->k - k);
        const sw_matrix a = as_floats(&p->a, row, k, m, depth, s->a),
                        b = as_floats(&p->b, k, column, depth, n, s->b);
        sgemm(SW_CBLAS_ROW_MAJOR, a.is_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES,
              b.is_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES, (int)m, (int)n, (int)depth,
              (float)p->alpha, a.at, (int)a.stride, b.at, (int)b.stride, k == 0 ? 0.0f : 1.0f, to,
              (int)stride);
        k += depth;
    } while (k < p->k);
    for (int64_t i = 0; goes_out && i < m; i++)
        store_row(p, row + i, column, n, s->sums + i * n);
}

static bool fits_int(const sw_product *p) {
    return p->m <= INT_MAX && p->n <= INT_MAX && p->k <= INT_MAX && p->a.stride <= INT_MAX &&
           p->b.stride <= INT_MAX && p->c_stride <= INT_MAX;
}

void sw_multiply_blas(const sw_device *device, const sw_product *p) {
    const sw_cpu_device *cpu = (const sw_cpu_device *)device;
    if (p->k == 0 || !fits_int(p)) {
        cpu->multiply_plain(device, p);
        return;
    }
    const bool is_one =
        p->a.type == SW_F32 && p->b.type == SW_F32 && p->c_type == SW_F32 && !p->bias && !p->addend;
    const int64_t rows = is_one ? p->m : SIDE, columns = is_one ? p->n : SIDE;
    for (int64_t row = 0; row < p->m; row += rows)
        for (int64_t column = 0; column < p->n; column += columns)
            multiply_block(cpu->sgemm, p, row, smaller(rows, p->m - row), column,
                           smaller(columns, p->n - column), p->workspace);
}
