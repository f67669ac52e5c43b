/* gradient_check.c: the gradients of a graph against central differences of its loss, in double. */
#include "support/gradient_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const double LOSS_SCALE = 0.125, STEP = 1e-5;

sw_graph *gradient_check_graph(const gradient_check *check, bool differentiate) {
    sw_graph *graph;
    sw_error err = {0};
    sw_status status = sw_graph_create(check->n_rows, check->n_tokens, &graph, &err);
    if (!status) {
        check->record(graph, check->about);
        status = sw_graph_status(graph, &err);
    }
    if (!status && differentiate && check->joins_products)
        status = sw_graph_join_products(graph, &err);
    if (!status && differentiate)
        status = sw_graph_differentiate(graph, &err);
    if (!status && differentiate && check->recompute == RECOMPUTE_BLOCKS)
        status = sw_graph_recompute_blocks(graph, &err);
    if (!status && differentiate && check->recompute == RECOMPUTE_SELECTIVELY)
        status = sw_graph_recompute_selective(graph, check->numbers, &err);
    if (!status && check->reuse_in_place)
        status = sw_graph_reuse_in_place(graph, &err);
    if (status)
        fail_msg("%s: %s", sw_status_name(status), err.message);
    return graph;
}

void gradient_check_inputs(const gradient_check *check, int32_t *tokens, int32_t *targets) {
    for (int64_t i = 0; i < check->n_rows * check->n_tokens; i++) {
        tokens[i] =
            (int32_t)(graph_interpreter_uniform(11, (uint64_t)i) * (double)check->n_vocabulary);
        targets[i] = i % 5 == 3 ? -1
                                : (int32_t)(graph_interpreter_uniform(13, (uint64_t)i) *
                                            (double)check->n_vocabulary);
    }
}

void gradient_check_documents(const gradient_check *check, int32_t *documents) {
    for (int64_t i = 0; i < check->n_rows * check->n_tokens; i++) {
        const int64_t row = i / check->n_tokens, t = i % check->n_tokens;
        documents[i] = t == 0 || t % 4 == (row + 2) % 4 ? (int32_t)t : documents[i - 1];
    }
}

/* Element k of direction d: uniform in [-1, 1), or, from N_DENSE on, one single element. */
enum { N_DENSE = 2, N_SINGLE = 3 };

static double along(int direction, int64_t k, int64_t n) {
    if (direction < N_DENSE)
        return 2 * graph_interpreter_uniform(17 + (uint64_t)direction, (uint64_t)k) - 1;
    return k == (int64_t)(graph_interpreter_uniform(19, (uint64_t)direction) * (double)n);
}

static double loss_beside(graph_interpreter *forward, const graph_interpreter *step, int parameter,
                          int direction, double distance) {
    int64_t n = forward->graph->parameters.item[parameter]->n_elements;
    for (int64_t k = 0; k < n; k++)
        graph_interpreter_set_parameter(forward, parameter, k,
                                        graph_interpreter_parameter(step, parameter, k) +
                                            distance * along(direction, k, n));
    return graph_interpreter_run(forward);
}

static void check_parameter(const gradient_check *check, graph_interpreter *forward,
                            const graph_interpreter *step, int parameter) {
    const sw_parameter *p = step->graph->parameters.item[parameter];
    for (int direction = 0; direction < N_DENSE + N_SINGLE; direction++) {
        double expected = (loss_beside(forward, step, parameter, direction, STEP) -
                           loss_beside(forward, step, parameter, direction, -STEP)) /
                          (2 * STEP) * LOSS_SCALE;
        double got = 0, square = 0;
        for (int64_t k = 0; k < p->n_elements; k++) {
            double gradient = graph_interpreter_gradient(step, parameter, k);
            got += gradient * along(direction, k, p->n_elements);
            square += gradient * gradient;
        }
        if (!(fabs(got - expected) <= 2e-6 * (1e-2 + sqrt(square))))
            fail_msg("%s, seed %d: %s, direction %d: gradient %.12g, central difference %.12g "
                     "(norm %.6g)",
                     check->label ? check->label : "graph", (int)check->seed, p->name, direction,
                     got, expected, sqrt(square));
    }
    loss_beside(forward, step, parameter, 0, 0);
}

void gradient_check_run(const sw_device *device, const gradient_check *check) {
    sw_graph *step_graph = gradient_check_graph(check, true),
             *forward_graph = gradient_check_graph(check, false);
    graph_interpreter step = graph_interpreter_create(step_graph, device, SW_NUMBERS_F64);
    graph_interpreter forward = graph_interpreter_create(forward_graph, device, SW_NUMBERS_F64);
    int32_t *tokens = calloc((size_t)(check->n_rows * check->n_tokens), sizeof *tokens);
    int32_t *targets = calloc((size_t)(check->n_rows * check->n_tokens), sizeof *targets);
    gradient_check_inputs(check, tokens, targets);
    graph_interpreter_set_inputs(&step, tokens, targets);
    graph_interpreter_set_inputs(&forward, tokens, targets);
    gradient_check_documents(check, targets);
    graph_interpreter_set_documents(&step, targets);
    graph_interpreter_set_documents(&forward, targets);
    graph_interpreter_fill_parameters(&step, check->deviation);
    graph_interpreter_fill_parameters(&forward, check->deviation);
    step.scalars.loss_scale = LOSS_SCALE;
    double loss = graph_interpreter_run(&step);
    assert_true(isfinite(loss) && loss > 0);
    assert_true(fabs(loss - graph_interpreter_run(&forward)) <= 1e-12 * loss);
    for (int i = 0; i < step_graph->parameters.n; i++)
        if (step_graph->parameters.item[i]->is_trainable)
            check_parameter(check, &forward, &step, i);
    free(tokens);
    free(targets);
    graph_interpreter_free(&step);
    graph_interpreter_free(&forward);
    sw_graph_free(step_graph);
    sw_graph_free(forward_graph);
}
