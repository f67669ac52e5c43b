/* checks.c: the questions that shape rules ask, and their messages. */
#include "graph/ops/checks.h"

#include <inttypes.h>
#include <stdio.h>

sw_shape_text sw_shape_write(int n_dimensions, const int64_t *dimensions) {
    sw_shape_text shape = {"["};
    size_t used = 1;
    for (int i = 0; i < n_dimensions; i++)
        used += (size_t)snprintf(shape.text + used, sizeof shape.text - used, "%s%" PRId64,
                                 i ? ", " : "", dimensions[i]);
    snprintf(shape.text + used, sizeof shape.text - used, "]");
    return shape;
}

static bool check_real(sw_graph *graph, const char *operation, const char *argument,
                       const sw_value *x) {
    if (!graph)
        return false;
    if (!x)
        sw_graph_fail(graph, "%s: %s is NULL", operation, argument);
    else if (!sw_graph_owns_value(graph, x))
        sw_graph_fail(graph, "%s: %s is a value of another graph", operation, argument);
    else if (x->kind != SW_VALUE_REAL)
        sw_graph_fail(graph, "%s: %s is %s, not an activation", operation, argument,
                      x->kind == SW_VALUE_INDEX       ? "a list of token ids"
                      : x->kind == SW_VALUE_STATISTIC ? "a table or a statistic"
                      : x->kind == SW_VALUE_LOSS      ? "the loss"
                                                      : "logits");
    else
        return true;
    return false;
}

bool sw_check_rows(sw_graph *graph, const char *operation, const char *argument,
                   const sw_value *x) {
    if (!check_real(graph, operation, argument, x))
        return false;
    if (x->n_dimensions != 2)
        sw_graph_fail(graph, "%s: %s is %s; two dimensions, [n, channels], are needed", operation,
                      argument, sw_value_shape(x).text);
    return x->n_dimensions == 2;
}

bool sw_check_positions(sw_graph *graph, const char *operation, const char *argument,
                        const sw_value *x) {
    if (!sw_check_rows(graph, operation, argument, x))
        return false;
    bool fits = x->dimension[0] == graph->n_rows * graph->n_tokens;
    if (!fits)
        sw_graph_fail(graph,
                      "%s: %s is %s; its first dimension must be the %" PRId64 " x %" PRId64
                      " positions of the micro-batch",
                      operation, argument, sw_value_shape(x).text, graph->n_rows, graph->n_tokens);
    return fits;
}

bool sw_check_index(sw_graph *graph, const char *operation, const char *argument,
                    const sw_value *x) {
    if (!graph)
        return false;
    if (!x)
        sw_graph_fail(graph, "%s: %s is NULL", operation, argument);
    else if (!sw_graph_owns_value(graph, x))
        sw_graph_fail(graph, "%s: %s is a value of another graph", operation, argument);
    else if (x->kind != SW_VALUE_INDEX)
        sw_graph_fail(
            graph,
            "%s: %s must be token ids (sw_tokens, sw_targets, sw_documents), not %s of reals",
            operation, argument, sw_value_shape(x).text);
    else
        return true;
    return false;
}

bool sw_check_same(sw_graph *graph, const char *operation, const sw_value *a, const sw_value *b) {
    if (!check_real(graph, operation, "the first argument", a) ||
        !check_real(graph, operation, "the second argument", b))
        return false;
    bool same = a->n_dimensions == b->n_dimensions;
    for (int i = 0; same && i < a->n_dimensions; i++)
        same = a->dimension[i] == b->dimension[i];
    if (!same)
        sw_graph_fail(graph, "%s: the shapes %s and %s differ", operation, sw_value_shape(a).text,
                      sw_value_shape(b).text);
    return same;
}

static bool check_parameter(sw_graph *graph, const char *operation, const char *argument,
                            const sw_parameter *p) {
    if (!graph)
        return false;
    if (!p)
        sw_graph_fail(graph, "%s: %s is NULL", operation, argument);
    else if (!sw_graph_owns_parameter(graph, p))
        sw_graph_fail(graph, "%s: %s is a parameter of another graph", operation, argument);
    else
        return true;
    return false;
}

bool sw_check_vector(sw_graph *graph, const char *operation, const char *argument,
                     const sw_parameter *p, int64_t length) {
    if (!check_parameter(graph, operation, argument, p))
        return false;
    bool fits = p->n_dimensions == 1 && p->dimension[0] == length;
    if (!fits)
        sw_graph_fail(graph, "%s: %s %s is %s, but [%" PRId64 "] is needed", operation, argument,
                      p->name, sw_parameter_shape(p).text, length);
    return fits;
}

bool sw_check_matrix(sw_graph *graph, const char *operation, const char *argument,
                     const sw_parameter *p, int64_t rows, int64_t columns) {
    if (!check_parameter(graph, operation, argument, p))
        return false;
    bool fits = p->n_dimensions == 2 && (!rows || p->dimension[0] == rows) &&
                (!columns || p->dimension[1] == columns);
    if (!fits) {
        char wanted[2][24] = {"any", "any"};
        if (rows)
            snprintf(wanted[0], sizeof wanted[0], "%" PRId64, rows);
        if (columns)
            snprintf(wanted[1], sizeof wanted[1], "%" PRId64, columns);
        sw_graph_fail(graph, "%s: %s %s is %s, but [%s, %s] is needed", operation, argument,
                      p->name, sw_parameter_shape(p).text, wanted[0], wanted[1]);
    }
    return fits;
}
