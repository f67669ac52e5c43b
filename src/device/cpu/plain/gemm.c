/* gemm.c: the plain matrix product (gemm.h), for float with bf16 and for double.
 *
 * A block of A [BLOCK_M, BLOCK_K] is packed into strips of TILE_M rows, a panel of B [BLOCK_K,
 * TILE_N] is packed beside it, and a tile is summed in registers over the block's k and added to
 * the sums of its block of C [BLOCK_M, BLOCK_N], from which C is written when k is done. Packing
 * widens bf16. Strips and panels are padded with zeros to whole tiles, so there is one inner loop,
 * and an element of C is the same sum in the same order wherever it lies and however large the
 * matrices are.
 *
 *              TILE_N
 *              +----+
 *        B     |    | panel: k after k, TILE_N each
 *              +----+
 *   A +-----+  +----+
 *     |strip|  |tile| TILE_M rows
 *     +-----+  +----+
 */
#include "device/cpu/plain/lanes.h"
#include "device/sizes.h"

#ifndef SW_KIND_bf16 /* the product of floats serves bf16 too */

#if SW_VECTOR_BYTES == 64
enum { TILE_M = 12 }; /* 24 of 32 registers hold the tile */
#elif SW_VECTOR_BYTES == 32
enum { TILE_M = 6 }; /* 12 of 16 */
#else
enum { TILE_M = 4 }; /* 8 of 16, for products need a register */
#endif
enum {
    TILE_N = 2 * VECTOR_LANES,
    BLOCK_K = 16 * 1024 / (TILE_N * SW_REAL_BYTES), /* a panel stays in the first cache */
    BLOCK_M =
        192 * 1024 /
        (BLOCK_K * SW_REAL_BYTES), /* the block of A in the second; a multiple of every TILE_M */
    BLOCK_N = 1024,                /* columns whose sums are kept; a multiple of every TILE_N */
    STRIP_STEP =
        BLOCK_K +
        16 /* from row to row; rows a power of two apart would share few sets of the cache */
};

typedef struct space {
    _Alignas(64) real strips[BLOCK_M * STRIP_STEP];
    _Alignas(64) real panel[BLOCK_K * TILE_N];
    _Alignas(64) real sums[BLOCK_M * BLOCK_N];
} space;
_Static_assert(sizeof(space) <= SW_PRODUCT_WORKSPACE,
               "one thread's workspace holds what the plain product works in");

/* to[i] = element (row, column + i) of op(X) where `along`, else (row + i, column): n elements that
 * lie side by side. */
static void load_run(const sw_matrix *x, int64_t outer, int64_t inner, int64_t n, real *to) {
    const int64_t at = outer * x->stride + inner;
#ifndef SW_KIND_f64
    if (x->type == SW_BF16) {
        const uint16_t *from = (const uint16_t *)x->at + at;
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            to[i] = sw_bf16_to_float(from[i]);
        return;
    }
#endif
    memcpy(to, (const real *)x->at + at, (size_t)n * sizeof *to);
}

/* A strip is TILE_M rows of op(A) from `row` on and columns from `p` on, zero past n_rows, in the
 * order in which A lies, for turning it costs more than reading it turned: element (row, p) at row
 * * STRIP_STEP + p, or of a turned A at p * TILE_M + row.
 */
static void pack_strip(const sw_matrix *a, int64_t row, int64_t n_rows, int64_t p, int64_t k,
                       real *strip) {
    if (a->is_turned) {
        for (int64_t i = 0; i < k; i++, strip += TILE_M) {
            load_run(a, p + i, row, n_rows, strip);
            memset(strip + n_rows, 0, (size_t)(TILE_M - n_rows) * sizeof *strip);
        }
        return;
    }
    for (int64_t i = 0; i < TILE_M; i++, strip += STRIP_STEP)
        if (i < n_rows)
            load_run(a, row + i, p, k, strip);
        else
            memset(strip, 0, (size_t)k * sizeof *strip);
}

/* panel[k][TILE_N] = columns of op(B) from `column` on; those past n_columns are zero. */
static void pack_panel(const sw_matrix *b, int64_t p, int64_t k, int64_t column, int64_t n_columns,
                       real *panel) {
    if (!b->is_turned) {
        for (int64_t i = 0; i < k; i++, panel += TILE_N) {
            load_run(b, p + i, column, n_columns, panel);
            memset(panel + n_columns, 0, (size_t)(TILE_N - n_columns) * sizeof *panel);
        }
        return;
    }
    for (int64_t j = 0; j < TILE_N; j++) {
        real row[BLOCK_K] = {0};
        if (j < n_columns)
            load_run(b, column + j, p, k, row);
        for (int64_t i = 0; i < k; i++)
            panel[i * TILE_N + j] = row[i];
    }
}

/* tile = strip * panel, added to the sums unless they begin; the steps are constants where this is
 * inlined. */
static inline __attribute__((always_inline)) void sum_tile(int64_t k, const real *strip,
                                                           int64_t row_step, int64_t k_step,
                                                           const real *panel, bool begins,
                                                           real *sums) {
    vector sum[TILE_M][2] = {0};
    for (int64_t p = 0; p < k; p++) {
        const vector left = load_vector(panel + p * TILE_N),
                     right = load_vector(panel + p * TILE_N + VECTOR_LANES);
        for (int row = 0; row < TILE_M; row++) {
            const real a = strip[p * k_step + row * row_step];
            sum[row][0] += a * left;
            sum[row][1] += a * right;
        }
    }
    for (int row = 0; row < TILE_M; row++, sums += BLOCK_N)
        for (int half = 0; half < 2; half++) {
            vector total = sum[row][half];
            if (!begins)
                total += load_vector(sums + half * VECTOR_LANES);
            memcpy(sums + half * VECTOR_LANES, &total, sizeof total);
        }
}

static void multiply_tile(bool turned, int64_t k, const real *strip, const real *panel, bool begins,
                          real *sums) {
    if (turned)
        sum_tile(k, strip, 1, TILE_M, panel, begins, sums);
    else
        sum_tile(k, strip, STRIP_STEP, 1, panel, begins, sums);
}

/* The part of a row, n elements from `column` on, of an addend or a bias. */
static void add_run(const void *from, sw_dtype type, int64_t at, int64_t n, real *to) {
    real values[BLOCK_N];
    const sw_matrix row = {from, 0, false, type};
    load_run(&row, 0, at, n, values);
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        to[i] += values[i];
}

/* C = alpha * sums + bias + addend for one row of a block. */
static void store_row(const sw_product *p, int64_t row, int64_t column, int64_t n, real *sums) {
    const real alpha = (real)p->alpha;
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        sums[i] *= alpha;
    if (p->bias)
        add_run(p->bias, p->bias_type, column, n, sums);
    if (p->addend)
        add_run(p->addend, p->c_type, row * p->addend_stride + column, n, sums);
    const int64_t at = row * p->c_stride + column;
#ifndef SW_KIND_f64
    if (p->c_type == SW_BF16) {
        uint16_t *c = (uint16_t *)p->c + at;
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++) {
            const uint32_t bits = sw_float_bits(sums[i]);
            const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
            c[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
        }
        return;
    }
#endif
    memcpy((real *)p->c + at, sums, (size_t)n * sizeof *sums);
}

static void multiply_block(const sw_product *p, int64_t row, int64_t n_rows, int64_t column,
                           int64_t n_columns, space *s) {
    if (p->k == 0)
        memset(s->sums, 0, sizeof s->sums);
    for (int64_t at = 0; at < p->k; at += BLOCK_K) {
        const int64_t depth = smaller(BLOCK_K, p->k - at);
        for (int64_t i = 0; i < n_rows; i += TILE_M)
            pack_strip(&p->a, row + i, smaller(TILE_M, n_rows - i), at, depth,
                       s->strips + i * STRIP_STEP);
        for (int64_t j = 0; j < n_columns; j += TILE_N) {
            pack_panel(&p->b, at, depth, column + j, smaller(TILE_N, n_columns - j), s->panel);
            for (int64_t i = 0; i < n_rows; i += TILE_M)
                multiply_tile(p->a.is_turned, depth, s->strips + i * STRIP_STEP, s->panel, at == 0,
                              s->sums + i * BLOCK_N + j);
        }
    }
    for (int64_t i = 0; i < n_rows; i++)
        store_row(p, row + i, column, n_columns, s->sums + i * BLOCK_N);
}

void SW_LOCAL(multiply_plain)(const sw_device *device, const sw_product *product) {
    (void)device;
    for (int64_t row = 0; row < product->m; row += BLOCK_M)
        for (int64_t column = 0; column < product->n; column += BLOCK_N)
            multiply_block(product, row, smaller(BLOCK_M, product->m - row), column,
                           smaller(BLOCK_N, product->n - column), product->workspace);
}

#endif
