/* differentiate.c: the backward pass, appended to the forward list in reverse order.
 *
 * Each forward operation's rule is asked once, when the gradients of its outputs are complete:
 * everything that reads an output comes after its producer, so walking backwards has met all of
 * them. Gradients flow only where a trainable parameter lies upstream.
 *
 * A gradient may be shared: y = a + b gives a and b the very value dy, without a copy. So a value
 * is added to in place only when one pending gradient alone holds it; else the new part gets bytes
 * of its own and the sum a third. In a pre-norm block the residual's gradient is held by the
 * residual alone when the norm's gradient arrives, and it is added in place:
 *
 *      h = x + f(norm(x))      dh is held by x and f's output; after f's backward by x alone; norm
 *                              adds dx into it
 *
 * The gradient of an output counts as held until its operation's rule is done, because the rule's
 * operations read it. tests/graph/test_gradients.c breaks this logic on purpose with graphs that no
 * model has.
 */
#include "graph/graph.h"

#include <string.h>

struct sw_differentiation {
    sw_graph *graph;
    const sw_value *loss;
    sw_value **gradient; /* [values of the forward pass] by value id: what arrived; NULL before, and
                            after its use */
    bool *is_written;    /* [n_parameters] the gradient of this parameter has been written */
    int first_of_rule;   /* values from this id on were made by the rule being asked */
    int n_unsettled;     /* parts to be added once the rule's operations are emitted */
    struct {
        sw_value *value, *part;
    } unsettled[SW_MAX_OPERANDS];
};

sw_graph *sw_differentiation_graph(sw_differentiation *d) {
    return d->graph;
}

sw_value *sw_gradient_arrived(sw_differentiation *d, sw_value *value) {
    return d->gradient[value->id];
}

/* What is held changes here alone, so that holders are counted: in `n_holders` of the gradient. */
static void hold(sw_differentiation *d, const sw_value *value, sw_value *gradient) {
    sw_value **there = &d->gradient[value->id];
    if (*there)
        (*there)->n_holders--;
    if (gradient)
        gradient->n_holders++;
    *there = gradient;
}

sw_operand sw_gradient_target(sw_differentiation *d, sw_value *value) {
    sw_value *there = d->gradient[value->id];
    if (!value->needs_gradient || !there || there->id >= d->first_of_rule || there->n_holders > 1)
        return sw_gradient_fresh(d, value);
    return (sw_operand){SW_OPERAND_VALUE, SW_UPDATE, there, NULL, 0};
}

sw_operand sw_gradient_fresh(sw_differentiation *d, sw_value *value) {
    if (!value->needs_gradient)
        return sw_nothing();
    sw_value *part =
        sw_value_create(d->graph, SW_VALUE_REAL, value->n_dimensions, value->dimension);
    if (!part)
        return sw_nothing();
    if (d->gradient[value->id]) {
        d->unsettled[d->n_unsettled].value = value;
        d->unsettled[d->n_unsettled++].part = part;
    } else {
        hold(d, value, part);
    }
    return sw_writes(part);
}

void sw_gradient_pass(sw_differentiation *d, sw_value *value, sw_value *gradient) {
    if (!value->needs_gradient)
        return;
    sw_value *there = d->gradient[value->id];
    hold(d, value, there ? sw_add(d->graph, there, gradient) : gradient);
}

sw_operand sw_gradient_parameter(sw_differentiation *d, sw_parameter *parameter) {
    if (!parameter->is_trainable)
        return sw_nothing();
    sw_access access = d->is_written[parameter->id] ? SW_UPDATE : SW_WRITE;
    d->is_written[parameter->id] = true;
    return (sw_operand){SW_OPERAND_GRADIENT, access, NULL, parameter, 0};
}

/* A value needs a gradient if a trainable parameter lies upstream. Freezing may come after
 * recording, so it is found only now. */
static void mark_needs(sw_graph *graph) {
    for (int i = 0; i < graph->ops.n; i++) {
        sw_op *op = graph->ops.item[i];
        bool needs = false;
        for (int k = 0; k < op->n_operands; k++) {
            const sw_operand *operand = &op->operand[k];
            needs |= operand->kind == SW_OPERAND_PARAMETER && operand->parameter->is_trainable;
            needs |= operand->kind == SW_OPERAND_VALUE && operand->access == SW_READ &&
                     operand->value->needs_gradient;
        }
        for (int k = 0; k < op->n_operands; k++)
            if (op->operand[k].kind == SW_OPERAND_VALUE && op->operand[k].access != SW_READ)
                op->operand[k].value->needs_gradient = needs;
    }
}

/* Has a gradient arrived that this operation must hand on? The loss is where gradients start. */
static bool hands_on(const sw_differentiation *d, const sw_op *op) {
    for (int k = 0; k < op->n_operands; k++) {
        const sw_operand *operand = &op->operand[k];
        if (operand->kind == SW_OPERAND_VALUE && operand->access != SW_READ &&
            operand->value->needs_gradient &&
            (d->gradient[operand->value->id] || operand->value == d->loss))
            return true;
    }
    return false;
}

/* Ask the rule of one operation, add the parts that it left, and let go of the gradients that it
 * used. */
static void differentiate_op(sw_differentiation *d, sw_op *op) {
    sw_graph *graph = d->graph;
    graph->current_unit = op->unit;
    d->first_of_rule = graph->values.n;
    d->n_unsettled = 0;
    op->family->gradient(d, op);
    for (int i = 0; i < d->n_unsettled && !graph->error.status; i++) {
        const sw_value *value = d->unsettled[i].value;
        hold(d, value, sw_add(graph, d->gradient[value->id], d->unsettled[i].part));
    }
    for (int k = 0; k < op->n_operands; k++)
        if (op->operand[k].kind == SW_OPERAND_VALUE && op->operand[k].access != SW_READ)
            hold(d, op->operand[k].value, NULL);
    op->is_dropped = op->family->gradient_computes_forward;
}

/* Behind the unit's last backward operation, so that its gradients are complete together; at the
 * end if it has none. */
static void move_behind_unit(sw_graph *graph, sw_op *op) {
    int place = graph->ops.n - 1, last = place - 1;
    while (last >= 0 && !(graph->ops.item[last]->unit == op->unit &&
                          graph->ops.item[last]->phase == SW_PHASE_BACKWARD))
        last--;
    if (last < 0)
        return;
    for (; place > last + 1; place--) {
        graph->ops.item[place] = graph->ops.item[place - 1];
        graph->ops.item[place]->id = place;
    }
    graph->ops.item[place] = op;
    op->id = place;
}

static void zero_unreached_parameters(sw_differentiation *d) {
    sw_graph *graph = d->graph;
    for (int i = 0; i < graph->parameters.n; i++) {
        sw_parameter *p = graph->parameters.item[i];
        if (!p->is_trainable || d->is_written[i])
            continue;
        graph->current_unit = p->unit;
        sw_op *op = sw_zero_gradient(graph, p);
        if (!op)
            return;
        move_behind_unit(graph, op);
    }
}

sw_status sw_graph_differentiate(sw_graph *graph, sw_error *err) {
    if (graph->error.status)
        return sw_graph_status(graph, err);
    if (graph->is_differentiated)
        return sw_fail(err, SW_BUG,
                       "the graph has its backward pass already; differentiate it once");
    sw_value *loss = sw_graph_port(graph, SW_PORT_LOSS);
    if (!loss)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "the graph has no loss to differentiate; end the model with sw_cross_entropy");
    sw_differentiation d = {.graph = graph, .loss = loss};
    d.gradient = sw_arena_take(&graph->arena, (size_t)graph->values.n * sizeof *d.gradient);
    d.is_written = sw_arena_take(&graph->arena, (size_t)graph->parameters.n * sizeof *d.is_written);
    if (!d.gradient || !d.is_written)
        return sw_fail(err, SW_NO_MEMORY, "no memory to differentiate %d operations", graph->ops.n);
    mark_needs(graph);
    sw_unit *root = graph->current_unit;
    graph->current_phase = SW_PHASE_BACKWARD;
    for (int i = graph->ops.n - 1; i >= 0 && !graph->error.status; i--) {
        sw_op *op = graph->ops.item[i];
        if (op->phase != SW_PHASE_FORWARD || !hands_on(&d, op))
            continue;
        if (op->family->gradient)
            differentiate_op(&d, op);
        else
            sw_graph_fail(graph,
                          "%s: this operation has no gradient, but the loss depends on it and "
                          "trained parameters come before it; freeze those (sw_parameter_freeze), "
                          "or use another operation",
                          op->family->name);
    }
    zero_unreached_parameters(&d);
    graph->current_unit = root;
    graph->is_differentiated = true;
    return sw_graph_status(graph, err);
}
