/* graph.c: recording. Everything that a graph holds is made here: units, parameters, values,
 * operations.
 *
 * Recording never stops half way: the first thing that does not fit is kept as the graph's error,
 * and every call after it returns NULL, so that a model function reads as arithmetic and checks
 * once.
 */
#include "graph/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static void *out_of_memory(sw_graph *graph) {
    if (!graph->error.status)
        sw_fail(&graph->error, SW_NO_MEMORY,
                "no memory for a graph of more than %d operations; take a smaller model, or free "
                "some memory",
                graph->ops.n);
    return NULL;
}

/* Append `pointer` to a list of pointers; false when memory is short. */
#define APPEND(graph, list, pointer) \
    append(graph, (void ***)&(list).item, &(list).n, &(list).capacity, pointer)

static bool append(sw_graph *graph, void ***items, int *n, int *capacity, void *pointer) {
    void **moved = sw_arena_grow(&graph->arena, *items, *n, capacity, sizeof *moved);
    if (!moved) {
        out_of_memory(graph);
        return false;
    }
    *items = moved;
    moved[(*n)++] = pointer;
    return true;
}

sw_status sw_graph_create(int64_t n_rows, int64_t n_tokens, sw_graph **graph, sw_error *err) {
    int64_t positions;
    if (!graph)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_graph_create: graph is NULL, where the new one is put");
    *graph = NULL;
    if (n_rows < 1 || n_tokens < 1 || __builtin_mul_overflow(n_rows, n_tokens, &positions) ||
        positions > INT32_MAX)
        return sw_fail(err, SW_BAD_CONFIG,
                       "a micro-batch of %" PRId64 " rows of %" PRId64
                       " tokens cannot be built: both are at least 1, their product at most %d",
                       n_rows, n_tokens, INT32_MAX);
    *graph = calloc(1, sizeof **graph);
    if (!*graph)
        return sw_fail(err, SW_NO_MEMORY, "no memory for a graph");
    (*graph)->n_rows = n_rows;
    (*graph)->n_tokens = n_tokens;
    (*graph)->current_phase = SW_PHASE_FORWARD;
    for (int axis = 0; axis < SW_N_AXES; axis++)
        (*graph)->axis_size[axis] = 1;
    return SW_OK;
}

void sw_graph_spread(sw_graph *graph, const sw_mesh *mesh) {
    memcpy(graph->axis_size, mesh->size, sizeof graph->axis_size);
}

void sw_graph_free(sw_graph *graph) {
    if (!graph)
        return;
    sw_arena_free(&graph->arena);
    free(graph);
}

sw_status sw_graph_status(const sw_graph *graph, sw_error *err) {
    if (!graph)
        return sw_fail(err, SW_BAD_CONFIG, "sw_graph_status: the graph is NULL");
    if (graph->error.status && err)
        *err = graph->error;
    return graph->error.status;
}

sw_value *sw_graph_fail(sw_graph *graph, const char *format, ...) {
    if (!graph || graph->error.status)
        return NULL;
    char text[SW_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (graph->current_unit && graph->current_unit->parent)
        sw_fail(&graph->error, SW_BAD_CONFIG, "unit %s: %s", graph->current_unit->name, text);
    else
        sw_fail(&graph->error, SW_BAD_CONFIG, "%s", text);
    return NULL;
}

/* ---- units and parameters ---- */

/* Units, parameters and values are known by their places: one of another graph is not taken for one
 * of this. */
static bool owns_unit(const sw_graph *graph, const sw_unit *unit) {
    return unit->id >= 0 && unit->id < graph->units.n && graph->units.item[unit->id] == unit;
}

bool sw_graph_owns_parameter(const sw_graph *graph, const sw_parameter *p) {
    return p->id >= 0 && p->id < graph->parameters.n && graph->parameters.item[p->id] == p;
}

bool sw_graph_owns_value(const sw_graph *graph, const sw_value *value) {
    return value->id >= 0 && value->id < graph->values.n && graph->values.item[value->id] == value;
}

sw_unit *sw_unit_declare(sw_graph *graph, sw_unit *parent, const char *name) {
    if (!graph || graph->error.status)
        return NULL;
    if (!name || !*name)
        return (void *)sw_graph_fail(graph, "a unit needs a name");
    if (parent && !owns_unit(graph, parent))
        return (void *)sw_graph_fail(graph, "unit %s: its parent is a unit of another graph", name);
    if (!parent && graph->units.n)
        return (void *)sw_graph_fail(graph,
                                     "unit %s has no parent; only the root unit has none, and that "
                                     "is %s already: pass the unit that it belongs to",
                                     name, graph->units.item[0]->name);
    sw_unit *unit = sw_arena_take(&graph->arena, sizeof *unit);
    if (!unit || !(unit->name = sw_arena_text(&graph->arena, name)))
        return out_of_memory(graph);
    unit->id = graph->units.n;
    unit->parent = parent;
    if (!APPEND(graph, graph->units, unit))
        return NULL;
    if (!parent)
        graph->current_unit = unit;
    return unit;
}

sw_unit *sw_unit_block(sw_unit *unit) {
    if (!unit->parent)
        return NULL;
    while (unit->parent->parent)
        unit = unit->parent;
    return unit;
}

static bool encloses(const sw_unit *outer, const sw_unit *inner) {
    while (inner && inner != outer)
        inner = inner->parent;
    return inner != NULL;
}

/* The product of dimensions, 0 if one is below 1 or the product does not fit. */
static int64_t count_elements(int n_dimensions, const int64_t *dimensions) {
    int64_t n = 1;
    for (int i = 0; i < n_dimensions; i++)
        if (dimensions[i] < 1 || __builtin_mul_overflow(n, dimensions[i], &n) || n > INT64_MAX / 16)
            return 0;
    return n;
}

/* Where the table has the parameter of this stream, or would have it: there is room for one more.
 * NULL where memory is short. */
static int *place_of_stream(sw_graph *graph, uint64_t stream) {
    if (2 * (graph->parameters.n + 1) > graph->n_streams) {
        int n_wider = graph->n_streams ? 2 * graph->n_streams : 64;
        int *wider = sw_arena_take(&graph->arena, (size_t)n_wider * sizeof *wider);
        if (!wider)
            return NULL;
        graph->parameter_of_stream = wider;
        graph->n_streams = n_wider;
        for (int i = 0; i < graph->parameters.n; i++)
            *place_of_stream(graph, graph->parameters.item[i]->stream) = i + 1;
    }
    uint64_t at = stream & (uint64_t)(graph->n_streams - 1);
    while (graph->parameter_of_stream[at] &&
           graph->parameters.item[graph->parameter_of_stream[at] - 1]->stream != stream)
        at = (at + 1) & (uint64_t)(graph->n_streams - 1);
    return &graph->parameter_of_stream[at];
}

sw_parameter *sw_parameter_declare(sw_graph *graph, sw_unit *unit, const char *name,
                                   int n_dimensions, const int64_t *dimensions,
                                   sw_initializer initializer, double std) {
    if (!graph || graph->error.status)
        return NULL;
    if (!name || !*name)
        return (void *)sw_graph_fail(graph, "a parameter needs a name");
    if (!unit || !owns_unit(graph, unit))
        return (void *)sw_graph_fail(graph, "parameter %s: its unit is %s", name,
                                     unit ? "of another graph" : "NULL");
    if (n_dimensions < 1 || n_dimensions > 4)
        return (void *)sw_graph_fail(graph, "parameter %s has %d dimensions; 1 to 4 are possible",
                                     name, n_dimensions);
    if (!dimensions)
        return (void *)sw_graph_fail(graph, "parameter %s: its dimensions are NULL", name);
    if ((unsigned)initializer > SW_INIT_UNIFORM)
        return (void *)sw_graph_fail(graph, "parameter %s: there is no initializer %d", name,
                                     (int)initializer);
    if (!(std >= 0) || !isfinite(std))
        return (void *)sw_graph_fail(
            graph, "parameter %s: its standard deviation is %g; it must be finite and 0 or more",
            name, std);
    int64_t n_elements = count_elements(n_dimensions, dimensions);
    if (!n_elements)
        return (void *)sw_graph_fail(
            graph, "parameter %s: each dimension must be at least 1, and their product below 2^59",
            name);
    uint64_t stream = sw_hash_text(SW_HASH_START, name);
    int *known = place_of_stream(graph, stream);
    if (!known)
        return out_of_memory(graph);
    if (*known)
        return (void *)sw_graph_fail(graph,
                                     "parameter %s: %s is declared already; a tied parameter is "
                                     "declared once and used twice",
                                     name, graph->parameters.item[*known - 1]->name);
    sw_parameter *p = sw_arena_take(&graph->arena, sizeof *p);
    if (!p || !(p->name = sw_arena_text(&graph->arena, name)))
        return out_of_memory(graph);
    p->id = graph->parameters.n;
    p->unit = unit;
    p->n_dimensions = n_dimensions;
    memcpy(p->dimension, dimensions, (size_t)n_dimensions * sizeof *dimensions);
    p->n_elements = n_elements;
    p->is_trainable = true;
    p->decays = n_dimensions >= 2;
    p->initializer = initializer;
    p->std = std;
    p->stream = stream;
    if (!APPEND(graph, graph->parameters, p))
        return NULL;
    *known = p->id + 1;
    return p;
}

void sw_parameter_freeze(sw_parameter *parameter) {
    if (parameter)
        parameter->is_trainable = false;
}

/* ---- values ---- */

sw_value *sw_value_create(sw_graph *graph, sw_value_kind kind, int n_dimensions,
                          const int64_t *dimensions) {
    if (graph->error.status)
        return NULL;
    int64_t n_elements = count_elements(n_dimensions, dimensions);
    if (!n_elements)
        return sw_graph_fail(graph, "a value's dimensions multiply to more than 2^59 elements");
    sw_value *value = sw_arena_take(&graph->arena, sizeof *value);
    if (!value)
        return out_of_memory(graph);
    value->id = graph->values.n;
    value->kind = kind;
    value->n_dimensions = n_dimensions;
    memcpy(value->dimension, dimensions, (size_t)n_dimensions * sizeof *dimensions);
    value->n_elements = n_elements;
    value->storage = value;
    return APPEND(graph, graph->values, value) ? value : NULL;
}

int64_t sw_value_bytes(const sw_value *value, sw_number_kind numbers) {
    switch (value->kind) {
    case SW_VALUE_REAL:
        return value->n_elements * sw_dtype_bytes(sw_activation_type(numbers));
    case SW_VALUE_INDEX:
        return value->n_elements * sw_dtype_bytes(SW_I32);
    case SW_VALUE_LOSS:
        return value->n_elements * sw_dtype_bytes(SW_F64);
    default:
        return value->n_elements * sw_dtype_bytes(sw_real_type(numbers));
    }
}

sw_value *sw_graph_port(const sw_graph *graph, const char *name) {
    for (int i = 0; i < graph->ports.n; i++)
        if (!strcmp(graph->ports.item[i].name, name))
            return graph->ports.item[i].value;
    return NULL;
}

sw_value *sw_graph_add_port(sw_graph *graph, const char *name, bool is_output, sw_value *value) {
    sw_port *grown = value ? sw_arena_grow(&graph->arena, graph->ports.item, graph->ports.n,
                                           &graph->ports.capacity, sizeof *grown)
                           : NULL;
    if (!grown)
        return value ? out_of_memory(graph) : NULL;
    graph->ports.item = grown;
    grown[graph->ports.n++] = (sw_port){name, value, is_output};
    value->is_input = !is_output;
    value->is_output = is_output;
    return value;
}

/* An input of one number for each position. */
static sw_value *input(sw_graph *graph, const char *name) {
    if (!graph)
        return NULL;
    sw_value *known = sw_graph_port(graph, name);
    return known ? known
                 : sw_graph_add_port(graph, name, false,
                                     sw_value_create(graph, SW_VALUE_INDEX, 1,
                                                     (int64_t[]){graph->n_rows * graph->n_tokens}));
}

sw_value *sw_tokens(sw_graph *graph) {
    return input(graph, SW_PORT_TOKENS);
}
sw_value *sw_targets(sw_graph *graph) {
    return input(graph, SW_PORT_TARGETS);
}
sw_value *sw_documents(sw_graph *graph) {
    return input(graph, SW_PORT_DOCUMENTS);
}

/* ---- operations ---- */

/* Constants are computed before all else: their operations go in front, in the order in which they
 * were asked for. */
static void move_to_front(sw_graph *graph, sw_op *op) {
    int place = graph->ops.n - 1;
    for (; place > 0 && graph->ops.item[place - 1]->phase != SW_PHASE_PREPARE; place--) {
        graph->ops.item[place] = graph->ops.item[place - 1];
        graph->ops.item[place]->id = place;
    }
    graph->ops.item[place] = op;
    op->id = place;
}

sw_op *sw_op_emit(sw_graph *graph, const sw_family *family, sw_kernel kernel, int n_operands,
                  const sw_operand *operands) {
    if (graph->error.status)
        return NULL;
    if (!graph->current_unit)
        return (void *)sw_graph_fail(graph, "%s: declare the root unit before recording operations",
                                     family->name);
    for (int i = 0; i < n_operands; i++) {
        const sw_parameter *p = operands[i].parameter;
        if (p && !encloses(p->unit, graph->current_unit))
            return (void *)sw_graph_fail(graph,
                                         "%s uses parameter %s of unit %s, which does not enclose "
                                         "it; declare the parameter in "
                                         "the lowest unit that encloses its uses",
                                         family->name, p->name, p->unit->name);
    }
    sw_op *op = sw_arena_take(&graph->arena, sizeof *op);
    if (!op)
        return out_of_memory(graph);
    op->id = graph->ops.n;
    op->family = family;
    op->kernel = kernel;
    op->unit = graph->current_unit;
    op->phase = graph->current_phase;
    op->n_operands = n_operands;
    memcpy(op->operand, operands, (size_t)n_operands * sizeof *operands);
    for (int i = 0; i < n_operands; i++)
        if (operands[i].kind == SW_OPERAND_VALUE && operands[i].access == SW_WRITE &&
            !operands[i].value->producer)
            operands[i].value->producer = op;
    if (!APPEND(graph, graph->ops, op))
        return NULL;
    if (op->phase == SW_PHASE_PREPARE)
        move_to_front(graph, op);
    return op;
}

sw_value *sw_call(sw_graph *graph, sw_unit *unit, sw_block_fn fn, void *self, sw_value *x) {
    if (!graph || graph->error.status)
        return NULL;
    if (!unit || !owns_unit(graph, unit))
        return sw_graph_fail(graph, "call: the unit is %s", unit ? "of another graph" : "NULL");
    if (!fn)
        return sw_graph_fail(graph, "call: unit %s has no function to run: it is NULL", unit->name);
    if (unit->parent != graph->current_unit)
        return sw_graph_fail(graph, "call: unit %s was declared below %s, but is called inside %s",
                             unit->name, unit->parent ? unit->parent->name : "nothing",
                             graph->current_unit ? graph->current_unit->name : "nothing");
    sw_unit *caller = graph->current_unit;
    graph->current_unit = unit;
    sw_value *y = fn(graph, self, x);
    if (!y)
        sw_graph_fail(graph, "its function returned NULL");
    graph->current_unit = caller;
    return y;
}

void sw_op_cost(const sw_op *op, double *flops, double *bytes) {
    op->family->cost(op, flops, bytes);
}

double sw_op_operand_bytes(const sw_op *op) {
    double bytes = 0;
    for (int i = 0; i < op->n_operands; i++) {
        const sw_operand *operand = &op->operand[i];
        double once = operand->kind == SW_OPERAND_NONE ? 0
                      : operand->kind == SW_OPERAND_VALUE
                          ? (double)sw_value_bytes(operand->value, SW_NUMBERS_F32)
                          : 4.0 * (double)operand->parameter->n_elements;
        bytes += operand->access == SW_UPDATE ? 2 * once : once;
    }
    return bytes;
}
