/* stretches.c: one pass over the operations finds first and last use by unit and phase; the rest is
 * joining. */
#include "shard/stretches.h"

#include <stdlib.h>

enum { IN_FORWARD, IN_BACKWARD, OF_GRADIENT, N_STRETCHES };

static int unit_of(const sw_layout *layout, const sw_parameter *parameter) {
    return layout->unit_of_graph_unit[parameter->unit->id];
}

static void widen(sw_stretch *use, int unit, int op) {
    if (use->first < 0)
        *use = (sw_stretch){unit, op, op};
    use->last = op;
}

static int by_first(const void *a, const void *b) {
    const sw_stretch *x = a, *y = b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1)
                                : (x->unit > y->unit) - (x->unit < y->unit);
}

/* Indices of `stretches`, in order of `last`. Each ends at some operation, so they are counted out.
 * [n_ops + 1] `count`, zeros before and after. */
static void sort_by_last(const sw_stretch *stretches, int n, int n_ops, int *count, int *by_last) {
    for (int j = 0; j < n; j++)
        count[stretches[j].last]++;
    for (int i = 0, end = 0; i < n_ops; i++)
        count[i] = end += count[i];
    for (int j = n - 1; j >= 0; j--)
        by_last[--count[stretches[j].last]] = j;
    for (int i = 0; i < n_ops; i++)
        count[i] = 0;
}

static void find_stretches(const sw_layout *layout, const sw_stretches *uses,
                           sw_stretch (*stretch)[N_STRETCHES]) {
    for (int u = 0; u < layout->n_units; u++)
        for (int s = 0; s < N_STRETCHES; s++)
            stretch[u][s] = (sw_stretch){u, -1, -1};
    for (int i = 0; i < uses->n_ops; i++)
        for (int o = 0; o < uses->ops[i]->n_operands; o++) {
            const sw_operand *operand = &uses->ops[i]->operand[o];
            if (operand->kind != SW_OPERAND_PARAMETER && operand->kind != SW_OPERAND_GRADIENT)
                continue;
            int unit = unit_of(layout, operand->parameter);
            int which = operand->kind == SW_OPERAND_GRADIENT ? OF_GRADIENT
                        : i < uses->n_forward                ? IN_FORWARD
                                                             : IN_BACKWARD;
            widen(&stretch[unit][which], unit, i);
        }
}

/* Does forward leave fewer than n_staying other units after `unit`? At any moment these units and
 * those that are needed then are no more than the larger of both numbers: of two units, the one
 * that forward leaves later is the one that backward needs first.
 */
static bool stays_gathered(const sw_layout *layout, sw_stretch (*stretch)[N_STRETCHES], int unit,
                           int n_staying) {
    int n_later = 0;
    for (int u = 0; u < layout->n_units; u++)
        n_later += !layout->units[u].is_root &&
                   stretch[u][IN_FORWARD].last > stretch[unit][IN_FORWARD].last;
    return layout->units[unit].is_root || n_later < n_staying;
}

sw_status sw_stretches_find(const sw_graph *graph, const sw_layout *layout, int n_staying,
                            sw_arena *arena, sw_stretches *uses, sw_error *err) {
    *uses = (sw_stretches){0};
    size_t n_units = (size_t)layout->n_units;
    uses->ops = sw_arena_take(arena, ((size_t)graph->ops.n + 1) * sizeof *uses->ops);
    uses->gathers = sw_arena_take(arena, 2 * n_units * sizeof *uses->gathers);
    uses->gradients = sw_arena_take(arena, n_units * sizeof *uses->gradients);
    uses->gathers_by_last = sw_arena_take(arena, 2 * n_units * sizeof *uses->gathers_by_last);
    uses->gather_before = sw_arena_take(arena, 2 * n_units * sizeof *uses->gather_before);
    uses->gradients_by_last = sw_arena_take(arena, n_units * sizeof *uses->gradients_by_last);
    int *count = sw_arena_take(arena, ((size_t)graph->ops.n + 1) * sizeof *count);
    int *latest = sw_arena_take(arena, n_units * sizeof *latest); /* gather of each unit + 1 */
    sw_stretch(*stretch)[N_STRETCHES] = sw_arena_take(arena, n_units * sizeof *stretch);
    if (!uses->ops || !uses->gathers || !uses->gradients || !uses->gathers_by_last ||
        !uses->gather_before || !uses->gradients_by_last || !count || !latest || !stretch)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the uses of %d units", layout->n_units);
    for (int i = 0; i < graph->ops.n; i++) {
        const sw_op *op = graph->ops.item[i];
        if (op->is_dropped || op->phase == SW_PHASE_PREPARE)
            continue;
        uses->n_forward += op->phase == SW_PHASE_FORWARD;
        uses->ops[uses->n_ops++] = op;
    }
    find_stretches(layout, uses, stretch);
    for (int u = 0; u < layout->n_units; u++) {
        sw_stretch forward = stretch[u][IN_FORWARD], backward = stretch[u][IN_BACKWARD];
        if (forward.first >= 0 && backward.first >= 0 &&
            stays_gathered(layout, stretch, u, n_staying))
            uses->gathers[uses->n_gathers++] = (sw_stretch){u, forward.first, backward.last};
        else {
            if (forward.first >= 0)
                uses->gathers[uses->n_gathers++] = forward;
            if (backward.first >= 0)
                uses->gathers[uses->n_gathers++] = backward;
        }
        if (stretch[u][OF_GRADIENT].first >= 0)
            uses->gradients[uses->n_gradients++] = stretch[u][OF_GRADIENT];
    }
    qsort(uses->gathers, (size_t)uses->n_gathers, sizeof *uses->gathers, by_first);
    qsort(uses->gradients, (size_t)uses->n_gradients, sizeof *uses->gradients, by_first);
    sort_by_last(uses->gathers, uses->n_gathers, uses->n_ops, count, uses->gathers_by_last);
    sort_by_last(uses->gradients, uses->n_gradients, uses->n_ops, count, uses->gradients_by_last);
    for (int j = 0; j < uses->n_gathers; j++) {
        uses->gather_before[j] = latest[uses->gathers[j].unit] - 1;
        latest[uses->gathers[j].unit] = j + 1;
    }
    return SW_OK;
}
