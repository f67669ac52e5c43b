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
        const sw_mesh mesh = sw_mesh_flat(check->n_ranks ? check->n_ranks : 1);
        sw_graph_spread(graph, &mesh);
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

/* Ranks, one after another: with gradients, and without. */
typedef struct ranks {
    int n, n_active;
    graph_interpreter step[GRADIENT_CHECK_RANKS], forward[GRADIENT_CHECK_RANKS];
} ranks;

static double loss_beside(ranks *r, int parameter, int direction, double distance) {
    int64_t n = r->step->graph->parameters.item[parameter]->n_elements;
    for (int64_t k = 0; k < n; k++)
        for (int i = 0; i < r->n; i++)
            graph_interpreter_set_parameter(&r->forward[i], parameter, k,
                                            graph_interpreter_parameter(r->step, parameter, k) +
                                                distance * along(direction, k, n));
    return graph_interpreter_run_together(r->forward, r->n, r->n_active);
}

static void check_parameter(const gradient_check *check, ranks *r, int parameter) {
    const sw_parameter *p = r->step->graph->parameters.item[parameter];
    for (int direction = 0; direction < N_DENSE + N_SINGLE; direction++) {
        double expected = (loss_beside(r, parameter, direction, STEP) -
                           loss_beside(r, parameter, direction, -STEP)) /
                          (2 * STEP) * LOSS_SCALE;
        double got = 0, square = 0;
        for (int64_t k = 0; k < p->n_elements; k++) {
            double gradient = 0;
            for (int i = 0; i < r->n_active; i++)
                gradient += graph_interpreter_gradient(&r->step[i], parameter, k);
            got += gradient * along(direction, k, p->n_elements);
            square += gradient * gradient;
        }
        if (!(fabs(got - expected) <= 2e-6 * (1e-2 + sqrt(square))))
            fail_msg("%s, seed %d: %s, direction %d: gradient %.12g, central difference %.12g "
                     "(norm %.6g)",
                     check->label ? check->label : "graph", (int)check->seed, p->name, direction,
                     got, expected, sqrt(square));
    }
    loss_beside(r, parameter, 0, 0);
}

static void begin_rank(const gradient_check *check, const sw_device *device, int rank, bool is_step,
                       const int32_t *tokens, const int32_t *targets, const int32_t *documents,
                       graph_interpreter *it) {
    const int64_t first = rank * check->n_rows * check->n_tokens;
    *it = graph_interpreter_create(gradient_check_graph(check, is_step), device, SW_NUMBERS_F64);
    graph_interpreter_set_inputs(it, tokens + first, targets + first);
    graph_interpreter_set_documents(it, documents + first);
    graph_interpreter_fill_parameters(it, check->deviation);
    if (is_step)
        it->scalars.loss_scale = LOSS_SCALE;
}

void gradient_check_run(const sw_device *device, const gradient_check *check) {
    const int n = check->n_ranks ? check->n_ranks : 1;
    ranks r = {.n = n, .n_active = n - check->n_idle};
    gradient_check of_all = *check;
    of_all.n_rows *= n;
    const size_t n_positions = (size_t)(of_all.n_rows * check->n_tokens);
    int32_t *tokens = calloc(n_positions, sizeof *tokens),
            *targets = calloc(n_positions, sizeof *targets),
            *documents = calloc(n_positions, sizeof *documents);
    gradient_check_inputs(&of_all, tokens, targets);
    gradient_check_documents(&of_all, documents);
    for (int i = 0; i < n; i++) {
        begin_rank(check, device, i, true, tokens, targets, documents, &r.step[i]);
        begin_rank(check, device, i, false, tokens, targets, documents, &r.forward[i]);
    }
    double loss = graph_interpreter_run_together(r.step, n, r.n_active);
    assert_true(isfinite(loss) && loss > 0);
    assert_true(fabs(loss - graph_interpreter_run_together(r.forward, n, r.n_active)) <=
                1e-12 * loss);
    for (int i = 0; i < r.step->graph->parameters.n; i++)
        if (r.step->graph->parameters.item[i]->is_trainable)
            check_parameter(check, &r, i);
    free(tokens);
    free(targets);
    free(documents);
    for (int i = 0; i < 2 * n; i++) {
        graph_interpreter *it = i < n ? &r.step[i] : &r.forward[i - n];
        sw_graph *graph = it->graph;
        graph_interpreter_free(it);
        sw_graph_free(graph);
    }
}
