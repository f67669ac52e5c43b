/* linear.c: matrix products.
 *
 *   y = x W^T + bias        W [out, in], as Llama's weights lie; or x W + bias, W [in, out], as GPT-2's do
 *   dx = dy W               (dy W^T)
 *   dW = dy^T x             (x^T dy)
 *   dbias = sum over rows of dy
 */
#include "graph/ops/checks.h"

/* dW and dbias come from one kernel, which always writes dW. Where only the bias is trained, it writes a value that nobody reads.
 */
static void weight_gradient(sw_differentiation *d, sw_op *op, sw_value *dy) {
    sw_graph *graph = sw_differentiation_graph(d);
    sw_parameter *weight = op->operand[1].parameter, *bias = op->operand[2].parameter;
    sw_operand dweight = sw_gradient_parameter(d, weight), dbias = bias ? sw_gradient_parameter(d, bias) : sw_nothing();
    if (dweight.kind == SW_OPERAND_NONE) {
        if (dbias.kind == SW_OPERAND_NONE)
            return;
        sw_value *unread = sw_value_create(graph, SW_VALUE_STATISTIC, weight->n_dimensions, weight->dimension);
        if (!unread)
            return;
        dweight = sw_writes(unread);
    }
    sw_op *back = sw_op_emit(graph, op->family, SW_KERNEL_LINEAR_GRAD_WEIGHT, 4,
                             (sw_operand[]){sw_reads(dy), op->operand[0], dweight, dbias});
    if (back)
        for (int i = 0; i < 4; i++)
            back->dim[i] = op->dim[i];
}

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *dy = sw_gradient_arrived(d, op->operand[3].value);
    if (!dy)
        return;
    weight_gradient(d, op, dy);
    sw_operand dx = sw_gradient_target(d, op->operand[0].value);
    if (dx.kind == SW_OPERAND_NONE)
        return;
    sw_op *back = sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_LINEAR_GRAD_INPUT, 3,
                             (sw_operand[]){sw_reads(dy), op->operand[1], dx});
    if (back)
        for (int i = 0; i < 4; i++)
            back->dim[i] = op->dim[i];
}

static void cost(const sw_op *op, double *flops, double *bytes) {
    double n = (double)op->dim[0], in = (double)op->dim[1], out = (double)op->dim[2];
    bool has_bias =
        op->kernel != SW_KERNEL_LINEAR_GRAD_INPUT && op->operand[op->kernel == SW_KERNEL_LINEAR ? 2 : 3].kind != SW_OPERAND_NONE;
    *flops = 2 * n * in * out + (has_bias ? n * out : 0);
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family linear_family = {.name = "linear", .gradient = gradient, .cost = cost};

sw_value *sw_linear(sw_graph *graph, sw_value *x, sw_parameter *weight, sw_parameter *bias, sw_weight_layout layout) {
    if (!sw_check_rows(graph, "linear", "x", x))
        return NULL;
    int64_t n = x->dimension[0], in = x->dimension[1];
    if (!sw_check_matrix(graph, "linear", "weight", weight, layout == SW_OUT_IN ? 0 : in, layout == SW_OUT_IN ? in : 0))
        return NULL;
    int64_t out = weight->dimension[layout == SW_OUT_IN ? 0 : 1];
    if (bias && !sw_check_vector(graph, "linear", "bias", bias, out))
        return NULL;
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, (int64_t[]){n, out});
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(graph, &linear_family, SW_KERNEL_LINEAR, 4,
                           (sw_operand[]){sw_reads(x), sw_uses(weight), sw_uses(bias), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = n;
    op->dim[1] = in;
    op->dim[2] = out;
    op->dim[3] = layout;
    return graph->linear_hook ? graph->linear_hook(graph, graph->linear_hook_self, x, weight, layout, y) : y;
}
