/* test_trace.c: what the builders record: parameters as in Hugging Face files, units,
 * initialisation, both ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/open.h"
#include "formats/safetensors.h"
#include "graph/graph.h"
#include "model/model.h"
#include "support/graph_interpreter.h"
#include "support/small_models.h"

static sw_graph *trace(const sw_model_config *config, sw_model_end end) {
    sw_graph *graph;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(SMALL_MODEL_ROWS, SMALL_MODEL_TOKENS, &graph, &err), SW_OK);
    if (sw_model_trace(config, end, graph, &err))
        fail_msg("%s", err.message);
    return graph;
}

static const sw_parameter *find(const sw_graph *graph, const char *name) {
    for (int i = 0; i < graph->parameters.n; i++)
        if (!strcmp(graph->parameters.item[i]->name, name))
            return graph->parameters.item[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* Names and shapes are those of files that `transformers` wrote; nothing is missing and nothing
 * surplus. */
static void parameters_are_those_of_the_files(void **state) {
    (void)state;
    static const char *const cases[] = {"llama-untied",   "llama-tied", "gpt2",
                                        "llama-schedule", "qwen2",      "mistral-window"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        sw_model_config config;
        sw_safetensors *file;
        sw_error err = {0};
        snprintf(path, sizeof path, "%s/tests/golden/%s/model", SW_SOURCE_FOLDER, cases[i]);
        assert_int_equal(sw_model_config_read(path, &config, &err), SW_OK);
        snprintf(path, sizeof path, "%s/tests/golden/%s/model/model.safetensors", SW_SOURCE_FOLDER,
                 cases[i]);
        assert_int_equal(sw_safetensors_open(path, &file, &err), SW_OK);
        sw_graph *graph = trace(&config, SW_ENDS_IN_LOSS);
        assert_int_equal(sw_safetensors_count(file), graph->parameters.n);
        for (int64_t k = 0; k < sw_safetensors_count(file); k++) {
            const sw_tensor_entry *tensor = sw_safetensors_at(file, k);
            const sw_parameter *p = find(graph, tensor->name);
            assert_int_equal(p->n_dimensions, tensor->n_dimensions);
            assert_memory_equal(p->dimension, tensor->dimension,
                                (size_t)p->n_dimensions * sizeof(int64_t));
        }
        sw_graph_free(graph);
        sw_safetensors_close(file);
    }
}

/* One unit per block, and the root for what encloses them: embedding, positions, final norm,
 * head. */
static void each_block_is_a_unit_and_the_rest_is_the_roots(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        const sw_model_config *config = &SMALL_MODELS[model];
        sw_graph *graph = trace(config, SW_ENDS_IN_LOSS);
        const char *prefix = config->architecture != SW_GPT2 ? "layers." : "h.";
        assert_int_equal(graph->units.n, 1 + config->layers);
        assert_string_equal(graph->units.item[0]->name, "root");
        for (int u = 1; u < graph->units.n; u++) {
            char name[32];
            snprintf(name, sizeof name, "%s%d", prefix, u - 1);
            assert_string_equal(graph->units.item[u]->name, name);
            assert_ptr_equal(graph->units.item[u]->parent, graph->units.item[0]);
        }
        for (int i = 0; i < graph->parameters.n; i++) {
            const sw_parameter *p = graph->parameters.item[i];
            char marked[64];
            snprintf(marked, sizeof marked, ".%s.", p->unit->name);
            if (p->unit->parent)
                assert_non_null(strstr(p->name, marked));
            else
                assert_null(strstr(p->name, config->architecture != SW_GPT2 ? ".layers." : ".h."));
        }
        sw_graph_free(graph);
    }
}

static void a_tied_head_is_the_embedding_and_no_parameter_of_its_own(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        sw_graph *graph = trace(&SMALL_MODELS[model], SW_ENDS_IN_LOSS);
        const sw_parameter *head =
            sw_graph_port(graph, SW_PORT_LOSS)->producer->operand[1].parameter;
        const char *embedding = SMALL_MODELS[model].architecture != SW_GPT2
                                    ? "model.embed_tokens.weight"
                                    : "transformer.wte.weight";
        assert_string_equal(head->name, SMALL_MODELS[model].tied ? embedding : "lm_head.weight");
        sw_graph_free(graph);
    }
}

static void norms_start_at_one_biases_at_zero_matrices_normal(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        const sw_model_config *config = &SMALL_MODELS[model];
        sw_graph *graph = trace(config, SW_ENDS_IN_LOSS);
        for (int i = 0; i < graph->parameters.n; i++) {
            const sw_parameter *p = graph->parameters.item[i];
            bool is_bias = strstr(p->name, ".bias"), is_residual = strstr(p->name, "c_proj");
            assert_int_equal(p->initializer, p->n_dimensions == 2 ? SW_INIT_NORMAL
                                             : is_bias            ? SW_INIT_ZEROS
                                                                  : SW_INIT_ONES);
            if (p->n_dimensions ==
                2) /* GPT-2 scales the projections into the residual stream by 1 / sqrt(2 layers) */
                assert_true(p->std == (is_residual
                                           ? config->init_std / sqrt(2.0 * (double)config->layers)
                                           : config->init_std));
        }
        sw_graph_free(graph);
    }
}

static int count(const sw_graph *graph, sw_kernel kernel) {
    int n = 0;
    for (int i = 0; i < graph->ops.n; i++)
        n += graph->ops.item[i]->kernel == kernel;
    return n;
}

/* Of GPT-2 on the embedding, on attention's output, on the MLP's output; of all on attention's
 * weights. With probability 0, nothing is recorded. */
static void dropout_is_recorded_where_it_is_asked_for(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++)
        for (int all = 0; all < 2; all++) {
            sw_model_config config = SMALL_MODELS[model];
            if (all)
                sw_model_drop(&config, 0.25);
            const sw_model_dropout *d = &config.dropout;
            assert_true(config.architecture == SW_GPT2 || (d->embedding == 0 && d->residual == 0));
            assert_true(!all || (d->attention == 0.25 &&
                                 (config.architecture != SW_GPT2 || d->embedding == 0.25)));
            sw_graph *graph = trace(&config, SW_ENDS_IN_LOSS);
            assert_int_equal(count(graph, SW_KERNEL_DROPOUT),
                             (d->embedding > 0) + (d->residual > 0 ? 2 * config.layers : 0));
            for (int i = 0; i < graph->ops.n; i++)
                if (graph->ops.item[i]->kernel == SW_KERNEL_ATTENTION)
                    assert_true(graph->ops.item[i]->attribute[1] == d->attention);
            sw_graph_free(graph);
        }
}

/* Logits at a position are those from which the loss takes that position's part: -log
 * softmax(logits)[target]. */
static void logits_at_a_position_agree_with_the_loss(void **state) {
    (void)state;
    sw_device *device;
    sw_error err = {0};
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE}, &device, &err), SW_OK);
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        sw_model_config config = SMALL_MODELS[model];
        sw_model_drop(&config, 0);
        sw_graph *with_loss = trace(&config, SW_ENDS_IN_LOSS),
                 *with_logits = trace(&config, SW_ENDS_IN_LOGITS);
        assert_null(sw_graph_port(with_loss, SW_PORT_LOGITS));
        assert_null(sw_graph_port(with_logits, SW_PORT_LOSS));
        assert_true(sw_graph_port(with_logits, SW_PORT_LOGITS)->is_output &&
                    sw_graph_port(with_loss, SW_PORT_LOSS)->is_output);
        assert_int_equal(sw_graph_reuse_in_place(with_logits, &err), SW_OK);
        graph_interpreter a = graph_interpreter_create(with_loss, device, SW_NUMBERS_F64);
        graph_interpreter b = graph_interpreter_create(with_logits, device, SW_NUMBERS_F64);
        enum { N = SMALL_MODEL_ROWS * SMALL_MODEL_TOKENS, POSITION = 4, TARGET = 3 };
        int32_t tokens[N], targets[N];
        for (int i = 0; i < N; i++) {
            tokens[i] = (7 * i + 2) % SMALL_MODEL_VOCABULARY;
            targets[i] = i == SMALL_MODEL_TOKENS + POSITION ? TARGET : -1; /* of the second row */
        }
        b.scalars.position = POSITION;
        graph_interpreter_set_inputs(&a, tokens, targets);
        graph_interpreter_set_inputs(&b, tokens, targets);
        graph_interpreter_fill_parameters(&a, 0.4);
        graph_interpreter_fill_parameters(&b, 0.4);
        double loss = graph_interpreter_run(&a), sum = 0;
        graph_interpreter_run(&b);
        for (int v = 0; v < SMALL_MODEL_VOCABULARY; v++)
            sum += exp(graph_interpreter_value(&b, sw_graph_port(with_logits, SW_PORT_LOGITS),
                                               SMALL_MODEL_VOCABULARY + v));
        double expected =
            log(sum) - graph_interpreter_value(&b, sw_graph_port(with_logits, SW_PORT_LOGITS),
                                               SMALL_MODEL_VOCABULARY + TARGET);
        assert_true(fabs(loss - expected) < 1e-12 * expected);
        graph_interpreter_free(&a);
        graph_interpreter_free(&b);
        sw_graph_free(with_loss);
        sw_graph_free(with_logits);
    }
    device->close(device);
}

static void a_row_longer_than_max_positions_is_refused(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        sw_graph *graph;
        sw_error err = {0};
        assert_int_equal(sw_graph_create(1, SMALL_MODELS[model].max_positions + 1, &graph, &err),
                         SW_OK);
        assert_int_equal(sw_model_trace(&SMALL_MODELS[model], SW_ENDS_IN_LOSS, graph, &err),
                         SW_BAD_CONFIG);
        assert_non_null(strstr(err.message, "sequence_length is 10"));
        assert_non_null(strstr(err.message, "9 positions (max_positions)"));
        sw_graph_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_of_the_files),
        cmocka_unit_test(each_block_is_a_unit_and_the_rest_is_the_roots),
        cmocka_unit_test(a_tied_head_is_the_embedding_and_no_parameter_of_its_own),
        cmocka_unit_test(norms_start_at_one_biases_at_zero_matrices_normal),
        cmocka_unit_test(dropout_is_recorded_where_it_is_asked_for),
        cmocka_unit_test(logits_at_a_position_agree_with_the_loss),
        cmocka_unit_test(a_row_longer_than_max_positions_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
