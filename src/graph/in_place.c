/* in_place.c: outputs that take the bytes of inputs which die.
 *
 * A residual sum may be written over the branch that it adds, a rotation over its input, a gradient
 * over the one that it is made from. It is possible where the kernel allows it (device/kernel.h,
 * "over") and nothing reads those bytes later: neither the input nor any value that shares its
 * storage, nor what is read from outside or kept from step to step. The pass walks the final list
 * once and sets sw_value.storage to the value whose bytes are used; no bit changes.
 */
#include "device/operands.h"
#include "graph/graph.h"

typedef struct storage_use {
    int last;        /* place in the list of the last operation that touches the bytes */
    bool is_lasting; /* filled or read from outside, or constant */
    int taken_by; /* place of the last operation that wrote an output over these bytes: it may not
                     do so twice */
} storage_use;

/* Is every read of these bytes by `op` one that `inputs` allows? */
static bool reads_only_through(const sw_op *op, const sw_value *storage, unsigned inputs) {
    for (int k = 0; k < op->n_operands; k++)
        if (op->operand[k].kind == SW_OPERAND_VALUE && op->operand[k].access == SW_READ &&
            op->operand[k].value->storage == storage && !(inputs >> k & 1))
            return false;
    return true;
}

/* Does each part of `value` that `op` writes lie where an input does that `inputs` allows? A packed
 * value is written in parts. */
static bool parts_lie_alike(const sw_op *op, const sw_value *value, const sw_value *storage,
                            unsigned inputs) {
    for (int k = 0; k < op->n_operands; k++) {
        const sw_operand *part = &op->operand[k];
        bool is_found =
            part->kind != SW_OPERAND_VALUE || part->access != SW_WRITE || part->value != value;
        for (int i = 0; i < op->n_operands && !is_found; i++)
            is_found = inputs >> i & 1 && op->operand[i].kind == SW_OPERAND_VALUE &&
                       op->operand[i].value->storage == storage &&
                       op->operand[i].offset == part->offset;
        if (!is_found)
            return false;
    }
    return true;
}

static void reuse(storage_use *use, sw_op *op, int place, int output, unsigned inputs) {
    const sw_operand *out = &op->operand[output];
    if (out->kind != SW_OPERAND_VALUE || out->access != SW_WRITE || out->offset ||
        out->value->producer != op || out->value->is_constant)
        return;
    for (int k = 0; k < op->n_operands; k++) {
        if (!(inputs >> k & 1))
            continue;
        const sw_operand *in = &op->operand[k];
        if (in->kind != SW_OPERAND_VALUE)
            continue;
        sw_value *storage = in->value->storage;
        storage_use *bytes = &use[storage->id];
        if (storage->n_elements != out->value->n_elements || storage->kind != out->value->kind ||
            bytes->is_lasting || bytes->last > place || bytes->taken_by == place ||
            !parts_lie_alike(op, out->value, storage, inputs) ||
            !reads_only_through(op, storage, inputs))
            continue;
        storage_use *joined = &use[out->value->id];
        bytes->last = joined->last > bytes->last ? joined->last : bytes->last;
        bytes->is_lasting = joined->is_lasting;
        bytes->taken_by = place;
        out->value->storage = storage;
        return;
    }
}

sw_status sw_graph_reuse_in_place(sw_graph *graph, sw_error *err) {
    if (graph->error.status)
        return sw_graph_status(graph, err);
    storage_use *use = sw_arena_take(&graph->arena, (size_t)graph->values.n * sizeof *use);
    if (!use)
        return sw_fail(err, SW_NO_MEMORY,
                       "no memory to find out which of %d values can share their places",
                       graph->values.n);
    for (int i = 0; i < graph->values.n; i++) {
        const sw_value *value = graph->values.item[i];
        use[i] = (storage_use){.last = -1,
                               .is_lasting = value->is_input || value->is_constant ||
                                             value->is_output || value->state,
                               .taken_by = -1};
    }
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        for (int k = 0; k < op->n_operands && !op->is_dropped; k++)
            if (op->operand[k].kind == SW_OPERAND_VALUE)
                use[op->operand[k].value->id].last = i;
    }
    for (int i = 0; i < graph->ops.n; i++) {
        sw_op *op = graph->ops.item[i];
        sw_kernel_row row;
        sw_kernel_describe(op->kernel, &row);
        for (int k = 0; k < op->n_operands && !op->is_dropped; k++)
            if (row.operand[k].lies_over)
                reuse(use, op, i, k, row.operand[k].lies_over);
    }
    return SW_OK;
}
