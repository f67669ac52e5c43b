/* small_models.h: models small enough to be run whole in a test, in every shape that differs. */
#ifndef SW_TESTS_SUPPORT_SMALL_MODELS_H
#define SW_TESTS_SUPPORT_SMALL_MODELS_H

#include "model/model.h"

enum {
    N_SMALL_MODELS = 11,
    SMALL_MODEL_ROWS = 2,
    SMALL_MODEL_TOKENS = 6,
    SMALL_MODEL_VOCABULARY = 13
};

/* Llama untied with as many key/value heads as heads, tied with grouped queries, tied with one
 * key/value head and dropout; GPT-2 tied, untied, and with dropout; a Mistral with a span, linear
 * rotary scaling and every bias that is; a Qwen3 with norms of queries and keys, a span above its
 * first layer, and YaRN; a Qwen2 whose rows hold documents; a GPT-2 with another activation and
 * scaling of scores whose rows hold documents; a Qwen3 with the full mask, a span, documents and
 * dropout. */
extern const sw_model_config SMALL_MODELS[N_SMALL_MODELS];
extern const char *const SMALL_MODEL_NAMES[N_SMALL_MODELS];

/* A graph_recorder: `about` is a sw_model_config. */
void small_model_record(sw_graph *graph, const void *about);

#endif
