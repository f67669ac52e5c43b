/* layernorm.c: layer normalisation (Ba et al. 2016).
 *
 *   m = mean(x),  r = 1 / sqrt(mean((x - m)^2) + epsilon)     one each per row; kept for backward
 *   y = (x - m) r weight + bias                               x, y [n, C]; weight, bias [C]
 *   dx = r (g - mean(g) - h mean(g h)),  g = dy weight,  h = (x - m) r
 *   dweight = sum over rows of dy h
 *   dbias = sum over rows of dy
 */
#include "graph/ops/checks.h"

#include <math.h>

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *x = op->operand[0].value, *mean = op->operand[4].value,
             *inverse_deviation = op->operand[5].value;
    sw_value *dy = sw_gradient_arrived(d, op->operand[3].value);
    if (!dy)
        return;
    sw_parameter *weight = op->operand[1].parameter, *bias = op->operand[2].parameter;
    sw_operand dx = sw_gradient_target(d, x), dweight = sw_gradient_parameter(d, weight),
               dbias = bias ? sw_gradient_parameter(d, bias) : sw_nothing();
    if (dx.kind == SW_OPERAND_NONE && dweight.kind == SW_OPERAND_NONE &&
        dbias.kind == SW_OPERAND_NONE)
        return;
    sw_op *back =
        sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_LAYERNORM_GRAD, 8,
                   (sw_operand[]){sw_reads(dy), sw_reads(x), sw_uses(weight), sw_reads(mean),
                                  sw_reads(inverse_deviation), dx, dweight, dbias});
    if (!back)
        return;
    back->dim[0] = op->dim[0];
    back->dim[1] = op->dim[1];
}

static void cost(const sw_op *op, double *flops, double *bytes) {
    double n = (double)op->dim[0] * (double)op->dim[1];
    *flops = op->kernel == SW_KERNEL_LAYERNORM ? 7 * n : 14 * n;
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family layernorm_family = {.name = "layernorm", .gradient = gradient, .cost = cost};

sw_value *sw_layernorm(sw_graph *graph, sw_value *x, sw_parameter *weight, sw_parameter *bias,
                       double epsilon) {
    if (!sw_check_rows(graph, "layernorm", "x", x) ||
        !sw_check_vector(graph, "layernorm", "weight", weight, x->dimension[1]) ||
        (bias && !sw_check_vector(graph, "layernorm", "bias", bias, x->dimension[1])))
        return NULL;
    if (bias == weight)
        return sw_graph_fail(graph,
                             "layernorm: weight and bias are one parameter, %s; they must be two",
                             weight->name);
    if (!(epsilon >= 0) || !isfinite(epsilon))
        return sw_graph_fail(graph, "layernorm: epsilon is %g; it must be finite and 0 or more",
                             epsilon);
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    sw_value *mean = sw_value_create(graph, SW_VALUE_STATISTIC, 1, x->dimension);
    sw_value *inverse_deviation = sw_value_create(graph, SW_VALUE_STATISTIC, 1, x->dimension);
    if (!y || !mean || !inverse_deviation)
        return NULL;
    sw_op *op = sw_op_emit(graph, &layernorm_family, SW_KERNEL_LAYERNORM, 6,
                           (sw_operand[]){sw_reads(x), sw_uses(weight), sw_uses(bias), sw_writes(y),
                                          sw_writes(mean), sw_writes(inverse_deviation)});
    if (!op)
        return NULL;
    op->dim[0] = x->dimension[0];
    op->dim[1] = x->dimension[1];
    op->attribute[0] = epsilon;
    return y;
}
