/* activation.c: a function of each element (shardwise/activation.h has the formulas).
 *
 *   y = f(x),   dx = dy f'(x)
 */
#include "graph/ops/checks.h"

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *x = op->operand[0].value, *dy = sw_gradient_arrived(d, op->operand[1].value);
    if (!dy)
        return;
    sw_operand dx = sw_gradient_target(d, x);
    if (dx.kind == SW_OPERAND_NONE)
        return;
    sw_op *back = sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_ACTIVATION_GRAD, 3,
                             (sw_operand[]){sw_reads(dy), sw_reads(x), dx});
    if (back)
        for (int i = 0; i < 2; i++)
            back->dim[i] = op->dim[i];
}

/* Arithmetic of one element, forward and backward: an exponential, a tanh and a division count as
 * ten. */
static const double COSTS[SW_N_ACTIVATIONS][2] = {
    [SW_GELU_TANH] = {18, 26},  [SW_GELU] = {35, 38},    [SW_GELU_10] = {37, 40},
    [SW_QUICK_GELU] = {13, 17}, [SW_SILU] = {12, 16},    [SW_RELU] = {1, 2},
    [SW_RELU_SQUARED] = {2, 3}, [SW_RELU_6] = {2, 4},    [SW_LEAKY_RELU] = {2, 2},
    [SW_TANH] = {20, 23},       [SW_SIGMOID] = {11, 14}, [SW_HARDSWISH] = {5, 8},
    [SW_MISH] = {25, 40},       [SW_LAPLACE] = {36, 38}, [SW_IDENTITY] = {0, 1},
};

static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = COSTS[op->dim[1]][op->kernel == SW_KERNEL_ACTIVATION_GRAD] * (double)op->dim[0];
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family activation_family = {
    .name = "activation", .gradient = gradient, .cost = cost};

sw_value *sw_activate(sw_graph *graph, sw_value *x, sw_activation function) {
    if (!sw_check_rows(graph, "activation", "x", x))
        return NULL;
    if ((unsigned)function >= SW_N_ACTIVATIONS)
        return sw_graph_fail(graph, "activation: there is no function %d", (int)function);
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(graph, &activation_family, SW_KERNEL_ACTIVATION, 2,
                           (sw_operand[]){sw_reads(x), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = x->n_elements;
    op->dim[1] = function;
    return y;
}

sw_value *sw_gelu(sw_graph *graph, sw_value *x) {
    return sw_activate(graph, x, SW_GELU_TANH);
}
