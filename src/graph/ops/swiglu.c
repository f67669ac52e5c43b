/* swiglu.c: the gated linear unit with silu (Shazeer 2020), without its projections.
 *
 *   s = 1 / (1 + exp(-gate)),  y = gate s up
 *   dgate = dy up s (1 + gate (1 - s)),   dup = dy gate s
 *
 * gate and up are values of their own, or lie side by side in each row of one packed value, and so
 * do their gradients.
 */
#include "graph/ops/checks.h"

#include <inttypes.h>

enum { DIMENSIONS = 3 };

/* The kernel writes both gradients; where one is not wanted, into a value that nobody reads. */
static sw_operand gradient_or_unread(sw_differentiation *d, sw_value *input) {
    sw_operand gradient = sw_gradient_fresh(d, input);
    if (gradient.kind != SW_OPERAND_NONE)
        return gradient;
    sw_value *unread =
        sw_value_create(sw_differentiation_graph(d), SW_VALUE_REAL, 2, input->dimension);
    return unread ? sw_writes(unread) : sw_nothing();
}

static bool is_packed(const sw_op *op) {
    return op->dim[2] != op->dim[1];
}

static void gradient(sw_differentiation *d, sw_op *op) {
    const sw_operand *gate = &op->operand[0], *up = &op->operand[1];
    sw_value *dy = sw_gradient_arrived(d, op->operand[2].value);
    if (!dy)
        return;
    sw_operand dgate = gradient_or_unread(d, gate->value);
    sw_operand dup = is_packed(op) ? dgate : gradient_or_unread(d, up->value);
    dup.offset = up->offset;
    sw_op *back = sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_SWIGLU_GRAD, 5,
                             (sw_operand[]){sw_reads(dy), *gate, *up, dgate, dup});
    for (int i = 0; back && i < DIMENSIONS; i++)
        back->dim[i] = op->dim[i];
}

/* An exp and a division count as ten. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    double n = (double)op->dim[0] * (double)op->dim[1];
    bool is_forward = op->kernel == SW_KERNEL_SWIGLU;
    *flops = (is_forward ? 13 : 19) * n;
    *bytes = 4 * (is_forward ? 3 : 5) * n;
}

static const sw_family swiglu_family = {.name = "swiglu", .gradient = gradient, .cost = cost};

/* gate and up of n rows of F channels each, rows `stride` apart. */
static sw_value *emit(sw_graph *graph, sw_operand gate, sw_operand up, int64_t n, int64_t F,
                      int64_t stride) {
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, (int64_t[]){n, F});
    sw_op *op = y ? sw_op_emit(graph, &swiglu_family, SW_KERNEL_SWIGLU, 3,
                               (sw_operand[]){gate, up, sw_writes(y)})
                  : NULL;
    if (!op)
        return NULL;
    op->dim[0] = n;
    op->dim[1] = F;
    op->dim[2] = stride;
    return y;
}

sw_value *sw_swiglu(sw_graph *graph, sw_value *gate, sw_value *up) {
    if (!sw_check_rows(graph, "swiglu", "gate", gate) ||
        !sw_check_rows(graph, "swiglu", "up", up) || !sw_check_same(graph, "swiglu", gate, up))
        return NULL;
    int64_t F = gate->dimension[1];
    return emit(graph, sw_reads(gate), sw_reads(up), gate->dimension[0], F, F);
}

sw_value *sw_swiglu_packed(sw_graph *graph, sw_value *gate_up) {
    if (!sw_check_rows(graph, "swiglu_packed", "gate_up", gate_up))
        return NULL;
    int64_t width = gate_up->dimension[1], F = width / 2;
    if (width % 2)
        return sw_graph_fail(
            graph, "swiglu_packed: %" PRId64 " channels do not divide into gate and up", width);
    sw_operand gate = sw_reads(gate_up), up = sw_reads(gate_up);
    up.offset = F;
    return emit(graph, gate, up, gate_up->dimension[0], F, width);
}
