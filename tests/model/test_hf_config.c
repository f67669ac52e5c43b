/* test_hf_config.c: what a config.json says, what it may not ask for, and that ours reads back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "model/model.h"
#include "support/folder.h"

static char folder[FOLDER_BYTES];
static char path[256];

static int make_folder(void **state) {
    (void)state;
    if (!folder_make(folder))
        return -1;
    snprintf(path, sizeof path, "%s/config.json", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static const char llama_sizes[] =
    "\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
    "\"intermediate_size\":48,\"vocab_size\":100";
static const char gpt2_sizes[] =
    "\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":4,\"vocab_size\":100";
static const char no_dropout[] = "\"attn_pdrop\":0.0,\"resid_pdrop\":0,\"embd_pdrop\":0.0";

static void write_text(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* {sizes, more} */
static sw_status read_with(const char *sizes, const char *more, sw_model_config *config,
                           sw_error *err) {
    char text[2048];
    snprintf(text, sizeof text, "{%s%s%s}", sizes, *more ? "," : "", more);
    write_text(text);
    return sw_model_config_read(folder, config, err);
}

static sw_model_config good(const char *sizes, const char *more) {
    sw_model_config config;
    sw_error err = {0};
    if (read_with(sizes, more, &config, &err) != SW_OK)
        fail_msg("%s: %s", more, err.message);
    return config;
}

/* Refused, with the file's path and `words` in the message. */
static void refused(const char *sizes, const char *more, const char *words) {
    sw_model_config config;
    sw_error err = {0};
    sw_status status = read_with(sizes, more, &config, &err);
    if (status != SW_BAD_FILE || !strstr(err.message, path) || !strstr(err.message, words))
        fail_msg("%s: expected a refusal with \"%s\", got %s: %s", more, words,
                 sw_status_name(status), err.message);
}

static void absent_keys_of_llama_have_hugging_faces_defaults(void **state) {
    (void)state;
    sw_model_config c = good(llama_sizes, "");
    assert_int_equal(c.architecture, SW_LLAMA);
    assert_int_equal(c.hidden, 32);
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.ffn, 48);
    assert_int_equal(c.vocabulary, 100);
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.head_channels, 8);
    assert_int_equal(c.max_positions, 2048);
    assert_true(c.norm_epsilon == 1e-6);
    assert_true(c.rope_theta == 10000);
    assert_true(c.init_std == 0.02);
    assert_true(c.dropout.embedding == 0 && c.dropout.residual == 0 && c.dropout.attention == 0);
    assert_false(c.tied);
    assert_int_equal(c.bos_token, 1);
    assert_int_equal(c.eos_token, 2);
}

static void null_is_absent_and_unknown_keys_are_passed_over(void **state) {
    (void)state;
    sw_model_config c = good(
        llama_sizes,
        "\"head_dim\":null,\"num_key_value_heads\":null,\"rope_scaling\":null,\"rope_theta\":null,"
        "\"quantization_config\":null,\"sliding_window\":null,\"rms_norm_eps\":null,\"my_note\":{"
        "\"a\":[1,2]},"
        "\"use_cache\":true,\"pretraining_tp\":1,\"torch_dtype\":\"float16\"");
    assert_int_equal(c.head_channels, 8);
    assert_int_equal(c.kv_heads, 4);
    assert_true(c.rope_theta == 10000);
    assert_true(c.norm_epsilon == 1e-6);
}

/* B53: a setting that no one reads is at least named. Keys that are null, or were looked at, are
 * not. */
static void keys_without_effect_are_listed(void **state) {
    (void)state;
    char keys[256], few[16];
    sw_error err = {0};
    good(llama_sizes, "\"head_dim\":null,\"rope_tetha\":5,\"rope_parameters\":{\"rope_theta\":7},"
                      "\"hidden_act\":\"silu\","
                      "\"eos_token_id\":[2,3],\"my_note\":{\"a\":[1,2]},\"attention_dropout\":0,"
                      "\"tie_word_embeddings\":true,"
                      "\"use_cache\":true,\"is_encoder_decoder\":false,\"n_embd\":64");
    assert_int_equal(sw_model_config_unread(folder, keys, sizeof keys, &err), SW_OK);
    assert_string_equal(keys, "rope_tetha, my_note, use_cache, n_embd");
    assert_int_equal(sw_model_config_unread(folder, few, sizeof few, &err), SW_OK);
    assert_string_equal(few, "rope_tetha, my_");
    good(gpt2_sizes, no_dropout);
    assert_int_equal(sw_model_config_unread(folder, keys, sizeof keys, &err), SW_OK);
    assert_string_equal(keys, "");
    assert_int_equal(sw_model_config_unread("/nowhere", keys, sizeof keys, &err), SW_BAD_FILE);
}

/* B55 */
static void head_dim_need_not_divide_the_hidden_size(void **state) {
    (void)state;
    sw_model_config c = good("\"model_type\":\"llama\",\"hidden_size\":40,\"num_hidden_layers\":1,"
                             "\"num_attention_heads\":8,"
                             "\"intermediate_size\":16,\"vocab_size\":9",
                             "\"head_dim\":8,\"num_key_value_heads\":2");
    assert_int_equal(c.head_channels, 8);
    assert_int_equal(c.kv_heads, 2);
    refused("\"model_type\":\"llama\",\"hidden_size\":40,\"num_hidden_layers\":1,\"num_attention_"
            "heads\":8,\"intermediate_size\":16,"
            "\"vocab_size\":9",
            "\"head_dim\":null", "head_dim is 5, which is odd");
}

static void rotary_settings_are_read_in_both_spellings(void **state) {
    (void)state;
    assert_true(good(llama_sizes, "\"rope_theta\":500").rope_theta == 500);
    assert_true(good(llama_sizes, "\"rope_theta\":500.5,\"rope_scaling\":{\"type\":\"default\"}")
                    .rope_theta == 500.5);
    assert_true(
        good(llama_sizes, "\"rope_parameters\":{\"rope_theta\":1e6,\"rope_type\":\"default\"}")
            .rope_theta == 1e6);
    assert_true(
        good(llama_sizes, "\"rope_theta\":7.0,\"rope_parameters\":{\"rope_theta\":7}").rope_theta ==
        7);
    assert_true(
        good(llama_sizes, "\"rope_parameters\":{\"partial_rotary_factor\":1.0,\"factor\":null}")
            .rope_theta == 10000);
    refused(llama_sizes, "\"rope_theta\":7.0,\"rope_parameters\":{\"rope_theta\":8}",
            "rope_theta and rope_parameters.rope_theta differ");
    refused(llama_sizes, "\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":2.0}",
            "rope_scaling.rope_type \"longrope\"");
    refused(llama_sizes, "\"rope_scaling\":{\"type\":\"ntk\",\"factor\":2.0}",
            "rope_scaling.type \"ntk\"");
    refused(llama_sizes, "\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"yarn\"}",
            "rope_type and rope_scaling.type differ");
    refused(llama_sizes, "\"rope_parameters\":{\"partial_rotary_factor\":0.5}",
            "partial_rotary_factor");
    refused(llama_sizes, "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1}}",
            "rope_parameters.full_attention");
    refused(llama_sizes, "\"rope_scaling\":{\"factor\":2.0}", "rope_scaling.factor");
    refused(llama_sizes, "\"rope_scaling\":{\"type rope_theta\":2.0}",
            "rope_scaling.type rope_theta");
    refused(llama_sizes, "\"rope_scaling\":\"linear\"",
            "rope_scaling is a string, an object is needed");
    refused(llama_sizes, "\"rope_parameters\":{\"rope_theta\":\"1\"}",
            "rope_parameters.rope_theta is a string, a number is needed");
    refused(llama_sizes, "\"rope_theta\":0", "rope_theta is 0");
    refused(llama_sizes, "\"rope_theta\":-1.5", "rope_theta is -1.5");
}

static void arithmetic_that_is_not_built_is_refused_by_name(void **state) {
    (void)state;
    static const char *const llama[][2] = {
        {"\"hidden_act\":\"gelu\"", "hidden_act \"gelu\""},
        {"\"sliding_window\":16", "sliding_window"},
        {"\"partial_rotary_factor\":0.5", "partial_rotary_factor 0.5"},
        {"\"quantization_config\":{\"bits\":4}", "quantization_config"},
        {"\"add_cross_attention\":true", "add_cross_attention"},
        {"\"is_encoder_decoder\":true", "is_encoder_decoder"},
    };
    static const char *const gpt2[][2] = {
        {"\"activation_function\":\"prelu\"", "activation_function \"prelu\""},
        {"\"activation_function\":\"xielu\"", "activation_function \"xielu\""},
        {"\"activation_function\":\"Gelu\"", "activation_function \"Gelu\""},
        {"\"activation_function\":1", "activation_function is an integer"},
        {"\"add_cross_attention\":true", "add_cross_attention true"},
        {"\"quantization_config\":{}", "quantization_config"},
    };
    for (size_t i = 0; i < sizeof llama / sizeof *llama; i++)
        refused(llama_sizes, llama[i][0], llama[i][1]);
    for (size_t i = 0; i < sizeof gpt2 / sizeof *gpt2; i++) {
        char more[256];
        snprintf(more, sizeof more, "%s,%s", no_dropout, gpt2[i][0]);
        refused(gpt2_sizes, more, gpt2[i][1]);
    }
    good(llama_sizes, "\"hidden_act\":\"swish\",\"attention_bias\":false,\"attention_dropout\":0.0,"
                      "\"pretraining_tp\":1");
    refused(llama_sizes, "\"sliding_window\":16,\"use_sliding_window\":false", "sliding_window 16");
    good(llama_sizes, "\"sliding_window\":2048,\"use_sliding_window\":false"); /* as many as there
                                                                                  are positions */
}

static void assert_same_rope(const sw_rope_scaling *a, const sw_rope_scaling *b) {
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->original_positions, b->original_positions);
    assert_true(a->factor == b->factor && a->low_factor == b->low_factor &&
                a->high_factor == b->high_factor);
    assert_true(a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
                a->attention_factor == b->attention_factor);
    assert_true(a->mscale == b->mscale && a->mscale_all == b->mscale_all &&
                a->is_exact == b->is_exact);
}

static void rotary_scaling_is_read_whole_or_refused(void **state) {
    (void)state;
    sw_model_config c = good(llama_sizes, "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}");
    assert_true(c.rope.type == SW_ROPE_LINEAR && c.rope.factor == 2 && c.rope_theta == 10000);
    c = good(llama_sizes, "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":4.0}");
    assert_true(c.rope.type == SW_ROPE_DYNAMIC && c.rope.factor == 4);
    static const char llama3[] =
        "\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
        "\"original_max_position_embeddings\":512";
    static const char yarn[] = "\"rope_type\":\"yarn\",\"original_max_position_embeddings\":512";
    char more[512];
    snprintf(more, sizeof more, "\"rope_theta\":500000.0,\"rope_scaling\":{%s}", llama3);
    c = good(llama_sizes, more);
    assert_true(c.rope.type == SW_ROPE_LLAMA3 && c.rope.factor == 8 && c.rope.low_factor == 1 &&
                c.rope.high_factor == 4);
    assert_true(c.rope_theta == 500000 && c.rope.original_positions == 512);
    snprintf(more, sizeof more, "\"rope_parameters\":{\"rope_theta\":5e5,%s},\"rope_scaling\":{%s}",
             llama3, llama3);
    sw_model_config both = good(llama_sizes, more);
    assert_same_rope(&both.rope, &c.rope);
    assert_true(both.rope_theta == 500000);
    snprintf(more, sizeof more, "\"rope_parameters\":{%s},\"rope_scaling\":{%s}", llama3, yarn);
    refused(llama_sizes, more, "rope_parameters and rope_scaling differ");
    snprintf(more, sizeof more, "\"rope_scaling\":{%s}", yarn);
    c = good(llama_sizes, more); /* the factor is what the positions say: 2048 / 512 */
    assert_true(c.rope.type == SW_ROPE_YARN && c.rope.factor == 4 && c.rope.beta_fast == 32 &&
                c.rope.beta_slow == 1);
    assert_true(c.rope.attention_factor == 0 && !c.rope.is_exact);
    snprintf(more, sizeof more,
             "\"rope_scaling\":{%s,\"factor\":16.0,\"attention_factor\":1.5,\"truncate\":false,"
             "\"mscale\":0.7,\"mscale_all_dim\":0.5,"
             "\"beta_fast\":16,\"beta_slow\":2}",
             yarn);
    c = good(llama_sizes, more);
    assert_true(c.rope.factor == 16 && c.rope.attention_factor == 1.5 && c.rope.is_exact &&
                c.rope.mscale == 0.7);
    assert_true(c.rope.mscale_all == 0.5 && c.rope.beta_fast == 16 && c.rope.beta_slow == 2);
    c = good(llama_sizes, "\"original_max_position_embeddings\":256,\"rope_scaling\":{\"type\":"
                          "\"yarn\",\"factor\":8.0}");
    assert_int_equal(c.rope.original_positions, 256);
    static const char *const wrong[][2] = {
        {"\"type\":\"linear\"", "rope_scaling.factor is missing"},
        {"\"type\":\"linear\",\"factor\":0", "rope factor is 0"},
        {"\"type\":\"linear\",\"factor\":2,\"beta_fast\":3", "rope_scaling.beta_fast (it is set)"},
        {"\"type\":\"dynamic\",\"factor\":2,\"original_max_position_embeddings\":3",
         "original_max_position_embeddings (it is set)"},
        {"\"type\":\"llama3\",\"factor\":2,\"high_freq_factor\":3",
         "rope_scaling.low_freq_factor is missing"},
        {"\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":3,\"high_freq_factor\":3",
         "high_freq_factor is 3"},
        {"\"type\":\"yarn\",\"factor\":2,\"attention_factor\":0",
         "rope_scaling.attention_factor 0"},
        {"\"type\":\"yarn\",\"factor\":2,\"attention_factor\":-1", "attention_factor is -1"},
        {"\"type\":\"yarn\",\"factor\":2,\"beta_slow\":64", "beta_fast is 32"},
        {"\"type\":\"yarn\",\"factor\":2,\"beta_slow\":0", "beta_slow is 0"},
        {"\"type\":\"yarn\",\"factor\":2,\"truncate\":1", "rope_scaling.truncate is an integer"},
        {"\"type\":\"yarn\",\"factor\":\"2\"", "rope_scaling.factor is a string"},
        {"\"type\":\"yarn\",\"factor\":2,\"original_max_position_embeddings\":-5",
         "original_max_position_embeddings is -5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(more, sizeof more, "\"rope_scaling\":{%s}", wrong[i][0]);
        refused(llama_sizes, more, wrong[i][1]);
    }
}

static const char sizes_of[] =
    "\"model_type\":\"%s\",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":32,"
    "\"intermediate_size\":48,\"vocab_size\":100";

static void families_have_their_own_defaults(void **state) {
    (void)state;
    char mistral[512], qwen2[512], qwen3[512];
    snprintf(mistral, sizeof mistral, sizes_of, "mistral");
    snprintf(qwen2, sizeof qwen2, sizes_of, "qwen2");
    snprintf(qwen3, sizeof qwen3, sizes_of, "qwen3");
    sw_model_config c = good(mistral, "");
    assert_int_equal(c.architecture, SW_MISTRAL);
    assert_int_equal(c.kv_heads, 8);
    assert_int_equal(c.head_channels, 2);
    assert_int_equal(c.max_positions, 131072);
    assert_int_equal(c.span, 4096);
    assert_true(!c.qkv_bias && !c.o_bias && !c.qk_norm);
    assert_int_equal(c.bos_token, 1);
    assert_int_equal(good(mistral, "\"num_key_value_heads\":null").kv_heads, 32);
    assert_int_equal(good(mistral, "\"sliding_window\":null").span, 0);
    assert_int_equal(good(mistral, "\"sliding_window\":16").span, 16);
    refused(mistral, "\"sliding_window\":0", "sliding_window");
    refused(mistral, "\"attention_bias\":true", "attention_bias true");
    refused(mistral, "\"layer_types\":[\"full_attention\"]", "layer_types");
    c = good(qwen2, "");
    assert_int_equal(c.architecture, SW_QWEN2);
    assert_int_equal(c.kv_heads, 32);
    assert_int_equal(c.max_positions, 32768);
    assert_true(c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm);
    assert_int_equal(c.span, 0); /* sliding_window is 4096, and use_sliding_window false */
    assert_int_equal(c.bos_token, -1);
    refused(qwen2, "\"attention_bias\":false", "attention_bias false");
    refused(qwen2, "\"mlp_bias\":true", "mlp_bias true");
    c = good(qwen3, "");
    assert_int_equal(c.architecture, SW_QWEN3);
    assert_int_equal(c.head_channels, 128);
    assert_true(!c.qkv_bias && !c.o_bias && c.qk_norm);
    c = good(qwen3, "\"attention_bias\":true,\"head_dim\":6");
    assert_true(c.qkv_bias && c.o_bias && c.head_channels == 6);
    c = good(llama_sizes, "\"attention_bias\":true,\"mlp_bias\":true");
    assert_true(c.qkv_bias && c.o_bias && c.mlp_bias);
}

/* Layers from max_window_layers on have the span; layer_types says the same by name. */
static void qwen_has_its_span_in_the_upper_layers(void **state) {
    (void)state;
    char qwen[512];
    for (int i = 0; i < 2; i++) {
        snprintf(qwen, sizeof qwen, sizes_of, i ? "qwen3" : "qwen2");
        sw_model_config c =
            good(qwen, "\"use_sliding_window\":true,\"sliding_window\":5,\"max_window_layers\":3");
        assert_true(c.span == 5 && c.full_layers == 3);
        c = good(qwen, "\"use_sliding_window\":true,\"sliding_window\":5,\"max_window_layers\":0");
        assert_true(c.span == 5 && c.full_layers == 0);
        c = good(qwen, "\"use_sliding_window\":true,\"sliding_window\":5"); /* 28 layers without,
                                                                               and there are four */
        assert_true(c.span == 0 && c.full_layers == 0);
        c = good(qwen,
                 "\"use_sliding_window\":true,\"sliding_window\":null,\"max_window_layers\":0");
        assert_true(c.span == 0);
        c = good(qwen, "\"use_sliding_window\":false,\"sliding_window\":5,\"max_window_layers\":0");
        assert_true(c.span == 0);
        c = good(qwen, "\"use_sliding_window\":true,\"sliding_window\":5,\"layer_types\":[\"full_"
                       "attention\",\"sliding_attention\","
                       "\"sliding_attention\",\"sliding_attention\"]");
        assert_true(c.span == 5 && c.full_layers == 1);
        refused(qwen,
                "\"use_sliding_window\":true,\"sliding_window\":5,\"layer_types\":[\"sliding_"
                "attention\",\"full_attention\","
                "\"sliding_attention\",\"sliding_attention\"]",
                "layer_types with full_attention above sliding_attention");
        refused(qwen,
                "\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
                "\"sliding_attention\"]",
                "layer_types with sliding_attention and no sliding_window");
        refused(qwen, "\"layer_types\":[\"full_attention\"]",
                "layer_types has 1 entry for 4 layers");
        refused(qwen,
                "\"layer_types\":[\"full_attention\",\"chunked_attention\",\"full_attention\","
                "\"full_attention\"]",
                "layer_types chunked_attention");
        refused(qwen, "\"layer_types\":[1,2,3,4]",
                "layer_types holds an integer, strings are needed");
    }
}

/* Every name that transformers knows, apart from those with parameters of their own and
 * sqrtsoftplus. */
static void activations_of_gpt2_go_by_their_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        sw_activation activation;
    } names[] = {
        {"gelu", SW_GELU},
        {"gelu_10", SW_GELU_10},
        {"gelu_fast", SW_GELU_TANH},
        {"gelu_new", SW_GELU_TANH},
        {"gelu_python", SW_GELU},
        {"gelu_pytorch_tanh", SW_GELU_TANH},
        {"gelu_python_tanh", SW_GELU_TANH},
        {"gelu_accurate", SW_GELU_TANH},
        {"hardswish", SW_HARDSWISH},
        {"laplace", SW_LAPLACE},
        {"leaky_relu", SW_LEAKY_RELU},
        {"linear", SW_IDENTITY},
        {"mish", SW_MISH},
        {"quick_gelu", SW_QUICK_GELU},
        {"relu", SW_RELU},
        {"relu2", SW_RELU_SQUARED},
        {"relu6", SW_RELU_6},
        {"sigmoid", SW_SIGMOID},
        {"silu", SW_SILU},
        {"swish", SW_SILU},
        {"tanh", SW_TANH},
    };
    char more[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(more, sizeof more, "%s,\"activation_function\":\"%s\"", no_dropout, names[i].name);
        assert_int_equal(good(gpt2_sizes, more).activation, names[i].activation);
    }
    assert_int_equal(good(gpt2_sizes, no_dropout).activation, SW_GELU_TANH);
    snprintf(more, sizeof more,
             "%s,\"scale_attn_weights\":false,\"scale_attn_by_inverse_layer_idx\":true,\"reorder_"
             "and_upcast_attn\":true",
             no_dropout);
    sw_model_config c = good(gpt2_sizes, more);
    assert_true(c.unscaled_attention && c.scales_by_layer && c.upcasts_attention);
    c = good(gpt2_sizes, no_dropout);
    assert_true(!c.unscaled_attention && !c.scales_by_layer && !c.upcasts_attention);
}

static void gpt2_is_read_under_both_sets_of_names(void **state) {
    (void)state;
    sw_model_config c = good(gpt2_sizes, no_dropout);
    assert_int_equal(c.architecture, SW_GPT2);
    assert_int_equal(c.ffn, 128);
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.head_channels, 8);
    assert_int_equal(c.max_positions, 1024);
    assert_true(c.norm_epsilon == 1e-5);
    assert_true(c.tied);
    assert_int_equal(c.eos_token, -1); /* 50256 is beyond this vocabulary */
    char more[512];
    snprintf(more, sizeof more,
             "%s,\"n_inner\":50,\"n_positions\":64,\"activation_function\":\"gelu_pytorch_tanh\","
             "\"tie_word_embeddings\":false",
             no_dropout);
    c = good(gpt2_sizes, more);
    assert_int_equal(c.ffn, 50);
    assert_int_equal(c.max_positions, 64);
    assert_false(c.tied);
    c = good("\"model_type\":\"gpt2\",\"hidden_size\":32,\"num_hidden_layers\":3,\"num_attention_"
             "heads\":4,\"vocab_size\":100",
             no_dropout);
    assert_int_equal(c.layers, 3);
    refused("\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":4,\"vocab_size\":100", no_dropout,
            "n_embd is missing");
    refused("\"model_type\":\"gpt2\",\"n_embd\":32,\"n_layer\":2,\"n_head\":3,\"vocab_size\":100",
            no_dropout, "n_embd 32 is no multiple of n_head 3");
}

/* Hugging Face's default is 0.1 where nothing is written. */
static void dropout_of_gpt2_is_what_the_file_means(void **state) {
    (void)state;
    const struct {
        const char *text;
        sw_model_dropout dropout;
    } written[] = {
        {"", {0.1, 0.1, 0.1}},
        {"\"attn_pdrop\":0", {0.1, 0.1, 0}},
        {"\"attn_pdrop\":0.2,\"resid_pdrop\":0.3,\"embd_pdrop\":0", {0, 0.3, 0.2}},
        {"\"attn_pdrop\":null,\"resid_pdrop\":1", {0.1, 1, 0.1}},
    };
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        const sw_model_dropout d = good(gpt2_sizes, written[i].text).dropout,
                               *e = &written[i].dropout;
        assert_true(d.embedding == e->embedding && d.residual == e->residual &&
                    d.attention == e->attention);
    }
}

/* What only training draws is read whatever it is: a model that cannot be trained as it stands is
 * still a model. */
static void dropout_refuses_nothing_but_training(void **state) {
    (void)state;
    const struct {
        const char *sizes, *text, *message;
    } cases[] = {{gpt2_sizes, "\"attn_pdrop\":1",
                  "attn_pdrop is 1, for training a number from 0 to below 1 is needed"},
                 {gpt2_sizes, "\"resid_pdrop\":-0.5", "resid_pdrop is -0.5"},
                 {gpt2_sizes, "\"embd_pdrop\":2", "embd_pdrop is 2"},
                 {llama_sizes, "\"attention_dropout\":1.5", "attention_dropout is 1.5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_model_config c = good(cases[i].sizes, cases[i].text);
        sw_error err = {0};
        assert_int_equal(sw_model_config_check_training(&c, SW_SPELL_HUGGING_FACE, &err),
                         SW_BAD_FILE);
        if (!strstr(err.message, cases[i].message))
            fail_msg("'%s' is not in '%s'", cases[i].message, err.message);
        sw_model_drop(&c, 0);
        assert_int_equal(sw_model_config_check_training(&c, SW_SPELL_HUGGING_FACE, &err), SW_OK);
    }
    assert_true(good(llama_sizes, "\"attention_dropout\":0.3").dropout.attention == 0.3);
    assert_true(good(llama_sizes, "\"attention_dropout\":null").dropout.attention == 0);
}

/* The row of padding learns nothing from being looked up: of Llama and its relatives; counted from
 * the end if it is negative. */
static void padding_is_what_torch_takes_it_for(void **state) {
    (void)state;
    const struct {
        const char *text;
        bool is_there;
        int64_t id;
    } cases[] = {{"", false, 0},
                 {"\"pad_token_id\":null", false, 0},
                 {"\"pad_token_id\":0", true, 0},
                 {"\"pad_token_id\":5", true, 5},
                 {"\"pad_token_id\":-1", true, 99},
                 {"\"pad_token_id\":-101", false, 0},
                 {"\"pad_token_id\":100", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_model_config c = good(llama_sizes, cases[i].text);
        assert_true(c.has_pad_token == cases[i].is_there &&
                    (!c.has_pad_token || c.pad_token == cases[i].id));
    }
    refused("\"model_type\":\"llama\",\"hidden_size\":32,\"num_hidden_layers\":2,\"num_attention_"
            "heads\":4,"
            "\"intermediate_size\":48,\"vocab_size\":-9223372036854775808",
            "\"pad_token_id\":0", "vocab_size is -9223372036854775808");
}

static void is_causal_is_the_mask(void **state) {
    (void)state;
    const char *const sizes[] = {llama_sizes, gpt2_sizes};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(good(sizes[i], "").mask, SW_MASK_CAUSAL);
        assert_int_equal(good(sizes[i], "\"is_causal\":true").mask, SW_MASK_CAUSAL);
        assert_int_equal(good(sizes[i], "\"is_causal\":false").mask, SW_MASK_FULL);
        refused(sizes[i], "\"is_causal\":null", "is_causal null");
        refused(sizes[i], "\"is_causal\":0", "is_causal");
    }
}

static void tokens_are_numbers_lists_or_none(void **state) {
    (void)state;
    sw_model_config c = good(llama_sizes, "\"bos_token_id\":null,\"eos_token_id\":[7,8]");
    assert_int_equal(c.bos_token, -1);
    assert_int_equal(c.eos_token, 7);
    c = good(llama_sizes, "\"bos_token_id\":-1,\"eos_token_id\":0");
    assert_int_equal(c.bos_token, -1);
    assert_int_equal(c.eos_token, 0);
    refused(llama_sizes, "\"eos_token_id\":\"2\"", "eos_token_id is a string");
    refused(llama_sizes, "\"eos_token_id\":[1.5]", "eos_token_id holds a fraction");
}

static void one_type_is_not_taken_for_another(void **state) {
    (void)state;
    static const char without_hidden[] = "\"model_type\":\"llama\",\"num_hidden_layers\":2,\"num_"
                                         "attention_heads\":4,\"intermediate_size\":48,"
                                         "\"vocab_size\":100";
    refused(without_hidden, "", "hidden_size is missing");
    refused(without_hidden, "\"hidden_size\":null", "hidden_size is missing");
    refused(without_hidden, "\"hidden_size\":\"32\"",
            "hidden_size is a string, an integer is needed");
    refused(without_hidden, "\"hidden_size\":32.0",
            "hidden_size is a fraction, an integer is needed");
    refused(without_hidden, "\"hidden_size\":true",
            "hidden_size is true or false, an integer is needed");
    refused(without_hidden, "\"hidden_size\":18446744073709551624", "line 1, column");
    refused(without_hidden, "\"hidden_size\":0", "hidden_size is 0");
    refused(without_hidden, "\"hidden_size\":-32", "hidden_size is -32");
    refused(without_hidden, "\"hidden_size\":2147483648", "hidden_size is 2147483648");
    refused(without_hidden, "\"hidden_size\":32,\"hidden_size\":32", "duplicate object key");
    refused(llama_sizes, "\"rms_norm_eps\":NaN", "not valid JSON");
    refused(llama_sizes, "\"rms_norm_eps\":\"1e-5\"", "rms_norm_eps is a string");
    refused(llama_sizes, "\"rms_norm_eps\":1e999", "not valid JSON");
    refused(llama_sizes, "\"tie_word_embeddings\":1",
            "tie_word_embeddings is an integer, true or false is needed");
    refused(llama_sizes, "\"num_key_value_heads\":3",
            "num_attention_heads 4 is no multiple of num_key_value_heads 3");
    refused(llama_sizes, "\"num_key_value_heads\":0", "num_key_value_heads is 0");
    refused(llama_sizes, "\"x\":\"\xff\"", "not valid JSON");
}

static void an_unknown_model_type_names_the_nearest(void **state) {
    (void)state;
    refused("\"model_type\":\"lama\"", "", "did you mean llama");
    refused("\"model_type\":\"gpt_2\"", "", "did you mean gpt2");
    refused("\"model_type\":\"qwen1\"", "", "did you mean qwen");
    refused("\"model_type\":\"bert\"", "", "there are llama, mistral, qwen2, qwen3 and gpt2");
    refused("\"hidden_size\":3", "", "model_type is missing");
    refused("\"model_type\":3", "", "model_type is an integer, a string is needed");
}

static void things_that_are_no_configuration_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",           "[]",
                                        "3",          "\"x\"",
                                        "{",          "{} {}",
                                        "{}\n",       "model_type: llama",
                                        "{\"a\":1,}", "\xef\xbb\xbf{}"};
    sw_model_config config;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sw_error err = {0};
        write_text(texts[i]);
        assert_int_equal(sw_model_config_read(folder, &config, &err), SW_BAD_FILE);
        assert_non_null(strstr(err.message, path));
    }
    char *deep = malloc(60000);
    assert_non_null(deep);
    sprintf(deep, "{%s,\"x\":", llama_sizes);
    size_t used = strlen(deep);
    memset(deep + used, '[', 10000);
    memset(deep + used + 10000, ']', 10000);
    memcpy(deep + used + 20000, "}", 2);
    write_text(deep);
    free(deep);
    sw_error err = {0};
    assert_int_equal(sw_model_config_read(folder, &config, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "depth"));
    assert_int_equal(sw_model_config_read("/nowhere", &config, &err), SW_BAD_FILE);
    assert_non_null(strstr(err.message, "/nowhere: cannot be read: No such file"));
}

static void read_golden(const char *name, sw_model_config *config) {
    char golden[512], *text;
    sw_error err = {0};
    snprintf(golden, sizeof golden, SW_SOURCE_FOLDER "/tests/golden/%s", name);
    if (sw_file_read(golden, 1 << 20, &text, NULL, &err) != SW_OK)
        fail_msg("%s", err.message);
    write_text(text);
    free(text);
    if (sw_model_config_read(folder, config, &err) != SW_OK)
        fail_msg("%s", err.message);
}

static void assert_same_config(const sw_model_config *a, const sw_model_config *b) {
    assert_int_equal(a->architecture, b->architecture);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->head_channels, b->head_channels);
    assert_int_equal(a->ffn, b->ffn);
    assert_int_equal(a->vocabulary, b->vocabulary);
    assert_int_equal(a->max_positions, b->max_positions);
    assert_int_equal(a->tied, b->tied);
    assert_true(a->rope_theta == b->rope_theta && a->norm_epsilon == b->norm_epsilon &&
                a->init_std == b->init_std);
    assert_true(a->dropout.embedding == b->dropout.embedding &&
                a->dropout.residual == b->dropout.residual &&
                a->dropout.attention == b->dropout.attention);
    assert_true(a->has_pad_token == b->has_pad_token &&
                (!a->has_pad_token || a->pad_token == b->pad_token));
    assert_int_equal(a->mask, b->mask);
    assert_int_equal(a->bos_token, b->bos_token);
    assert_int_equal(a->eos_token, b->eos_token);
    assert_true(a->qkv_bias == b->qkv_bias && a->o_bias == b->o_bias &&
                a->mlp_bias == b->mlp_bias && a->qk_norm == b->qk_norm);
    assert_int_equal(a->span, b->span);
    assert_int_equal(a->full_layers, b->full_layers);
    assert_same_rope(&a->rope, &b->rope);
    assert_int_equal(a->activation, b->activation);
    assert_true(a->unscaled_attention == b->unscaled_attention &&
                a->scales_by_layer == b->scales_by_layer &&
                a->upcasts_attention == b->upcasts_attention);
}

/* What transformers 5 wrote and the same in the spelling of 4. */
static void the_golden_configurations_read_alike_in_both_spellings(void **state) {
    (void)state;
    static const char *const names[] = {"llama-untied",   "llama-tied",     "llama-bf16",
                                        "llama-masked",   "llama-schedule", "qwen2",
                                        "mistral-window", "packed"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        sw_model_config newer, older;
        snprintf(name, sizeof name, "%s/model/config.json", names[i]);
        read_golden(name, &newer);
        snprintf(name, sizeof name, "%s/config-older.json", names[i]);
        read_golden(name, &older);
        assert_same_config(&newer, &older);
    }
    sw_model_config tied;
    read_golden("llama-tied/model/config.json", &tied);
    assert_true(tied.rope_theta == 100000 && tied.tied);
    assert_int_equal(tied.hidden, 96);
}

static void what_is_written_reads_back(void **state) {
    (void)state;
    const sw_model_config configs[] = {
        {SW_LLAMA, 2, 40, 8, 2, 8, 100, 257, 64, true, 500000.0, 1e-5, 0.02, 1, -1},
        {SW_LLAMA, 1, 64, 4, 4, 16, 100, 32000, 2048, false, 1.0 / 3, 1e-6, 0, -1, 2},
        {SW_GPT2, 3, 48, 3, 3, 16, 192, 263, 64, true, 10000, 1e-5, 0.02, 0, 0,
         .dropout = {0.1, 0.1, 0}},
        {SW_GPT2, 3, 48, 3, 3, 16, 50, 263, 64, false, 10000, 1, 0.5, 7, 8},
        {SW_LLAMA, 2, 40, 8, 2, 8, 100, 257, 8192, true, 500000.0, 1e-5, 0.02, 1, -1, true, true,
         true,
         .rope = {SW_ROPE_LLAMA3, .factor = 8, .original_positions = 512, .low_factor = 1,
                  .high_factor = 4.5}},
        {SW_LLAMA, 2, 40, 8, 2, 8, 100, 257, 64, true, 500000.0, 1e-5, 0.02, 1, -1,
         .rope = {SW_ROPE_LINEAR, .factor = 2.5}},
        {SW_LLAMA, 2, 40, 8, 2, 8, 100, 257, 64, true, 500000.0, 1e-5, 0.02, 1, -1,
         .rope = {SW_ROPE_DYNAMIC, .factor = 2}},
        {SW_MISTRAL, 2, 40, 8, 2, 6, 100, 257, 64, true, 1e6, 1e-5, 0.02, 1, -1, .span = 16},
        {SW_MISTRAL, 2, 40, 8, 8, 6, 100, 257, 64, true, 1e6, 1e-5, 0.02, 1, -1},
        {SW_QWEN2, 4, 40, 8, 2, 6, 100, 257, 64, true, 1e6, 1e-5, 0.02, -1, -1, .qkv_bias = true,
         .span = 5, .full_layers = 2},
        {SW_QWEN2, 4, 40, 8, 2, 6, 100, 257, 64, false, 1e6, 1e-5, 0.02, -1, -1, .qkv_bias = true},
        {SW_QWEN3, 4, 40, 8, 2, 12, 100, 257, 64, true, 1e6, 1e-5, 0.02, -1, 3, true, true,
         .qk_norm = true,
         .rope = {SW_ROPE_YARN, .factor = 4, .original_positions = 16, .beta_fast = 32,
                  .beta_slow = 1}},
        {SW_QWEN3, 4, 40, 8, 2, 12, 100, 257, 64, true, 1e6, 1e-5, 0.02, -1, 3, .qk_norm = true,
         .span = 7, .rope = {SW_ROPE_YARN, 4, 16, 0, 0, 16, 2, 1.25, 0.7, 0.3, true}},
        {SW_GPT2,
         3,
         48,
         3,
         3,
         16,
         50,
         263,
         64,
         false,
         10000,
         1,
         0.5,
         7,
         8,
         .activation = SW_MISH,
         .unscaled_attention = true,
         .scales_by_layer = true,
         .upcasts_attention = true,
         .has_pad_token = true,
         .pad_token = 9,
         .dropout = {0.1, 0.25, 0.3},
         .mask = SW_MASK_FULL},
        {SW_LLAMA, 2, 40, 8, 2, 8, 100, 257, 64, true, 1e4, 1e-5, 0.02, 1, -1,
         .dropout = {.attention = 0.15}, .mask = SW_MASK_FULL, .has_pad_token = true,
         .pad_token = 256},
        {SW_MISTRAL, 2, 40, 8, 2, 6, 100, 257, 64, true, 1e6, 1e-5, 0.02, 1, -1, .span = 16,
         .mask = SW_MASK_FULL},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char *text;
        sw_error err = {0};
        sw_model_config back;
        assert_int_equal(sw_model_config_write(&configs[i], SW_BF16, &text, &err), SW_OK);
        assert_non_null(strstr(text, "\"dtype\": \"bfloat16\""));
        assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
        write_text(text);
        free(text);
        if (sw_model_config_read(folder, &back, &err) != SW_OK)
            fail_msg("%s", err.message);
        assert_same_config(&configs[i], &back);
    }
    char *text;
    sw_error err = {0};
    assert_int_equal(sw_model_config_write(&configs[0], SW_I32, &text, &err), SW_BAD_CONFIG);
}

static void a_check_speaks_the_words_of_its_file(void **state) {
    (void)state;
    sw_model_config c = {SW_LLAMA, 2, 32, 3, 3, 10, 64, 257, 64, true, 1e4, 1e-5, 0.02, -1, -1};
    sw_error err = {0};
    assert_int_equal(sw_model_config_check(&c, SW_SPELL_RUN_YAML, &err), SW_BAD_CONFIG);
    assert_string_equal(err.message, "model.hidden 32 is no multiple of model.heads 3");
    c.head_channels = 0; /* as a caller that cannot divide has it */
    assert_int_equal(sw_model_config_check(&c, SW_SPELL_RUN_YAML, &err), SW_BAD_CONFIG);
    assert_string_equal(err.message, "model.hidden 32 is no multiple of model.heads 3");
    assert_int_equal(sw_model_config_check(&c, SW_SPELL_HUGGING_FACE, &err), SW_BAD_FILE);
    assert_string_equal(err.message, "hidden_size 32 is no multiple of num_attention_heads 3");
    c.heads = c.kv_heads = 4;
    c.head_channels = 8;
    assert_int_equal(sw_model_config_check(&c, SW_SPELL_RUN_YAML, &err), SW_OK);
    sw_model_drop(&c, 1);
    assert_int_equal(sw_model_config_check_training(&c, SW_SPELL_RUN_YAML, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "model.dropout is 1"));
}

static void names_in_files_have_their_relatives(void **state) {
    (void)state;
    sw_model_config gpt2 = {.architecture = SW_GPT2, .tied = true},
                    llama = {.architecture = SW_LLAMA, .tied = true};
    char buffer[128];
    const char *must_equal;
    assert_string_equal(
        sw_model_alternative_name(&gpt2, "transformer.h.0.ln_1.weight", 0, buffer, sizeof buffer),
        "h.0.ln_1.weight");
    assert_string_equal(sw_model_alternative_name(&gpt2, "wte.weight", 0, buffer, sizeof buffer),
                        "transformer.wte.weight");
    assert_null(sw_model_alternative_name(&gpt2, "wte.weight", 1, buffer, sizeof buffer));
    assert_null(sw_model_alternative_name(&llama, "model.norm.weight", 0, buffer, sizeof buffer));
    assert_true(sw_model_ignores_tensor(&gpt2, "h.3.attn.bias", &must_equal));
    assert_null(must_equal);
    assert_true(sw_model_ignores_tensor(&gpt2, "transformer.h.3.attn.masked_bias", &must_equal));
    assert_false(sw_model_ignores_tensor(&gpt2, "transformer.h.3.attn.c_attn.bias", &must_equal));
    assert_true(sw_model_ignores_tensor(&llama, "model.layers.0.self_attn.rotary_emb.inv_freq",
                                        &must_equal));
    assert_null(must_equal);
    assert_false(
        sw_model_ignores_tensor(&llama, "model.layers.0.self_attn.q_proj.bias", &must_equal));
    assert_true(sw_model_ignores_tensor(&llama, "lm_head.weight", &must_equal));
    assert_string_equal(must_equal, "model.embed_tokens.weight");
    llama.tied = false;
    assert_false(sw_model_ignores_tensor(&llama, "lm_head.weight", &must_equal));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_of_llama_have_hugging_faces_defaults),
        cmocka_unit_test(null_is_absent_and_unknown_keys_are_passed_over),
        cmocka_unit_test(keys_without_effect_are_listed),
        cmocka_unit_test(head_dim_need_not_divide_the_hidden_size),
        cmocka_unit_test(rotary_settings_are_read_in_both_spellings),
        cmocka_unit_test(arithmetic_that_is_not_built_is_refused_by_name),
        cmocka_unit_test(rotary_scaling_is_read_whole_or_refused),
        cmocka_unit_test(families_have_their_own_defaults),
        cmocka_unit_test(qwen_has_its_span_in_the_upper_layers),
        cmocka_unit_test(activations_of_gpt2_go_by_their_names),
        cmocka_unit_test(gpt2_is_read_under_both_sets_of_names),
        cmocka_unit_test(dropout_of_gpt2_is_what_the_file_means),
        cmocka_unit_test(dropout_refuses_nothing_but_training),
        cmocka_unit_test(padding_is_what_torch_takes_it_for),
        cmocka_unit_test(is_causal_is_the_mask),
        cmocka_unit_test(tokens_are_numbers_lists_or_none),
        cmocka_unit_test(one_type_is_not_taken_for_another),
        cmocka_unit_test(an_unknown_model_type_names_the_nearest),
        cmocka_unit_test(things_that_are_no_configuration_are_refused),
        cmocka_unit_test(the_golden_configurations_read_alike_in_both_spellings),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(a_check_speaks_the_words_of_its_file),
        cmocka_unit_test(names_in_files_have_their_relatives),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
