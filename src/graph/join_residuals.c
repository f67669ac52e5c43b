/* join_residuals.c: a sum of which one part is a matrix product becomes part of the product's store.
 *
 *   t = x W,  y = a + t     →     y = x W + a            where nobody else reads t, and a is there before the product
 *
 * So t is neither written nor read again, and beside bf16 the sum is rounded once. Both parts of a sum receive its gradient, as
 * before. A dropout between product and sum keeps the sum.
 */
#include "graph/graph.h"

/* Can the product that makes part `part` of `sum` take the other part as its residual? n_reads: [n_values] by value id */
static bool joins(const sw_op *sum, int part, const int *n_reads) {
    const sw_value *term = sum->operand[part].value, *residual = sum->operand[1 - part].value;
    const sw_op *product = term->producer;
    bool is_there = residual->is_input || (residual->producer && product && residual->producer->id < product->id);
    return product && product->unit == sum->unit && product->phase == sum->phase && n_reads[term->id] == 1 && !term->is_output &&
           is_there && sw_linear_takes_residual(product);
}

sw_status sw_graph_join_residuals(sw_graph *graph, sw_error *err) {
    if (graph->error.status)
        return sw_graph_status(graph, err);
    if (graph->is_differentiated)
        return sw_fail(err, SW_BUG, "sums are joined to products before a graph is differentiated");
    int *n_reads = sw_arena_take(&graph->arena, (size_t)graph->values.n * sizeof *n_reads);
    if (!n_reads)
        return sw_fail(err, SW_NO_MEMORY, "no memory to count the reads of %d values", graph->values.n);
    for (int i = 0; i < graph->ops.n; i++)
        for (int k = 0; k < graph->ops.item[i]->n_operands && !graph->ops.item[i]->is_dropped; k++) {
            const sw_operand *operand = &graph->ops.item[i]->operand[k];
            if (operand->kind == SW_OPERAND_VALUE && operand->access != SW_WRITE)
                n_reads[operand->value->id]++;
        }
    int n_kept = 0;
    for (int i = 0; i < graph->ops.n; i++) {
        sw_op *op = graph->ops.item[i];
        int part = 1;
        while (part >= 0 && op->kernel == SW_KERNEL_ADD && !joins(op, part, n_reads))
            part--;
        if (op->kernel == SW_KERNEL_ADD && part >= 0) {
            sw_linear_give_residual(op->operand[part].value->producer, op->operand[1 - part].value, op->operand[2].value);
            continue;
        }
        op->id = n_kept;
        graph->ops.item[n_kept++] = op;
    }
    graph->ops.n = n_kept;
    return SW_OK;
}
