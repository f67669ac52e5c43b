/* attention.c: attention with grouped queries, computed in blocks (Dao et al. 2022): no [T, T]
 * matrix exists.
 *
 *   For query head h, with the keys and values of head h / (H/K), and c = 1 / sqrt(D) or what was
 *   asked for:
 *     s[t, u] = c q[t] . k[u]  for the u that t sees,   p = softmax over u of s
 *     out[t] = sum over u of m[t, u] p[t, u] v[u]
 *     log_sum[t] = log of the sum over u of exp s[t, u]          kept for backward, as is out
 *   Backward makes p = exp(s - log_sum) again:
 *     dv[u] = sum over t of m[t, u] p[t, u] dout[t]
 *     ds[t, u] = p[t, u] (m[t, u] dout[t] . v[u] - dout[t] . out[t])
 *     dq[t] = c sum over u of ds[t, u] k[u],   dk[u] = c sum over t of ds[t, u] q[t]
 *   and dk, dv sum over the H/K query heads that share them. What a token sees: device/kernel.h.
 *
 * m is dropout's (Srivastava et al. 2014): 1, or with probability p' either 0 or 1 / (1 - p'), by
 * sw_attention_keeps. It is a function of where a weight stands, so nothing is kept for backward:
 * gradient and recomputed forward draw it again. Each recorded call has a stream of its own.
 *
 * q, k and v are values of their own, or lie side by side in each row of one packed value: then
 * operands carry offsets.
 */
#include "graph/ops/checks.h"

#include <inttypes.h>
#include <math.h>

enum { DIMENSIONS = 9, ATTRIBUTES = 3 };
enum { Q = 1, K, V, DQ = 6, TABLE = 10 }; /* some operands of ATTENTION_GRAD */

/* An operand with the access and bytes of `whole`, at the offset of `part`. */
static sw_operand at_offset_of(sw_operand whole, sw_operand part) {
    whole.offset = part.offset;
    return whole;
}

static void gradient(sw_differentiation *d, sw_op *op) {
    const sw_operand *q = &op->operand[0], *k = &op->operand[1], *v = &op->operand[2];
    sw_value *out = op->operand[3].value, *log_sum = op->operand[4].value,
             *dout = sw_gradient_arrived(d, out);
    if (!dout)
        return;
    sw_graph *graph = sw_differentiation_graph(d);
    sw_operand dq, dk, dv;
    if (op->dim[5] != op->dim[2] * op->dim[4]) { /* rows wider than the queries: packed */
        sw_operand whole = sw_gradient_fresh(d, q->value);
        dq = at_offset_of(whole, *q), dk = at_offset_of(whole, *k), dv = at_offset_of(whole, *v);
    } else {
        const sw_operand *inputs[3] = {q, k, v};
        sw_operand gradients[3];
        for (int i = 0; i < 3; i++) { /* the kernel writes all three; where one is not wanted, into
                                         a value that nobody reads */
            gradients[i] = sw_gradient_fresh(d, inputs[i]->value);
            if (gradients[i].kind == SW_OPERAND_NONE) {
                sw_value *unread =
                    sw_value_create(graph, SW_VALUE_REAL, 2, inputs[i]->value->dimension);
                if (!unread)
                    return;
                gradients[i] = sw_writes(unread);
            }
        }
        dq = gradients[0], dk = gradients[1], dv = gradients[2];
    }
    sw_op *back =
        sw_op_emit(graph, op->family, SW_KERNEL_ATTENTION_GRAD, TABLE + 1,
                   (sw_operand[]){sw_reads(dout), *q, *k, *v, sw_reads(out), sw_reads(log_sum), dq,
                                  dk, dv, op->operand[5], sw_nothing()});
    if (!back)
        return;
    for (int i = 0; i < DIMENSIONS; i++)
        back->dim[i] = op->dim[i];
    for (int i = 0; i < ATTRIBUTES; i++)
        back->attribute[i] = op->attribute[i];
}

/* The operation that wrote `dy`, if nobody has touched it since. */
static sw_op *only_writer(const sw_graph *graph, const sw_value *dy) {
    for (int i = graph->ops.n - 1; i >= 0 && dy->producer && i > dy->producer->id; i--)
        for (int k = 0; k < graph->ops.item[i]->n_operands; k++)
            if (graph->ops.item[i]->operand[k].kind == SW_OPERAND_VALUE &&
                graph->ops.item[i]->operand[k].value == dy)
                return NULL;
    return dy->producer;
}

bool sw_attention_turns_back(sw_graph *graph, const sw_turned_heads *turned, const sw_value *dy) {
    sw_op *back = only_writer(graph, dy);
    if (!back || back->kernel != SW_KERNEL_ATTENTION_GRAD ||
        back->operand[Q].value != turned->value || back->operand[K].value != turned->value ||
        back->operand[V].value != turned->value || back->operand[DQ].value != dy)
        return false;
    const int64_t n_heads = back->dim[2], n_kv_heads = back->dim[3], D = back->dim[4];
    if (turned->n_heads != n_heads + n_kv_heads || turned->head_channels != D ||
        turned->n_tokens != back->dim[1] || back->operand[Q].offset != 0 ||
        back->operand[K].offset != n_heads * D ||
        back->operand[V].offset != (n_heads + n_kv_heads) * D)
        return false;
    back->operand[TABLE] = turned->table;
    return true;
}

/* The pairs of a query and a key it sees, of one head and row. Where documents begin is not known
 * here: a row counts as one. */
static double pairs_in_sight(const sw_op *op) {
    const double t = (double)op->dim[1];
    const bool is_spanned = op->dim[7] > 0 && op->dim[7] < op->dim[1];
    const double span = is_spanned ? (double)op->dim[7] : t;
    if (op->dim[8] == SW_MASK_FULL)
        return is_spanned ? t * (2 * span + 1) - span * (span + 1) : t * t;
    return span * (span + 1) / 2 + (t - span) * span;
}

/* Forward has two products over the pairs in sight, backward five. To turn dq and dk back costs
 * what ROTARY costs, to draw what is dropped as much for each pair as DROPOUT for each element. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    double b = (double)op->dim[0], t = (double)op->dim[1], h = (double)op->dim[2],
           k = (double)op->dim[3], d = (double)op->dim[4];
    double pairs = b * h * pairs_in_sight(op), product = 2 * pairs * d, query = b * t * h * d,
           key = b * t * k * d, sums = b * h * t;
    if (op->kernel == SW_KERNEL_ATTENTION) {
        *flops = 2 * product;
        *bytes = 4 * (2 * query + 2 * key + sums);
    } else {
        *flops = 5 * product;
        *bytes = 4 * (4 * query + 4 * key + sums);
        if (op->operand[TABLE].kind != SW_OPERAND_NONE) {
            *flops += 3 * (query + key);
            *bytes += 4 * (double)op->operand[TABLE].value->n_elements;
        }
    }
    if (op->attribute[1] > 0)
        *flops += SW_DRAW_FLOPS * pairs;
}

static const sw_family attention_family = {.name = "attention", .gradient = gradient, .cost = cost};

static sw_value *attend(sw_graph *graph, sw_operand q, sw_operand k, sw_operand v, int64_t n_heads,
                        int64_t n_kv_heads, int64_t head_channels, int64_t q_stride,
                        int64_t kv_stride, const sw_attention_options *options) {
    sw_value *documents = options ? options->documents : NULL;
    if (documents && !sw_check_index(graph, "attention", "documents", documents))
        return NULL;
    if (options && (options->span < 0 || !(options->scale >= 0) || !isfinite(options->scale)))
        return sw_graph_fail(graph,
                             "attention: a span of %" PRId64
                             " and a scale of %g; both must be 0 or more, and finite",
                             options->span, options->scale);
    if (options && (unsigned)options->mask >= SW_N_ATTENTION_MASKS)
        return sw_graph_fail(graph, "attention: there is no mask number %d", (int)options->mask);
    if (options && !(options->dropout >= 0 && options->dropout < 1))
        return sw_graph_fail(
            graph, "attention: the probability of dropout is %g; it must be at least 0 and below 1",
            options->dropout);
    const int64_t span = options ? options->span : 0,
                  mask = options ? (int64_t)options->mask : SW_MASK_CAUSAL;
    const double scale =
        options && options->scale > 0 ? options->scale : 1 / sqrt((double)head_channels);
    const double dropout = options ? options->dropout : 0;
    const int64_t dim[DIMENSIONS] = {graph->n_rows, graph->n_tokens, n_heads,   n_kv_heads,
                                     head_channels, q_stride,        kv_stride, span,
                                     mask};
    const bool decodes = sw_graph_port(graph, SW_PORT_PLACES);
    if (decodes && mask != SW_MASK_CAUSAL)
        return sw_graph_fail(graph, "attention: while text is generated the mask must be causal, "
                                    "as later tokens are not there yet");
    if (decodes)
        return sw_decode_attention(graph, q, k, v, dim,
                                   scale); /* where nothing is dropped, and a row is one document */
    sw_value *out =
        sw_value_create(graph, SW_VALUE_REAL, 2,
                        (int64_t[]){graph->n_rows * graph->n_tokens, n_heads * head_channels});
    sw_value *log_sum = sw_value_create(graph, SW_VALUE_STATISTIC, 3,
                                        (int64_t[]){graph->n_rows, n_heads, graph->n_tokens});
    if (!out || !log_sum)
        return NULL;
    sw_op *op = sw_op_emit(
        graph, &attention_family, SW_KERNEL_ATTENTION, 6,
        (sw_operand[]){q, k, v, sw_writes(out), sw_writes(log_sum), sw_reads_if_given(documents)});
    if (!op)
        return NULL;
    for (int i = 0; i < DIMENSIONS; i++)
        op->dim[i] = dim[i];
    op->attribute[0] = scale;
    if (dropout > 0) {
        op->attribute[1] = dropout;
        op->attribute[2] = graph->n_dropouts++;
    }
    return out;
}

static bool check_heads(sw_graph *graph, int64_t n_heads, int64_t n_kv_heads) {
    bool fits = n_heads >= 1 && n_kv_heads >= 1 && n_heads <= INT32_MAX && n_kv_heads <= n_heads &&
                n_heads % n_kv_heads == 0;
    if (!fits)
        sw_graph_fail(graph,
                      "attention: %" PRId64 " query heads cannot share %" PRId64
                      " key/value heads evenly",
                      n_heads, n_kv_heads);
    return fits;
}

sw_value *sw_attention(sw_graph *graph, sw_value *q, sw_value *k, sw_value *v, int64_t n_heads,
                       int64_t n_kv_heads) {
    return sw_attention_with(graph, q, k, v, n_heads, n_kv_heads, NULL);
}

sw_value *sw_attention_with(sw_graph *graph, sw_value *q, sw_value *k, sw_value *v, int64_t n_heads,
                            int64_t n_kv_heads, const sw_attention_options *options) {
    if (!sw_check_positions(graph, "attention", "q", q) ||
        !sw_check_positions(graph, "attention", "k", k) ||
        !sw_check_positions(graph, "attention", "v", v) || !check_heads(graph, n_heads, n_kv_heads))
        return NULL;
    if (q->dimension[1] % n_heads)
        return sw_graph_fail(
            graph, "attention: the %" PRId64 " channels of q do not divide into %" PRId64 " heads",
            q->dimension[1], n_heads);
    int64_t head_channels = q->dimension[1] / n_heads, kv_channels = n_kv_heads * head_channels;
    if (k->dimension[1] != kv_channels || v->dimension[1] != kv_channels)
        return sw_graph_fail(graph,
                             "attention: k %s and v %s must have %" PRId64 " channels, %" PRId64
                             " heads of q's %" PRId64,
                             sw_value_shape(k).text, sw_value_shape(v).text, kv_channels,
                             n_kv_heads, head_channels);
    return attend(graph, sw_reads(q), sw_reads(k), sw_reads(v), n_heads, n_kv_heads, head_channels,
                  q->dimension[1], kv_channels, options);
}

sw_value *sw_attention_packed(sw_graph *graph, sw_value *qkv, int64_t n_heads, int64_t n_kv_heads) {
    return sw_attention_packed_with(graph, qkv, n_heads, n_kv_heads, NULL);
}

sw_value *sw_attention_packed_with(sw_graph *graph, sw_value *qkv, int64_t n_heads,
                                   int64_t n_kv_heads, const sw_attention_options *options) {
    if (!sw_check_positions(graph, "attention_packed", "qkv", qkv) ||
        !check_heads(graph, n_heads, n_kv_heads))
        return NULL;
    int64_t n_parts = n_heads + 2 * n_kv_heads, width = qkv->dimension[1];
    if (width % n_parts)
        return sw_graph_fail(graph,
                             "attention_packed: %" PRId64 " channels do not divide into %" PRId64
                             " query, %" PRId64 " key and %" PRId64 " value heads",
                             width, n_heads, n_kv_heads, n_kv_heads);
    int64_t head_channels = width / n_parts;
    sw_operand q = sw_reads(qkv), k = sw_reads(qkv), v = sw_reads(qkv);
    k.offset = n_heads * head_channels;
    v.offset = k.offset + n_kv_heads * head_channels;
    return attend(graph, q, k, v, n_heads, n_kv_heads, head_channels, width, width, options);
}
