/* gemm.c: the plain matrix product.
 *
 * A block of A [BLOCK_M, BLOCK_K] is packed into strips of TILE_M rows, a panel of B [BLOCK_K, TILE_N] is packed beside it, and a
 * tile of C is summed in registers over the block's k. Strips and panels are padded with zeros to whole tiles, so there is one
 * inner loop, and an element of C is the same sum in the same order wherever it lies and however large the matrices are.
 *
 *              TILE_N
 *              +----+
 *        B     |    | panel: k after k, TILE_N each
 *              +----+
 *   A +-----+  +----+
 *     |strip|  |tile| TILE_M rows
 *     +-----+  +----+
 */
#include <limits.h>

#include "device/cpu/plain/lanes.h"

#if SW_VECTOR_BYTES == 64
enum { TILE_M = 12 }; /* 24 of 32 registers hold the tile */
#elif SW_VECTOR_BYTES == 32
enum { TILE_M = 6 }; /* 12 of 16 */
#else
enum { TILE_M = 4 }; /* 8 of 16, for products need a register */
#endif
enum {
    TILE_N = 2 * VECTOR_LANES,
    BLOCK_K = 16 * 1024 / (TILE_N * SW_REAL_BYTES),   /* a panel stays in the first cache */
    BLOCK_M = 192 * 1024 / (BLOCK_K * SW_REAL_BYTES), /* the block of A in the second; a multiple of every TILE_M */
    STRIP_STEP = BLOCK_K + 16 /* from row to row; rows a power of two apart would share few sets of the cache */
};

/* A strip is alpha times TILE_M rows of op(A), zero past n_rows, in the order in which A lies, for turning it costs more than
 * reading it turned: element (row, p) at row * STRIP_STEP + p, or of a turned A at p * TILE_M + row. */
static void pack_strip(bool turned, int64_t n_rows, int64_t k, real alpha, const real *a, int64_t stride, real *strip) {
    if (turned) {
        for (int64_t p = 0; p < k; p++)
            for (int64_t row = 0; row < TILE_M; row++)
                strip[p * TILE_M + row] = row < n_rows ? alpha * a[p * stride + row] : 0;
        return;
    }
    for (int64_t row = 0; row < TILE_M; row++)
        for (int64_t p = 0; p < k; p++)
            strip[row * STRIP_STEP + p] = row < n_rows ? alpha * a[row * stride + p] : 0;
}

/* panel[k][TILE_N] = columns of op(B); columns past n_columns are zero. */
static void pack_panel(bool turned, int64_t n_columns, int64_t k, const real *b, int64_t stride, real *panel) {
    if (!turned && n_columns == TILE_N) {
        for (int64_t p = 0; p < k; p++)
            for (int column = 0; column < TILE_N; column++)
                panel[p * TILE_N + column] = b[p * stride + column];
        return;
    }
    for (int64_t column = 0; column < TILE_N; column++)
        for (int64_t p = 0; p < k; p++)
            panel[p * TILE_N + column] = column >= n_columns ? 0 : turned ? b[column * stride + p] : b[p * stride + column];
}

/* tile = strip * panel; the steps are constants where this is inlined. */
static inline __attribute__((always_inline)) void sum_tile(int64_t k, const real *strip, int64_t row_step, int64_t k_step,
                                                           const real *panel, real *tile) {
    vector sum[TILE_M][2] = {0};
    for (int64_t p = 0; p < k; p++) {
        const vector left = load_vector(panel + p * TILE_N), right = load_vector(panel + p * TILE_N + VECTOR_LANES);
        for (int row = 0; row < TILE_M; row++) {
            const real a = strip[p * k_step + row * row_step];
            sum[row][0] += a * left;
            sum[row][1] += a * right;
        }
    }
    memcpy(tile, sum, sizeof sum);
}

static void multiply_tile(bool turned, int64_t k, const real *strip, const real *panel, real *tile) {
    if (turned)
        sum_tile(k, strip, 1, TILE_M, panel, tile);
    else
        sum_tile(k, strip, STRIP_STEP, 1, panel, tile);
}

/* C = beta * C + tile, for the part of the tile that is in the matrix. */
static void store_tile(int64_t n_rows, int64_t n_columns, const real *tile, real beta, real *c, int64_t stride) {
    for (int64_t row = 0; row < n_rows; row++, tile += TILE_N, c += stride) {
        if (beta == 0)
            for (int64_t column = 0; column < n_columns; column++)
                c[column] = tile[column];
        else
            for (int64_t column = 0; column < n_columns; column++)
                c[column] = beta * c[column] + tile[column];
    }
}

void SW_LOCAL(gemm_plain)(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, real alpha, const real *a,
                          int64_t a_stride, const real *b, int64_t b_stride, real beta, real *c, int64_t c_stride) {
    _Alignas(64) real strips[BLOCK_M * STRIP_STEP], panel[BLOCK_K * TILE_N], tile[TILE_M * TILE_N];
    if (k == 0) {
        memset(tile, 0, sizeof tile);
        for (int64_t row = 0; row < m; row++)
            for (int64_t column = 0; column < n; column += TILE_N)
                store_tile(1, smaller(TILE_N, n - column), tile, beta, c + row * c_stride + column, c_stride);
        return;
    }
    for (int64_t p = 0; p < k; p += BLOCK_K) {
        const int64_t depth = smaller(BLOCK_K, k - p);
        const real keep = p == 0 ? beta : 1;
        for (int64_t row = 0; row < m; row += BLOCK_M) {
            const int64_t n_rows = smaller(BLOCK_M, m - row);
            for (int64_t i = 0; i < n_rows; i += TILE_M)
                pack_strip(a_turned, smaller(TILE_M, n_rows - i), depth, alpha,
                           a_turned ? a + p * a_stride + row + i : a + (row + i) * a_stride + p, a_stride,
                           strips + i * STRIP_STEP);
            for (int64_t column = 0; column < n; column += TILE_N) {
                const int64_t n_columns = smaller(TILE_N, n - column);
                pack_panel(b_turned, n_columns, depth, b_turned ? b + column * b_stride + p : b + p * b_stride + column, b_stride,
                           panel);
                for (int64_t i = 0; i < n_rows; i += TILE_M) {
                    multiply_tile(a_turned, depth, strips + i * STRIP_STEP, panel, tile);
                    store_tile(smaller(TILE_M, n_rows - i), n_columns, tile, keep, c + (row + i) * c_stride + column, c_stride);
                }
            }
        }
    }
}

void SW_LOCAL(gemm)(const sw_device *device, bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, real alpha,
                    const real *a, int64_t a_stride, const real *b, int64_t b_stride, real beta, real *c, int64_t c_stride) {
#ifndef SW_KIND_f64
    const sw_cblas_sgemm_fn sgemm = ((const sw_cpu_device *)device)->sgemm;
    const int64_t largest = larger(larger(larger(m, n), larger(k, a_stride)), larger(b_stride, c_stride));
    if (sgemm && largest <= INT_MAX) {
        sgemm(SW_CBLAS_ROW_MAJOR, a_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES,
              b_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES, (int)m, (int)n, (int)k, alpha, a, (int)a_stride, b, (int)b_stride,
              beta, c, (int)c_stride);
        return;
    }
#else
    (void)device;
#endif
    SW_LOCAL(gemm_plain)(a_turned, b_turned, m, n, k, alpha, a, a_stride, b, b_stride, beta, c, c_stride);
}
