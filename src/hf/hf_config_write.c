/* hf_config_write.c: dimensions become a config.json that `transformers` loads, 4 and 5 alike.
 *
 * Version 5 reads `dtype` and `rope_parameters`, version 4 `torch_dtype` and `rope_theta`; each passes over the other's keys when
 * they agree. Every key that changes the arithmetic is written, so that no reader's default decides.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "hf/hf_reader.h"

static void put_integer(FILE *out, const char *key, int64_t value) {
    fprintf(out, "  \"%s\": %" PRId64 ",\n", key, value);
}

static void put_text(FILE *out, const char *key, const char *value) {
    fprintf(out, "  \"%s\": \"%s\",\n", key, value);
}

/* Words that JSON knows: true, false, null, or a list made here. */
static void put_word(FILE *out, const char *key, const char *value) {
    fprintf(out, "  \"%s\": %s,\n", key, value);
}

static void put_bool(FILE *out, const char *key, bool value) {
    put_word(out, key, value ? "true" : "false");
}

/* A fraction with a point or an exponent: strict readers take 1 for an integer. */
static const char *real_text(double value, char text[SW_TEXT_NUMBER_BYTES + 2]) {
    sw_text_exact_real(value, text, SW_TEXT_NUMBER_BYTES);
    return strpbrk(text, ".e") ? text : strcat(text, ".0");
}

static void put_real(FILE *out, const char *key, double value) {
    char text[SW_TEXT_NUMBER_BYTES + 2];
    put_word(out, key, real_text(value, text));
}

static void put_token(FILE *out, const char *key, int64_t id) {
    if (id < 0)
        put_word(out, key, "null");
    else
        put_integer(out, key, id);
}

/* The settings of a rotary type, as members of an object that has begun. */
static void put_rope_members(FILE *out, const sw_rope_scaling *s) {
    char text[SW_TEXT_NUMBER_BYTES + 2];
    const struct {
        const char *key;
        double value;
        bool is_there;
    } reals[] = {
        {"factor", s->factor, s->type != SW_ROPE_DEFAULT},
        {"low_freq_factor", s->low_factor, s->type == SW_ROPE_LLAMA3},
        {"high_freq_factor", s->high_factor, s->type == SW_ROPE_LLAMA3},
        {"beta_fast", s->beta_fast, s->type == SW_ROPE_YARN},
        {"beta_slow", s->beta_slow, s->type == SW_ROPE_YARN},
        {"attention_factor", s->attention_factor, s->type == SW_ROPE_YARN && s->attention_factor != 0},
        {"mscale", s->mscale, s->type == SW_ROPE_YARN && s->mscale != 0},
        {"mscale_all_dim", s->mscale_all, s->type == SW_ROPE_YARN && s->mscale_all != 0},
    };
    fprintf(out, "\"rope_type\": \"%s\"", sw_hf_rope_types[s->type]);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (reals[i].is_there)
            fprintf(out, ", \"%s\": %s", reals[i].key, real_text(reals[i].value, text));
    if (s->type == SW_ROPE_LLAMA3 || s->type == SW_ROPE_YARN)
        fprintf(out, ", \"original_max_position_embeddings\": %" PRId64, s->original_positions);
    if (s->is_exact)
        fputs(", \"truncate\": false", out);
}

static void put_rope(FILE *out, const sw_model_config *m) {
    char theta[SW_TEXT_NUMBER_BYTES + 2];
    put_real(out, "rope_theta", m->rope_theta);
    if (m->rope.type == SW_ROPE_DEFAULT) {
        put_word(out, "rope_scaling", "null");
    } else {
        fputs("  \"rope_scaling\": {", out);
        put_rope_members(out, &m->rope);
        fputs("},\n", out);
    }
    fprintf(out, "  \"rope_parameters\": {\"rope_theta\": %s, ", real_text(m->rope_theta, theta));
    put_rope_members(out, &m->rope);
    fputs("},\n", out);
}

static void put_span(FILE *out, const sw_model_config *m) {
    if (m->span)
        put_integer(out, "sliding_window", m->span);
    else
        put_word(out, "sliding_window", "null");
    if (m->architecture == SW_MISTRAL)
        return;
    put_bool(out, "use_sliding_window", m->span > 0);
    put_integer(out, "max_window_layers", m->span ? m->full_layers : m->layers);
}

static void put_llama(FILE *out, const sw_model_config *m) {
    static const char *const names[SW_N_ARCHITECTURES][2] = {[SW_LLAMA] = {"[\"LlamaForCausalLM\"]", "llama"},
                                                             [SW_MISTRAL] = {"[\"MistralForCausalLM\"]", "mistral"},
                                                             [SW_QWEN2] = {"[\"Qwen2ForCausalLM\"]", "qwen2"},
                                                             [SW_QWEN3] = {"[\"Qwen3ForCausalLM\"]", "qwen3"}};
    put_word(out, "architectures", names[m->architecture][0]);
    put_text(out, "model_type", names[m->architecture][1]);
    put_integer(out, "hidden_size", m->hidden);
    put_integer(out, "intermediate_size", m->ffn);
    put_integer(out, "num_hidden_layers", m->layers);
    put_integer(out, "num_attention_heads", m->heads);
    put_integer(out, "num_key_value_heads", m->kv_heads);
    put_integer(out, "head_dim", m->head_channels);
    put_integer(out, "max_position_embeddings", m->max_positions);
    put_text(out, "hidden_act", "silu");
    put_real(out, "rms_norm_eps", m->norm_epsilon);
    put_rope(out, m);
    put_real(out, "attention_dropout", m->dropout.attention);
    if (m->architecture == SW_LLAMA || m->architecture == SW_QWEN3)
        put_bool(out, "attention_bias", m->qkv_bias);
    if (m->architecture != SW_LLAMA) {
        put_span(out, m);
        return;
    }
    put_bool(out, "mlp_bias", m->mlp_bias);
    put_integer(out, "pretraining_tp", 1);
}

static void put_gpt2(FILE *out, const sw_model_config *m) {
    put_word(out, "architectures", "[\"GPT2LMHeadModel\"]");
    put_text(out, "model_type", "gpt2");
    put_integer(out, "n_embd", m->hidden);
    put_integer(out, "n_inner", m->ffn);
    put_integer(out, "n_layer", m->layers);
    put_integer(out, "n_head", m->heads);
    put_integer(out, "n_positions", m->max_positions);
    put_text(out, "activation_function", sw_hf_activations[m->activation]);
    put_real(out, "layer_norm_epsilon", m->norm_epsilon);
    put_real(out, "resid_pdrop", m->dropout.residual);
    put_real(out, "embd_pdrop", m->dropout.embedding);
    put_real(out, "attn_pdrop", m->dropout.attention);
    put_bool(out, "scale_attn_weights", !m->unscaled_attention);
    put_bool(out, "scale_attn_by_inverse_layer_idx", m->scales_by_layer);
    put_bool(out, "reorder_and_upcast_attn", m->upcasts_attention);
    put_bool(out, "add_cross_attention", false);
}

sw_status sw_model_config_write(const sw_model_config *config, sw_dtype dtype, char **json_text, sw_error *err) {
    const char *dtype_text = dtype == SW_F32 ? "float32" : dtype == SW_BF16 ? "bfloat16" : dtype == SW_F16 ? "float16" : NULL;
    if (!dtype_text)
        return sw_fail(err, SW_BAD_CONFIG, "weights cannot be saved as %s; bf16, fp32 and fp16 can be", sw_dtype_name(dtype));
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return sw_fail(err, SW_NO_MEMORY, "no memory for config.json");
    fputs("{\n", out);
    (config->architecture == SW_GPT2 ? put_gpt2 : put_llama)(out, config);
    put_integer(out, "vocab_size", config->vocabulary);
    put_bool(out, "tie_word_embeddings", config->tied);
    put_real(out, "initializer_range", config->init_std);
    put_token(out, "bos_token_id", config->bos_token);
    put_token(out, "eos_token_id", config->eos_token);
    if (config->has_pad_token)
        put_integer(out, "pad_token_id", config->pad_token);
    if (config->mask == SW_MASK_FULL)
        put_bool(out, "is_causal", false);
    put_text(out, "dtype", dtype_text);
    put_text(out, "torch_dtype", dtype_text);
    fputs("  \"use_cache\": true\n}\n", out);
    if (!sw_text_close(out, &text))
        return sw_fail(err, SW_NO_MEMORY, "no memory for config.json");
    *json_text = text;
    return SW_OK;
}
