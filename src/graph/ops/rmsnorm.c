/* rmsnorm.c: division by the root mean square (Zhang and Sennrich 2019).
 *
 *   r = 1 / sqrt(mean(x^2) + epsilon)           one per row; kept for backward
 *   y = x r weight                              x, y [n, C], weight [C]
 *   dx = r (g - x r^2 mean(g x)),  g = dy weight
 *   dweight = sum over rows of dy x r
 *
 * Heads normed each by itself are more and shorter rows of the same bytes: [n, heads*D] is
 * [n*heads, D].
 */
#include "graph/ops/checks.h"

#include <inttypes.h>
#include <math.h>

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *x = op->operand[0].value, *inverse_rms = op->operand[3].value,
             *dy = sw_gradient_arrived(d, op->operand[2].value);
    if (!dy)
        return;
    sw_operand dx = sw_gradient_target(d, x),
               dweight = sw_gradient_parameter(d, op->operand[1].parameter);
    if (dx.kind == SW_OPERAND_NONE && dweight.kind == SW_OPERAND_NONE)
        return;
    sw_op *back = sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_RMSNORM_GRAD, 6,
                             (sw_operand[]){sw_reads(dy), sw_reads(x), op->operand[1],
                                            sw_reads(inverse_rms), dx, dweight});
    if (!back)
        return;
    back->dim[0] = op->dim[0];
    back->dim[1] = op->dim[1];
}

static void cost(const sw_op *op, double *flops, double *bytes) {
    double n = (double)op->dim[0] * (double)op->dim[1];
    *flops = op->kernel == SW_KERNEL_RMSNORM ? 4 * n : 10 * n;
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family rmsnorm_family = {.name = "rmsnorm", .gradient = gradient, .cost = cost};

/* x as rows of `channels`, which divide its own. */
static sw_value *norm(sw_graph *graph, sw_value *x, int64_t channels, sw_parameter *weight,
                      double epsilon) {
    if (!(epsilon >= 0) || !isfinite(epsilon))
        return sw_graph_fail(graph, "rmsnorm: epsilon is %g; it must be finite and 0 or more",
                             epsilon);
    int64_t n = x->n_elements / channels;
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, x->dimension);
    sw_value *inverse_rms = sw_value_create(graph, SW_VALUE_STATISTIC, 1, &n);
    if (!y || !inverse_rms)
        return NULL;
    sw_op *op = sw_op_emit(
        graph, &rmsnorm_family, SW_KERNEL_RMSNORM, 4,
        (sw_operand[]){sw_reads(x), sw_uses(weight), sw_writes(y), sw_writes(inverse_rms)});
    if (!op)
        return NULL;
    op->dim[0] = n;
    op->dim[1] = channels;
    op->attribute[0] = epsilon;
    return y;
}

sw_value *sw_rmsnorm(sw_graph *graph, sw_value *x, sw_parameter *weight, double epsilon) {
    if (!sw_check_rows(graph, "rmsnorm", "x", x) ||
        !sw_check_vector(graph, "rmsnorm", "weight", weight, x->dimension[1]))
        return NULL;
    return norm(graph, x, x->dimension[1], weight, epsilon);
}

sw_value *sw_rmsnorm_heads(sw_graph *graph, sw_value *x, sw_parameter *weight, double epsilon) {
    int64_t channels = weight ? weight->dimension[0] : 1;
    if (!sw_check_rows(graph, "rmsnorm_heads", "x", x) ||
        !sw_check_vector(graph, "rmsnorm_heads", "weight", weight, channels))
        return NULL;
    if (x->dimension[1] % channels)
        return sw_graph_fail(graph,
                             "rmsnorm_heads: %" PRId64
                             " channels do not divide into heads of %" PRId64 ", the length of %s",
                             x->dimension[1], channels, weight->name);
    return norm(graph, x, channels, weight, epsilon);
}
