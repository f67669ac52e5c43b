/* attention.c: softmax(scale q k^T) v, 64 queries of one head at a time: for double, and where no
 * vectors are wide enough for device/cpu/tuned/attention.c.
 *
 * A block of queries meets the keys from the first to the last that one of its queries sees, so
 * that what no query of the block sees, above the diagonal, beyond its span or in another document,
 * is neither computed nor stored, and one strip of scores [64, keys] exists at a time, in the
 * call's scratch. Within the strip, weights of unseen keys are true zeros. Products are matrix
 * products on strips. With M, 1 where a weight is kept by dropout and 0 where it is dropped, and c
 * = 1 / (1 - p):
 *
 *   forward     S = scale Q K^T,  P = e^(S - max)
 *               out = c (M P V) / rowsum(P),  log_sum = max + log rowsum(P)
 *   backward    P = e^(S - log_sum),  delta = rowsum(dout out)
 *               dS = P (c M dout V^T - delta),  dQ = scale dS K,  dK = scale dS^T Q
 *               dV = c (M P)^T dout                              (Dao et al. 2022, appendix B)
 *
 * Heads are copied to and from R, one query head and what its group shares at a time. dK and dV are
 * sums over blocks and over the heads of a group.
 */
#include "device/cpu/plain/attention_dropout.h"
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"
#include "device/cpu/plain/sight.h"
#include "device/cpu/plain/turn.h"
#include "device/sizes.h"

typedef struct shape {
    int64_t B, T, H, K, D, q_stride, kv_stride;
    int64_t queries, score_stride;
    real scale;
    sight sight;
    attention_dropout dropout;
    void *workspace; /* of products */
} shape;

static shape shape_of(const sw_kernel_call *call, int documents) {
    const int64_t *dim = call->dim;
    return (shape){
        .B = dim[0],
        .T = dim[1],
        .H = dim[2],
        .K = dim[3],
        .D = dim[4],
        .q_stride = dim[5],
        .kv_stride = dim[6],
        .queries = sw_attention_queries(dim[1]),
        .score_stride = sw_attention_stride(dim[1], dim[7], dim[8] == SW_MASK_FULL),
        .scale = (real)call->attribute[0],
        .sight = sight_of(dim, call->operand[documents]),
        .dropout = attention_dropout_of(call),
        .workspace = call->scratch,
    };
}

/* The keys that any of n queries from `first` on sees. Without documents they move on with the
 * queries. */
static key_range keys_of_block(const shape *s, int64_t b, int64_t first, int64_t n) {
    key_range seen = keys_in_sight(&s->sight, b, first);
    for (int64_t i = s->sight.documents ? 1 : n - 1; i < n; i++) {
        const key_range one = keys_in_sight(&s->sight, b, first + i);
        seen.begin = smaller(seen.begin, one.begin);
        seen.end = larger(seen.end, one.end);
    }
    return seen;
}

/* The part of `keys` within the next 4 COUNTERS from the multiple of four *from on; keep[] of its
 * first key on. False: none. */
static bool next_kept(const shape *s, int64_t b, int64_t head, int64_t query, key_range keys,
                      int64_t *from, key_range *part, uint32_t keep[4 * COUNTERS]) {
    if (*from >= keys.end)
        return false;
    *part = (key_range){larger(*from, keys.begin), smaller(*from + 4 * COUNTERS, keys.end)};
    weights_kept(&s->dropout, b, head, query, *from, part->end - *from, keep);
    memmove(keep, keep + (part->begin - *from), (size_t)(part->end - part->begin) * sizeof *keep);
    *from += 4 * COUNTERS;
    return true;
}

/* The weights of a query for `keys`: those that are dropped become zero. */
static void drop(const shape *s, int64_t b, int64_t head, int64_t query, key_range keys,
                 real *weight) {
    uint32_t keep[4 * COUNTERS];
    key_range part;
    for (int64_t from = keys.begin / 4 * 4;
         next_kept(s, b, head, query, keys, &from, &part, keep);) {
        real *at = weight + part.begin - keys.begin;
        for (int64_t j = 0; j < part.end - part.begin; j++)
            at[j] = keep[j] ? at[j] : 0;
    }
}

/* p, the weights, and ds, dout V^T, of a query for `keys` become M P and P (c M dout V^T -
 * delta). */
static void drop_gradient(const shape *s, int64_t b, int64_t head, int64_t query, key_range keys,
                          real delta, real *p, real *ds) {
    uint32_t keep[4 * COUNTERS];
    key_range part;
    for (int64_t from = keys.begin / 4 * 4;
         next_kept(s, b, head, query, keys, &from, &part, keep);) {
        real *p_at = p + part.begin - keys.begin, *ds_at = ds + part.begin - keys.begin;
        for (int64_t j = 0; j < part.end - part.begin; j++) {
            ds_at[j] = p_at[j] * ((keep[j] ? s->dropout.kept * ds_at[j] : 0) - delta);
            p_at[j] = keep[j] ? p_at[j] : 0;
        }
    }
}

/* scores[begin .. end-1] become e^(score - most), the others of the row true zeros. */
static void exponentials(int64_t begin, int64_t end, int64_t length, real most, real *scores) {
    memset(scores, 0, (size_t)begin * sizeof *scores);
    SW_ELEMENTWISE
    for (int64_t i = begin; i < end; i++)
        scores[i] = real_exp_to_zero(scores[i] - most);
    memset(scores + end, 0, (size_t)(length - end) * sizeof *scores);
}

/* to[T,D] = what one head of q, k, v or the like is. */
static void load_head(const shape *s, const activation *from, int64_t stride, real *to) {
    for (int64_t t = 0; t < s->T; t++, from += stride, to += s->D) {
        SW_ELEMENTWISE
        for (int64_t d = 0; d < s->D; d++)
            to[d] = load(from[d]);
    }
}

static void store_head(const shape *s, const real *from, activation *to, int64_t stride) {
    for (int64_t t = 0; t < s->T; t++, from += s->D, to += stride) {
        SW_ELEMENTWISE
        for (int64_t d = 0; d < s->D; d++)
            to[d] = stored(from[d]);
    }
}

/* The same, turned back where there is a table [T,D/2,2]. */
static void store_head_back(const shape *s, const real *table, const real *from, activation *to,
                            int64_t stride) {
    if (!table) {
        store_head(s, from, to, stride);
        return;
    }
    for (int64_t t = 0; t < s->T; t++, from += s->D, to += stride)
        turn_head_back(s->D, table + t * s->D, 1, from, to);
}

/* [m,n] = scale a[m,D] b[n,D]^T */
static void multiply_rows(const sw_device *device, const shape *s, int64_t m, int64_t n, real scale,
                          const real *a, const real *b, real *strip) {
    multiply(device, s->workspace, false, true, m, n, s->D, scale, a, s->D, b, s->D, false, strip,
             s->score_stride);
}

/* to[m,D] = scale strip[m,n] rows[n,D] */
static void multiply_strip(const sw_device *device, const shape *s, int64_t m, int64_t n,
                           real scale, const real *strip, const real *rows, real *to) {
    multiply(device, s->workspace, false, false, m, s->D, n, scale, strip, s->score_stride, rows,
             s->D, false, to, s->D);
}

/* sum[n,D] += scale strip[m,n]^T rows[m,D] */
static void add_turned_strip(const sw_device *device, const shape *s, int64_t m, int64_t n,
                             real scale, const real *strip, const real *rows, real *sum) {
    multiply(device, s->workspace, true, false, n, s->D, m, scale, strip, s->score_stride, rows,
             s->D, true, sum, s->D);
}

SW_KERNEL(ATTENTION) {
    const shape s = shape_of(call, 5);
    const activation *q = call->operand[0], *k = call->operand[1], *v = call->operand[2];
    activation *out = call->operand[3]; /* [B*T,H*D] */
    real *log_sum = call->operand[4];   /* [B,H,T] */
    const int64_t out_stride = s.H * s.D, heads_of_group = s.H / s.K, head_elements = s.T * s.D;
    real *scores = own_scratch(device, call); /* [queries,score_stride] */
    real *head_q = scores + s.queries * s.score_stride, *head_k = head_q + head_elements,
         *head_v = head_k + head_elements, *head_out = head_v + head_elements; /* [T,D] each */
    real inverse[SW_ATTENTION_QUERIES];
    for (int64_t head = 0; head < s.B * s.H; head++) {
        const int64_t b = head / s.H, h = head % s.H;
        load_head(&s, q + b * s.T * s.q_stride + h * s.D, s.q_stride, head_q);
        if (h % heads_of_group == 0) {
            const int64_t at = b * s.T * s.kv_stride + h / heads_of_group * s.D;
            load_head(&s, k + at, s.kv_stride, head_k);
            load_head(&s, v + at, s.kv_stride, head_v);
        }
        for (int64_t first = 0; first < s.T; first += s.queries) {
            const int64_t n = smaller(s.queries, s.T - first);
            const key_range seen = keys_of_block(&s, b, first, n);
            const int64_t from = seen.begin, keys = seen.end - from;
            multiply_rows(device, &s, n, keys, s.scale, head_q + first * s.D, head_k + from * s.D,
                          scores);
            for (int64_t i = 0; i < n; i++) {
                real *row = scores + i * s.score_stride;
                const key_range own = keys_in_sight(&s.sight, b, first + i);
                const int64_t begin = own.begin - from, end = own.end - from;
                const real most = max_row(end - begin, row + begin);
                exponentials(begin, end, keys, most, row);
                const real total = sum_row(end - begin, row + begin);
                log_sum[head * s.T + first + i] = most + real_log(total);
                inverse[i] = s.dropout.kept / total;
                if (s.dropout.is_on)
                    drop(&s, b, h, first + i, own, row + begin);
            }
            real *rows = head_out + first * s.D;
            multiply_strip(device, &s, n, keys, 1, scores, head_v + from * s.D, rows);
            for (int64_t i = 0; i < n; i++) {
                SW_ELEMENTWISE
                for (int64_t d = 0; d < s.D; d++)
                    rows[i * s.D + d] *= inverse[i];
            }
        }
        store_head(&s, head_out, out + b * s.T * out_stride + h * s.D, out_stride);
    }
}

SW_KERNEL(ATTENTION_GRAD) {
    const shape s = shape_of(call, 9);
    const activation *dout = call->operand[0], *q = call->operand[1], *k = call->operand[2],
                     *v = call->operand[3];
    const activation *out = call->operand[4]; /* [B*T,H*D] */
    const real *log_sum = call->operand[5];   /* [B,H,T] */
    activation *dq = call->operand[6], *dk = call->operand[7], *dv = call->operand[8];
    const real *table = call->operand[10]; /* [T,D/2,2]? */
    const int64_t out_stride = s.H * s.D, heads_of_group = s.H / s.K, head_elements = s.T * s.D;
    real *p = own_scratch(device, call),
         *ds = p + s.queries * s.score_stride; /* [queries,score_stride] each */
    real *head_q = ds + s.queries * s.score_stride, *head_k = head_q + head_elements,
         *head_v = head_k + head_elements, *head_out = head_v + head_elements,
         *head_dout = head_out + head_elements, *head_dq = head_dout + head_elements,
         *head_dk = head_dq + head_elements, *head_dv = head_dk + head_elements; /* [T,D] each */
    for (int64_t head = 0; head < s.B * s.H; head++) {
        const int64_t b = head / s.H, h = head % s.H, row = b * s.T;
        const int64_t kv_at = row * s.kv_stride + h / heads_of_group * s.D;
        load_head(&s, q + row * s.q_stride + h * s.D, s.q_stride, head_q);
        load_head(&s, out + row * out_stride + h * s.D, out_stride, head_out);
        load_head(&s, dout + row * out_stride + h * s.D, out_stride, head_dout);
        if (h % heads_of_group == 0) {
            load_head(&s, k + kv_at, s.kv_stride, head_k);
            load_head(&s, v + kv_at, s.kv_stride, head_v);
            memset(head_dk, 0, (size_t)head_elements * sizeof *head_dk);
            memset(head_dv, 0, (size_t)head_elements * sizeof *head_dv);
        }
        for (int64_t first = 0; first < s.T; first += s.queries) {
            const int64_t n = smaller(s.queries, s.T - first);
            const key_range seen = keys_of_block(&s, b, first, n);
            const int64_t from = seen.begin, keys = seen.end - from;
            const real *block_q = head_q + first * s.D, *block_dout = head_dout + first * s.D;
            multiply_rows(device, &s, n, keys, s.scale, block_q, head_k + from * s.D, p);
            multiply_rows(device, &s, n, keys, 1, block_dout, head_v + from * s.D, ds);
            for (int64_t i = 0; i < n; i++) {
                real *p_row = p + i * s.score_stride, *ds_row = ds + i * s.score_stride;
                const real delta =
                    dot_rows(s.D, block_dout + i * s.D, head_out + (first + i) * s.D);
                const key_range own = keys_in_sight(&s.sight, b, first + i);
                exponentials(own.begin - from, own.end - from, keys,
                             log_sum[head * s.T + first + i], p_row);
                if (s.dropout.is_on) {
                    memset(ds_row, 0, (size_t)(own.begin - from) * sizeof *ds_row);
                    memset(ds_row + (own.end - from), 0,
                           (size_t)(seen.end - own.end) * sizeof *ds_row);
                    drop_gradient(&s, b, h, first + i, own, delta, p_row + (own.begin - from),
                                  ds_row + (own.begin - from));
                    continue;
                }
                SW_ELEMENTWISE
                for (int64_t j = 0; j < keys; j++)
                    ds_row[j] = p_row[j] * (ds_row[j] - delta);
            }
            add_turned_strip(device, &s, n, keys, s.dropout.kept, p, block_dout,
                             head_dv + from * s.D);
            add_turned_strip(device, &s, n, keys, s.scale, ds, block_q, head_dk + from * s.D);
            multiply_strip(device, &s, n, keys, s.scale, ds, head_k + from * s.D,
                           head_dq + first * s.D);
        }
        store_head_back(&s, table, head_dq, dq + row * s.q_stride + h * s.D, s.q_stride);
        if (h % heads_of_group == heads_of_group - 1) {
            store_head_back(&s, table, head_dk, dk + kv_at, s.kv_stride);
            store_head(&s, head_dv, dv + kv_at, s.kv_stride);
        }
    }
}
