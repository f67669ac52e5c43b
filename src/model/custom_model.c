/* custom_model.c: kernels trust token ids to name rows, so the tables that they name rows of are
 * compared with the vocabulary here, once. */
#include "model/custom_model.h"

#include <inttypes.h>

#include "graph/graph.h"

static sw_status check_table(const sw_op *op, const char *what, const sw_parameter *table,
                             const sw_custom_model *model, sw_error *err) {
    if (table->dimension[0] >= model->vocabulary)
        return SW_OK;
    return sw_fail(err, SW_BAD_CONFIG,
                   "the custom model's %s \"%s\" in unit %s has %" PRId64
                   " rows, and token ids go up to %" PRId64
                   " (sw_custom_model.vocabulary is %" PRId64
                   "); make the table as large as the vocabulary",
                   what, table->name, op->unit->name, table->dimension[0], model->vocabulary - 1,
                   model->vocabulary);
}

static sw_status check_op(const sw_graph *graph, const sw_op *op, const sw_custom_model *model,
                          sw_error *err) {
    if (op->kernel == SW_KERNEL_CROSS_ENTROPY)
        return check_table(op, "head", op->operand[1].parameter, model, err);
    if (op->kernel != SW_KERNEL_EMBEDDING)
        return SW_OK;
    if (op->operand[0].value != sw_graph_port(graph, SW_PORT_TOKENS))
        return sw_fail(err, SW_BAD_CONFIG,
                       "the custom model embeds sw_targets in unit %s, which are -1 where there is "
                       "no target; embed sw_tokens",
                       op->unit->name);
    return check_table(op, "embedding", op->operand[1].parameter, model, err);
}

/* Ids beyond the vocabulary are nobody's: a head that has logits for them could produce them. */
static sw_status check_logits(const sw_graph *graph, const sw_custom_model *model, sw_error *err) {
    const sw_value *logits = sw_graph_port(graph, SW_PORT_LOGITS);
    if (!logits)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "the custom model cannot generate: its trace function must end in sw_predict");
    if (logits->dimension[1] != model->vocabulary)
        return sw_fail(err, SW_BAD_CONFIG,
                       "the custom model cannot generate: its head has %" PRId64
                       " rows, and sw_custom_model.vocabulary is %" PRId64 "; make them equal",
                       logits->dimension[1], model->vocabulary);
    return SW_OK;
}

sw_status sw_custom_model_trace(const sw_custom_model *model, sw_model_end end, sw_graph *graph,
                                sw_error *err) {
    sw_error own = {SW_OK, ""};
    if (!model->trace || model->vocabulary < 1)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_custom_model needs a trace function and a vocabulary of at least 1, "
                       "which is %" PRId64,
                       model->vocabulary);
    sw_status status = model->trace(model->self, graph, &own);
    if ((unsigned)status >= SW_N_STATUSES)
        return sw_fail(err, SW_BAD_CONFIG,
                       "the custom model's trace function returned %d, which is no sw_status",
                       (int)status);
    if (status)
        return sw_fail(err, status, "%s",
                       own.message[0]
                           ? own.message
                           : "the custom model's trace function failed and left no message");
    if ((status = sw_graph_status(graph, err)))
        return status;
    if (end == SW_ENDS_IN_LOGITS)
        status = check_logits(graph, model, err);
    else if (!sw_graph_port(graph, SW_PORT_LOSS))
        status = sw_fail(err, SW_BAD_CONFIG,
                         "the custom model has no loss; its trace function must end in sw_predict "
                         "or sw_cross_entropy");
    for (int i = 0; i < graph->ops.n && !status; i++)
        status = check_op(graph, graph->ops.item[i], model, err);
    return status;
}
