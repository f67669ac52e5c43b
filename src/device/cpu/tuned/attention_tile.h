/* attention_tile.h: products of blocks, a tile of registers at a time.
 *
 * A tile is TILE_M rows and TILE_N columns, two vectors, of a product A B. Its sums stay in
 * registers while k runs; each step loads a row of B and broadcasts one element of A for each row:
 *
 *                         +------- TILE_N -------+
 *                    B    | p                    |    k rows, b_step apart
 *                         +----------------------+
 *   A: (i, p) at i row_step + p k_step         TILE_M rows of sums
 *
 * The elements of A and B are words of 32 bits: floats, or with SW_DOT pairs of bf16 that are
 * neighbours along k (PAIR elements a word), whose two products are added to the sum by one
 * instruction. Either way a step is the same loads and as many operations, so all else is written
 * once for both.
 */
#ifndef SW_DEVICE_CPU_TUNED_ATTENTION_TILE_H
#define SW_DEVICE_CPU_TUNED_ATTENTION_TILE_H

#include <stdbool.h>

#include "device/cpu/tuned/vector.h"

enum {
    TILE_M = VEC == 16 ? 12 : 6,
    TILE_N = 2 * VEC
}; /* sums take 24 of 32 registers, or 12 of 16 */

typedef float word; /* of 32 bits; with SW_DOT nobody computes with it as a float */

#ifdef SW_DOT
enum { PAIR = 2 };
SW_INLINE vec add_product(vec a, vec b, vec sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
#else
enum { PAIR = 1 };
SW_INLINE vec add_product(vec a, vec b, vec sum) {
    return vec_fma(a, b, sum);
}
#endif

/* sum[height][width vectors] += A B over k words. Height, width and, as far as possible, steps are
 * constants where this is inlined. */
SW_INLINE void sum_tile(int height, int width, int64_t k, const word *a, int64_t row_step,
                        int64_t k_step, const word *b, int64_t b_step, vec sum[TILE_M][2]) {
    for (int64_t p = 0; p < k; p++, a += k_step, b += b_step) {
        vec right[2];
        for (int j = 0; j < width; j++)
            right[j] = vec_at(b + j * VEC);
        for (int i = 0; i < height; i++) {
            const vec left = vec_of(a[i * row_step]);
            for (int j = 0; j < width; j++)
                sum[i][j] = add_product(left, right[j], sum[i][j]);
        }
    }
}

/* One tile of C (+)= A B. */
typedef struct tile_product {
    int64_t k; /* words */
    const word *a;
    int64_t k_step; /* of a turned A */
    const word *b;
    int64_t b_step;
    float *c;
    int64_t c_step;
    bool adds; /* to what C holds */
} tile_product;

SW_INLINE void multiply_tile(int height, int width, int64_t row_step, int64_t k_step,
                             const tile_product *t) {
    vec sum[TILE_M][2];
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++)
            sum[i][j] = t->adds ? vec_at(t->c + i * t->c_step + j * VEC) : vec_of(0);
    sum_tile(height, width, t->k, t->a, row_step, k_step, t->b, t->b_step, sum);
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++)
            vec_put(t->c + i * t->c_step + j * VEC, sum[i][j]);
}

/* A turned: element (i, p) at i + p k_step. As few rows are computed as cover n_rows. */
static inline void multiply_turned(int64_t n_rows, int width, const tile_product *t) {
    if (n_rows > TILE_M * 2 / 3)
        width == 2 ? multiply_tile(TILE_M, 2, 1, t->k_step, t)
                   : multiply_tile(TILE_M, 1, 1, t->k_step, t);
    else if (n_rows > TILE_M / 3)
        width == 2 ? multiply_tile(TILE_M * 2 / 3, 2, 1, t->k_step, t)
                   : multiply_tile(TILE_M * 2 / 3, 1, 1, t->k_step, t);
    else
        width == 2 ? multiply_tile(TILE_M / 3, 2, 1, t->k_step, t)
                   : multiply_tile(TILE_M / 3, 1, 1, t->k_step, t);
}

#endif
