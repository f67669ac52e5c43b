/* compile.c: the passes in their order: over the graph, then to the program. */
#include "shard/compile.h"

#include <stdlib.h>

sw_status sw_compiled_create(const sw_sharding *sharding, sw_compiled **compiled, sw_error *err) {
    *compiled = calloc(1, sizeof **compiled);
    if (!*compiled)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the program of a step");
    (*compiled)->sharding = *sharding;
    return SW_OK;
}

void sw_compiled_free(sw_compiled *c) {
    if (!c)
        return;
    for (int i = 0; i < c->n_programs; i++) {
        if (c->programs[i])
            sw_program_free(c->programs[i]);
        free(c->programs[i]);
        sw_graph_free(c->graphs[i]);
    }
    sw_states_free(&c->states);
    sw_layout_free(&c->layout);
    free(c);
}

/* The graph as it was traced becomes the step graph. */
static sw_status make_step_graph(const sw_sharding *sharding, sw_graph *graph,
                                 sw_compile_purpose purpose, sw_error *err) {
    if (purpose == SW_COMPILE_UPDATE) {
        graph->is_differentiated = true;
        return SW_OK;
    }
    bool is_training = purpose == SW_COMPILE_TRAINING;
    sw_status status = is_training ? SW_OK : sw_graph_without_dropout(graph, err);
    if (!status)
        status = sw_graph_join_products(graph, err);
    if (!status && is_training)
        status = sw_graph_differentiate(graph, err);
    if (!status && is_training && sharding->recompute == SW_RECOMPUTE_BLOCK)
        status = sw_graph_recompute_blocks(graph, err);
    if (!status && is_training && sharding->recompute == SW_RECOMPUTE_SELECTIVE)
        status = sw_graph_recompute_selective(graph, sw_sharding_numbers(sharding), err);
    return status ? status : sw_graph_reuse_in_place(graph, err);
}

static sw_status lay_out(sw_compiled *c, const sw_graph *graph, sw_compile_purpose purpose,
                         sw_error *err) {
    const sw_sharding *s = &c->sharding;
    sw_status status =
        sw_layout_create(graph, &s->mesh, s->wrap, sw_sharding_cut(s), &c->layout, err);
    if (!status)
        status = sw_states_create(&c->layout, s, purpose != SW_COMPILE_FORWARD, &c->states, err);
    return status ? status : sw_states_keep(&c->states, graph, err);
}

sw_status sw_compile(sw_compiled *c, sw_graph *graph, sw_compile_purpose purpose,
                     const sw_program **program, sw_error *err) {
    if (c->n_programs == SW_MOST_PROGRAMS) {
        sw_graph_free(graph);
        return sw_fail(err, SW_BUG, "more than %d programs over the same parameters",
                       SW_MOST_PROGRAMS);
    }
    int i = c->n_programs++;
    c->graphs[i] = graph;
    c->programs[i] = calloc(1, sizeof *c->programs[i]);
    if (!c->programs[i])
        return sw_fail(err, SW_NO_MEMORY, "no memory for the program of a step");
    c->readable[i] = c->programs[i];
    sw_status status = make_step_graph(&c->sharding, graph, purpose, err);
    if (!status && i == 0)
        status = lay_out(c, graph, purpose, err);
    if (!status)
        status = sw_program_create(graph, &c->states, c->programs[i], err);
    if (program)
        *program = c->programs[i];
    return status;
}

int64_t sw_compiled_bytes(const sw_compiled *c, int64_t by_class[SW_N_MEMORY_CLASSES]) {
    int64_t end[SW_N_MEMORY_CLASSES] = {0}, bytes[SW_N_MEMORY_CLASSES], sum = 0;
    for (int i = 0; i < c->n_programs; i++)
        for (int k = 0; k < SW_N_MEMORY_CLASSES; k++)
            end[k] = c->programs[i]->class_end[k] > end[k] ? c->programs[i]->class_end[k] : end[k];
    sw_memory_figures(end, by_class ? by_class : bytes);
    for (int k = 0; k < SW_N_MEMORY_CLASSES; k++)
        sum += (by_class ? by_class : bytes)[k];
    return sum;
}
