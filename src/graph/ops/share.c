/* share.c: values of which every rank of an axis has one, over its A ranks.
 *
 *   gather         y = [x_0; x_1; ...]          x [n, C] of each, y [A n, C], the same on all
 *   sum            y = x_0 + x_1 + ...          x [n, C] of each, y [n, C], the same on all
 *   sum of slices  y_r = rows r n .. (r+1) n - 1 of x_0 + x_1 + ...      x [A n, C], y_r [n, C]
 *
 * A step's loss is the sum of what ranks compute, and what each of them computes depends on what
 * all have shared: a gradient comes from all of them.
 *
 *   gather         dx = sum of slices of dy
 *   sum            dx = sum of dy
 *   sum of slices  dx = gather of dy
 *
 * A rank without a micro-batch has no x and no loss: a gather has zeros in its place, a sum goes
 * without it, and so do the gradients. On an axis of one rank y is x, and nothing is recorded.
 */
#include <string.h>

#include "graph/ops/checks.h"

static const sw_family families[SW_N_SHARES];

static sw_value *emit(sw_graph *graph, sw_share share, sw_axis axis, sw_value *x, sw_operand y) {
    sw_op *op =
        sw_op_emit(graph, &families[share], SW_KERNEL_SCALE, 2, (sw_operand[]){sw_reads(x), y});
    if (!op)
        return NULL;
    op->dim[0] = x->n_elements;
    op->attribute[0] = 1;
    op->share = share;
    op->axis = axis;
    op->n_sharing = graph->axis_size[axis];
    return y.value;
}

static void gradient(sw_differentiation *d, sw_op *op) {
    static const sw_share of_gradient[SW_N_SHARES] = {[SW_SHARE_GATHER] = SW_SHARE_SUM_SLICE,
                                                      [SW_SHARE_SUM] = SW_SHARE_SUM,
                                                      [SW_SHARE_SUM_SLICE] = SW_SHARE_GATHER};
    sw_value *dy = sw_gradient_arrived(d, op->operand[1].value);
    sw_operand dx = dy ? sw_gradient_fresh(d, op->operand[0].value) : sw_nothing();
    if (dx.kind != SW_OPERAND_NONE)
        emit(sw_differentiation_graph(d), of_gradient[op->share], op->axis, dy, dx);
}

static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = op->share == SW_SHARE_GATHER
                 ? 0
                 : (double)(op->n_sharing - 1) * (double)op->operand[1].value->n_elements;
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family families[SW_N_SHARES] = {
    [SW_SHARE_GATHER] = {.name = "gather", .gradient = gradient, .cost = cost},
    [SW_SHARE_SUM] = {.name = "sum", .gradient = gradient, .cost = cost},
    [SW_SHARE_SUM_SLICE] = {.name = "sum_slice", .gradient = gradient, .cost = cost}};

/* The axis of that name; SW_N_AXES, and the graph's error, if there is none. */
static sw_axis find_axis(sw_graph *graph, const char *operation, const char *name) {
    int axis = 0;
    while (axis < SW_N_AXES && (!name || strcmp(sw_axis_name((sw_axis)axis), name) != 0))
        axis++;
    if (axis == SW_N_AXES)
        sw_graph_fail(graph, "%s: there is no axis %s%s%s of the mesh; there are replicate, shard",
                      operation, name ? "\"" : "", name ? name : "NULL", name ? "\"" : "");
    return (sw_axis)axis;
}

static sw_value *record(sw_graph *graph, const char *operation, sw_share share, sw_value *x,
                        const char *axis_name) {
    if (!sw_check_rows(graph, operation, "x", x))
        return NULL;
    sw_axis axis = find_axis(graph, operation, axis_name);
    if (axis == SW_N_AXES)
        return NULL;
    const int n = graph->axis_size[axis];
    if (n == 1)
        return x;
    int64_t shape[2] = {x->dimension[0], x->dimension[1]};
    if (share == SW_SHARE_SUM_SLICE && shape[0] % n)
        return sw_graph_fail(graph,
                             "%s: x is %s; its rows must be a multiple of the %d ranks of axis %s",
                             operation, sw_value_shape(x).text, n, axis_name);
    if (share == SW_SHARE_SUM_SLICE)
        shape[0] /= n;
    else if (share == SW_SHARE_GATHER)
        shape[0] *= n; /* each of them below 2^59, and ranks are few */
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, shape);
    return y ? emit(graph, share, axis, x, sw_writes(y)) : NULL;
}

sw_value *sw_gather_over(sw_graph *graph, sw_value *x, const char *axis) {
    return record(graph, "gather_over", SW_SHARE_GATHER, x, axis);
}

sw_value *sw_sum_over(sw_graph *graph, sw_value *x, const char *axis) {
    return record(graph, "sum_over", SW_SHARE_SUM, x, axis);
}

sw_value *sw_sum_slice_over(sw_graph *graph, sw_value *x, const char *axis) {
    return record(graph, "sum_slice_over", SW_SHARE_SUM_SLICE, x, axis);
}
