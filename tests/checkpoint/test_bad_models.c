/* test_bad_models.c: model folders that must load and ones that must be refused, with the reason of
 * each. */
#include "bad_files.h"

#include "graph/graph.h"
#include "hf/model_files.h"
#include "model/model.h"

static sw_status load_folder(const char *path, sw_error *err) {
    sw_model_config config;
    sw_graph *graph = NULL;
    sw_status status = sw_model_config_read(path, &config, err);
    if (status == SW_OK)
        status = sw_graph_create(1, 8, &graph, err);
    if (status == SW_OK)
        status = sw_model_trace(&config, SW_ENDS_IN_LOSS, graph, err);
    if (status == SW_OK)
        status = sw_model_files_check(path, &config, graph, err);
    sw_graph_free(graph);
    return status;
}

static void folders_are_accepted_and_refused_as_the_verdicts_say(void **state) {
    (void)state;
    assert_int_equal(check_verdicts("models/", load_folder), 36);
}

/* Every refusal says what is wrong where: these words of it are promised. */
static void refusals_give_the_reason(void **state) {
    (void)state;
    static const char *const reasons[][2] = {
        {"no-config", "holds model.safetensors but no config.json"},
        {"no-weights", "neither model.safetensors nor model.safetensors.index.json"},
        {"config-empty", "config.json: is empty"},
        {"config-list", "holds no JSON object"},
        {"missing-layers", "num_hidden_layers is missing"},
        {"rope-unknown", "only default, linear, dynamic, llama3 or yarn is"},
        {"unknown-model-type", "did you mean llama"},
        {"vocab-mismatch", "model.embed_tokens.weight [11, 8] instead of [12, 8]"},
        {"layers-mismatch", "9 tensors are missing: model.layers.1.input_layernorm.weight"},
        {"layers-mismatch", "and 6 more"},
        {"surplus-tensor",
         "1 tensor is not part of the model: model.layers.0.self_attn.q_proj.bias"},
        {"surplus-layer", "9 tensors are not part of the model"},
        {"transposed-tensor", "mlp.gate_proj.weight [8, 12] instead of [12, 8]"},
        {"rope-unknown", "rope_scaling.rope_type \"spiral\""},
        {"activation-unknown", "hidden_act \"swish9\""},
        {"tied-but-unequal",
         "lm_head.weight differs from model.embed_tokens.weight in 88 of 88 elements, by 0.163"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        char path[512];
        sw_error err = {0};
        snprintf(path, sizeof path, BAD_FILES "models/%s", reasons[i][0]);
        assert_int_equal(load_folder(path, &err), SW_BAD_FILE);
        if (!strstr(err.message, reasons[i][1]))
            fail_msg("expected \"%s\" in: %s", reasons[i][1], err.message);
    }
}

/* Directories that transformers wrote. */
static void the_golden_models_are_accepted(void **state) {
    (void)state;
    static const char *const names[] = {"llama-untied", "llama-tied",     "llama-bf16",
                                        "llama-masked", "llama-schedule", "gpt2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        sw_error err = {0};
        snprintf(path, sizeof path, SW_SOURCE_FOLDER "/tests/golden/%s/model", names[i]);
        if (load_folder(path, &err) != SW_OK)
            fail_msg("%s", err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_accepted_and_refused_as_the_verdicts_say),
        cmocka_unit_test(refusals_give_the_reason),
        cmocka_unit_test(the_golden_models_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
