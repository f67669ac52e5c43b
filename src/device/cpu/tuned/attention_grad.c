/* attention_grad.c: the gradient of attention in blocks of registers' size (Dao et al. 2022,
 * appendix B).
 *
 *   P = e^(scale S - log_sum),  delta = rowsum(dout out),  dS = P (c M dout V^T - delta)
 *   dV = c (M P)^T dout,  dQ = scale dS K,  dK = scale dS^T Q
 *
 * M is 0 where dropout drops a weight and 1 elsewhere, c = 1 / (1 - p); without dropout they are
 * not there.
 *
 * A task is one row and one group of heads: keys and values are packed once; dK and dV are summed
 * in fp32 over chunks of queries, from the first to the last, and written once. For each chunk and
 * strip of keys that it sees:
 *
 *   1  a tile of S becomes a tile of P in registers, one of dout V^T a tile of dS: neither product
 *      is ever stored
 *   2  dQ += dS K                      a block of TILE_M rows after the other
 *   3  dV += P^T dout, dK += dS^T Q    for TILE_M keys at a time, over the rows that see some of
 *                                      them
 *
 * Working space grows with T only by the packed keys and values and by dK and dV.
 */
#include "device/cpu/plain/turn.h"
#include "device/cpu/tuned/attention_block.h"

typedef struct backward {
    attention_shape s;
    const activation *dout, *q, *k, *v, *out; /* dout, out [B*T,H*D] */
    const float *log_sum;                     /* [B,H,T] */
    activation *dq, *dk, *dv;
    const float *table; /* [T,D/2,2]?: dq and dk are turned back */
    float *space;       /* [n_threads][sizes.elements] */
} backward;

typedef struct row_state {
    key_range seen;
    float log_sum, delta; /* log_sum of base two */
} row_state;

/* A row and group of heads at work. */
typedef struct work {
    int64_t b, group;
    element *rows;                       /* [VEC][columns], to pack in */
    word *k_turned, *v_turned, *k_panel; /* of all keys */
    float *dk, *dv;                      /* [keys][columns] */
    /* of a chunk of queries */
    int64_t first_query, n_rows;
    word *q_turned, *dout_turned, *q_panel, *dout_panel;
    float *dq;          /* [rows][columns] */
    row_state *row;     /* [rows] */
    block_range *range; /* [blocks] */
    word *p, *ds;       /* [rows/PAIR][STRIP]: turned, word (pair of rows, key) */
    word *ds_of_block;  /* [TILE_M][STRIP]: not turned, word (row, pair of keys) */
} work;

#ifdef SW_DOT
/* tile [TILE_M][width vectors]: each two rows become one of pairs. */
SW_INLINE void put_turned(int width, const vec tile[TILE_M][2], word *to) {
    const __m512i lane =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (int i = 0; i < TILE_M; i += 2)
        for (int j = 0; j < width; j++) {
            const __m512i two = (__m512i)_mm512_cvtne2ps_pbh(tile[i + 1][j], tile[i][j]);
            vec_put(to + i / 2 * STRIP + j * VEC, (vec)_mm512_permutexvar_epi16(lane, two));
        }
}
SW_INLINE void put_rows(int width, const vec tile[TILE_M][2], word *to) {
    for (int i = 0; i < TILE_M; i++)
        vec_put(to + i * STRIP,
                (vec)_mm512_cvtne2ps_pbh(width == 2 ? tile[i][1] : vec_of(0), tile[i][0]));
}
#else
SW_INLINE void put_turned(int width, const vec tile[TILE_M][2], word *to) {
    for (int i = 0; i < TILE_M; i++)
        for (int j = 0; j < width; j++)
            vec_put(to + i * STRIP + j * VEC, tile[i][j]);
}
#endif

/* M P and dS of one block of rows and `width` vectors of keys, of which the first is key `key`.
 * `p`, `ds`: turned; `ds_rows`: not turned, where that is another form. With `drops`, keep: M as
 * bits to AND with, its rows STRIP apart. */
SW_INLINE void gradient_tile(bool drops, int width, const attention_shape *s, const word *q,
                             const word *keys, const word *dout, const word *values, int64_t key,
                             const key_range *unmasked, const row_state *row, const float *keep,
                             word *p, word *ds, word *ds_rows) {
    const int64_t k = (s->D + PAIR - 1) / PAIR;
    vec sum[TILE_M][2], weight[TILE_M][2];
    SW_UNROLLED
    for (int i = 0; i < TILE_M; i++)
        for (int j = 0; j < width; j++)
            sum[i][j] = vec_of(0);
    sum_tile(TILE_M, width, k, q, 1, TILE_M, keys, TILE_N, sum);
    const vec scale = vec_of(s->scale_to_two);
    SW_UNROLLED
    for (int i = 0; i < TILE_M; i++)
        for (int j = 0; j < width; j++)
            weight[i][j] = vec_exp2_to_zero(vec_fma(sum[i][j], scale, vec_of(-row[i].log_sum)));
    if (key < unmasked->begin || key + width * VEC > unmasked->end)
        for (int i = 0; i < TILE_M; i++)
            for (int j = 0; j < width; j++) {
                const int64_t first = key + j * VEC;
                weight[i][j] = vec_between(weight[i][j], row[i].seen.begin - first,
                                           row[i].seen.end - first, vec_of(0));
            }
    if (drops) {
        vec passed[TILE_M][2];
        SW_UNROLLED
        for (int i = 0; i < TILE_M; i++)
            for (int j = 0; j < width; j++)
                passed[i][j] = vec_and(weight[i][j], vec_at(keep + i * STRIP + j * VEC));
        put_turned(width, (const vec(*)[2])passed, p);
    } else {
        put_turned(width, (const vec(*)[2])weight, p);
    }
    SW_UNROLLED
    for (int i = 0; i < TILE_M; i++)
        for (int j = 0; j < width; j++)
            sum[i][j] = vec_of(0);
    sum_tile(TILE_M, width, k, dout, 1, TILE_M, values, TILE_N, sum);
    SW_UNROLLED
    for (int i = 0; i < TILE_M; i++)
        for (int j = 0; j < width; j++) {
            if (drops)
                sum[i][j] = vec_and(sum[i][j], vec_at(keep + i * STRIP + j * VEC)) *
                            vec_of(s->dropout.kept);
            sum[i][j] = weight[i][j] * (sum[i][j] - vec_of(row[i].delta));
        }
    /* an unseen key's dout V^T may be anything, but 0 times it is 0 unless it is infinite, as in
     * the forward product */
    put_turned(width, (const vec(*)[2])sum, ds);
#ifdef SW_DOT
    put_rows(width, (const vec(*)[2])sum, ds_rows);
#else
    (void)ds_rows;
#endif
}

/* Zeros for vectors begin .. end-1 of a block's turned rows. */
static void clear_vectors(int64_t begin, int64_t end, word *p, word *ds) {
    for (int64_t i = 0; i < TILE_M / PAIR && begin < end; i++) {
        memset(p + i * STRIP + begin * VEC, 0, (size_t)((end - begin) * VEC) * sizeof *p);
        memset(ds + i * STRIP + begin * VEC, 0, (size_t)((end - begin) * VEC) * sizeof *ds);
    }
}

/* Step 1 for one block of rows and the vectors of keys, counted from key `from`, that it sees.
 * keep: [TILE_M][STRIP]. */
SW_INLINE void block_tiles(bool drops, const attention_shape *s, const work *w, int64_t block,
                           int64_t from, const key_range *vectors, const float *keep, word *p,
                           word *ds) {
    const int64_t columns = s->sizes.columns, first_row = block * TILE_M;
    const word *q = w->q_turned + first_row * columns / PAIR,
               *dout = w->dout_turned + first_row * columns / PAIR;
    const row_state *row = w->row + first_row;
    for (int64_t j = vectors->begin; j < vectors->end; j += 2) {
        const int64_t key = from + j * VEC, at = key * columns / PAIR;
        word *ds_rows =
            w->ds_of_block ? w->ds_of_block + j * VEC / PAIR : NULL; /* pairs alone have one */
        const float *keep_at = keep ? keep + j * VEC : NULL;
        if (j + 1 < vectors->end)
            gradient_tile(drops, 2, s, q, w->k_turned + at, dout, w->v_turned + at, key,
                          &w->range[block].all, row, keep_at, p + j * VEC, ds + j * VEC, ds_rows);
        else
            gradient_tile(drops, 1, s, q, w->k_turned + at, dout, w->v_turned + at, key,
                          &w->range[block].all, row, keep_at, p + j * VEC, ds + j * VEC, ds_rows);
    }
}

static void dropped_tiles(const attention_shape *s, const work *w, int64_t block, int64_t from,
                          const key_range *vectors, word *p, word *ds) {
    float keep[TILE_M * STRIP];
    const int64_t first = vectors->begin * VEC, n = vectors->end * VEC - first;
    for (int64_t i = 0; i < TILE_M; i++)
        keep_of_row(s, w->b, w->group, w->first_query, block * TILE_M + i, from + first, n,
                    keep + i * STRIP + first);
    block_tiles(true, s, w, block, from, vectors, keep, p, ds);
}

/* Steps 1 and 2 for one block of rows and the strip of n_keys from key `from` on. */
static void block_gradient(const attention_shape *s, const work *w, int64_t block, int64_t from,
                           int64_t n_keys) {
    const int64_t columns = s->sizes.columns, first_row = block * TILE_M,
                  n_vectors = (n_keys + VEC - 1) / VEC;
    const key_range vectors = seen_vectors(&w->range[block], from, n_keys);
    word *p = w->p + first_row / PAIR * STRIP, *ds = w->ds + first_row / PAIR * STRIP;
    clear_vectors(0, vectors.begin, p, ds);
    clear_vectors(vectors.end, n_vectors, p, ds);
    if (vectors.begin == vectors.end)
        return;
    if (s->dropout.is_on)
        dropped_tiles(s, w, block, from, &vectors, p, ds);
    else
        block_tiles(false, s, w, block, from, &vectors, NULL, p, ds);
    const int64_t begin = vectors.begin * VEC / PAIR, n_column_vectors = (s->D + VEC - 1) / VEC;
    for (int64_t j = 0; j < n_column_vectors; j += 2) {
        const tile_product product = {
            .k = (vectors.end - vectors.begin) * VEC / PAIR,
            .a = (PAIR == 1 ? ds : w->ds_of_block) + begin,
            .b = w->k_panel + j / 2 * (s->sizes.keys / PAIR * TILE_N) +
                 (from / PAIR + begin) * TILE_N,
            .b_step = TILE_N,
            .c = w->dq + first_row * columns + j * VEC,
            .c_step = columns,
            .adds = w->range[block].some.begin < from,
        };
        if (j + 1 < n_column_vectors)
            multiply_tile(TILE_M, 2, STRIP, 1, &product);
        else
            multiply_tile(TILE_M, 1, STRIP, 1, &product);
    }
}

/* Step 3 for the chunk and the strip of n_keys from key `from` on. */
static void key_gradients(const attention_shape *s, const work *w, int64_t from, int64_t n_keys) {
    const int64_t columns = s->sizes.columns, n_blocks = (w->n_rows + TILE_M - 1) / TILE_M,
                  n_column_vectors = (s->D + VEC - 1) / VEC, n_vectors = (n_keys + VEC - 1) / VEC,
                  panel_words = s->sizes.rows / PAIR * TILE_N;
    for (int64_t key = 0; key < n_vectors * VEC; key += TILE_M) {
        const int64_t height = smaller(TILE_M, n_vectors * VEC - key);
        int64_t first = 0, end = n_blocks; /* blocks of rows that see some of the keys */
        while (first < end && (w->range[first].some.end <= from + key ||
                               w->range[first].some.begin >= from + key + height))
            first++;
        while (first < end && (w->range[end - 1].some.end <= from + key ||
                               w->range[end - 1].some.begin >= from + key + height))
            end--;
        const int64_t row = first * TILE_M / PAIR;
        for (int64_t j = 0; j < n_column_vectors && first < end; j += 2) {
            const int64_t to = (from + key) * columns + j * VEC,
                          width = smaller(2, n_column_vectors - j);
            tile_product product = {.k = (end - first) * TILE_M / PAIR,
                                    .a = w->p + row * STRIP + key,
                                    .k_step = STRIP,
                                    .b = w->dout_panel + j / 2 * panel_words + row * TILE_N,
                                    .b_step = TILE_N,
                                    .c = w->dv + to,
                                    .c_step = columns,
                                    .adds = true};
            multiply_turned(height, (int)width, &product);
            product.a = w->ds + row * STRIP + key;
            product.b = w->q_panel + j / 2 * panel_words + row * TILE_N;
            product.c = w->dk + to;
            multiply_turned(height, (int)width, &product);
        }
    }
}

/* sum of x * y, dealt to lanes that are added in halves */
static float product_sum(int64_t n, const activation *x, const activation *y) {
    enum { LANES = 64 };
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        SW_ELEMENTWISE
        for (int64_t j = 0; j < LANES; j++)
            lane[j] += load(x[i + j]) * load(y[i + j]);
    }
    for (int64_t j = 0; i + j < n; j++)
        lane[j] += load(x[i + j]) * load(y[i + j]);
    for (int width = LANES / 2; width > 0; width /= 2) {
        SW_ELEMENTWISE
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    }
    return lane[0];
}

/* Pack a chunk of queries and what belongs to their rows. Returns the keys that some of them
 * see. */
static key_range begin_chunk(const backward *f, work *w) {
    const attention_shape *s = &f->s;
    const int64_t columns = s->sizes.columns, n_padded = (w->n_rows + TILE_M - 1) / TILE_M * TILE_M,
                  panel_words = s->sizes.rows / PAIR * TILE_N, token = w->b * s->T + w->first_query,
                  h = w->group * s->heads;
    const stack q = {f->q + token * s->q_stride + h * s->D, s->q_stride, s->heads, s->D};
    const stack dout = {f->dout + (token * s->H + h) * s->D, s->H * s->D, s->heads, s->D};
    const activation *out = f->out + (token * s->H + h) * s->D;
    pack_turned(&q, w->n_rows, columns, w->rows, TILE_M, w->q_turned);
    pack_turned(&dout, w->n_rows, columns, w->rows, TILE_M, w->dout_turned);
    pack_panels(&q, w->n_rows, n_padded, columns, w->rows, panel_words, w->q_panel);
    pack_panels(&dout, w->n_rows, n_padded, columns, w->rows, panel_words, w->dout_panel);
    key_range of_chunk = {s->T, 0}, seen[TILE_M];
    for (int64_t r = 0; r < n_padded; r++) {
        w->row[r] = (row_state){{0, 0}, 0, 0};
        if (r < w->n_rows) {
            const int64_t t = w->first_query + r / s->heads, head = r % s->heads,
                          at = r / s->heads * s->H * s->D + head * s->D;
            w->row[r] = (row_state){keys_in_sight(&s->sight, w->b, t),
                                    f->log_sum[(w->b * s->H + h + head) * s->T + t] * 1.44269504f,
                                    product_sum(s->D, dout.at + at, out + at)};
        }
        seen[r % TILE_M] = w->row[r].seen;
        if (r % TILE_M == TILE_M - 1) {
            block_range *range = &w->range[r / TILE_M];
            *range = range_of_block(smaller(TILE_M, w->n_rows - (r - r % TILE_M)), seen);
            of_chunk.begin = smaller(of_chunk.begin, range->some.begin);
            of_chunk.end = larger(of_chunk.end, range->some.end);
        }
    }
    return of_chunk;
}

/* `to` [n rows of the stack] = factor * from [n,columns], turned back where there is a table, of
 * the stack's first token. */
static void write_rows(int64_t n, int64_t heads, int64_t D, float factor, const float *table,
                       const float *from, int64_t columns, activation *to, int64_t stride) {
    for (int64_t r = 0; r < n; r++, from += columns) {
        activation *row = to + r / heads * stride + r % heads * D;
        if (table) {
            turn_head_back(D, table + r / heads * D, factor, from, row);
            continue;
        }
        SW_ELEMENTWISE
        for (int64_t d = 0; d < D; d++)
            row[d] = stored(factor * from[d]);
    }
}

static void group_gradient(void *arg, int64_t task, int worker) {
    const backward *f = arg;
    const attention_shape *s = &f->s;
    const sw_attention_sizes *sizes = &s->sizes;
    float *space = f->space + worker * sizes->elements;
    work w = {.b = task / s->K, .group = task % s->K};
    const int64_t all_keys = sizes->keys * sizes->columns, all_rows = sizes->rows * sizes->columns;
    w.rows = (element *)(void *)take_words(&space, SW_ATTENTION_PACK_ROWS * sizes->columns);
    w.k_turned = take_words(&space, all_keys / PAIR);
    w.v_turned = take_words(&space, all_keys / PAIR);
    w.k_panel = take_words(&space, all_keys / PAIR);
    w.dk = take_words(&space, all_keys);
    w.dv = take_words(&space, all_keys);
    w.q_turned = take_words(&space, all_rows / PAIR + VEC);
    w.dout_turned = take_words(&space, all_rows / PAIR + VEC);
    w.q_panel = take_words(&space, all_rows / PAIR);
    w.dout_panel = take_words(&space, all_rows / PAIR);
    w.dq = take_words(&space, all_rows);
    w.p = take_words(&space, sizes->rows / PAIR * STRIP);
    w.ds = take_words(&space, sizes->rows / PAIR * STRIP);
    w.ds_of_block = PAIR == 1 ? NULL : take_words(&space, TILE_M * STRIP);
    w.row = (row_state *)(void *)take_words(&space, sizes->rows * 6);
    w.range = (block_range *)(void *)take_words(&space, sizes->rows / TILE_M * 8);

    const int64_t at = w.b * s->T * s->kv_stride + w.group * s->D;
    const stack keys = {f->k + at, s->kv_stride, 1, s->D},
                values = {f->v + at, s->kv_stride, 1, s->D};
    pack_turned(&keys, s->T, sizes->columns, w.rows, TILE_N, w.k_turned);
    pack_turned(&values, s->T, sizes->columns, w.rows, TILE_N, w.v_turned);
    pack_panels(&keys, s->T, (s->T + VEC - 1) / VEC * VEC, sizes->columns, w.rows,
                sizes->keys / PAIR * TILE_N, w.k_panel);
    memset(w.dk, 0, (size_t)all_keys * sizeof *w.dk);
    memset(w.dv, 0, (size_t)all_keys * sizeof *w.dv);
    for (w.first_query = 0; w.first_query < s->T; w.first_query += sizes->queries) {
        const int64_t end_query = smaller(s->T, w.first_query + sizes->queries);
        w.n_rows = (end_query - w.first_query) * s->heads;
        const key_range seen = begin_chunk(f, &w);
        for (int64_t from = seen.begin / STRIP * STRIP; from < seen.end; from += STRIP) {
            const int64_t n_keys = smaller(STRIP, seen.end - from);
            for (int64_t block = 0; block * TILE_M < w.n_rows; block++)
                block_gradient(s, &w, block, from, n_keys);
            key_gradients(s, &w, from, n_keys);
        }
        write_rows(w.n_rows, s->heads, s->D, s->scale,
                   f->table ? f->table + w.first_query * s->D : NULL, w.dq, sizes->columns,
                   f->dq + (w.b * s->T + w.first_query) * s->q_stride + w.group * s->heads * s->D,
                   s->q_stride);
    }
    write_rows(s->T, 1, s->D, s->scale, f->table, w.dk, sizes->columns, f->dk + at, s->kv_stride);
    write_rows(s->T, 1, s->D, s->dropout.kept, NULL, w.dv, sizes->columns, f->dv + at,
               s->kv_stride);
}

SW_KERNEL(ATTENTION_GRAD) {
    backward f = {
        .s = attention_shape_of(call, 9, true),
        .dout = call->operand[0],
        .q = call->operand[1],
        .k = call->operand[2],
        .v = call->operand[3],
        .out = call->operand[4],
        .log_sum = call->operand[5],
        .dq = call->operand[6],
        .dk = call->operand[7],
        .dv = call->operand[8],
        .table = call->operand[10],
        .space = call->scratch,
    };
    sw_parallel(device, f.s.B * f.s.K, group_gradient, &f);
}
