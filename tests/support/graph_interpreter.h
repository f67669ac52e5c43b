/* graph_interpreter.h: runs a step graph without sharding, so that graphs can be tested alone.
 *
 * Every value whose storage is its own gets an allocation of its own, parameters and their
 * gradients are plain arrays. Before a run all of them but the parameters and inputs are filled
 * with NaN, so that what an operation should have written and did not is seen.
 */
#ifndef SW_TESTS_SUPPORT_GRAPH_INTERPRETER_H
#define SW_TESTS_SUPPORT_GRAPH_INTERPRETER_H

#include "device/device.h"
#include "graph/graph.h"

typedef struct graph_interpreter {
    sw_graph *graph; /* not owned */
    const sw_device *device;
    sw_number_kind numbers;
    void **values;     /* [n_values] by storage id: NULL where storage is another's */
    void **parameters; /* [n_parameters] */
    void **gradients;  /* [n_parameters] */
    void *scratch;
    sw_scalars scalars;
} graph_interpreter;

/* Ownership: graph_interpreter_free; the graph and the device must outlive it. Fails the test when
 * memory is short. */
graph_interpreter graph_interpreter_create(sw_graph *graph, const sw_device *device,
                                           sw_number_kind numbers);
void graph_interpreter_free(graph_interpreter *it);

/* Deterministic numbers for a start: normal-looking, of deviation `deviation` around 0, or around 1
 * for norm weights (SW_INIT_ONES). They follow the parameter's name and index, so that two graphs
 * of one model get the same. */
void graph_interpreter_fill_parameters(graph_interpreter *it, double deviation);

void graph_interpreter_set_inputs(graph_interpreter *it, const int32_t *tokens,
                                  const int32_t *targets);

/* Where each token's document begins in its row, [n_rows * n_tokens]; all zero until it is set.
 * Nothing if the graph does not ask. */
void graph_interpreter_set_documents(graph_interpreter *it, const int32_t *documents);

/* Run all operations; returns the loss (0 without one). */
double graph_interpreter_run(graph_interpreter *it);

/* The same as the n ranks of an axis, operation by operation: what they share goes from one to the
 * others. Only the first n_active have a micro-batch. Returns the sum of their losses. In doubles
 * alone. */
double graph_interpreter_run_together(graph_interpreter *its, int n, int n_active);

/* Element i of a parameter, a gradient, a value, as double. */
double graph_interpreter_parameter(const graph_interpreter *it, int parameter, int64_t i);
void graph_interpreter_set_parameter(graph_interpreter *it, int parameter, int64_t i, double x);
double graph_interpreter_gradient(const graph_interpreter *it, int parameter, int64_t i);
double graph_interpreter_value(const graph_interpreter *it, const sw_value *value, int64_t i);

/* A number in [0, 1) from a seed and an index. */
double graph_interpreter_uniform(uint64_t seed, uint64_t index);

#endif
