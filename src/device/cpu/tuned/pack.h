/* pack.h: operands in the order in which the tile reads them, widened or paired on the way.
 *
 * Either units of one index of k lie side by side (B as it is, A turned: `across`), or those of one
 * row or column do (A as it is, B turned: `along`). Both ways read whole vectors; where B has to be
 * turned, squares of VEC x VEC units are.
 */
#ifndef SW_DEVICE_CPU_TUNED_PACK_H
#define SW_DEVICE_CPU_TUNED_PACK_H

#include "device/cpu/gemm.h"
#include "device/cpu/tuned/units.h"

static inline int64_t x_bytes(const sw_matrix *x) {
    return x->type == SW_BF16 ? 2 : 4;
}

/* Unit u of n places from `place` on, where rows of the matrix, as it lies, are indices of k, `k`
 * of them. */
static inline units across(const sw_matrix *x, int64_t k, int64_t u, int64_t place, int64_t n) {
#ifdef SW_PAIRS
    const uint16_t *row = (const uint16_t *)x->at + 2 * u * x->stride + place;
    const units first = extend(load_halves(row, n));
    return 2 * u + 1 < k ? first | extend(load_halves(row + x->stride, n)) << 16 : first;
#else
    (void)k;
    return (units)load_reals(x->at, x->type, u * x->stride + place, n);
#endif
}

/* Units u .. u + VEC - 1 of one place, where rows of the matrix, as it lies, are places; those past
 * `k` are zero. */
static inline units along(const sw_matrix *x, int64_t k, int64_t place, int64_t u) {
#ifdef SW_PAIRS
    const uint16_t *from = (const uint16_t *)x->at + place * x->stride + 2 * u;
    units some = {0};
    memcpy(&some, from, k - 2 * u >= 2 * VEC ? sizeof some : (size_t)(k - 2 * u) * sizeof *from);
    return some;
#else
    return (units)load_reals(x->at, x->type, place * x->stride + u, k - u);
#endif
}

/* The part of op(X) that begins at index `p` of k. */
static inline sw_matrix from_k(const sw_matrix *x, bool k_is_outer, int64_t p) {
    sw_matrix part = *x;
    part.at = (const char *)x->at + (k_is_outer ? p * x->stride : p) * x_bytes(x);
    return part;
}

/* panel[n_units][n_vectors][VEC] = columns `column` .. of op(B), n of them; the rest are zero. */
static void pack_panel(const sw_matrix *b, int64_t k, int64_t column, int64_t n, int n_vectors,
                       uint32_t *panel) {
    const int64_t n_units = (k + UNIT - 1) / UNIT, step = n_vectors * VEC;
    if (!b->is_turned) {
        for (int64_t u = 0; u < n_units; u++)
            for (int64_t v = 0; v < n_vectors; v++) {
                const units some = across(b, k, u, column + v * VEC, n - v * VEC);
                memcpy(panel + u * step + v * VEC, &some, sizeof some);
            }
        return;
    }
    for (int64_t v = 0; v < n_vectors; v++)
        for (int64_t u = 0; u < n_units; u += VEC) {
            vec square[VEC];
            for (int64_t i = 0; i < VEC; i++)
                square[i] = v * VEC + i < n ? (vec)along(b, k, column + v * VEC + i, u) : vec_of(0);
            vec_turn(square);
            for (int64_t i = 0; i < smaller(VEC, n_units - u); i++)
                memcpy(panel + (u + i) * step + v * VEC, &square[i], sizeof square[i]);
        }
}

/* A strip of A is up to STRIP_ROWS rows, TILE_M at a time. Those of an A that lies turned: unit u
 * of row i of part t at ((t * n_units) + u) * TILE_M + i. Rows past n_rows are zero, if n_rows is
 * less than a strip; then A ends there, after n_there rows. Else what is there is read in whole
 * vectors. Rows lie too far apart for the CPU to see what comes next, so it is told. */
static void pack_turned_strip(const sw_matrix *a, int64_t k, int64_t row, int64_t n_rows,
                              int64_t n_there, uint32_t *strip) {
    enum { AHEAD = 16 }; /* indices of k; past the last that asks for what nobody reads */
    const int64_t n_units = (k + UNIT - 1) / UNIT, tile = n_units * TILE_M, bytes = x_bytes(a);
    const char *ahead = (const char *)a->at + (row + AHEAD * a->stride) * bytes;
    for (int64_t u = 0; u < n_units; u++, strip += TILE_M) {
        for (int64_t p = 0; p < UNIT; p++, ahead += a->stride * bytes)
            for (int64_t i = 0; i < n_rows * bytes; i += 64)
                __builtin_prefetch(ahead + i);
        for (int64_t i = 0; i < n_rows; i += VEC / TILE_M * TILE_M)
            store_tiles(across(a, k, u, row + i, n_there - i), strip + i / TILE_M * tile, tile);
    }
}

/* Those of an A that lies as it is: rows of `step` units, a multiple of VEC. */
static void pack_strip(const sw_matrix *a, int64_t k, int64_t row, int64_t n_rows, int64_t step,
                       uint32_t *strip) {
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t u = 0; u * UNIT < k; u += VEC) {
            const units some = along(a, k, row + i, u);
            memcpy(strip + i * step + u, &some, sizeof some);
        }
}

#endif
