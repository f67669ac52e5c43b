/* model.c: the table of architectures, and what they share. */
#include "model/architectures.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "graph/graph.h"

static const struct {
    const char *name;
    void (*record)(const sw_model_config *config, sw_model_end end, sw_graph *graph);
} ARCHITECTURES[SW_N_ARCHITECTURES] = {
    [SW_LLAMA] = {"llama", sw_llama_record},     [SW_GPT2] = {"gpt2", sw_gpt2_record},
    [SW_MISTRAL] = {"mistral", sw_llama_record}, [SW_QWEN2] = {"qwen2", sw_llama_record},
    [SW_QWEN3] = {"qwen3", sw_llama_record},
};

void sw_model_drop(sw_model_config *config, double share) {
    const double beside = config->architecture == SW_GPT2 ? share : 0;
    config->dropout =
        (sw_model_dropout){.embedding = beside, .residual = beside, .attention = share};
}

sw_status sw_model_trace(const sw_model_config *config, sw_model_end end, sw_graph *graph,
                         sw_error *err) {
    if ((unsigned)config->architecture >= SW_N_ARCHITECTURES)
        return sw_fail(err, SW_BUG, "architecture number %d is not in the table",
                       (int)config->architecture);
    if (sw_graph_port(graph, SW_PORT_PLACES) && end != SW_ENDS_IN_LOGITS)
        return sw_fail(err, SW_BUG, "a graph that decodes ends in logits");
    if (graph->units.n)
        return sw_fail(err, SW_BUG, "a model is recorded into an empty graph; this one has unit %s",
                       graph->units.item[0]->name);
    if (sw_graph_positions(graph) > config->max_positions)
        return sw_fail(err, SW_BAD_CONFIG,
                       "data.sequence_length is %" PRId64 ", but this %s model has %" PRId64
                       " positions (max_positions); shorten the sequence",
                       sw_graph_positions(graph), ARCHITECTURES[config->architecture].name,
                       config->max_positions);
    sw_model_config recorded = *config;
    if (sw_model_config_check_training(config, SW_SPELL_HUGGING_FACE, NULL))
        sw_model_drop(&recorded, 0); /* who trains has asked before */
    ARCHITECTURES[config->architecture].record(&recorded, end, graph);
    return sw_graph_status(graph, err);
}

sw_parameter *sw_declare(sw_graph *graph, sw_unit *unit, sw_declaration declaration,
                         const char *format, ...) {
    char name[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return sw_parameter_declare(graph, unit, name, declaration.n_dimensions, declaration.dimension,
                                declaration.initializer, declaration.std);
}

void sw_record_end(sw_model_end end, sw_graph *graph, sw_value *x, sw_parameter *head) {
    if (end == SW_ENDS_IN_LOSS)
        sw_cross_entropy(graph, x, head, sw_targets(graph));
    else
        sw_logits_at_position(graph, x, head);
}
