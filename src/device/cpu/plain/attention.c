/* attention.c: causal softmax(scale q k^T) v, 64 queries of one head at a time.
 *
 * A block of queries meets the keys from the first that one of its queries sees up to its last query, so that what no query of
 * the block sees, above the diagonal, before its span or in another document, is neither computed nor stored, and one strip of
 * scores [64, keys] exists at a time, in the call's scratch. Within the strip, weights of unseen keys are true zeros. Products
 * are matrix products on strips:
 *
 *   forward     S = scale Q K^T,  P = e^(S - max),  out = (P V) / rowsum(P),  log_sum = max + log rowsum(P)
 *   backward    P = e^(S - log_sum),  delta = rowsum(dout out)
 *               dS = P (dout V^T - delta),  dQ = scale dS K,  dK = scale dS^T Q,  dV = P^T dout      (Dao et al. 2022, appendix
 * B)
 *
 * Heads of a group share keys and values in place. dK and dV are sums over blocks and over the heads of a group. Blocks go from
 * the last to the first, and each begins where it sees itself, so what a group's first head has reached is one run of keys up to
 * the last: what lies before the run is stored, the rest is added.
 */
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"
#include "device/sizes.h"

typedef struct shape {
    int64_t B, T, H, K, D, q_stride, kv_stride, span;
    int64_t queries, score_stride;
    real scale;
    const int32_t *documents; /* [B*T]? */
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
        .span = dim[7] > 0 ? dim[7] : dim[1],
        .queries = sw_attention_queries(dim[1]),
        .score_stride = sw_attention_stride(dim[1], dim[7]),
        .scale = (real)call->attribute[0],
        .documents = call->operand[documents],
    };
}

/* The first key that query t of row b sees; it sees itself whatever `documents` says. */
static int64_t first_key(const shape *s, int64_t b, int64_t t) {
    const int64_t first = larger(0, t - s->span + 1);
    return s->documents ? larger(first, smaller(t, s->documents[b * s->T + t])) : first;
}

/* The first key that any of n queries from `first` on sees. */
static int64_t first_key_of_block(const shape *s, int64_t b, int64_t first, int64_t n) {
    int64_t least = first_key(s, b, first);
    for (int64_t i = 1; i < n && s->documents; i++)
        least = smaller(least, first_key(s, b, first + i));
    return least;
}

/* scores[begin .. end-1] become e^(score - most), the others of the row true zeros. */
static void exponentials(int64_t begin, int64_t end, int64_t length, real most, real *scores) {
    memset(scores, 0, (size_t)begin * sizeof *scores);
    SW_ELEMENTWISE
    for (int64_t i = begin; i < end; i++)
        scores[i] = real_exp_to_zero(scores[i] - most);
    memset(scores + end, 0, (size_t)(length - end) * sizeof *scores);
}

SW_KERNEL(ATTENTION) {
    const shape s = shape_of(call, 5);
    const real *q = call->operand[0], *k = call->operand[1], *v = call->operand[2];
    real *out = call->operand[3];             /* [B*T,H*D] */
    real *log_sum = call->operand[4];         /* [B,H,T] */
    real *scores = own_scratch(device, call); /* [queries,score_stride] */
    const int64_t out_stride = s.H * s.D;
    for (int64_t head = 0; head < s.B * s.H; head++) {
        const int64_t b = head / s.H, h = head % s.H, group = h / (s.H / s.K);
        const real *head_q = q + b * s.T * s.q_stride + h * s.D;
        const real *head_k = k + b * s.T * s.kv_stride + group * s.D, *head_v = v + b * s.T * s.kv_stride + group * s.D;
        for (int64_t first = 0; first < s.T; first += s.queries) {
            const int64_t n = smaller(s.queries, s.T - first), from = first_key_of_block(&s, b, first, n),
                          keys = first + n - from;
            real *rows = out + (b * s.T + first) * out_stride + h * s.D;
            real inverse[SW_ATTENTION_QUERIES];
            multiply(device, call->scratch, false, true, n, keys, s.D, s.scale, head_q + first * s.q_stride, s.q_stride,
                     head_k + from * s.kv_stride, s.kv_stride, false, scores, s.score_stride);
            for (int64_t i = 0; i < n; i++) {
                real *row = scores + i * s.score_stride;
                const int64_t begin = first_key(&s, b, first + i) - from, end = first + i + 1 - from;
                const real most = max_row(end - begin, row + begin);
                exponentials(begin, end, keys, most, row);
                const real total = sum_row(end - begin, row + begin);
                log_sum[head * s.T + first + i] = most + real_log(total);
                inverse[i] = 1 / total;
            }
            multiply(device, call->scratch, false, false, n, s.D, keys, 1, scores, s.score_stride, head_v + from * s.kv_stride,
                     s.kv_stride, false, rows, out_stride);
            for (int64_t i = 0; i < n; i++) {
                SW_ELEMENTWISE
                for (int64_t d = 0; d < s.D; d++)
                    rows[i * out_stride + d] *= inverse[i];
            }
        }
    }
}

/* to[m,D] = (or +=) scale strip^T rows: strip [n,score_stride], rows [n,D]. Nothing where m is 0. */
static void multiply_strip(const sw_device *device, void *workspace, const shape *s, int64_t m, int64_t n, real scale,
                           const real *strip, const real *rows, int64_t row_stride, bool add, real *to) {
    if (m > 0)
        multiply(device, workspace, true, false, m, s->D, n, scale, strip, s->score_stride, rows, row_stride, add, to,
                 s->kv_stride);
}

SW_KERNEL(ATTENTION_GRAD) {
    const shape s = shape_of(call, 9);
    const real *dout = call->operand[0], *q = call->operand[1], *k = call->operand[2], *v = call->operand[3];
    const real *out = call->operand[4];     /* [B*T,H*D] */
    const real *log_sum = call->operand[5]; /* [B,H,T] */
    real *dq = call->operand[6], *dk = call->operand[7], *dv = call->operand[8];
    real *p = own_scratch(device, call), *ds = p + s.queries * s.score_stride; /* [queries,score_stride] each */
    const int64_t out_stride = s.H * s.D, heads_of_group = s.H / s.K;
    for (int64_t head = 0; head < s.B * s.H; head++) {
        const int64_t b = head / s.H, h = head % s.H, group = h / heads_of_group;
        const int64_t q_at = b * s.T * s.q_stride + h * s.D, kv_at = b * s.T * s.kv_stride + group * s.D;
        const int64_t last = (s.T - 1) / s.queries * s.queries;
        int64_t stored = h % heads_of_group == 0 ? s.T : 0; /* dK and dV hold sums from this key on */
        for (int64_t first = last; first >= 0; first -= s.queries) {
            const int64_t n = smaller(s.queries, s.T - first), from = first_key_of_block(&s, b, first, n),
                          keys = first + n - from;
            const int64_t kv_from = kv_at + from * s.kv_stride;
            const real *block_q = q + q_at + first * s.q_stride;
            const real *block_out = out + (b * s.T + first) * out_stride + h * s.D;
            const real *block_dout = dout + (b * s.T + first) * out_stride + h * s.D;
            multiply(device, call->scratch, false, true, n, keys, s.D, s.scale, block_q, s.q_stride, k + kv_from, s.kv_stride,
                     false, p, s.score_stride);
            multiply(device, call->scratch, false, true, n, keys, s.D, 1, block_dout, out_stride, v + kv_from, s.kv_stride, false,
                     ds, s.score_stride);
            for (int64_t i = 0; i < n; i++) {
                real *p_row = p + i * s.score_stride, *ds_row = ds + i * s.score_stride;
                const real delta = dot_rows(s.D, block_dout + i * out_stride, block_out + i * out_stride);
                exponentials(first_key(&s, b, first + i) - from, first + i + 1 - from, keys, log_sum[head * s.T + first + i],
                             p_row);
                SW_ELEMENTWISE
                for (int64_t j = 0; j < keys; j++)
                    ds_row[j] = p_row[j] * (ds_row[j] - delta);
            }
            const int64_t fresh = larger(0, smaller(stored - from, keys)), kv_stored = kv_from + fresh * s.kv_stride;
            multiply_strip(device, call->scratch, &s, fresh, n, 1, p, block_dout, out_stride, false, dv + kv_from);
            multiply_strip(device, call->scratch, &s, keys - fresh, n, 1, p + fresh, block_dout, out_stride, true,
                           dv + kv_stored);
            multiply_strip(device, call->scratch, &s, fresh, n, s.scale, ds, block_q, s.q_stride, false, dk + kv_from);
            multiply_strip(device, call->scratch, &s, keys - fresh, n, s.scale, ds + fresh, block_q, s.q_stride, true,
                           dk + kv_stored);
            stored = smaller(stored, from);
            multiply(device, call->scratch, false, false, n, s.D, keys, s.scale, ds, s.score_stride, k + kv_from, s.kv_stride,
                     false, dq + q_at + first * s.q_stride, s.q_stride);
        }
    }
}
