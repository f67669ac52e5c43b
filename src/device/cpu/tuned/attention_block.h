/* attention_block.h: what attention's forward and backward share: the shape, who sees what, what is
 * dropped, and packing.
 *
 * The query heads that share a key/value head are stacked: row r of a chunk of queries is head r %
 * heads of query r / heads, so one packed block of keys meets them all. Two packed forms, in words
 * of PAIR elements (attention_tile.h):
 *
 *   turned     blocks of `width` rows, element (row, p) of a block at p * width + row, p the pair
 *              of channels
 *   panels     blocks of TILE_N channels, element (p, channel) of a block at p * TILE_N + channel,
 *              p the pair of rows
 *
 * Rows and channels that are not there are zeros.
 */
#ifndef SW_DEVICE_CPU_TUNED_ATTENTION_BLOCK_H
#define SW_DEVICE_CPU_TUNED_ATTENTION_BLOCK_H

#include "device/cpu/plain/attention_dropout.h"
#include "device/cpu/plain/math.h"
#include "device/cpu/plain/sight.h"
#include "device/cpu/tuned/attention_tile.h"
#include "device/parallel.h"
#include "device/sizes.h"

enum { STRIP = SW_ATTENTION_STRIP };

typedef struct attention_shape {
    int64_t B, T, H, K, D, q_stride, kv_stride;
    int64_t heads; /* H/K: of a group */
    sw_attention_sizes sizes;
    float scale, scale_to_two; /* e^(scale s) = 2^(scale_to_two s) */
    sight sight;
    attention_dropout dropout;
} attention_shape;

static inline attention_shape attention_shape_of(const sw_kernel_call *call, int documents,
                                                 bool is_gradient) {
    const int64_t *dim = call->dim;
    return (attention_shape){
        .B = dim[0],
        .T = dim[1],
        .H = dim[2],
        .K = dim[3],
        .D = dim[4],
        .q_stride = dim[5],
        .kv_stride = dim[6],
        .heads = dim[2] / dim[3],
        .sizes = sw_attention_sizes_of(dim, is_gradient),
        .scale = (float)call->attribute[0],
        .scale_to_two = (float)(call->attribute[0] * 1.4426950408889634),
        .sight = sight_of(dim, call->operand[documents]),
        .dropout = attention_dropout_of(call),
    };
}

/* ---- who sees what ---- */

/* Keys that some row of a block of TILE_M sees, and keys that all rows see. Rows that are not there
 * see none. */
typedef struct block_range {
    key_range some, all;
} block_range;

static inline block_range range_of_block(int64_t n_rows, const key_range *row) {
    block_range range = {row[0], row[0]};
    for (int64_t i = 1; i < n_rows; i++) {
        range.some.begin = smaller(range.some.begin, row[i].begin);
        range.some.end = larger(range.some.end, row[i].end);
        range.all.begin = larger(range.all.begin, row[i].begin);
        range.all.end = smaller(range.all.end, row[i].end);
    }
    if (n_rows < TILE_M)
        range.all.end = 0;
    return range;
}

/* The vectors of keys, first .. end-1 counted from key `from`, that cover what a block sees of keys
 * from .. from+n-1. */
static inline key_range seen_vectors(const block_range *range, int64_t from, int64_t n) {
    const int64_t begin = larger(range->some.begin - from, 0),
                  end = smaller(range->some.end - from, n);
    if (begin >= end)
        return (key_range){0, 0};
    return (key_range){begin / TILE_N * 2, (end + VEC - 1) / VEC};
}

/* ---- what is dropped ---- */

/* Of row r of a chunk of queries and n keys from `first` on, a multiple of 4: bits that are all set
 * where a weight is kept, in words that are ANDed with weights. */
static inline void keep_of_row(const attention_shape *s, int64_t b, int64_t group,
                               int64_t first_query, int64_t r, int64_t first, int64_t n,
                               float *keep) {
    weights_kept(&s->dropout, b, group * s->heads + r % s->heads, first_query + r / s->heads, first,
                 n, (uint32_t *)(void *)keep);
}

/* ---- packing ---- */

/* Rows of one or more heads of q, k, v or the like. */
typedef struct stack {
    const activation *at;
    int64_t stride, heads, D; /* stride: from one token to the next */
} stack;

#ifdef SW_DOT
typedef uint16_t element;
static inline element element_of(activation x) {
    return x;
}
#else
typedef float element;
static inline element element_of(activation x) {
    return load(x);
}
#endif

/* A row of a stack, and the way to the next. */
typedef struct cursor {
    const activation *token;
    int64_t head;
} cursor;

/* to[0 .. columns-1] = the row, zeros past its channels. Rows lie too far apart for the CPU to see
 * what comes next, so it is told; past the last token that asks for what nobody reads. */
static inline void copy_row(const stack *s, cursor *row, int64_t columns, element *to) {
    enum { TOKENS_AHEAD = 8, LINE = 64 / sizeof(activation) };
    const activation *from = row->token + row->head * s->D;
    for (int64_t d = 0; d < s->D; d += LINE)
        __builtin_prefetch((const char *)from +
                           (TOKENS_AHEAD * s->stride + d) * (int64_t)sizeof *from);
    SW_ELEMENTWISE
    for (int64_t d = 0; d < s->D; d++)
        to[d] = element_of(from[d]);
    for (int64_t d = s->D; d < columns; d++)
        to[d] = 0;
    if (++row->head == s->heads)
        row->head = 0, row->token += s->stride;
}

/* Turn the next n <= VEC rows into columns of `to`, which are `width` apart from channel to
 * channel: VEC words are written at each, so what lies behind `width` is to be packed later. rows:
 * working space [VEC][columns]. */
static inline void pack_turned_vector(const stack *s, cursor *row, int64_t n, int64_t columns,
                                      element *rows, int64_t width, word *to) {
    for (int64_t i = 0; i < n; i++)
        copy_row(s, row, columns, rows + i * columns);
    if (n < VEC)
        memset(rows + n * columns, 0, (size_t)((VEC - n) * columns) * sizeof *rows);
    for (int64_t p = 0; p < columns / PAIR; p += VEC) {
        vec turned[VEC];
        for (int i = 0; i < VEC; i++)
            turned[i] = vec_at((const float *)(const void *)(rows + i * columns + p * PAIR));
        vec_turn(turned);
        for (int i = 0; i < VEC; i++)
            vec_put(to + (p + i) * width, turned[i]);
    }
}

/* The turned form of n rows in blocks of TILE_M (queries) or TILE_N (keys). */
static inline void pack_turned(const stack *s, int64_t n, int64_t columns, element *rows,
                               int64_t width, word *to) {
    const int64_t step = smaller(width, VEC);
    cursor row = {s->at, 0};
    for (int64_t block = 0; block < n; block += width, to += width * columns / PAIR)
        for (int64_t i = 0; i < width; i += step)
            pack_turned_vector(s, &row, larger(0, smaller(step, n - block - i)), columns, rows,
                               width, to + i);
}

/* The panels of n rows; rows up to n_padded are zeros. From one panel to the next: panel_words. */
static inline void pack_panels(const stack *s, int64_t n, int64_t n_padded, int64_t columns,
                               element *rows, int64_t panel_words, word *to) {
    cursor row = {s->at, 0};
    for (int64_t r = 0; r < n_padded; r += PAIR, to += TILE_N) {
        for (int64_t i = 0; i < PAIR; i++) {
            if (r + i < n)
                copy_row(s, &row, columns, rows + i * columns);
            else
                memset(rows + i * columns, 0, (size_t)columns * sizeof *rows);
        }
        for (int64_t c = 0; c < columns; c += TILE_N) {
            word *panel = to + c / TILE_N * panel_words;
#ifdef SW_DOT
            uint32_t *pairs = (uint32_t *)(void *)panel;
            for (int64_t j = 0; j < TILE_N; j++)
                pairs[j] = rows[c + j] | (uint32_t)rows[columns + c + j] << 16;
#else
            memcpy(panel, rows + c, TILE_N * sizeof *panel);
#endif
        }
    }
}

/* The next n words of working space, which stay multiples of 64 bytes. */
static inline float *take_words(float **space, int64_t n) {
    float *taken = *space;
    *space += (n + 15) / 16 * 16;
    return taken;
}

#endif
