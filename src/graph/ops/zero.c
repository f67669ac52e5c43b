/* zero.c: the gradient of a parameter that the loss does not depend on. A zero gradient is a
 * gradient: such a parameter still decays and moves with its momentum, so its bytes must hold
 * zeros, not what was there before.
 */
#include "graph/graph.h"

static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = 0;
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family zero_family = {.name = "zero", .cost = cost};

sw_op *sw_zero_gradient(sw_graph *graph, sw_parameter *parameter) {
    sw_op *op = sw_op_emit(graph, &zero_family, SW_KERNEL_ZERO, 1,
                           (sw_operand[]){{SW_OPERAND_GRADIENT, SW_WRITE, NULL, parameter, 0}});
    if (op)
        op->dim[0] = parameter->n_elements;
    return op;
}
