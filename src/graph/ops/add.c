/* add.c: the residual sum.
 *
 *   y = a + b
 *   da = dy, db = dy                            shared, not copied
 */
#include "graph/ops/checks.h"

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *dy = sw_gradient_arrived(d, op->operand[2].value);
    if (!dy)
        return;
    sw_gradient_pass(d, op->operand[0].value, dy);
    sw_gradient_pass(d, op->operand[1].value, dy);
}

static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = (double)op->dim[0];
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family add_family = {.name = "add", .gradient = gradient, .cost = cost};

sw_value *sw_add(sw_graph *graph, sw_value *a, sw_value *b) {
    if (!sw_check_same(graph, "add", a, b))
        return NULL;
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, a->n_dimensions, a->dimension);
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(graph, &add_family, SW_KERNEL_ADD, 3,
                           (sw_operand[]){sw_reads(a), sw_reads(b), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = a->n_elements;
    return y;
}
