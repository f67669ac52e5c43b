/* test_families.c: every family and flag against `transformers` in 64-bit (make_families.py):
 * losses, gradients, rotary frequencies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "device/cpu/open.h"
#include "model/model.h"
#include "support/gradient_check.h"

static sw_device *device;
static json_t *families;

static int open_all(void **state) {
    (void)state;
    sw_error err = {0};
    families = json_load_file(SW_SOURCE_FOLDER "/tests/model/families.json", 0, NULL);
    return !families || sw_cpu_open(&(sw_cpu_options){.set = sw_kernel_set_best()}, &device, &err);
}

static int close_all(void **state) {
    (void)state;
    json_decref(families);
    device->close(device);
    return 0;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_non_null(value);
    return json_number_value(value);
}

static sw_model_config parse(const char *name, const json_t *object) {
    sw_model_config config = {0};
    sw_error err = {0};
    char *text = json_dumps(object, 0);
    assert_non_null(text);
    if (sw_model_config_parse(name, text, (int64_t)strlen(text), &config, &err))
        fail_msg("%s", err.message);
    free(text);
    return config;
}

/* What config.json turns into when the model is saved and read again. */
static sw_model_config written_and_read(const char *name, const sw_model_config *config) {
    sw_model_config back = {0};
    sw_error err = {0};
    char *text;
    if (sw_model_config_write(config, SW_F32, &text, &err) ||
        sw_model_config_parse(name, text, (int64_t)strlen(text), &back, &err))
        fail_msg("%s: %s", name, err.message);
    free(text);
    return back;
}

static void assert_near(const char *model, const char *what, double got, double expected,
                        double scale) {
    if (!(fabs(got - expected) <= 1e-9 * scale))
        fail_msg("%s, %s: %.15g, expected %.15g", model, what, got, expected);
}

static void record(sw_graph *graph, const void *about) {
    sw_model_trace(about, SW_ENDS_IN_LOSS, graph, NULL); /* the graph keeps the error */
}

static void check_model(const json_t *model, const sw_model_config *config) {
    const char *name = json_string_value(json_object_get(model, "name"));
    const gradient_check check = {.record = record,
                                  .about = config,
                                  .n_rows = (int64_t)number(families, "rows"),
                                  .n_tokens = (int64_t)number(families, "tokens"),
                                  .n_vocabulary = config->vocabulary,
                                  .recompute = RECOMPUTE_SELECTIVELY,
                                  .reuse_in_place = true};
    sw_graph *graph = gradient_check_graph(&check, true);
    graph_interpreter it = graph_interpreter_create(graph, device, SW_NUMBERS_F64);
    int32_t tokens[64], targets[64];
    gradient_check_inputs(&check, tokens, targets);
    graph_interpreter_set_inputs(&it, tokens, targets);
    graph_interpreter_fill_parameters(&it, number(families, "deviation"));
    double loss = graph_interpreter_run(&it), expected_loss = number(model, "loss");
    assert_near(name, "loss", loss, expected_loss, expected_loss);
    const json_t *gradients = json_object_get(model, "gradients");
    assert_int_equal(json_object_size(gradients), graph->parameters.n);
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        const json_t *expected = json_object_get(gradients, parameter->name);
        if (!expected)
            fail_msg("%s has no %s", name, parameter->name);
        double norm = json_number_value(json_array_get(expected, 0)), square = 0, sum = 0;
        for (int64_t k = 0; k < parameter->n_elements; k++) {
            square += graph_interpreter_gradient(&it, p, k) * graph_interpreter_gradient(&it, p, k);
            sum += graph_interpreter_gradient(&it, p, k);
        }
        assert_near(name, parameter->name, sqrt(square), norm, norm);
        assert_near(name, parameter->name, sum, json_number_value(json_array_get(expected, 1)),
                    norm * sqrt((double)parameter->n_elements));
    }
    graph_interpreter_free(&it);
    sw_graph_free(graph);
}

static void every_family_and_flag_is_that_of_transformers(void **state) {
    (void)state;
    const json_t *models = json_object_get(families, "models");
    assert_true(json_array_size(models) > 30);
    for (size_t i = 0; i < json_array_size(models); i++) {
        const json_t *model = json_array_get(models, i);
        const char *name = json_string_value(json_object_get(model, "name"));
        const sw_model_config config = parse(name, json_object_get(model, "config"));
        check_model(model, &config);
        const sw_model_config back = written_and_read(name, &config);
        check_model(model, &back);
    }
}

/* Radians per token of pair i, and the amplitude, as the table of the kernel has them at the second
 * position. */
static void table_of(const sw_rotary_scaling *scaling, int64_t head_channels, double *frequency,
                     double *amplitude) {
    double table[2 * 256 * 2];
    sw_kernel_call call = {.operand = {table},
                           .dim = {2, head_channels, scaling->ramp},
                           .attribute = {scaling->theta, scaling->factor, scaling->from,
                                         scaling->to, scaling->amplitude}};
    assert_true(head_channels <= 512);
    sw_device_kernel(device, SW_NUMBERS_F64, SW_KERNEL_ROTARY_TABLE)(device, &call);
    for (int64_t i = 0; i < head_channels / 2; i++) {
        const double *turned = table + head_channels + 2 * i;
        frequency[i] = atan2(turned[1], turned[0]);
        amplitude[i] = hypot(turned[0], turned[1]);
    }
}

static void rotary_scalings_are_those_of_transformers(void **state) {
    (void)state;
    const json_t *scalings = json_object_get(families, "scalings");
    assert_true(json_array_size(scalings) >= 9);
    for (size_t i = 0; i < json_array_size(scalings); i++) {
        const json_t *scaling = json_array_get(scalings, i),
                     *expected = json_object_get(scaling, "frequencies");
        sw_model_config c = {0};
        json_t *config = json_pack(
            "{s:s,s:i,s:i,s:i,s:i,s:i,s:O,s:O,s:O,s:O}", "model_type", "llama", "hidden_size", 8,
            "num_hidden_layers", 1, "num_attention_heads", 1, "intermediate_size", 8, "vocab_size",
            9, "head_dim", json_object_get(scaling, "head_dim"), "rope_theta",
            json_object_get(scaling, "rope_theta"), "max_position_embeddings",
            json_object_get(scaling, "max_position_embeddings"), "rope_scaling",
            json_object_get(scaling, "rope_scaling"));
        assert_non_null(config);
        c = parse("scaling", config);
        json_decref(config);
        double frequency[256], amplitude[256];
        const sw_rotary_scaling rotary = sw_model_rotary(&c);
        table_of(&rotary, c.head_channels, frequency, amplitude);
        assert_int_equal(json_array_size(expected), c.head_channels / 2);
        for (int64_t k = 0; k < c.head_channels / 2; k++) {
            const double f = json_number_value(json_array_get(expected, (size_t)k));
            assert_near("frequency",
                        json_string_value(
                            json_object_get(json_object_get(scaling, "rope_scaling"), "rope_type")),
                        frequency[k], f, f);
            assert_near("amplitude", "of a pair", amplitude[k], number(scaling, "amplitude"), 1);
        }
    }
}

/* An explicit attention factor wins; else the ratio of both mscale fields if neither is zero; else
 * 0.1 ln(factor) + 1. */
static void yarn_takes_its_amplitude_from_the_right_fields(void **state) {
    (void)state;
    static const struct {
        double factor, attention_factor, mscale, mscale_all, expected;
    } cases[] = {
        {16, 0, 0, 0, 1.277259}, {64, 0, 0, 0, 1.415888},  {64, 1, 0, 0, 1},
        {16, 0, 1, 1, 1},        {40, 0, 0.707, 0.707, 1}, {16, 0, 1, 0.5, 1.121751},
        {16, 0, 1, 0, 1.277259}, {0.5, 0, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_model_config c = {.head_channels = 128,
                                   .rope_theta = 10000,
                                   .rope = {.type = SW_ROPE_YARN,
                                            .factor = cases[i].factor,
                                            .original_positions = 4096,
                                            .beta_fast = 32,
                                            .beta_slow = 1,
                                            .attention_factor = cases[i].attention_factor,
                                            .mscale = cases[i].mscale,
                                            .mscale_all = cases[i].mscale_all}};
        assert_true(fabs(sw_model_rotary(&c).amplitude - cases[i].expected) < 5e-7);
    }
}

/* High frequencies stay, low ones are divided, those between blend. */
static void llama3_scales_pair_by_pair(void **state) {
    (void)state;
    static const double between[] = {0.828168, 0.643743, 0.493507,
                                     0.371122, 0.271425, 0.190211}; /* pairs 29 .. 34 */
    const sw_model_config c = {.head_channels = 128,
                               .rope_theta = 500000,
                               .rope = {.type = SW_ROPE_LLAMA3,
                                        .factor = 8,
                                        .original_positions = 8192,
                                        .low_factor = 1,
                                        .high_factor = 4}};
    double frequency[64], amplitude[64];
    const sw_rotary_scaling rotary = sw_model_rotary(&c);
    table_of(&rotary, 128, frequency, amplitude);
    for (int i = 0; i < 64; i++) {
        const double ratio = frequency[i] / pow(500000, -2.0 * i / 128);
        assert_true(fabs(ratio - (i < 29 ? 1 : i > 34 ? 0.125 : between[i - 29])) < 5e-7);
        assert_true(fabs(amplitude[i] - 1) < 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_and_flag_is_that_of_transformers),
        cmocka_unit_test(rotary_scalings_are_those_of_transformers),
        cmocka_unit_test(yarn_takes_its_amplitude_from_the_right_fields),
        cmocka_unit_test(llama3_scales_pair_by_pair),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
