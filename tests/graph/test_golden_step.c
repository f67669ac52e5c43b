/* test_golden_step.c: loss and gradients of a golden case's first step against PyTorch in 64-bit
 * (tests/golden/README.md), with every kernel set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cpu/open.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "support/graph_interpreter.h"

/* A case's rows: batch_size, micro_batch_size and sequence_length of its run.yaml. */
typedef struct golden_case {
    const char *name;
    int64_t n_rows, n_rows_at_once, n_tokens;
    bool is_packed; /* rows hold pieces of the documents whose lengths documents.npy has */
} golden_case;

static const golden_case CASES[] = {
    {"llama-untied", 8, 2, 64, false},    {"llama-tied", 12, 1, 64, false},
    {"gpt2", 12, 1, 64, false},           {"qwen2", 12, 3, 48, false},
    {"mistral-window", 12, 2, 64, false}, {"packed", 12, 2, 64, true},
    {"packed-gpt2", 24, 4, 32, true},
};

static void path_of(const golden_case *golden, const char *file, char path[512]) {
    snprintf(path, 512, "%s/tests/golden/%s/%s", SW_SOURCE_FOLDER, golden->name, file);
}

/* The first n elements of an .npy file, version 1.0 and of one dimension: uint16 tokens, uint32
 * documents. */
static void *read_array(const golden_case *golden, const char *name, int64_t n,
                        size_t element_bytes) {
    char path[512];
    path_of(golden, name, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char start[10];
    assert_int_equal(fread(start, 1, sizeof start, file), sizeof start);
    assert_int_equal(fseek(file, 10 + start[8] + 256 * start[9], SEEK_SET), 0);
    void *elements = malloc((size_t)n * element_bytes);
    assert_int_equal(fread(elements, element_bytes, (size_t)n, file), n);
    fclose(file);
    return elements;
}

/* Of n tokens of the stream, where the document of each begins. */
static int64_t *read_documents(const golden_case *golden, int64_t n) {
    int64_t *begins = calloc((size_t)n, sizeof *begins);
    int64_t first = 0;
    for (int64_t document = 0; golden->is_packed && first < n; document++) {
        uint32_t *lengths = read_array(golden, "documents.npy", document + 1, sizeof *lengths);
        for (int64_t i = first; i < first + lengths[document] && i < n; i++)
            begins[i] = first;
        first += lengths[document];
        free(lengths);
    }
    return begins;
}

static void read_weights(const golden_case *golden, graph_interpreter *it) {
    char path[512];
    path_of(golden, "model/model.safetensors", path);
    sw_safetensors *file;
    sw_error err = {0};
    assert_int_equal(sw_safetensors_open(path, &file, &err), SW_OK);
    assert_int_equal(sw_safetensors_count(file), it->graph->parameters.n);
    for (int i = 0; i < it->graph->parameters.n; i++) {
        const sw_parameter *p = it->graph->parameters.item[i];
        const sw_tensor_entry *tensor = sw_safetensors_find(file, p->name);
        assert_non_null(tensor);
        assert_int_equal(tensor->n_dimensions, p->n_dimensions);
        assert_memory_equal(tensor->dimension, p->dimension,
                            (size_t)p->n_dimensions * sizeof(int64_t));
        float *weights = malloc((size_t)p->n_elements * sizeof *weights);
        assert_int_equal(sw_safetensors_read(file, tensor, 0, p->n_elements, weights, &err), SW_OK);
        for (int64_t k = 0; k < p->n_elements; k++)
            graph_interpreter_set_parameter(it, i, k, (double)weights[k]);
        free(weights);
    }
    sw_safetensors_close(file);
}

static sw_graph *step_graph(const golden_case *golden) {
    char path[512];
    path_of(golden, "model", path);
    sw_model_config config;
    sw_graph *graph;
    sw_error err = {0};
    assert_int_equal(sw_model_config_read(path, &config, &err), SW_OK);
    config.keeps_documents_apart = golden->is_packed;
    assert_int_equal(sw_graph_create(golden->n_rows_at_once, golden->n_tokens, &graph, &err),
                     SW_OK);
    assert_int_equal(sw_model_trace(&config, SW_ENDS_IN_LOSS, graph, &err), SW_OK);
    assert_int_equal(sw_graph_join_products(graph, &err), SW_OK);
    assert_int_equal(sw_graph_differentiate(graph, &err), SW_OK);
    assert_int_equal(sw_graph_recompute_blocks(graph, &err), SW_OK);
    assert_int_equal(sw_graph_reuse_in_place(graph, &err), SW_OK);
    return graph;
}

/* The loss of the step; `gradient` [n_parameters][n_elements] gets the sum over its
 * micro-batches. */
static double run_step(const golden_case *golden, graph_interpreter *it, double n_supervised,
                       double **gradient) {
    const int64_t n = golden->n_rows_at_once * golden->n_tokens,
                  n_step = golden->n_rows * golden->n_tokens;
    uint16_t *stream = read_array(golden, "tokens.npy", n_step + 1, sizeof *stream);
    int64_t *begins = read_documents(golden, n_step + 1);
    int32_t *tokens = malloc((size_t)n * sizeof *tokens),
            *targets = malloc((size_t)n * sizeof *targets);
    int32_t *documents = malloc((size_t)n * sizeof *documents);
    double loss = 0;
    it->scalars.loss_scale = 1.0 / n_supervised;
    for (int64_t first = 0; first < n_step; first += n) {
        for (int64_t i = 0; i < n; i++) {
            tokens[i] = stream[first + i];
            const bool begins_a_document =
                golden->is_packed && begins[first + i + 1] == first + i + 1;
            targets[i] = begins_a_document ? -1 : stream[first + i + 1];
            const int64_t row = first + i - i % golden->n_tokens, begin = begins[first + i];
            documents[i] = (int32_t)(begin > row ? begin - row : 0);
        }
        graph_interpreter_set_inputs(it, tokens, targets);
        graph_interpreter_set_documents(it, documents);
        loss += graph_interpreter_run(it);
        for (int p = 0; p < it->graph->parameters.n; p++)
            for (int64_t k = 0; k < it->graph->parameters.item[p]->n_elements; k++)
                gradient[p][k] += graph_interpreter_gradient(it, p, k);
    }
    free(stream);
    free(begins);
    free(documents);
    free(tokens);
    free(targets);
    return loss / n_supervised;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_non_null(value);
    return json_number_value(value);
}

static void assert_near(double got, double expected, double tolerance, double scale,
                        const char *what) {
    if (!(fabs(got - expected) <= tolerance * scale))
        fail_msg("%s: %.15g, expected %.15g (relative difference %.2g)", what, got, expected,
                 fabs(got - expected) / scale);
}

static void check_case(const sw_device *device, const golden_case *golden, sw_number_kind numbers,
                       double tolerance) {
    char path[512];
    path_of(golden, "expect.json", path);
    json_t *expect = json_load_file(path, 0, NULL), *truth = json_object_get(expect, "fp64");
    json_t *step = json_array_get(json_object_get(truth, "steps"), 0),
           *gradients = json_object_get(truth, "gradients");
    assert_non_null(step);
    sw_graph *graph = step_graph(golden);
    graph_interpreter it = graph_interpreter_create(graph, device, numbers);
    double **gradient = malloc((size_t)graph->parameters.n * sizeof *gradient), all = 0;
    for (int p = 0; p < graph->parameters.n; p++)
        gradient[p] = calloc((size_t)graph->parameters.item[p]->n_elements, sizeof **gradient);
    read_weights(golden, &it);
    assert_near(run_step(golden, &it, number(step, "supervised_tokens"), gradient),
                number(step, "loss"), tolerance, number(step, "loss"), "loss");
    double whole = number(step, "grad_norm");
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        const json_t *expected = json_object_get(gradients, parameter->name);
        double square = 0, sum = 0, norm = number(expected, "norm");
        for (int64_t k = 0; k < parameter->n_elements; k++) {
            square += gradient[p][k] * gradient[p][k];
            sum += gradient[p][k];
        }
        all += square;
        assert_near(sqrt(square), norm, tolerance, norm, parameter->name);
        assert_near(sum, number(expected, "sum"), tolerance,
                    norm * sqrt((double)parameter->n_elements), parameter->name);
        free(gradient[p]);
    }
    assert_near(sqrt(all), whole, tolerance, whole, "grad_norm");
    free(gradient);
    graph_interpreter_free(&it);
    sw_graph_free(graph);
    json_decref(expect);
}

static void first_step_is_pytorchs(void **state) {
    (void)state;
    for (int set = 0; set < SW_N_KERNEL_SETS; set++)
        for (int gemm = SW_GEMM_PLAIN; gemm <= SW_GEMM_OWN; gemm++) {
            const sw_cpu_options options = {.set = (sw_kernel_set)set, .gemm = (sw_gemm_kind)gemm};
            if (!sw_gemm_runs_here(options.gemm, options.set))
                continue;
            sw_device *device;
            sw_error err = {0};
            assert_int_equal(sw_cpu_open(&options, &device, &err), SW_OK);
            for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
                if (gemm == SW_GEMM_PLAIN)
                    check_case(device, &CASES[i], SW_NUMBERS_F64, 1e-9);
                check_case(device, &CASES[i], SW_NUMBERS_F32, 5e-5);
            }
            device->close(device);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_step_is_pytorchs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
