/* positions.c: learned positions.
 *
 *   y[b, t] = x[b, t] + table[p(b, t)]          x, y [B*T, C], table [at least T, C]
 *   dx = dy                                     shared, not copied
 *   dtable[i] = sum over p(b, t) = i of dy[b, t]
 *   p(b, t) = t, or, where a row holds pieces of documents, t minus the token at which its piece
 *             begins
 */
#include "graph/ops/checks.h"

#include <inttypes.h>

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *dy = sw_gradient_arrived(d, op->operand[2].value);
    if (!dy)
        return;
    sw_operand dtable = sw_gradient_parameter(d, op->operand[1].parameter);
    if (dtable.kind != SW_OPERAND_NONE) {
        sw_op *back =
            sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_ADD_POSITIONS_GRAD, 3,
                       (sw_operand[]){sw_reads(dy), dtable, op->operand[3]});
        if (!back)
            return;
        for (int i = 0; i < 4; i++)
            back->dim[i] = op->dim[i];
    }
    sw_gradient_pass(d, op->operand[0].value, dy);
}

static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = (double)op->dim[0] * (double)op->dim[1] * (double)op->dim[2];
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family positions_family = {
    .name = "add_positions", .gradient = gradient, .cost = cost};

sw_value *sw_add_positions(sw_graph *graph, sw_value *x, sw_parameter *table) {
    return sw_add_positions_within(graph, x, table, NULL);
}

sw_value *sw_add_positions_within(sw_graph *graph, sw_value *x, sw_parameter *table,
                                  sw_value *documents) {
    if (!sw_check_positions(graph, "add_positions", "x", x) ||
        !sw_check_matrix(graph, "add_positions", "table", table, 0, x->dimension[1]) ||
        (documents && !sw_check_index(graph, "add_positions", "documents", documents)))
        return NULL;
    if (table->dimension[0] < sw_graph_positions(graph))
        return sw_graph_fail(graph,
                             "add_positions: table %s has %" PRId64 " positions, a row has %" PRId64
                             " tokens; shorten the sequence",
                             table->name, table->dimension[0], sw_graph_positions(graph));
    if (sw_graph_port(graph, SW_PORT_PLACES))
        return sw_decode_positions(graph, x, table);
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(
        graph, &positions_family, SW_KERNEL_ADD_POSITIONS, 4,
        (sw_operand[]){sw_reads(x), sw_uses(table), sw_writes(y), sw_reads_if_given(documents)});
    if (!op)
        return NULL;
    op->dim[0] = graph->n_rows;
    op->dim[1] = graph->n_tokens;
    op->dim[2] = x->dimension[1];
    op->dim[3] = table->dimension[0];
    return y;
}
