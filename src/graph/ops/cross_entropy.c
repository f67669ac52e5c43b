/* cross_entropy.c: the output projection and the loss, fused and computed in chunks of tokens.
 *
 *   z = x head^T                                x [n, C], head [V, C]; z exists for `chunk` tokens
 *                                               at a time
 *   loss = sum over i with target[i] >= 0 of log(sum over v of exp z[i, v]) - z[i, target[i]]
 *   dz[i, v] = (softmax(z[i])[v] - [v = target[i]]) scale   for supervised i, else 0;
 *                                               scale = 1 / supervised tokens of the step
 *   dx = dz head,   dhead = dz^T x
 *
 * Backward needs z again, so its kernel computes loss and gradients in one walk over the chunks,
 * and the forward operation is dropped.
 */
#include "graph/ops/checks.h"

static void gradient(sw_differentiation *d, sw_op *op) {
    sw_value *logits = op->operand[3].value, *loss = op->operand[4].value;
    sw_operand dx = sw_gradient_fresh(d, op->operand[0].value),
               dhead = sw_gradient_parameter(d, op->operand[1].parameter);
    sw_op *back =
        sw_op_emit(sw_differentiation_graph(d), op->family, SW_KERNEL_CROSS_ENTROPY_GRAD, 7,
                   (sw_operand[]){op->operand[0], op->operand[1], op->operand[2], sw_writes(logits),
                                  sw_writes(loss), dx, dhead});
    if (!back)
        return;
    for (int i = 0; i < 4; i++)
        back->dim[i] = op->dim[i];
    logits->producer = loss->producer = back;
}

/* One product for the logits, one for each gradient; an exp counts as ten. Chunks of logits are
 * written and read once each. */
static void cost(const sw_op *op, double *flops, double *bytes) {
    double n = (double)op->dim[0], v = (double)op->dim[1], c = (double)op->dim[2],
           chunk = (double)op->dim[3];
    int n_products = 1;
    if (op->kernel == SW_KERNEL_CROSS_ENTROPY_GRAD)
        n_products +=
            (op->operand[5].kind != SW_OPERAND_NONE) + (op->operand[6].kind != SW_OPERAND_NONE);
    *flops = n_products * 2 * n * v * c + 12 * n * v;
    *bytes = sw_op_operand_bytes(op) + 8 * n * v - 4 * chunk * v;
}

static const sw_family cross_entropy_family = {
    .name = "cross_entropy", .gradient = gradient, .cost = cost, .gradient_computes_forward = true};

sw_value *sw_cross_entropy(sw_graph *graph, sw_value *x, sw_parameter *head, sw_value *targets) {
    if (!sw_check_positions(graph, "cross_entropy", "x", x) ||
        !sw_check_matrix(graph, "cross_entropy", "head", head, 0, x->dimension[1]) ||
        !sw_check_index(graph, "cross_entropy", "targets", targets))
        return NULL;
    if (sw_graph_port(graph, SW_PORT_LOSS))
        return sw_graph_fail(graph, "cross_entropy: the graph has a loss already; a graph has one");
    int64_t n = x->dimension[0], n_vocabulary = head->dimension[0],
            chunk = sw_cross_entropy_chunk(n, n_vocabulary);
    sw_value *logits = sw_value_create(graph, SW_VALUE_LOGITS, 2, (int64_t[]){chunk, n_vocabulary});
    sw_value *loss = sw_value_create(graph, SW_VALUE_LOSS, 1, (int64_t[]){1});
    sw_value *losses = graph->wants_token_losses
                           ? sw_value_create(graph, SW_VALUE_STATISTIC, 1, (int64_t[]){n})
                           : NULL;
    if (!logits || !loss || (graph->wants_token_losses && !losses))
        return NULL;
    sw_op *op =
        sw_op_emit(graph, &cross_entropy_family, SW_KERNEL_CROSS_ENTROPY, losses ? 6 : 5,
                   (sw_operand[]){sw_reads(x), sw_uses(head), sw_reads(targets), sw_writes(logits),
                                  sw_writes(loss), losses ? sw_writes(losses) : sw_nothing()});
    if (!op)
        return NULL;
    op->dim[0] = n;
    op->dim[1] = n_vocabulary;
    op->dim[2] = x->dimension[1];
    op->dim[3] = chunk;
    if (losses && !sw_graph_add_port(graph, SW_PORT_TOKEN_LOSSES, true, losses))
        return NULL;
    return sw_graph_add_port(graph, SW_PORT_LOSS, true, loss);
}
