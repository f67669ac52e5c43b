/* recompute.c: compute a block's activations again instead of keeping them: all of them (Chen et
 * al. 2016, a checkpoint per block), or those that are cheap to make (Korthikanti et al. 2022).
 *
 *   forward  block 0 | block 1 | ...  loss  ...
 *       | again block 1 | backward block 1 | again block 0 | backward block 0
 *
 * A block is an outermost unit below the root. What its backward reads of its own forward is made
 * by clones of the forward operations, each placed just before the first that reads it; what
 * another block or the root made (its input) is kept. Only what is read is cloned: the block's last
 * sum, for one, is not. The selective form leaves out clones that cost more than they save, and
 * what needs them reads what forward has kept.
 *
 * A clone has the kernel, dimensions and attributes of its original (a dropout's stream too) and
 * reads the same bits, so it writes the same bits: tests/graph/test_passes.c compares whole steps.
 * What came from other ranks is kept: nothing is moved twice.
 */
#include "graph/graph.h"

typedef struct recomputation {
    sw_graph *graph;
    sw_value **clone; /* [n_values] by value id: the recomputed value, NULL if none */
    bool *is_wanted;  /* [n_values] a backward operation of its own block, or a clone, reads it */
    bool *is_read;    /* [n_values] a backward operation of any block reads it */
    bool *is_cheap;   /* [n_ops] selective: it may be cloned; NULL: each may */
    bool *is_cloned;  /* [n_ops] it is to be cloned */
    bool *is_made;    /* [n_ops] it has been */
    sw_number_kind numbers;
} recomputation;

/* Arithmetic that is worth a byte for the time from forward to backward. What is done element by
 * element takes less, even where an element has two bytes: a GELU takes 9; a matrix product takes
 * the length of its sums, or half of it. */
static const double WORTH = 20;

/* The block in whose forward pass `value` was computed, NULL if none. */
static const sw_unit *block_of_value(const sw_value *value) {
    const sw_op *op = value->producer;
    return op && op->phase == SW_PHASE_FORWARD ? sw_unit_block(op->unit) : NULL;
}

static void want_inputs(recomputation *r, const sw_op *op) {
    const sw_unit *block = sw_unit_block(op->unit);
    for (int k = 0; k < op->n_operands; k++) {
        const sw_operand *operand = &op->operand[k];
        if (operand->kind != SW_OPERAND_VALUE || operand->access != SW_READ)
            continue;
        const sw_unit *maker = block_of_value(operand->value);
        if (maker && maker == block)
            r->is_wanted[operand->value->id] = true;
    }
}

static bool may_be_cloned(const recomputation *r, const sw_op *op) {
    if (op->phase != SW_PHASE_FORWARD || op->is_dropped || op->share || !sw_unit_block(op->unit) ||
        (r->is_cheap && !r->is_cheap[op->id]))
        return false;
    for (int k = 0; k < op->n_operands; k++) {
        const sw_operand *operand = &op->operand[k];
        if (operand->kind == SW_OPERAND_VALUE && operand->access != SW_READ &&
            r->is_wanted[operand->value->id])
            return true;
    }
    return false;
}

/* Bytes of an operation's outputs; only of those that are wanted, if `wanted` is given. */
static double output_bytes(const recomputation *r, const sw_op *op,
                           const bool *wanted /* [n_values]? */) {
    double bytes = 0;
    for (int k = 0; k < op->n_operands; k++) {
        const sw_operand *operand = &op->operand[k];
        if (operand->kind == SW_OPERAND_VALUE && operand->access != SW_READ &&
            (!wanted || wanted[operand->value->id]))
            bytes += (double)sw_value_bytes(operand->value, r->numbers);
    }
    return bytes;
}

static bool is_worth(const recomputation *r, const sw_op *op, const bool *wanted) {
    double flops, bytes;
    sw_op_cost(op, &flops, &bytes);
    return flops <= WORTH * output_bytes(r, op, wanted);
}

/* Is every input there in backward: from outside, kept because some backward operation reads it, or
 * made again? */
static bool has_inputs(const recomputation *r, const sw_op *op) {
    for (int k = 0; k < op->n_operands; k++) {
        const sw_operand *operand = &op->operand[k];
        if (operand->kind != SW_OPERAND_VALUE || operand->access != SW_READ ||
            operand->value->is_input || operand->value->is_constant)
            continue;
        const sw_op *maker = operand->value->producer;
        bool is_made_again = maker && maker->phase == SW_PHASE_FORWARD &&
                             sw_unit_block(maker->unit) == sw_unit_block(op->unit) &&
                             r->is_cheap[maker->id];
        if (!r->is_read[operand->value->id] && !is_made_again)
            return false;
    }
    return true;
}

/* Mark, in the order in which it would be made, what is worth its arithmetic and could be cloned.
 * Whether it is depends on which of its outputs are wanted: where only the one number that a norm
 * keeps of each row is, the norm is not worth it. */
static void find_cheap(recomputation *r) {
    const sw_graph *graph = r->graph;
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        for (int k = 0; k < op->n_operands && op->phase == SW_PHASE_BACKWARD; k++)
            if (op->operand[k].kind == SW_OPERAND_VALUE && op->operand[k].access == SW_READ)
                r->is_read[op->operand[k].value->id] = true;
    }
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        r->is_cheap[i] = op->phase == SW_PHASE_FORWARD && !op->share && sw_unit_block(op->unit) &&
                         is_worth(r, op, NULL) && has_inputs(r, op);
    }
}

/* Mark what must be there for backward, from the end, so that a clone's own needs are known before
 * its inputs are judged. */
static void find_wanted(recomputation *r) {
    const sw_graph *graph = r->graph;
    for (int i = graph->ops.n - 1; i >= 0; i--) {
        const sw_op *op = graph->ops.item[i];
        r->is_cloned[i] = may_be_cloned(r, op) && (!r->is_cheap || is_worth(r, op, r->is_wanted));
        if (op->phase == SW_PHASE_BACKWARD || r->is_cloned[i])
            want_inputs(r, op);
    }
}

/* Read recomputed values where there are any. */
static void read_clones(const recomputation *r, sw_op *op) {
    for (int k = 0; k < op->n_operands; k++) {
        sw_operand *operand = &op->operand[k];
        if (operand->kind == SW_OPERAND_VALUE && operand->access == SW_READ &&
            r->clone[operand->value->id])
            operand->value = r->clone[operand->value->id];
    }
}

static sw_op *clone_op(recomputation *r, const sw_op *original) {
    sw_op *op = sw_arena_take(&r->graph->arena, sizeof *op);
    if (!op)
        return NULL;
    *op = *original;
    op->phase = SW_PHASE_BACKWARD;
    op->is_recomputed = true;
    read_clones(r, op);
    for (int k = 0; k < op->n_operands; k++) {
        sw_operand *operand = &op->operand[k];
        if (operand->kind != SW_OPERAND_VALUE || operand->access == SW_READ)
            continue;
        const sw_value *value = operand->value;
        sw_value *again =
            sw_value_create(r->graph, value->kind, value->n_dimensions, value->dimension);
        if (!again)
            return NULL;
        again->producer = op;
        again->needs_gradient = value->needs_gradient;
        r->clone[value->id] = again;
        operand->value = again;
    }
    return op;
}

/* Append clones of what `op` reads of its own block, and of what those read, where there are to be
 * any and are none yet. */
static bool make_inputs(recomputation *r, const sw_op *op) {
    const sw_unit *block = sw_unit_block(op->unit);
    for (int k = 0; block && k < op->n_operands; k++) {
        const sw_operand *operand = &op->operand[k];
        if (operand->kind != SW_OPERAND_VALUE || operand->access != SW_READ ||
            block_of_value(operand->value) != block)
            continue;
        const sw_op *maker = operand->value->producer;
        if (!r->is_cloned[maker->id] || r->is_made[maker->id])
            continue;
        r->is_made[maker->id] = true;
        sw_op *clone = make_inputs(r, maker) ? clone_op(r, maker) : NULL;
        if (!clone)
            return false;
        r->graph->ops.item[r->graph->ops.n++] = clone;
    }
    return true;
}

/* The step list with clones in their places. */
static bool rebuild(recomputation *r, sw_op **list /* [n_ops] */, int n_ops) {
    sw_graph *graph = r->graph;
    graph->ops.n = 0;
    for (int i = 0; i < n_ops; i++) {
        sw_op *op = list[i];
        if (op->phase == SW_PHASE_BACKWARD) {
            if (!make_inputs(r, op))
                return false;
            read_clones(r, op);
        }
        graph->ops.item[graph->ops.n++] = op;
    }
    for (int i = 0; i < graph->ops.n; i++)
        graph->ops.item[i]->id = i;
    return true;
}

static sw_status recompute(sw_graph *graph, bool is_selective, sw_number_kind numbers,
                           sw_error *err) {
    if (graph->error.status)
        return sw_graph_status(graph, err);
    if (!graph->is_differentiated)
        return sw_fail(err, SW_BUG,
                       "the graph has no backward pass yet, for which something could be computed "
                       "again; differentiate it first");
    size_t n_values = (size_t)graph->values.n, n_ops = (size_t)graph->ops.n;
    recomputation r = {.graph = graph, .numbers = numbers};
    r.clone = sw_arena_take(&graph->arena, n_values * sizeof *r.clone);
    r.is_wanted = sw_arena_take(&graph->arena, n_values * sizeof *r.is_wanted);
    r.is_read = sw_arena_take(&graph->arena, n_values * sizeof *r.is_read);
    r.is_cheap = is_selective ? sw_arena_take(&graph->arena, n_ops * sizeof *r.is_cheap) : NULL;
    r.is_cloned = sw_arena_take(&graph->arena, n_ops * sizeof *r.is_cloned);
    r.is_made = sw_arena_take(&graph->arena, n_ops * sizeof *r.is_made);
    sw_op **list = graph->ops.item;
    sw_op **wider = sw_arena_take(
        &graph->arena, 2 * n_ops * sizeof *wider); /* each operation is cloned at most once */
    if (!r.clone || !r.is_wanted || !r.is_read || (is_selective && !r.is_cheap) || !r.is_cloned ||
        !r.is_made || !wider)
        return sw_fail(err, SW_NO_MEMORY, "no memory to recompute %d operations", graph->ops.n);
    if (is_selective)
        find_cheap(&r);
    find_wanted(&r);
    graph->ops.item = wider;
    graph->ops.capacity = 2 * (int)n_ops;
    if (!rebuild(&r, list, (int)n_ops))
        return sw_fail(err, SW_NO_MEMORY, "no memory to recompute %zu operations", n_ops);
    return sw_graph_status(graph, err);
}

sw_status sw_graph_recompute_blocks(sw_graph *graph, sw_error *err) {
    return recompute(graph, false, SW_NUMBERS_F32, err);
}

sw_status sw_graph_recompute_selective(sw_graph *graph, sw_number_kind numbers, sw_error *err) {
    return recompute(graph, true, numbers, err);
}
