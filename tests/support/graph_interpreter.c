/* graph_interpreter.c: runs a step graph without sharding. */
#include "support/graph_interpreter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *take(size_t bytes) {
    void *piece = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!piece) {
        fprintf(stderr, "no memory for a test (%zu bytes)\n", bytes);
        exit(1);
    }
    return memset(piece, 0xFF, (bytes + 63) / 64 * 64); /* all ones is a NaN in every type */
}

static size_t bytes_of(sw_dtype type, int64_t n) {
    return (size_t)(sw_dtype_bytes(type) * n);
}

static sw_dtype type_of_value(const graph_interpreter *it, const sw_value *value) {
    return value->kind == SW_VALUE_REAL ? sw_activation_type(it->numbers)
                                        : sw_real_type(it->numbers);
}

graph_interpreter graph_interpreter_create(sw_graph *graph, const sw_device *device,
                                           sw_number_kind numbers) {
    graph_interpreter it = {.graph = graph,
                            .device = device,
                            .numbers = numbers,
                            .scalars = {.seed = 7, .loss_scale = 1}};
    it.values = calloc((size_t)graph->values.n + 1, sizeof *it.values);
    it.parameters = calloc((size_t)graph->parameters.n + 1, sizeof *it.parameters);
    it.gradients = calloc((size_t)graph->parameters.n + 1, sizeof *it.gradients);
    for (int i = 0; i < graph->values.n; i++)
        if (graph->values.item[i]->storage == graph->values.item[i])
            it.values[i] = take((size_t)sw_value_bytes(graph->values.item[i], numbers));
    if (sw_graph_port(graph, SW_PORT_DOCUMENTS))
        memset(it.values[sw_graph_port(graph, SW_PORT_DOCUMENTS)->id], 0,
               (size_t)sw_value_bytes(sw_graph_port(graph, SW_PORT_DOCUMENTS), numbers));
    for (int i = 0; i < graph->parameters.n; i++) {
        int64_t n = graph->parameters.item[i]->n_elements;
        it.parameters[i] = take(bytes_of(sw_parameter_type(numbers), n));
        it.gradients[i] = take(bytes_of(sw_real_type(numbers), n));
    }
    int64_t scratch_bytes = 0;
    for (int i = 0; i < graph->ops.n; i++) {
        int64_t bytes = sw_kernel_scratch_bytes(graph->ops.item[i]->kernel, graph->ops.item[i]->dim,
                                                numbers, 1);
        scratch_bytes = bytes > scratch_bytes ? bytes : scratch_bytes;
    }
    it.scratch = take((size_t)scratch_bytes + 64);
    return it;
}

void graph_interpreter_free(graph_interpreter *it) {
    for (int i = 0; i < it->graph->values.n; i++)
        free(it->values[i]);
    for (int i = 0; i < it->graph->parameters.n; i++) {
        free(it->parameters[i]);
        free(it->gradients[i]);
    }
    free(it->values);
    free(it->parameters);
    free(it->gradients);
    free(it->scratch);
}

static double element(sw_dtype type, const void *array, int64_t i) {
    return type == SW_F64    ? ((const double *)array)[i]
           : type == SW_BF16 ? (double)sw_bf16_to_float(((const uint16_t *)array)[i])
                             : (double)((const float *)array)[i];
}

double graph_interpreter_parameter(const graph_interpreter *it, int parameter, int64_t i) {
    return element(sw_parameter_type(it->numbers), it->parameters[parameter], i);
}

double graph_interpreter_gradient(const graph_interpreter *it, int parameter, int64_t i) {
    return element(sw_real_type(it->numbers), it->gradients[parameter], i);
}

double graph_interpreter_value(const graph_interpreter *it, const sw_value *value, int64_t i) {
    return element(type_of_value(it, value), it->values[value->storage->id], i);
}

void graph_interpreter_set_parameter(graph_interpreter *it, int parameter, int64_t i, double x) {
    if (it->numbers == SW_NUMBERS_F64)
        ((double *)it->parameters[parameter])[i] = x;
    else if (it->numbers == SW_NUMBERS_BF16)
        ((uint16_t *)it->parameters[parameter])[i] = sw_float_to_bf16((float)x);
    else
        ((float *)it->parameters[parameter])[i] = (float)x;
}

double graph_interpreter_uniform(uint64_t seed, uint64_t index) {
    uint64_t x = seed + index * 0x9E3779B97F4A7C15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

void graph_interpreter_fill_parameters(graph_interpreter *it, double deviation) {
    for (int i = 0; i < it->graph->parameters.n; i++) {
        const sw_parameter *p = it->graph->parameters.item[i];
        double middle = p->initializer == SW_INIT_ONES ? 1 : 0;
        for (int64_t k = 0; k < p->n_elements; k++) {
            double sum = 0; /* of four uniform numbers: deviation 1/sqrt(3) around 2 */
            for (int part = 0; part < 4; part++)
                sum += graph_interpreter_uniform(p->stream, (uint64_t)(4 * k + part));
            graph_interpreter_set_parameter(it, i, k, middle + deviation * sqrt(3) * (sum - 2));
        }
    }
}

void graph_interpreter_set_inputs(graph_interpreter *it, const int32_t *tokens,
                                  const int32_t *targets) {
    if (sw_graph_port(it->graph, SW_PORT_TOKENS))
        memcpy(it->values[sw_graph_port(it->graph, SW_PORT_TOKENS)->id], tokens,
               (size_t)sw_graph_port(it->graph, SW_PORT_TOKENS)->n_elements * sizeof *tokens);
    if (sw_graph_port(it->graph, SW_PORT_TARGETS))
        memcpy(it->values[sw_graph_port(it->graph, SW_PORT_TARGETS)->id], targets,
               (size_t)sw_graph_port(it->graph, SW_PORT_TARGETS)->n_elements * sizeof *targets);
}

void graph_interpreter_set_documents(graph_interpreter *it, const int32_t *documents) {
    if (sw_graph_port(it->graph, SW_PORT_DOCUMENTS))
        memcpy(it->values[sw_graph_port(it->graph, SW_PORT_DOCUMENTS)->id], documents,
               (size_t)sw_graph_port(it->graph, SW_PORT_DOCUMENTS)->n_elements * sizeof *documents);
}

static void forget(graph_interpreter *it) {
    for (int i = 0; i < it->graph->values.n; i++)
        if (it->values[i] && !it->graph->values.item[i]->is_input)
            memset(it->values[i], 0xFF,
                   (size_t)sw_value_bytes(it->graph->values.item[i], it->numbers));
    for (int i = 0; i < it->graph->parameters.n; i++)
        memset(it->gradients[i], 0xFF,
               bytes_of(sw_real_type(it->numbers), it->graph->parameters.item[i]->n_elements));
}

static void *address(const graph_interpreter *it, const sw_operand *operand) {
    switch (operand->kind) {
    case SW_OPERAND_VALUE:
        return (char *)it->values[operand->value->storage->id] +
               bytes_of(type_of_value(it, operand->value), operand->offset);
    case SW_OPERAND_PARAMETER:
        return it->parameters[operand->parameter->id];
    case SW_OPERAND_GRADIENT:
        return it->gradients[operand->parameter->id];
    default:
        return NULL;
    }
}

static void run_op(graph_interpreter *it, const sw_op *op) {
    sw_kernel_call call = {.scratch = it->scratch, .scalars = &it->scalars};
    for (int k = 0; k < op->n_operands; k++) {
        call.operand[k] = address(it, &op->operand[k]);
        call.accumulate |= op->operand[k].access == SW_UPDATE ? 1u << k : 0;
    }
    memcpy(call.dim, op->dim, sizeof call.dim);
    memcpy(call.attribute, op->attribute, sizeof call.attribute);
    sw_device_kernel(it->device, it->numbers, op->kernel)(it->device, &call);
}

/* Element i of what rank r is given of the x of the first n_active of n. */
static double shared_element(double *const *x, const sw_op *op, int r, int64_t i, int n_active) {
    const int64_t n_of_one = op->operand[0].value->n_elements,
                  n_of_slice = op->operand[1].value->n_elements;
    double sum = 0;
    if (op->share == SW_SHARE_GATHER)
        return i / n_of_one < n_active ? x[i / n_of_one][i % n_of_one] : 0;
    for (int s = 0; s < n_active; s++)
        sum += x[s][(op->share == SW_SHARE_SUM_SLICE ? r * n_of_slice : 0) + i];
    return sum;
}

static void share(graph_interpreter *its, int place, int n_active) {
    enum { MOST = 8 };
    double *x[MOST];
    for (int r = 0; r < n_active; r++) { /* y may lie over x */
        const sw_operand *operand = &its[r].graph->ops.item[place]->operand[0];
        size_t bytes = bytes_of(SW_F64, operand->value->n_elements);
        x[r] = memcpy(take(bytes), address(&its[r], operand), bytes);
    }
    for (int r = 0; r < n_active; r++) {
        const sw_op *op = its[r].graph->ops.item[place];
        double *y = address(&its[r], &op->operand[1]);
        for (int64_t i = 0; i < op->operand[1].value->n_elements; i++)
            y[i] = shared_element(x, op, r, i, n_active);
    }
    for (int r = 0; r < n_active; r++)
        free(x[r]);
}

double graph_interpreter_run_together(graph_interpreter *its, int n, int n_active) {
    double loss = 0;
    for (int r = 0; r < n; r++)
        forget(&its[r]);
    for (int i = 0; i < its->graph->ops.n; i++) {
        if (its->graph->ops.item[i]->is_dropped)
            continue;
        for (int r = 0; r < n_active && !its->graph->ops.item[i]->share; r++)
            run_op(&its[r], its[r].graph->ops.item[i]);
        if (its->graph->ops.item[i]->share)
            share(its, i, n_active);
    }
    const sw_value *port = sw_graph_port(its->graph, SW_PORT_LOSS);
    for (int r = 0; r < n_active && port; r++)
        loss += *(double *)its[r].values[port->id];
    return loss;
}

double graph_interpreter_run(graph_interpreter *it) {
    return graph_interpreter_run_together(it, 1, 1);
}
