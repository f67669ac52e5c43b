/* decoding.c: operations in a graph that decodes: rows go on from a cache of keys and values.
 *
 *   rotary, positions   as always, at position first + t of the row instead of t
 *   attention           the new keys and values go into the cache; token t sees positions 0 ..
 *                       first + t of it
 *   logits              of the last real token of each row
 *
 * A model function is recorded as it is: the operations that know of positions ask the graph. The
 * caches are values that live across runs, one of keys and one of values for every attention,
 * numbered in the order in which they are recorded: so graphs of one model that differ in rows and
 * tokens alone share them. Nothing here has a gradient.
 */
#include <inttypes.h>

#include "graph/ops/checks.h"

sw_status sw_graph_decode(sw_graph *graph, int64_t n_rows, int64_t n_positions, sw_error *err) {
    if (graph->units.n || graph->values.n)
        return sw_fail(
            err, SW_BUG,
            "the graph has operations already: whether it decodes is said before the first one");
    if (n_rows < graph->n_rows || n_positions < graph->n_tokens || n_positions > INT32_MAX)
        return sw_fail(err, SW_BAD_CONFIG,
                       "a cache of %" PRId64 " rows of %" PRId64
                       " positions does not hold micro-batches of %" PRId64 " rows of %" PRId64,
                       n_rows, n_positions, graph->n_rows, graph->n_tokens);
    graph->cached_rows = n_rows;
    graph->cached_positions = n_positions;
    sw_value *places = sw_value_create(graph, SW_VALUE_INDEX, 2, (int64_t[]){graph->n_rows, 3});
    return sw_graph_add_port(graph, SW_PORT_PLACES, false, places) ? SW_OK
                                                                   : sw_graph_status(graph, err);
}

static void rotary_cost(const sw_op *op, double *flops, double *bytes) {
    *flops = 3 * (double)(op->dim[0] * op->dim[1]) *
             (double)(op->dim[2] * op->dim[3]); /* channels that pass are copied */
    *bytes = sw_op_operand_bytes(op);
}

static void positions_cost(const sw_op *op, double *flops, double *bytes) {
    *flops = (double)op->operand[0].value->n_elements;
    *bytes = 12 * *flops;
}

static void selection_cost(const sw_op *op, double *flops, double *bytes) {
    *flops = 0;
    *bytes = 8 * (double)op->dim[0] * (double)op->dim[2];
}

/* As if every row were full. */
static void attention_cost(const sw_op *op, double *flops, double *bytes) {
    double b = (double)op->dim[0], t = (double)op->dim[1], h = (double)op->dim[2],
           k = (double)op->dim[3], d = (double)op->dim[4];
    double positions = (double)op->dim[7];
    *flops = 4 * b * t * h * d * positions;
    *bytes = 4 * (2 * b * t * (h + k) * d + 2 * b * k * d * positions);
}

static const sw_family rotary_family = {.name = "rotary_placed", .cost = rotary_cost};
static const sw_family positions_family = {.name = "add_positions_placed", .cost = positions_cost};
static const sw_family selection_family = {.name = "select_last", .cost = selection_cost};
static const sw_family attention_family = {.name = "attention_cached", .cost = attention_cost};

static sw_value *cache(sw_graph *graph, int64_t n_kv_heads, int64_t head_channels) {
    sw_value *value = sw_value_create(
        graph, SW_VALUE_REAL, 4,
        (int64_t[]){graph->cached_rows, n_kv_heads, graph->cached_positions, head_channels});
    if (value)
        value->state = ++graph->n_states;
    return value;
}

/* An operand of which the kernel writes a part and keeps the rest. */
static sw_operand updates(sw_value *value) {
    return (sw_operand){SW_OPERAND_VALUE, SW_UPDATE, value, NULL, 0};
}

sw_value *sw_decode_attention(sw_graph *graph, sw_operand q, sw_operand k, sw_operand v,
                              const int64_t dim[8], double scale) {
    sw_value *out = sw_value_create(graph, SW_VALUE_REAL, 2,
                                    (int64_t[]){graph->n_rows * graph->n_tokens, dim[2] * dim[4]});
    sw_value *keys = cache(graph, dim[3], dim[4]), *values = cache(graph, dim[3], dim[4]);
    if (!out || !keys || !values)
        return NULL;
    sw_op *op = sw_op_emit(graph, &attention_family, SW_KERNEL_ATTENTION_CACHED, 7,
                           (sw_operand[]){q, k, v, sw_reads(sw_graph_port(graph, SW_PORT_PLACES)),
                                          updates(keys), updates(values), sw_writes(out)});
    if (!op)
        return NULL;
    for (int i = 0; i < 7; i++)
        op->dim[i] = dim[i];
    op->dim[7] = graph->cached_positions;
    op->attribute[0] = scale;
    op->attribute[1] = (double)dim[7]; /* the span */
    return out;
}

sw_value *sw_decode_rotary(sw_graph *graph, sw_value *x, sw_value *table, int64_t n_heads,
                           int64_t head_channels) {
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    if (!y)
        return NULL;
    sw_op *op =
        sw_op_emit(graph, &rotary_family, SW_KERNEL_ROTARY_PLACED, 4,
                   (sw_operand[]){sw_reads(x), sw_reads(table),
                                  sw_reads(sw_graph_port(graph, SW_PORT_PLACES)), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = graph->n_rows;
    op->dim[1] = graph->n_tokens;
    op->dim[2] = n_heads;
    op->dim[3] = head_channels;
    op->dim[4] = graph->cached_positions;
    op->dim[5] = x->dimension[1];
    return y;
}

sw_value *sw_decode_positions(sw_graph *graph, sw_value *x, sw_parameter *table) {
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    if (!y)
        return NULL;
    sw_op *op =
        sw_op_emit(graph, &positions_family, SW_KERNEL_ADD_POSITIONS_PLACED, 4,
                   (sw_operand[]){sw_reads(x), sw_uses(table),
                                  sw_reads(sw_graph_port(graph, SW_PORT_PLACES)), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = graph->n_rows;
    op->dim[1] = graph->n_tokens;
    op->dim[2] = x->dimension[1];
    op->dim[3] = table->dimension[0];
    return y;
}

sw_value *sw_decode_selection(sw_graph *graph, sw_value *x) {
    sw_value *y =
        sw_value_create(graph, SW_VALUE_REAL, 2, (int64_t[]){graph->n_rows, x->dimension[1]});
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(
        graph, &selection_family, SW_KERNEL_SELECT_LAST, 3,
        (sw_operand[]){sw_reads(x), sw_reads(sw_graph_port(graph, SW_PORT_PLACES)), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = graph->n_rows;
    op->dim[1] = graph->n_tokens;
    op->dim[2] = x->dimension[1];
    return y;
}
