/* select_position.c: one position of each row, chosen when the graph runs; and its logits, for
 * generation.
 *
 *   y[b] = x[b, position]                       x [B*T, C], y [B, C]
 *   logits = y head^T                           head [V, C], logits [B, V]: never rounded, as those
 *                                               of the loss are not
 *
 * They have no gradient: generation does not train.
 */
#include "graph/ops/checks.h"

static void cost(const sw_op *op, double *flops, double *bytes) {
    *flops = 0;
    *bytes = 8 * (double)op->dim[0] * (double)op->dim[2];
}

static const sw_family select_position_family = {.name = "select_position", .cost = cost};

static sw_value *select_position(sw_graph *graph, sw_value *x) {
    if (sw_graph_port(graph, SW_PORT_PLACES))
        return sw_decode_selection(graph, x);
    sw_value *y =
        sw_value_create(graph, SW_VALUE_REAL, 2, (int64_t[]){graph->n_rows, x->dimension[1]});
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(graph, &select_position_family, SW_KERNEL_SELECT_POSITION, 2,
                           (sw_operand[]){sw_reads(x), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = graph->n_rows;
    op->dim[1] = graph->n_tokens;
    op->dim[2] = x->dimension[1];
    return y;
}

static void logits_cost(const sw_op *op, double *flops, double *bytes) {
    *flops = 2 * (double)op->dim[0] * (double)op->dim[1] * (double)op->dim[2];
    *bytes = sw_op_operand_bytes(op);
}

static const sw_family logits_family = {.name = "logits", .cost = logits_cost};

sw_value *sw_logits_at_position(sw_graph *graph, sw_value *x, sw_parameter *head) {
    if (!sw_check_positions(graph, "logits_at_position", "x", x) ||
        !sw_check_matrix(graph, "logits_at_position", "head", head, 0, x->dimension[1]))
        return NULL;
    if (sw_graph_port(graph, SW_PORT_LOGITS))
        return sw_graph_fail(
            graph, "logits_at_position: the graph has logits already; a graph has one set");
    sw_value *y = select_position(graph, x);
    sw_value *logits = y ? sw_value_create(graph, SW_VALUE_LOGITS, 2,
                                           (int64_t[]){graph->n_rows, head->dimension[0]})
                         : NULL;
    sw_op *op = logits ? sw_op_emit(graph, &logits_family, SW_KERNEL_LOGITS, 3,
                                    (sw_operand[]){sw_reads(y), sw_uses(head), sw_writes(logits)})
                       : NULL;
    if (!op)
        return NULL;
    op->dim[0] = graph->n_rows;
    op->dim[1] = head->dimension[0];
    op->dim[2] = head->dimension[1];
    return sw_graph_add_port(graph, SW_PORT_LOGITS, true, logits);
}
