/* hf_config_write.c: dimensions become a config.json that `transformers` loads, 4 and 5 alike.
 *
 * Version 5 reads `dtype` and `rope_parameters`, version 4 `torch_dtype` and `rope_theta`; each
 * passes over the other's keys when they agree. Every key that changes the arithmetic is written,
 * so that no reader's default decides.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/json_number.h"
#include "hf/hf_reader.h"

/* An object that is being made. */
typedef struct members {
    json_t *object;
    bool is_short; /* of memory: something is missing */
} members;

static void put(members *to, const char *key, json_t *value) {
    to->is_short = json_object_set_new(to->object, key, value) || to->is_short;
}

static void put_integer(members *to, const char *key, int64_t value) {
    put(to, key, json_integer(value));
}

static void put_text(members *to, const char *key, const char *value) {
    put(to, key, json_string(value));
}

static void put_bool(members *to, const char *key, bool value) {
    put(to, key, json_boolean(value));
}

static void put_real(members *to, const char *key, double value) {
    put(to, key, sw_json_number(value));
}

static void put_token(members *to, const char *key, int64_t id) {
    put(to, key, id < 0 ? json_null() : json_integer(id));
}

static void put_architecture(members *to, const char *class, const char *type) {
    put(to, "architectures", json_pack("[s]", class));
    put_text(to, "model_type", type);
}

/* The settings of a rotary type. */
static void put_rope_members(members *to, const sw_rope_scaling *s) {
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
        {"attention_factor", s->attention_factor,
         s->type == SW_ROPE_YARN && s->attention_factor != 0},
        {"mscale", s->mscale, s->type == SW_ROPE_YARN && s->mscale != 0},
        {"mscale_all_dim", s->mscale_all, s->type == SW_ROPE_YARN && s->mscale_all != 0},
    };
    put_text(to, "rope_type", sw_hf_rope_types[s->type]);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (reals[i].is_there)
            put_real(to, reals[i].key, reals[i].value);
    if (s->type == SW_ROPE_LLAMA3 || s->type == SW_ROPE_YARN)
        put_integer(to, "original_max_position_embeddings", s->original_positions);
    if (s->is_exact)
        put_bool(to, "truncate", false);
}

static void put_rope(members *to, const sw_model_config *m) {
    members scaling = {json_object()}, parameters = {json_object()};
    put_real(to, "rope_theta", m->rope_theta);
    put_rope_members(&scaling, &m->rope);
    put(to, "rope_scaling",
        m->rope.type == SW_ROPE_DEFAULT ? json_null() : json_incref(scaling.object));
    json_decref(scaling.object);
    put_real(&parameters, "rope_theta", m->rope_theta);
    put_rope_members(&parameters, &m->rope);
    put(to, "rope_parameters", parameters.object);
    to->is_short = to->is_short || scaling.is_short || parameters.is_short;
}

static void put_span(members *to, const sw_model_config *m) {
    put(to, "sliding_window", m->span ? json_integer(m->span) : json_null());
    if (m->architecture == SW_MISTRAL)
        return;
    put_bool(to, "use_sliding_window", m->span > 0);
    put_integer(to, "max_window_layers", m->span ? m->full_layers : m->layers);
}

static void put_llama(members *to, const sw_model_config *m) {
    static const char *const names[SW_N_ARCHITECTURES][2] = {
        [SW_LLAMA] = {"LlamaForCausalLM", "llama"},
        [SW_MISTRAL] = {"MistralForCausalLM", "mistral"},
        [SW_QWEN2] = {"Qwen2ForCausalLM", "qwen2"},
        [SW_QWEN3] = {"Qwen3ForCausalLM", "qwen3"}};
    put_architecture(to, names[m->architecture][0], names[m->architecture][1]);
    put_integer(to, "hidden_size", m->hidden);
    put_integer(to, "intermediate_size", m->ffn);
    put_integer(to, "num_hidden_layers", m->layers);
    put_integer(to, "num_attention_heads", m->heads);
    put_integer(to, "num_key_value_heads", m->kv_heads);
    put_integer(to, "head_dim", m->head_channels);
    put_integer(to, "max_position_embeddings", m->max_positions);
    put_text(to, "hidden_act", "silu");
    put_real(to, "rms_norm_eps", m->norm_epsilon);
    put_rope(to, m);
    put_real(to, "attention_dropout", m->dropout.attention);
    if (m->architecture == SW_LLAMA || m->architecture == SW_QWEN3)
        put_bool(to, "attention_bias", m->qkv_bias);
    if (m->architecture != SW_LLAMA) {
        put_span(to, m);
        return;
    }
    put_bool(to, "mlp_bias", m->mlp_bias);
    put_integer(to, "pretraining_tp", 1);
}

static void put_gpt2(members *to, const sw_model_config *m) {
    put_architecture(to, "GPT2LMHeadModel", "gpt2");
    put_integer(to, "n_embd", m->hidden);
    put_integer(to, "n_inner", m->ffn);
    put_integer(to, "n_layer", m->layers);
    put_integer(to, "n_head", m->heads);
    put_integer(to, "n_positions", m->max_positions);
    put_text(to, "activation_function", sw_hf_activations[m->activation]);
    put_real(to, "layer_norm_epsilon", m->norm_epsilon);
    put_real(to, "resid_pdrop", m->dropout.residual);
    put_real(to, "embd_pdrop", m->dropout.embedding);
    put_real(to, "attn_pdrop", m->dropout.attention);
    put_bool(to, "scale_attn_weights", !m->unscaled_attention);
    put_bool(to, "scale_attn_by_inverse_layer_idx", m->scales_by_layer);
    put_bool(to, "reorder_and_upcast_attn", m->upcasts_attention);
    put_bool(to, "add_cross_attention", false);
}

sw_status sw_model_config_write(const sw_model_config *config, sw_dtype dtype, char **json_text,
                                sw_error *err) {
    const char *dtype_text = dtype == SW_F32    ? "float32"
                             : dtype == SW_BF16 ? "bfloat16"
                             : dtype == SW_F16  ? "float16"
                                                : NULL;
    if (!dtype_text)
        return sw_fail(err, SW_BAD_CONFIG,
                       "weights cannot be saved as %s; bf16, fp32 and fp16 can be",
                       sw_dtype_name(dtype));
    members all = {json_object()}, *object = &all;
    (config->architecture == SW_GPT2 ? put_gpt2 : put_llama)(object, config);
    put_integer(object, "vocab_size", config->vocabulary);
    put_bool(object, "tie_word_embeddings", config->tied);
    put_real(object, "initializer_range", config->init_std);
    put_token(object, "bos_token_id", config->bos_token);
    put_token(object, "eos_token_id", config->eos_token);
    if (config->has_pad_token)
        put_integer(object, "pad_token_id", config->pad_token);
    if (config->mask == SW_MASK_FULL)
        put_bool(object, "is_causal", false);
    put_text(object, "dtype", dtype_text);
    put_text(object, "torch_dtype", dtype_text);
    put_bool(object, "use_cache", true);
    *json_text = all.is_short ? NULL : sw_json_shortest(all.object);
    json_decref(all.object);
    return *json_text ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory for config.json");
}
