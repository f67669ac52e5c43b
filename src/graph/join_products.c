/* join_products.c: what is done to a matrix product alone becomes part of its store: a sum, a
 * rotation.
 *
 *   t = x W,  y = a + t       →   y = x W + a       where nobody else reads t, and a is there
 * before the product t = x W,  y = turned(t)   →   y = turned(x W)   where nobody else reads t
 *
 * So t is neither written nor read again, and beside bf16 the result is rounded once. Both parts of
 * a sum receive its gradient, as before. A dropout between product and sum keeps the sum.
 */
#include "graph/graph.h"

/* The operation that makes operand `part` of `op`, if it is for `op` alone; n_reads: [n_values] by
 * value id */
static sw_op *maker_for(const sw_op *op, int part, const int *n_reads) {
    const sw_value *value = op->operand[part].value;
    sw_op *maker = value->producer;
    bool is_alone = maker && maker->unit == op->unit && maker->phase == op->phase &&
                    n_reads[value->id] == 1 && !value->is_output;
    return is_alone ? maker : NULL;
}

static bool join_sum(const sw_op *sum, const int *n_reads) {
    for (int part = 1; part >= 0; part--) {
        sw_op *product = maker_for(sum, part, n_reads);
        sw_value *residual = sum->operand[1 - part].value;
        bool is_there = residual->is_input ||
                        (residual->producer && product && residual->producer->id < product->id);
        if (product && is_there && sw_linear_takes_residual(product)) {
            sw_linear_give_residual(product, residual, sum->operand[2].value);
            return true;
        }
    }
    return false;
}

static bool join_rotation(const sw_op *rotation, const int *n_reads) {
    sw_op *product = maker_for(rotation, 0, n_reads);
    bool joins = product && sw_linear_takes_rotation(product);
    if (joins)
        sw_linear_give_rotation(product, rotation);
    return joins;
}

static bool joins(const sw_op *op, const int *n_reads) {
    return op->kernel == SW_KERNEL_ADD
               ? join_sum(op, n_reads)
               : op->kernel == SW_KERNEL_ROTARY && join_rotation(op, n_reads);
}

sw_status sw_graph_join_products(sw_graph *graph, sw_error *err) {
    if (graph->error.status)
        return sw_graph_status(graph, err);
    if (graph->is_differentiated)
        return sw_fail(err, SW_BUG,
                       "the graph has its backward pass already: matrix products can no more be "
                       "joined to what follows them");
    int *n_reads = sw_arena_take(&graph->arena, (size_t)graph->values.n * sizeof *n_reads);
    if (!n_reads)
        return sw_fail(err, SW_NO_MEMORY, "no memory to count the reads of %d values",
                       graph->values.n);
    for (int i = 0; i < graph->ops.n; i++)
        for (int k = 0; k < graph->ops.item[i]->n_operands && !graph->ops.item[i]->is_dropped;
             k++) {
            const sw_operand *operand = &graph->ops.item[i]->operand[k];
            if (operand->kind == SW_OPERAND_VALUE && operand->access != SW_WRITE)
                n_reads[operand->value->id]++;
        }
    int n_kept = 0;
    for (int i = 0; i < graph->ops.n; i++) {
        sw_op *op = graph->ops.item[i];
        if (joins(op, n_reads))
            continue;
        op->id = n_kept;
        graph->ops.item[n_kept++] = op;
    }
    graph->ops.n = n_kept;
    return SW_OK;
}
