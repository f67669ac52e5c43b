/* swiglu.c: the gated linear unit with silu (Shazeer 2020), without its projections.
 *
 *   s = 1 / (1 + exp(-gate)),  y = gate s up
 *   dgate = dy up s (1 + gate (1 - s)),   dup = dy gate s
 */
#include "graph/ops/checks.h"

/* The kernel writes both gradients; where one is not wanted, into a value that nobody reads. */
static sw_operand gradient_or_unread(sw_differentiation *d, sw_value *input) {
    sw_operand gradient = sw_gradient_fresh(d, input);
    if (gradient.kind != SW_OPERAND_NONE)
        return gradient;
    sw_value *unread = sw_value_create(sw_differentiation_graph(d), SW_VALUE_REAL, 2, input->dimension);
    return unread ? sw_writes(unread) : sw_nothing();
}

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *gate = op->operand[0].value, *up = op->operand[1].value, *dy = sw_gradient_arrived(d, op->operand[2].value);
    if (!dy)
        return;
    sw_operand dgate = gradient_or_unread(d, gate), dup = gradient_or_unread(d, up);
    sw_op *back = sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_SWIGLU_GRAD, 5,
                             (sw_operand[]){sw_reads(dy), sw_reads(gate), sw_reads(up), dgate, dup});
    if (back)
        back->dim[0] = op->dim[0];
}

/* An exp and a division count as ten. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = (op->kernel == SW_KERNEL_SWIGLU ? 13 : 19) * (double)op->dim[0];
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family swiglu_family = {.name = "swiglu", .gradient = gradient, .cost = cost};

sw_value *sw_swiglu(sw_graph *graph, sw_value *gate, sw_value *up) {
    if (!sw_check_rows(graph, "swiglu", "gate", gate) || !sw_check_rows(graph, "swiglu", "up", up) ||
        !sw_check_same(graph, "swiglu", gate, up))
        return NULL;
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, gate->dimension);
    if (!y)
        return NULL;
    sw_op *op =
        sw_op_emit(graph, &swiglu_family, SW_KERNEL_SWIGLU, 3, (sw_operand[]){sw_reads(gate), sw_reads(up), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = gate->n_elements;
    return y;
}
