/* gelu.c: the tanh form (Hendrycks and Gimpel 2016).
 *
 *   u = sqrt(2/pi) (x + 0.044715 x^3),  y = x (1 + tanh u) / 2
 *   dx = dy ((1 + tanh u) / 2 + x (1 - tanh^2 u) / 2 * sqrt(2/pi) (1 + 3 * 0.044715 x^2))
 */
#include "graph/ops/checks.h"

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *x = op->operand[0].value, *dy = sw_gradient_arrived(d, op->operand[1].value);
    if (!dy)
        return;
    sw_operand dx = sw_gradient_target(d, x);
    if (dx.kind == SW_OPERAND_NONE)
        return;
    sw_op *back = sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_GELU_GRAD, 3,
                             (sw_operand[]){sw_reads(dy), sw_reads(x), dx});
    if (back)
        back->dim[0] = op->dim[0];
}

/* A tanh counts as ten. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = (op->kernel == SW_KERNEL_GELU ? 18 : 26) * (double)op->dim[0];
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family gelu_family = {.name = "gelu", .gradient = gradient, .cost = cost};

sw_value *sw_gelu(sw_graph *graph, sw_value *x) {
    if (!sw_check_rows(graph, "gelu", "x", x))
        return NULL;
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(graph, &gelu_family, SW_KERNEL_GELU, 2, (sw_operand[]){sw_reads(x), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = x->n_elements;
    return y;
}
