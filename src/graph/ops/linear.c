/* linear.c: matrix products of one value: one, or several side by side (queries, keys and values;
 * gate and up).
 *
 *   y = x W^T + bias + residual      W [out, in], as Llama's weights lie; or x W, W [in, out], as
 *                                    GPT-2's do
 *   dx = dy W                        (dy W^T)
 *   dW = dy^T x                      (x^T dy)
 *   dbias = sum over rows of dy
 *   dresidual = dy                   shared, not copied
 *
 * With a rotation (rotary.c) y is turned last, so dy is turned back first: by the gradient of
 * attention that wrote it, or by an operation.
 *
 * Several: y = [x W0^T + b0 | x W1^T + b1 | x W2^T + b2], and dx is the sum of the three. A
 * residual is no argument of any recording function, nor is a rotation: sw_graph_join_products
 * finds what a product can store.
 */
#include "graph/ops/checks.h"

enum { MOST = 3 }; /* weights */
enum { X, WEIGHT, BIAS = WEIGHT + MOST, RESIDUAL = BIAS + MOST, Y, TABLE, N_OPERANDS };
enum {
    N_DIMENSIONS = 3 + MOST,
    HEADS = N_DIMENSIONS,
    HEAD_CHANNELS,
    TOKENS
}; /* the last three: of a rotation */

static void set_dimensions(sw_op *op, const sw_op *like) {
    for (int i = 0; op && i < N_DIMENSIONS; i++)
        op->dim[i] = like->dim[i];
}

static void weight_gradients(sw_differentiation *d, sw_op *op, sw_value *dy) {
    sw_operand operands[2 + 2 * MOST] = {sw_reads(dy), op->operand[X]};
    bool wants = false;
    for (int i = 0; i < 2 * MOST; i++) {
        sw_parameter *parameter = op->operand[WEIGHT + i].parameter;
        operands[2 + i] = parameter ? sw_gradient_parameter(d, parameter) : sw_nothing();
        wants |= operands[2 + i].kind != SW_OPERAND_NONE;
    }
    if (wants)
        set_dimensions(sw_op_emit(sw_differentiation_graph(d), op->family,
                                  SW_KERNEL_LINEAR_GRAD_WEIGHT, 2 + 2 * MOST, operands),
                       op);
}

/* What arrived for y, or if y was turned, what that is turned back; NULL: nothing, or an error. */
static sw_value *gradient_of_product(sw_differentiation *d, const sw_op *op) {
    sw_graph *graph = sw_differentiation_graph(d);
    sw_value *dy = sw_gradient_arrived(d, op->operand[Y].value);
    const sw_turned_heads turned = {.value = op->operand[Y].value,
                                    .table = op->operand[TABLE],
                                    .n_heads = op->dim[HEADS],
                                    .head_channels = op->dim[HEAD_CHANNELS],
                                    .n_tokens = op->dim[TOKENS]};
    const bool is_done =
        !dy || turned.table.kind == SW_OPERAND_NONE || sw_attention_turns_back(graph, &turned, dy);
    return is_done ? dy : sw_rotary_turn_back(graph, &turned, dy);
}

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *dy = gradient_of_product(d, op);
    if (!dy)
        return;
    weight_gradients(d, op, dy);
    sw_operand dx = sw_gradient_target(d, op->operand[X].value);
    if (dx.kind != SW_OPERAND_NONE) {
        const sw_operand *w = &op->operand[WEIGHT];
        set_dimensions(sw_op_emit(sw_differentiation_graph(d), op->family,
                                  SW_KERNEL_LINEAR_GRAD_INPUT, 2 + MOST,
                                  (sw_operand[]){sw_reads(dy), w[0], w[1], w[2], dx}),
                       op);
    }
    if (op->operand[RESIDUAL].kind != SW_OPERAND_NONE)
        sw_gradient_pass(d, op->operand[RESIDUAL].value, dy);
}

/* Weights whose gradients are not wanted take no part in LINEAR_GRAD_WEIGHT. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    double n = (double)op->dim[0], in = (double)op->dim[1], out = 0;
    int weights = op->kernel == SW_KERNEL_LINEAR_GRAD_WEIGHT ? 2 : WEIGHT;
    *flops = 0;
    for (int i = 0; i < MOST; i++) {
        double columns = (double)op->dim[3 + i];
        out += columns;
        if (op->operand[weights + i].kind != SW_OPERAND_NONE)
            *flops += 2 * n * in * columns;
        if (op->kernel != SW_KERNEL_LINEAR_GRAD_INPUT &&
            op->operand[weights + MOST + i].kind != SW_OPERAND_NONE)
            *flops += n * columns;
    }
    if (op->kernel == SW_KERNEL_LINEAR && op->operand[RESIDUAL].kind != SW_OPERAND_NONE)
        *flops += n * out;
    if (op->kernel == SW_KERNEL_LINEAR && op->operand[TABLE].kind != SW_OPERAND_NONE)
        *flops += 3 * n * (double)(op->dim[HEADS] * op->dim[HEAD_CHANNELS]);
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family linear_family = {.name = "linear", .gradient = gradient, .cost = cost};

bool sw_linear_takes_residual(const sw_op *op) {
    return op->kernel == SW_KERNEL_LINEAR && op->operand[RESIDUAL].kind == SW_OPERAND_NONE &&
           op->operand[TABLE].kind == SW_OPERAND_NONE;
}

void sw_linear_give_residual(sw_op *op, sw_value *residual, sw_value *sum) {
    op->operand[RESIDUAL] = sw_reads(residual);
    op->operand[Y] = sw_writes(sum);
    sum->producer = op;
}

bool sw_linear_takes_rotation(const sw_op *op) {
    return op->kernel == SW_KERNEL_LINEAR && op->operand[TABLE].kind == SW_OPERAND_NONE;
}

void sw_linear_give_rotation(sw_op *op,
                             const sw_op *rotation) { /* x, table, y; B T heads D stride */
    op->operand[TABLE] = rotation->operand[1];
    op->operand[Y] = rotation->operand[2];
    op->operand[Y].value->producer = op;
    op->dim[TOKENS] = rotation->dim[1];
    op->dim[HEADS] = rotation->dim[2];
    op->dim[HEAD_CHANNELS] = rotation->dim[3];
}

/* Weights, biases and widths of the products. */
typedef struct products {
    int n;
    sw_operand operands[N_OPERANDS]; /* all but y */
    int64_t outs[MOST], out;
} products;

static bool check_layout(sw_graph *graph, const char *operation, sw_weight_layout layout) {
    bool is_known = layout == SW_OUT_IN || layout == SW_IN_OUT;
    if (!is_known)
        sw_graph_fail(graph, "%s: layout %d is none of SW_OUT_IN, SW_IN_OUT", operation,
                      (int)layout);
    return is_known;
}

static bool add_product(sw_graph *graph, const char *operation, products *p, int64_t in,
                        sw_parameter *weight, sw_parameter *bias, sw_weight_layout layout) {
    if (!sw_check_matrix(graph, operation, "weight", weight, layout == SW_OUT_IN ? 0 : in,
                         layout == SW_OUT_IN ? in : 0))
        return false;
    int64_t out = weight->dimension[layout == SW_OUT_IN ? 0 : 1];
    if (bias && !sw_check_vector(graph, operation, "bias", bias, out))
        return false;
    p->operands[WEIGHT + p->n] = sw_uses(weight);
    p->operands[BIAS + p->n] = sw_uses(bias);
    p->outs[p->n++] = out;
    p->out += out;
    return true;
}

static sw_value *emit(sw_graph *graph, sw_value *x, products *p, sw_weight_layout layout) {
    int64_t n = x->dimension[0];
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, (int64_t[]){n, p->out});
    if (!y)
        return NULL;
    p->operands[X] = sw_reads(x);
    p->operands[Y] = sw_writes(y);
    sw_op *op = sw_op_emit(graph, &linear_family, SW_KERNEL_LINEAR, N_OPERANDS, p->operands);
    if (!op)
        return NULL;
    const int64_t dim[N_DIMENSIONS] = {n,          x->dimension[1], layout,
                                       p->outs[0], p->outs[1],      p->outs[2]};
    for (int i = 0; i < N_DIMENSIONS; i++)
        op->dim[i] = dim[i];
    return y;
}

sw_value *sw_linear(sw_graph *graph, sw_value *x, sw_parameter *weight, sw_parameter *bias,
                    sw_weight_layout layout) {
    products p = {0};
    if (!sw_check_rows(graph, "linear", "x", x) || !check_layout(graph, "linear", layout) ||
        !add_product(graph, "linear", &p, x->dimension[1], weight, bias, layout))
        return NULL;
    sw_value *y = emit(graph, x, &p, layout);
    return y && graph->linear_hook
               ? graph->linear_hook(graph, graph->linear_hook_self, x, weight, layout, y)
               : y;
}

sw_value *sw_linear_several(sw_graph *graph, sw_value *x, int n, sw_parameter *const *weights,
                            sw_parameter *const *biases, sw_weight_layout layout) {
    products p = {0};
    if (!sw_check_rows(graph, "linear_several", "x", x) ||
        !check_layout(graph, "linear_several", layout))
        return NULL;
    if (n < 1 || n > MOST)
        return sw_graph_fail(graph, "linear_several: %d weights; 1 to %d are possible", n, MOST);
    if (!weights)
        return sw_graph_fail(graph, "linear_several: weights is NULL");
    if (graph->linear_hook)
        return sw_graph_fail(graph, "linear_several: layers that get adapters (LoRA) are recorded "
                                    "one by one; use sw_linear for each");
    for (int i = 0; i < n; i++) {
        sw_parameter *bias = biases ? biases[i] : NULL;
        if (!add_product(graph, "linear_several", &p, x->dimension[1], weights[i], bias, layout))
            return NULL;
        for (int k = 0; k < i; k++)
            if (weights[k] == weights[i] || (bias && biases[k] == bias))
                return sw_graph_fail(
                    graph, "linear_several: products %d and %d have a parameter in common, %s", k,
                    i, weights[k] == weights[i] ? weights[i]->name : bias->name);
    }
    return emit(graph, x, &p, layout);
}
