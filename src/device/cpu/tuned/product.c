/* product.c: the tuned matrix product (gemm.h), compiled for AVX2, for AVX-512, and for AVX-512
 * with dot products of bf16 pairs.
 *
 * A tile of C, TILE_M rows by a few vectors, is summed in registers over all of k. Columns of B are
 * packed into panels as wide as a tile, as many as fit the second cache; then each TILE_M rows of
 * A, which stay in the first cache, meet one panel after the other. Rows of A are not turned: a
 * unit is broadcast from where it lies, which is A itself if its units are as the tile wants them.
 *
 *                  block of panels: in the second cache
 *                +------+------+------+
 *        B       |      |      |      |   k
 *                +------+------+------+
 *   A +-------+  +------+------+------+
 *     | strip |  | tile |      |      |   TILE_M rows
 *     +-------+  +------+------+------+
 *
 * A k of more than DEPTH units is cut: then sums of a block of C stay in the workspace until the
 * last part, and tiles go on from them. An element of C is one left fold over k whatever the cuts
 * and the tiles are.
 */
#include "device/cpu/cpu.h"
#include "device/cpu/tuned/finish.h"
#include "device/cpu/tuned/units.h"
#include "device/sizes.h"

#if SW_VECTOR_BYTES == 64
enum {
    TILE_M = 8,
    TILE_VECTORS = 3,
    STRIP_ROWS = 32,
    BLOCK_UNITS = 192 * 1024
}; /* 24 of 32 registers hold the tile */
#else
enum { TILE_M = 6, TILE_VECTORS = 2, STRIP_ROWS = 48, BLOCK_UNITS = 96 * 1024 }; /* 12 of 16 */
#endif
enum {
    TILE_N = TILE_VECTORS * VEC,
    DEPTH = 3072,                    /* units of k that are summed without a cut */
    CUT_N = 4 * TILE_N,              /* columns of a block whose sums are kept */
    CUT_DEPTH = BLOCK_UNITS / CUT_N, /* units of each cut */
    CUT_M = 256 * 1024 / CUT_N / STRIP_ROWS * STRIP_ROWS,
    TURNED_COLUMNS = 512, /* of a block whose heads are turned, at most: its rows' sums stay in the
                             first cache */
    TURNED_STEP = TURNED_COLUMNS + VEC,
    STEP_MORE = VEC /* between rows of a strip, so that rows of a power of two do not share few sets
                       of the cache */
};

#include "device/cpu/tuned/pack.h"

typedef struct space {
    _Alignas(64) uint32_t block[BLOCK_UNITS];
    _Alignas(64) uint32_t strip[STRIP_ROWS * (DEPTH + STEP_MORE)];
    _Alignas(64) float sums[CUT_M * CUT_N];
    _Alignas(64) float tile[TILE_M * TILE_N];
    _Alignas(64) float rows[TILE_M * TURNED_STEP];
} space;
_Static_assert(sizeof(space) <= SW_PRODUCT_WORKSPACE,
               "one thread's workspace holds what the tuned product works in");

/* Rows of A as the tile reads them: unit u of row i is the 4 bytes at `at` + i * row_step + u *
 * unit_step. */
typedef struct rows {
    const char *at;
    int64_t row_step;
    bool is_turned; /* unit_step is TILE_M * 4, else 4 */
} rows;

/* Else compilers keep the sums in memory, not in registers. */
#if defined(__clang__)
#define SW_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SW_UNROLL _Pragma("GCC unroll 8")
#endif

/* sums[n_rows][n_vectors] = 0, or what they are, plus rows times panel; the numbers are constants
 * where this is inlined. */
static inline __attribute__((always_inline)) void
sum_tile(int n_rows, int n_vectors, int64_t unit_step, int64_t n_units, const char *a,
         int64_t row_step, const uint32_t *panel, bool begins, float *sums, int64_t stride) {
    const vec zero = {0};
    vec sum[TILE_M][TILE_VECTORS];
    SW_UNROLL
    for (int i = 0; i < n_rows; i++)
        for (int v = 0; v < n_vectors; v++)
            sum[i][v] = begins ? zero : load_floats(sums + i * stride + v * VEC, VEC);
    for (int64_t u = 0; u < n_units; u++, a += unit_step, panel += n_vectors * VEC) {
        units b[TILE_VECTORS];
        for (int v = 0; v < n_vectors; v++)
            memcpy(&b[v], panel + v * VEC, sizeof b[v]);
        for (int i = 0; i < n_rows; i++) {
            uint32_t unit;
            memcpy(&unit, a + i * row_step, sizeof unit);
            for (int v = 0; v < n_vectors; v++)
                sum[i][v] = add_product(sum[i][v], unit, b[v]);
        }
    }
    SW_UNROLL
    for (int i = 0; i < n_rows; i++)
        for (int v = 0; v < n_vectors; v++)
            memcpy(sums + i * stride + v * VEC, &sum[i][v], sizeof sum[i][v]);
}

typedef void (*tile_fn)(bool is_turned, int64_t n_units, const char *a, int64_t row_step,
                        const uint32_t *panel, bool begins, float *sums, int64_t stride);
#define TILE(m, v)                                                                                \
    static void tile_##m##_##v(bool is_turned, int64_t n_units, const char *a, int64_t row_step,  \
                               const uint32_t *panel, bool begins, float *sums, int64_t stride) { \
        if (is_turned)                                                                            \
            sum_tile(m, v, TILE_M * 4, n_units, a, 4, panel, begins, sums, stride);               \
        else                                                                                      \
            sum_tile(m, v, 4, n_units, a, row_step, panel, begins, sums, stride);                 \
    }
#if SW_VECTOR_BYTES == 64
#define TILES(m) TILE(m, 1) TILE(m, 2) TILE(m, 3)
#define TILES_OF(m) {tile_##m##_1, tile_##m##_2, tile_##m##_3},
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else
#define TILES(m) TILE(m, 1) TILE(m, 2)
#define TILES_OF(m) {tile_##m##_1, tile_##m##_2},
#define HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
HEIGHTS(TILES)
static const tile_fn tiles[TILE_M][TILE_VECTORS] = {HEIGHTS(TILES_OF)};

/* The lines of C that a tile will be written to come while it is summed. */
static inline void fetch(const sw_product *p, int64_t row, int64_t n_rows, int64_t column,
                         int64_t n) {
    const int64_t bytes = p->c_type == SW_BF16 ? 2 : 4;
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t j = 0; j < n * bytes; j += 64)
            __builtin_prefetch((char *)p->c + ((row + i) * p->c_stride + column) * bytes + j, 1);
}

/* One part of k of one product, and the columns that are packed. */
typedef struct part {
    const sw_product *product;
    sw_matrix a, b;     /* from the part's first index on */
    int64_t k, n_units; /* of the part */
    int64_t column, n_columns;
    space *space;
} part;

static void pack_block(const part *p) {
    uint32_t *panel = p->space->block;
    for (int64_t j = 0; j < p->n_columns; j += TILE_N) {
        const int64_t n = smaller(TILE_N, p->n_columns - j);
        const int n_vectors = (int)((n + VEC - 1) / VEC);
        pack_panel(&p->b, p->k, p->column + j, n, n_vectors, panel);
        panel += p->n_units * n_vectors * VEC;
    }
}

/* Can the tile read A where it lies? Its units have to be whole. */
static bool is_read_in_place(const sw_matrix *a, int64_t k) {
#ifdef SW_PAIRS
    return !a->is_turned && k % 2 == 0;
#else
    (void)k;
    return !a->is_turned && a->type == SW_F32;
#endif
}

/* TILE_M rows meet all panels. With `sums` [.., CUT_N], they go on from there, or begin; else C is
 * finished, tile by tile, or row by row where heads are turned. */
static void multiply_rows(const part *p, const rows *a, int64_t row, int64_t n_rows, bool begins,
                          float *sums) {
    const uint32_t *panel = p->space->block;
    const bool turns = p->product->rotation.table;
    for (int64_t j = 0; j < p->n_columns; j += TILE_N) {
        const int64_t n = smaller(TILE_N, p->n_columns - j);
        const int n_vectors = (int)((n + VEC - 1) / VEC);
        const tile_fn tile = tiles[n_rows - 1][n_vectors - 1];
        if (sums) {
            tile(a->is_turned, p->n_units, a->at, a->row_step, panel, begins, sums + j, CUT_N);
        } else {
            fetch(p->product, row, n_rows, p->column + j, n);
            float *to = turns ? p->space->rows + j : p->space->tile;
            tile(a->is_turned, p->n_units, a->at, a->row_step, panel, true, to,
                 turns ? TURNED_STEP : TILE_N);
            if (!turns)
                finish(p->product, row, n_rows, p->column + j, n, to, TILE_N);
        }
        panel += p->n_units * n_vectors * VEC;
    }
    if (turns && !sums)
        finish_turned(p->product, row, n_rows, p->column, p->n_columns, p->space->rows,
                      TURNED_STEP);
}

/* Rows `row` .. of A meet the packed columns, a strip at a time. */
static void multiply_strips(const part *p, int64_t row, int64_t n_rows, bool begins, float *sums) {
    const int64_t step = (p->n_units + VEC - 1) / VEC * VEC + STEP_MORE;
    const bool in_place = is_read_in_place(&p->a, p->k);
    for (int64_t i = 0; i < n_rows; i += STRIP_ROWS) {
        const int64_t n = smaller(STRIP_ROWS, n_rows - i);
        if (p->a.is_turned)
            pack_turned_strip(&p->a, p->k, row + i, n, p->product->m - row - i, p->space->strip);
        else if (!in_place)
            pack_strip(&p->a, p->k, row + i, n, step, p->space->strip);
        for (int64_t t = 0; t < n; t += TILE_M) {
            const char *strip = (const char *)p->space->strip;
            rows a;
            if (in_place)
                a = (rows){(const char *)p->a.at + (row + i + t) * p->a.stride * 4 / UNIT,
                           p->a.stride * 4 / UNIT, false};
            else if (p->a.is_turned)
                a = (rows){strip + t * p->n_units * 4, 4, true};
            else
                a = (rows){strip + t * step * 4, step * 4, false};
            multiply_rows(p, &a, row + i + t, smaller(TILE_M, n - t), begins,
                          sums ? sums + (i + t) * CUT_N : NULL);
        }
    }
}

static part part_of(const sw_product *product, int64_t first, int64_t k) {
    return (part){.product = product,
                  .a = from_k(&product->a, product->a.is_turned, first),
                  .b = from_k(&product->b, !product->b.is_turned, first),
                  .k = k,
                  .n_units = (k + UNIT - 1) / UNIT,
                  .space = product->workspace};
}

/* Columns of a block of whole panels, or where heads are turned of whole heads; 0: not even one. */
static int64_t block_width(const sw_product *product) {
    const int64_t n_units = larger(1, (product->k + UNIT - 1) / UNIT), D = product->rotation.D;
    if (product->rotation.table)
        return smaller(TURNED_COLUMNS, BLOCK_UNITS / n_units) / D * D;
    return BLOCK_UNITS / (n_units * TILE_N) * TILE_N;
}

static void multiply_whole(const sw_product *product) {
    part p = part_of(product, 0, product->k);
    const int64_t width = block_width(product);
    for (p.column = 0; p.column < product->n; p.column += width) {
        p.n_columns = smaller(width, product->n - p.column);
        pack_block(&p);
        multiply_strips(&p, 0, product->m, true, NULL);
    }
}

static void multiply_in_parts(const sw_product *product) {
    float *sums = ((space *)product->workspace)->sums;
    for (int64_t row = 0; row < product->m; row += CUT_M)
        for (int64_t column = 0; column < product->n; column += CUT_N) {
            const int64_t n_rows = smaller(CUT_M, product->m - row),
                          n_columns = smaller(CUT_N, product->n - column);
            for (int64_t k = 0; k < product->k; k += CUT_DEPTH * UNIT) {
                part p = part_of(product, k, smaller(CUT_DEPTH * UNIT, product->k - k));
                p.column = column, p.n_columns = n_columns;
                pack_block(&p);
                multiply_strips(&p, row, n_rows, k == 0, sums);
            }
            (product->rotation.table ? finish_turned : finish)(product, row, n_rows, column,
                                                               n_columns, sums, CUT_N);
        }
}

void SW_TUNED(const sw_device *device, const sw_product *product) {
    (void)device;
    sw_product unturned = *product;
    unturned.rotation.table = NULL;
    const bool is_whole = product->k <= DEPTH * UNIT;
    const bool turns = product->rotation.table && product->rotation.columns > 0;
    const bool turns_in_store =
        turns && (is_whole ? block_width(product) > 0 : CUT_N % product->rotation.D == 0);
    if (is_whole)
        multiply_whole(turns_in_store ? product : &unturned);
    else
        multiply_in_parts(turns_in_store ? product : &unturned);
    if (turns && !turns_in_store)
        turn_stored(product);
}
