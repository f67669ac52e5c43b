/* without_dropout.c: evaluation passes on what training drops out of.
 *
 * A model is recorded the same way for both; here each dropout of a forward graph is dropped, and
 * what read its output reads its input; attention keeps all its weights. A differentiated graph is
 * left alone: its masks are part of its gradients.
 */
#include "graph/graph.h"

sw_status sw_graph_without_dropout(sw_graph *graph, sw_error *err) {
    if (graph->error.status)
        return sw_graph_status(graph, err);
    if (graph->is_differentiated)
        return sw_fail(
            err, SW_BUG,
            "the graph has its backward pass already: dropout can no more be taken out of it");
    sw_value **passed_on = sw_arena_take(
        &graph->arena, (size_t)graph->values.n * sizeof *passed_on); /* [n_values] by id */
    if (!passed_on)
        return sw_fail(err, SW_NO_MEMORY, "no memory to take dropout out of %d operations",
                       graph->ops.n);
    for (int i = 0; i < graph->ops.n; i++) {
        sw_op *op = graph->ops.item[i];
        for (int k = 0; k < op->n_operands; k++) {
            sw_operand *operand = &op->operand[k];
            if (operand->kind == SW_OPERAND_VALUE && operand->access == SW_READ &&
                passed_on[operand->value->id])
                operand->value = passed_on[operand->value->id];
        }
        if (op->kernel == SW_KERNEL_ATTENTION)
            op->attribute[1] = op->attribute[2] = 0;
        if (op->kernel != SW_KERNEL_DROPOUT)
            continue;
        op->is_dropped = true;
        passed_on[op->operand[1].value->id] = op->operand[0].value;
    }
    return SW_OK;
}
