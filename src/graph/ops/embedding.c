/* embedding.c: rows of a table chosen by token ids.
 *
 *   y[i] = table[token[i]]                      tokens [n], table [V, C], y [n, C]
 *   dtable[v] = sum over i with token[i] = v of dy[i], or 0 where v is the id of padding
 */
#include "graph/ops/checks.h"

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *tokens = op->operand[0].value, *dy = sw_gradient_arrived(d, op->operand[2].value);
    sw_operand dtable = sw_gradient_parameter(d, op->operand[1].parameter);
    if (!dy || dtable.kind == SW_OPERAND_NONE)
        return;
    sw_op *back = sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_EMBEDDING_GRAD, 3,
                             (sw_operand[]){sw_reads(tokens), sw_reads(dy), dtable});
    if (back)
        for (int i = 0; i < 4; i++)
            back->dim[i] = op->dim[i];
}

/* Rows are moved; the gradient adds them and sets or keeps the rest of the table. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    double moved = (double)op->dim[0] * (double)op->dim[2];
    bool is_gradient = op->kernel == SW_KERNEL_EMBEDDING_GRAD;
    *flops = is_gradient ? moved : 0;
    *bytes = 4 * (double)op->dim[0] + 8 * moved;
    if (is_gradient && op->operand[2].access == SW_WRITE)
        *bytes += 4 * (double)op->dim[1] * (double)op->dim[2];
}

static const sw_family embedding_family = {.name = "embedding", .gradient = gradient, .cost = cost};

sw_value *sw_embedding(sw_graph *graph, sw_value *tokens, sw_parameter *table) {
    return sw_embedding_padded(graph, tokens, table, -1);
}

sw_value *sw_embedding_padded(sw_graph *graph, sw_value *tokens, sw_parameter *table,
                              int64_t padding) {
    if (!sw_check_index(graph, "embedding", "tokens", tokens) ||
        !sw_check_matrix(graph, "embedding", "table", table, 0, 0))
        return NULL;
    int64_t n = tokens->n_elements, n_vocabulary = table->dimension[0],
            n_channels = table->dimension[1];
    sw_value *y = sw_value_create(graph, SW_VALUE_REAL, 2, (int64_t[]){n, n_channels});
    if (!y)
        return NULL;
    sw_op *op = sw_op_emit(graph, &embedding_family, SW_KERNEL_EMBEDDING, 3,
                           (sw_operand[]){sw_reads(tokens), sw_uses(table), sw_writes(y)});
    if (!op)
        return NULL;
    op->dim[0] = n;
    op->dim[1] = n_vocabulary;
    op->dim[2] = n_channels;
    op->dim[3] = padding + 1;
    return y;
}
