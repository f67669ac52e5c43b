/* test_adapter.c: adapter_config.json as PEFT writes it: what is read, what is refused and by what
 * name; what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/adapter.h"

static sw_status parse(const char *text, sw_adapter_config *config, sw_error *err) {
    return sw_adapter_config_parse("adapter_config.json", text, (int64_t)strlen(text), config, err);
}

/* All keys that PEFT 0.21 writes for plain LoRA. */
static const char plain[] =
    "{\"alora_invocation_tokens\": null, \"alpha_pattern\": {}, \"arrow_config\": null, "
    "\"auto_mapping\": null, "
    "\"base_model_name_or_path\": \"m\", \"bias\": \"none\", \"corda_config\": null, "
    "\"ensure_weight_tying\": false, "
    "\"eva_config\": null, \"exclude_modules\": null, \"fan_in_fan_out\": false, "
    "\"inference_mode\": true, "
    "\"init_lora_weights\": true, \"layer_replication\": null, \"layers_pattern\": null, "
    "\"layers_to_transform\": null, "
    "\"loftq_config\": {}, \"lora_alpha\": 24, \"lora_bias\": false, \"lora_dropout\": 0.05, "
    "\"megatron_config\": null, "
    "\"megatron_core\": \"megatron.core\", \"modules_to_save\": null, \"peft_type\": \"LORA\", "
    "\"peft_version\": \"0.21.2\", "
    "\"qalora_group_size\": 16, \"r\": 12, \"rank_pattern\": {}, \"revision\": null, "
    "\"target_modules\": [\"v_proj\", \"q_proj\"], \"target_parameters\": null, \"task_type\": "
    "\"CAUSAL_LM\", "
    "\"trainable_token_indices\": null, \"use_dora\": false, \"use_qalora\": false, "
    "\"use_rslora\": true}";

static void plain_lora_is_read(void **state) {
    (void)state;
    sw_adapter_config config;
    sw_error err = {0};
    if (parse(plain, &config, &err))
        fail_msg("%s", err.message);
    assert_true(config.lora.rank == 12 && config.lora.alpha == 24 && config.lora.dropout == 0.05);
    assert_true(config.lora.is_rank_stabilised && config.chooses_by_names);
    assert_int_equal(config.lora.n_targets, 2);
    assert_string_equal(config.lora.targets[0], "v_proj");
    assert_string_equal(config.lora.targets[1], "q_proj");
    sw_adapter_config_free(&config);
    /* An old file, and one that chooses by a pattern of Python's: then the tensors say which
     * layers. */
    if (parse("{\"r\": 1, \"lora_alpha\": 0.5, \"target_modules\": \".*self_attn.*\"}", &config,
              &err))
        fail_msg("%s", err.message);
    assert_true(config.lora.rank == 1 && config.lora.alpha == 0.5 &&
                !config.lora.is_rank_stabilised);
    assert_true(!config.chooses_by_names && !config.lora.targets);
    sw_adapter_config_free(&config);
}

/* A key that changes what the adapter computes is refused by name, and so is nonsense. */
static void what_is_not_plain_lora_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *more, *word;
    } cases[] = {
        {"\"use_dora\": true", "use_dora"},
        {"\"use_qalora\": true", "use_qalora"},
        {"\"lora_bias\": true", "lora_bias"},
        {"\"bias\": \"all\"", "bias"},
        {"\"peft_type\": \"IA3\"", "peft_type"},
        {"\"modules_to_save\": [\"lm_head\"]", "modules_to_save"},
        {"\"target_parameters\": [\"w\"]", "target_parameters"},
        {"\"trainable_token_indices\": [5]", "trainable_token_indices"},
        {"\"trainable_token_indices\": {\"embed_tokens\": [5]}", "trainable_token_indices"},
        {"\"layer_replication\": [[0, 4]]", "layer_replication"},
        {"\"rank_pattern\": {\"q_proj\": 4}", "rank_pattern"},
        {"\"alpha_pattern\": {\"q_proj\": 4}", "alpha_pattern"},
        {"\"rank_pattern\": 4", "rank_pattern"},
        {"\"arrow_config\": {\"top_k\": 3}", "arrow_config"},
        {"\"init_lora_weights\": \"pissa_niter_16\"", "pissa_niter_16"},
        {"\"init_lora_weights\": \"olora\"", "olora"},
        {"\"lora_dropout\": 1", "lora_dropout"},
        {"\"lora_dropout\": -0.1", "lora_dropout"},
        {"\"lora_dropout\": \"none\"", "lora_dropout"},
        {"\"use_rslora\": 1", "use_rslora"},
        {"\"target_modules\": [1]", "target_modules"},
        {"\"target_modules\": []", "target_modules"},
        {"\"target_modules\": [\"q_proj\", \"lm_head\"]",
         "lm_head: adapters on the output projection"},
        {"\"target_modules\": [\"transformer.wte\"]", "transformer.wte: adapters on the embedding"},
        {"\"r\": 4", "r"}, /* twice */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        sw_adapter_config config;
        sw_error err = {0};
        snprintf(text, sizeof text, "{\"r\": 4, \"lora_alpha\": 8, %s}", cases[i].more);
        if (parse(text, &config, &err) != SW_BAD_FILE)
            fail_msg("%s is taken", cases[i].more);
        if (!strstr(err.message, cases[i].word) || !strstr(err.message, "adapter_config.json"))
            fail_msg("\"%s\" does not name %s", err.message, cases[i].word);
        sw_adapter_config_free(&config);
    }
    static const char *const texts[] = {"{}",
                                        "{\"r\": 4}",
                                        "{\"lora_alpha\": 4}",
                                        "{\"r\": 0, \"lora_alpha\": 4}",
                                        "{\"r\": -1, \"lora_alpha\": 4}",
                                        "{\"r\": 1e3, \"lora_alpha\": 4}",
                                        "{\"r\": 4294967296, \"lora_alpha\": 4}",
                                        "{\"r\": 4, \"lora_alpha\": 0}",
                                        "{\"r\": \"4\", \"lora_alpha\": 4}",
                                        "[]",
                                        ""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sw_adapter_config config;
        sw_error err = {0};
        assert_int_equal(parse(texts[i], &config, &err), SW_BAD_FILE);
        sw_adapter_config_free(&config);
    }
}

/* The layers of a graph that is made up: one weight. */
static void written_and_read(const sw_lora *lora, sw_weight_layout layout,
                             sw_adapter_config *config, char **text) {
    sw_graph *graph;
    sw_error err = {0};
    assert_int_equal(sw_graph_create(1, 1, &graph, &err), SW_OK);
    sw_unit *root = sw_unit_declare(graph, NULL, "root");
    sw_parameter *w = sw_parameter_declare(graph, root, "model.layers.0.mlp.up_proj.weight", 2,
                                           (int64_t[]){4, 4}, SW_INIT_NORMAL, 1);
    sw_lora_layer layer = {.weight = w, .layout = layout};
    sw_lora_layers layers = {.list = {&layer, 1, 1}};
    assert_int_equal(sw_adapter_config_write(lora, &layers, "base \"quoted\"", text, &err), SW_OK);
    if (parse(*text, config, &err))
        fail_msg("%s: %s", *text, err.message);
    sw_graph_free(graph);
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    static const char *const ends[] = {"up_proj", "down_proj"}, *const patterns[] = {"*.up_proj"};
    sw_lora lora = {.rank = 7,
                    .alpha = 2.5,
                    .dropout = 0.125,
                    .is_rank_stabilised = true,
                    .n_targets = 2,
                    .targets = ends};
    sw_adapter_config config;
    char *text;
    written_and_read(&lora, SW_IN_OUT, &config, &text);
    assert_true(config.lora.rank == 7 && config.lora.alpha == 2.5 && config.lora.dropout == 0.125);
    assert_true(config.lora.is_rank_stabilised && config.lora.n_targets == 2);
    assert_string_equal(config.lora.targets[1], "down_proj");
    assert_non_null(strstr(text, "\"fan_in_fan_out\": true"));
    assert_non_null(strstr(text, "\"base_model_name_or_path\": \"base \\\"quoted\\\"\""));
    free(text);
    sw_adapter_config_free(&config);
    /* Patterns are ours, not PEFT's: the layers are named. */
    lora.targets = patterns;
    lora.n_targets = 1;
    written_and_read(&lora, SW_OUT_IN, &config, &text);
    assert_int_equal(config.lora.n_targets, 1);
    assert_string_equal(config.lora.targets[0], "model.layers.0.mlp.up_proj");
    assert_non_null(strstr(text, "\"fan_in_fan_out\": false"));
    free(text);
    sw_adapter_config_free(&config);
    /* All layers, by their last words. */
    static const char *const all[] = {SW_LORA_ALL};
    lora.targets = all;
    written_and_read(&lora, SW_OUT_IN, &config, &text);
    assert_int_equal(config.lora.n_targets, 1);
    assert_string_equal(config.lora.targets[0], "up_proj");
    free(text);
    sw_adapter_config_free(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_lora_is_read),
        cmocka_unit_test(what_is_not_plain_lora_is_refused_by_name),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
