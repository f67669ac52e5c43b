/* scale.c: a value times a constant.
 *
 *   y = f x
 *   dx = f dy                                   the same kernel on dy
 */
#include <math.h>

#include "graph/ops/checks.h"

static void emit(sw_graph *graph, const sw_op *like, sw_operand x, sw_operand y) {
    sw_op *op = sw_op_emit(graph, like->family, SW_KERNEL_SCALE, 2, (sw_operand[]){x, y});
    if (!op)
        return;
    op->dim[0] = like->dim[0];
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
    *flops = (double)op->dim[0];
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family scale_family = {.name = "scale", .gradient = gradient, .cost = cost};

sw_value *sw_scale(sw_graph *graph, sw_value *x, double factor) {
    if (!sw_check_rows(graph, "scale", "x", x))
        return NULL;
    if (!isfinite(factor))
        return sw_graph_fail(graph, "scale: the factor is %g; it must be finite", factor);
    if (factor == 1)
        return x;
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, x->n_dimensions, x->dimension);
    if (!y)
        return NULL;
    sw_op shape = {.family = &scale_family, .dim = {x->n_elements}, .attribute = {factor}};
    emit(graph, &shape, sw_reads(x), sw_writes(y));
    return graph->error.status ? NULL : y;
}
