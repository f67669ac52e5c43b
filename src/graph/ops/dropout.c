/* dropout.c: elements set to zero at random (Srivastava et al. 2014).
 *
 *   y = x m / (1 - p),   m[row, e] = 1 where word e of (seed, stream, logical row) is at least p
 *                        2^32, else 0
 *   dx = dy m / (1 - p)                         the same kernel on dy
 *
 * The mask is a function of where an element stands, so nothing is kept for backward: gradient and
 * recomputed forward draw it again. Each recorded call has a stream of its own.
 */
#include "graph/ops/checks.h"

static void emit(sw_graph *graph, const sw_op *like, sw_operand x, sw_operand y) {
    sw_op *op = sw_op_emit(graph, like->family, SW_KERNEL_DROPOUT, 2, (sw_operand[]){x, y});
    if (!op)
        return;
    for (int i = 0; i < 4; i++)
        op->dim[i] = like->dim[i];
    op->attribute[0] = like->attribute[0];
}

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *dy = sw_gradient_arrived(d, op->operand[1].value);
    if (!dy)
        return;
    sw_operand dx = sw_gradient_target(d, op->operand[0].value);
    if (dx.kind != SW_OPERAND_NONE)
        emit(sw_differentiation_graph(d), op, sw_reads(dy), dx);
}

static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = SW_DRAW_FLOPS * (double)op->operand[0].value->n_elements;
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family dropout_family = {.name = "dropout", .gradient = gradient, .cost = cost};

sw_value *sw_dropout(sw_graph *graph, sw_value *x, double probability) {
    if (!sw_check_positions(graph, "dropout", "x", x))
        return NULL;
    if (!(probability >= 0 && probability < 1))
        return sw_graph_fail(graph,
                             "dropout: the probability is %g; it must be at least 0 and below 1",
                             probability);
    if (probability == 0)
        return x;
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    if (!y)
        return NULL;
    sw_op shape = {.family = &dropout_family,
                   .dim = {graph->n_rows, graph->n_tokens, x->dimension[1], graph->n_dropouts++},
                   .attribute = {probability}};
    emit(graph, &shape, sw_reads(x), sw_writes(y));
    return graph->error.status ? NULL : y;
}
