/* attention.c: causal softmax(q k^T / sqrt(D)) v, 64 queries of one head at a time.
 *
 * A block of queries meets the keys up to its last query, so the upper triangle is neither computed nor stored beyond the blocks
 * on the diagonal, and one strip of scores [64, keys] exists at a time, in the call's scratch. Products are matrix products on
 * strips:
 *
 *   forward     S = scale Q K^T,  P = e^(S - max),  out = (P V) / rowsum(P),  log_sum = max + log rowsum(P)
 *   backward    P = e^(S - log_sum),  delta = rowsum(dout out)
 *               dS = P (dout V^T - delta),  dQ = scale dS K,  dK = scale dS^T Q,  dV = P^T dout      (Dao et al. 2022, appendix
 * B)
 *
 * Heads of a group share keys and values in place. dK and dV are sums over blocks and over the heads of a group; the first to
 * come, the last block of a group's first head, reaches every key and stores, the others add.
 */
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"
#include "device/sizes.h"

typedef struct shape {
    int64_t B, T, H, K, D, q_stride, kv_stride;
    int64_t queries, score_stride;
    real scale;
} shape;

static shape shape_of(const sw_kernel_call *call) {
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
        .score_stride = sw_attention_stride(dim[1]),
        .scale = (real)1 / real_sqrt((real)dim[4]),
    };
}

/* scores[0 .. keys-1] become e^(score - most), the rest up to `end` true zeros. */
static void exponentials(int64_t keys, int64_t end, real most, real *scores) {
    SW_ELEMENTWISE
    for (int64_t i = 0; i < keys; i++)
        scores[i] = real_exp_to_zero(scores[i] - most);
    memset(scores + keys, 0, (size_t)(end - keys) * sizeof *scores);
}

SW_KERNEL(ATTENTION) {
    const shape s = shape_of(call);
    const real *q = call->operand[0], *k = call->operand[1], *v = call->operand[2];
    real *out = call->operand[3];     /* [B*T,H*D] */
    real *log_sum = call->operand[4]; /* [B,H,T] */
    real *scores = call->scratch;     /* [queries,score_stride] */
    const int64_t out_stride = s.H * s.D;
    for (int64_t head = 0; head < s.B * s.H; head++) {
        const int64_t b = head / s.H, h = head % s.H, group = h / (s.H / s.K);
        const real *head_q = q + b * s.T * s.q_stride + h * s.D;
        const real *head_k = k + b * s.T * s.kv_stride + group * s.D, *head_v = v + b * s.T * s.kv_stride + group * s.D;
        for (int64_t first = 0; first < s.T; first += s.queries) {
            const int64_t n = smaller(s.queries, s.T - first), keys = first + n;
            real *rows = out + (b * s.T + first) * out_stride + h * s.D;
            real inverse[SW_ATTENTION_QUERIES];
            multiply(device, false, true, n, keys, s.D, s.scale, head_q + first * s.q_stride, s.q_stride, head_k, s.kv_stride, 0,
                     scores, s.score_stride);
            for (int64_t i = 0; i < n; i++) {
                real *row = scores + i * s.score_stride;
                const int64_t seen = first + i + 1;
                const real most = max_row(seen, row);
                exponentials(seen, keys, most, row);
                const real total = sum_row(seen, row);
                log_sum[head * s.T + first + i] = most + real_log(total);
                inverse[i] = 1 / total;
            }
            multiply(device, false, false, n, s.D, keys, 1, scores, s.score_stride, head_v, s.kv_stride, 0, rows, out_stride);
            for (int64_t i = 0; i < n; i++) {
                SW_ELEMENTWISE
                for (int64_t d = 0; d < s.D; d++)
                    rows[i * out_stride + d] *= inverse[i];
            }
        }
    }
}

SW_KERNEL(ATTENTION_GRAD) {
    const shape s = shape_of(call);
    const real *dout = call->operand[0], *q = call->operand[1], *k = call->operand[2], *v = call->operand[3];
    const real *out = call->operand[4];     /* [B*T,H*D] */
    const real *log_sum = call->operand[5]; /* [B,H,T] */
    real *dq = call->operand[6], *dk = call->operand[7], *dv = call->operand[8];
    real *p = call->scratch, *ds = p + s.queries * s.score_stride; /* [queries,score_stride] each */
    const int64_t out_stride = s.H * s.D, heads_of_group = s.H / s.K;
    for (int64_t head = 0; head < s.B * s.H; head++) {
        const int64_t b = head / s.H, h = head % s.H, group = h / heads_of_group;
        const int64_t q_at = b * s.T * s.q_stride + h * s.D, kv_at = b * s.T * s.kv_stride + group * s.D;
        const int64_t last = (s.T - 1) / s.queries * s.queries;
        for (int64_t first = last; first >= 0; first -= s.queries) {
            const int64_t n = smaller(s.queries, s.T - first), keys = first + n;
            const real *block_q = q + q_at + first * s.q_stride;
            const real *block_out = out + (b * s.T + first) * out_stride + h * s.D;
            const real *block_dout = dout + (b * s.T + first) * out_stride + h * s.D;
            const real add = h % heads_of_group == 0 && first == last ? 0 : 1;
            multiply(device, false, true, n, keys, s.D, s.scale, block_q, s.q_stride, k + kv_at, s.kv_stride, 0, p,
                     s.score_stride);
            multiply(device, false, true, n, keys, s.D, 1, block_dout, out_stride, v + kv_at, s.kv_stride, 0, ds, s.score_stride);
            for (int64_t i = 0; i < n; i++) {
                real *p_row = p + i * s.score_stride, *ds_row = ds + i * s.score_stride;
                const real delta = dot_rows(s.D, block_dout + i * out_stride, block_out + i * out_stride);
                exponentials(first + i + 1, keys, log_sum[head * s.T + first + i], p_row);
                SW_ELEMENTWISE
                for (int64_t j = 0; j < keys; j++)
                    ds_row[j] = p_row[j] * (ds_row[j] - delta);
            }
            multiply(device, true, false, keys, s.D, n, 1, p, s.score_stride, block_dout, out_stride, add, dv + kv_at,
                     s.kv_stride);
            multiply(device, true, false, keys, s.D, n, s.scale, ds, s.score_stride, block_q, s.q_stride, add, dk + kv_at,
                     s.kv_stride);
            multiply(device, false, false, n, s.D, keys, s.scale, ds, s.score_stride, k + kv_at, s.kv_stride, 0,
                     dq + q_at + first * s.q_stride, s.q_stride);
        }
    }
}
