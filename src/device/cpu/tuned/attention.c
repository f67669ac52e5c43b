/* attention.c: softmax(scale q k^T) v in blocks of registers' size (Dao et al. 2022), near the rate
 * of a matrix product.
 *
 * A task is a chunk of queries of one row and one group of heads, which share keys and values; its
 * rows are stacked (attention_block.h). It meets the keys strip by strip, from the first to the
 * last that one of its queries sees:
 *
 *                 strip 0      strip 1      strip 2
 *               +------------+------------+------------+
 *      block 0  | S  P       | S  P   \   |            |    TILE_M rows; right of the diagonal,
 *      block 1  | S  P       | S  P      \|            |    beyond the span and in other documents
 *        ...    | S  P       | S  P       | S  P  \    |    whole tiles are skipped, parts masked
 *               +------------+------------+------------+
 *
 * For each block and strip: S = Q K^T; the largest score so far; P = e^(scale (S - largest)), true
 * zeros where masked; what the block had summed before is scaled to the new largest; O += P V. At
 * the end out = O / rowsum(P) and log_sum = scale largest + log rowsum(P). With dropout, weights
 * that are dropped are zeros in P V alone, and out is divided by 1 - p besides. Working space
 * depends on a strip and a chunk, not on T.
 */
#include "device/cpu/tuned/attention_block.h"

typedef struct row_state {
    float largest; /* score so far */
    float sum;     /* of e^(scale (score - largest)) */
} row_state;

typedef struct forward {
    attention_shape s;
    const activation *q, *k, *v;
    activation *out;  /* [B*T,H*D] */
    float *log_sum;   /* [B,H,T] */
    float *space;     /* [n_threads][sizes.elements] */
    int64_t n_chunks; /* of a row and group */
} forward;

/* A chunk of queries at work. */
typedef struct chunk {
    int64_t b, group, first_query, n_rows;
    element *rows;    /* [VEC][columns], to pack in */
    word *q;          /* turned */
    word *k;          /* of a strip: turned */
    word *v;          /* of a strip: panels */
    float *weights;   /* [TILE_M][STRIP] S, then P */
    float *out;       /* [n_rows][columns] */
    key_range *seen;  /* [n_rows] */
    row_state *state; /* [n_rows] */
} chunk;

static const float no_score = -1e30f;

/* S of `width` vectors of keys, of which the first is key `key`. */
SW_INLINE void score_tile(int width, int64_t k, const word *q, const word *keys, int64_t key,
                          const key_range *unmasked, const key_range *seen, int64_t n_rows,
                          float *scores) {
    vec sum[TILE_M][2];
    for (int i = 0; i < TILE_M; i++)
        for (int j = 0; j < width; j++)
            sum[i][j] = vec_of(0);
    sum_tile(TILE_M, width, k, q, 1, TILE_M, keys, TILE_N, sum);
    for (int i = 0; i < TILE_M; i++)
        for (int j = 0; j < width; j++)
            vec_put(scores + i * STRIP + j * VEC, sum[i][j]);
    if (key >= unmasked->begin && key + width * VEC <= unmasked->end)
        return;
    for (int64_t i = 0; i < n_rows; i++)
        for (int j = 0; j < width; j++) {
            float *at = scores + i * STRIP + j * VEC;
            const int64_t first = key + j * VEC;
            vec_put(at, vec_between(vec_at(at), seen[i].begin - first, seen[i].end - first,
                                    vec_of(-INFINITY)));
        }
}

/* scores [n vectors] become weights, words of PAIR; returns the factor by which sums of before
 * shrink. With `drops`, weights are ANDed with `keep` [n vectors] after they are summed. */
SW_INLINE float weigh_row(bool drops, int64_t n, float *scores, const float *keep,
                          float scale_to_two, row_state *state) {
    vec largest = vec_of(state->largest);
    for (int64_t j = 0; j < n; j++)
        largest = vec_larger(vec_at(scores + j * VEC), largest);
    const float before = state->largest, now = vec_largest(largest);
    const vec scale = vec_of(scale_to_two), shift = vec_of(-now * scale_to_two);
    vec sum = vec_of(0);
#ifdef SW_DOT
    float *to = scores; /* half as wide: never past what is still to be read */
    for (int64_t j = 0; j < n; j += 2, to += VEC) {
        vec low = vec_exp2_to_zero(vec_fma(vec_at(scores + j * VEC), scale, shift));
        vec high = vec_of(0);
        if (j + 1 < n)
            high = vec_exp2_to_zero(vec_fma(vec_at(scores + (j + 1) * VEC), scale, shift));
        sum += low + high;
        if (drops) {
            low = vec_and(low, vec_at(keep + j * VEC));
            high = j + 1 < n ? vec_and(high, vec_at(keep + (j + 1) * VEC)) : high;
        }
        vec_put(to, (vec)_mm512_cvtne2ps_pbh(high, low));
    }
#else
    for (int64_t j = 0; j < n; j++) {
        const vec weight = vec_exp2_to_zero(vec_fma(vec_at(scores + j * VEC), scale, shift));
        sum += weight;
        vec_put(scores + j * VEC, drops ? vec_and(weight, vec_at(keep + j * VEC)) : weight);
    }
#endif
    const float factor = vec_first(vec_exp2_to_zero(vec_of((before - now) * scale_to_two)));
    *state = (row_state){now, state->sum * factor + vec_sum(sum)};
    return factor;
}

static float keep_row(int64_t n, float *scores, float scale_to_two, row_state *state) {
    return weigh_row(false, n, scores, NULL, scale_to_two, state);
}

/* The same of row r of the chunk and the keys from `first` on, with dropout. */
static __attribute__((noinline)) float drop_row(const attention_shape *s, const chunk *c, int64_t r,
                                                int64_t first, int64_t n, float *scores) {
    float keep[STRIP];
    keep_of_row(s, c->b, c->group, c->first_query, r, first, n * VEC, keep);
    return weigh_row(true, n, scores, keep, s->scale_to_two, &c->state[r]);
}

/* One block of the chunk against one strip of keys, whose first is key `from`. */
static void attend_block(const attention_shape *s, const chunk *c, int64_t block, int64_t from,
                         int64_t n_keys) {
    const int64_t first_row = block * TILE_M, n_rows = smaller(TILE_M, c->n_rows - first_row);
    const key_range *seen = c->seen + first_row;
    const block_range range = range_of_block(n_rows, seen);
    const key_range vectors = seen_vectors(&range, from, n_keys);
    if (vectors.begin == vectors.end)
        return;
    const int64_t columns = s->sizes.columns, k = (s->D + PAIR - 1) / PAIR;
    const word *q = c->q + first_row * columns / PAIR;
    for (int64_t j = vectors.begin; j < vectors.end; j += 2) {
        const word *keys = c->k + j * VEC * columns / PAIR;
        float *scores = c->weights + j * VEC;
        if (j + 1 < vectors.end)
            score_tile(2, k, q, keys, from + j * VEC, &range.all, seen, n_rows, scores);
        else
            score_tile(1, k, q, keys, from + j * VEC, &range.all, seen, n_rows, scores);
    }
    const bool is_first = range.some.begin >= from; /* strip that this block sees */
    const int64_t begin = vectors.begin * VEC, n_vectors = (s->D + VEC - 1) / VEC;
    float *out = c->out + first_row * columns;
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t n = vectors.end - vectors.begin;
        float *scores = c->weights + i * STRIP + begin;
        const float factor = s->dropout.is_on
                                 ? drop_row(s, c, first_row + i, from + begin, n, scores)
                                 : keep_row(n, scores, s->scale_to_two, &c->state[first_row + i]);
        if (is_first)
            continue;
        for (int64_t j = 0; j < n_vectors; j++)
            vec_put(out + i * columns + j * VEC,
                    vec_at(out + i * columns + j * VEC) * vec_of(factor));
    }
    for (int64_t j = 0; j < n_vectors; j += 2) {
        const tile_product product = {.k = (vectors.end * VEC - begin + PAIR - 1) / PAIR,
                                      .a = c->weights + begin,
                                      .b = c->v + j / 2 * (s->sizes.keys / PAIR * TILE_N) +
                                           begin / PAIR * TILE_N,
                                      .b_step = TILE_N,
                                      .c = out + j * VEC,
                                      .c_step = columns,
                                      .adds = !is_first};
        if (j + 1 < n_vectors)
            multiply_tile(TILE_M, 2, STRIP, 1, &product);
        else
            multiply_tile(TILE_M, 1, STRIP, 1, &product);
    }
}

static void write_rows(const forward *f, const chunk *c) {
    const attention_shape *s = &f->s;
    for (int64_t r = 0; r < c->n_rows; r++) {
        const int64_t t = c->first_query + r / s->heads, h = c->group * s->heads + r % s->heads;
        const float *from = c->out + r * s->sizes.columns;
        activation *to = f->out + ((c->b * s->T + t) * s->H + h) * s->D;
        const float inverse = s->dropout.kept / c->state[r].sum;
        SW_ELEMENTWISE
        for (int64_t d = 0; d < s->D; d++)
            to[d] = stored(from[d] * inverse);
        f->log_sum[(c->b * s->H + h) * s->T + t] =
            c->state[r].largest * s->scale + real_log(c->state[r].sum);
    }
}

static void attend_chunk(void *arg, int64_t task, int worker) {
    const forward *f = arg;
    const attention_shape *s = &f->s;
    const sw_attention_sizes *sizes = &s->sizes;
    /* the last chunks see most keys: first, so that no thread is left alone with one at the end */
    const int64_t n_groups = s->B * s->K, b = task % n_groups / s->K, group = task % s->K;
    const int64_t first_query = (f->n_chunks - 1 - task / n_groups) * sizes->queries,
                  end_query = smaller(s->T, first_query + sizes->queries);
    float *space = f->space + worker * sizes->elements;
    chunk c = {.b = b,
               .group = group,
               .first_query = first_query,
               .n_rows = (end_query - first_query) * s->heads};
    c.rows = (element *)(void *)take_words(&space, SW_ATTENTION_PACK_ROWS * sizes->columns);
    c.q = take_words(&space, sizes->rows * sizes->columns + VEC);
    c.k = take_words(&space, sizes->keys * sizes->columns);
    c.v = take_words(&space, sizes->keys * sizes->columns);
    c.out = take_words(&space, sizes->rows * sizes->columns);
    c.weights = take_words(&space, SW_ATTENTION_BLOCK_ROWS * STRIP);
    c.seen = (key_range *)(void *)take_words(&space, sizes->rows * 4);
    c.state = (row_state *)(void *)take_words(&space, sizes->rows * 2);

    int64_t first_key = s->T, end_key = 0;
    for (int64_t r = 0; r < c.n_rows; r++) {
        c.seen[r] = keys_in_sight(&s->sight, b, first_query + r / s->heads);
        c.state[r] = (row_state){no_score, 0};
        first_key = smaller(first_key, c.seen[r].begin);
        end_key = larger(end_key, c.seen[r].end);
    }
    const int64_t q_at = (b * s->T + first_query) * s->q_stride + group * s->heads * s->D;
    const stack queries = {f->q + q_at, s->q_stride, s->heads, s->D};
    pack_turned(&queries, c.n_rows, sizes->columns, c.rows, TILE_M, c.q);
    for (int64_t from = first_key / TILE_N * TILE_N; from < end_key; from += STRIP) {
        const int64_t n_keys = smaller(STRIP, end_key - from),
                      at = (b * s->T + from) * s->kv_stride + group * s->D;
        const stack keys = {f->k + at, s->kv_stride, 1, s->D},
                    values = {f->v + at, s->kv_stride, 1, s->D};
        pack_turned(&keys, n_keys, sizes->columns, c.rows, TILE_N, c.k);
        pack_panels(&values, n_keys, (n_keys + VEC - 1) / VEC * VEC, sizes->columns, c.rows,
                    sizes->keys / PAIR * TILE_N, c.v);
        for (int64_t block = 0; block * TILE_M < c.n_rows; block++)
            attend_block(s, &c, block, from, n_keys);
    }
    write_rows(f, &c);
}

SW_KERNEL(ATTENTION) {
    forward f = {
        .s = attention_shape_of(call, 5, false),
        .q = call->operand[0],
        .k = call->operand[1],
        .v = call->operand[2],
        .out = call->operand[3],
        .log_sum = call->operand[4],
        .space = call->scratch,
    };
    f.n_chunks = (f.s.T + f.s.sizes.queries - 1) / f.s.sizes.queries;
    sw_parallel(device, f.s.B * f.s.K * f.n_chunks, attend_chunk, &f);
}
