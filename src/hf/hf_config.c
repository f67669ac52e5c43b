/* hf_config.c: a Hugging Face config.json becomes dimensions.
 *
 * Three kinds of keys: those that say a dimension; those that change the arithmetic, which are
 * honoured, or, where it is not built, refused by name; and those without effect on training, which
 * are passed over. Where a key is absent or null the default of `transformers` holds, except for
 * the sizes, which no file leaves out on purpose.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "hf/hf_folder.h"
#include "hf/hf_reader.h"

enum { MAX_CONFIG_BYTES = 4 << 20 };

/* ---- Llama and its relatives ---- */

/* What `transformers` takes where a key is absent. 0: there is none, or none applies. */
typedef struct family {
    int64_t kv_heads, head_channels, max_positions, bos_token,
        eos_token; /* kv_heads 0: as many as heads */
} family;

static const family families[SW_N_ARCHITECTURES] = {
    [SW_LLAMA] = {0, 0, 2048, 1, 2},
    [SW_MISTRAL] = {8, 0, 131072, 1, 2},
    [SW_QWEN2] = {32, 0, 32768, -1, -1},
    [SW_QWEN3] = {32, 128, 32768, -1, -1},
};

/* Mistral's span is there unless it is null. */
static void read_mistral_span(sw_hf_reader *r, sw_model_config *m) {
    if (!sw_json_is_null(&r->root, "sliding_window"))
        m->span = sw_hf_size_or(r, "sliding_window", NULL, 4096);
    if (r->status == SW_OK && !sw_json_is_null(&r->root, "sliding_window") && m->span < 1)
        sw_hf_refuse(r, &r->root, "sliding_window", "below 1", "a number of at least 1 or null");
}

/* layer_types says which layers have the span; what is built is none in the first so many, and one
 * in all others. */
static void read_layer_types(sw_hf_reader *r, sw_model_config *m) {
    const char *types[2048];
    int n = 0;
    sw_hf_ask(r, "layer_types");
    if (r->status != SW_OK || !sw_json_has(&r->root, "layer_types"))
        return;
    r->status =
        sw_json_texts(&r->root, "layer_types", types, sizeof types / sizeof *types, &n, r->err);
    if (r->status != SW_OK)
        return;
    if (n != m->layers || n > (int)(sizeof types / sizeof *types)) {
        r->status = sw_fail(r->err, SW_BAD_FILE, "%s: layer_types has %d %s for %" PRId64 " %s",
                            sw_json_name(&r->root), n, sw_text_noun(n, "entry", "entries"),
                            m->layers, sw_text_noun(m->layers, "layer", "layers"));
        return;
    }
    int n_full = 0;
    for (int i = 0; i < n && r->status == SW_OK; i++) {
        bool is_full = strcmp(types[i], "full_attention") == 0,
             is_spanned = strcmp(types[i], "sliding_attention") == 0;
        if (!is_full && !is_spanned)
            sw_hf_refuse(r, &r->root, "layer_types", types[i],
                         "full_attention or sliding_attention");
        else if (is_full && i > n_full)
            sw_hf_refuse(r, &r->root, "layer_types", "with full_attention above sliding_attention",
                         "full_attention in the first layers and nowhere else");
        else if (is_spanned && m->span == 0)
            sw_hf_refuse(r, &r->root, "layer_types", "with sliding_attention and no sliding_window",
                         "use_sliding_window true with it");
        n_full += is_full;
    }
    m->full_layers = m->span ? n_full : 0;
}

/* Qwen's span is there where use_sliding_window is true, from layer max_window_layers on. */
static void read_qwen_span(sw_hf_reader *r, sw_model_config *m) {
    if (sw_hf_bool_or(r, "use_sliding_window", false) &&
        !sw_json_is_null(&r->root, "sliding_window")) {
        m->span = sw_hf_size_or(r, "sliding_window", NULL, 4096);
        m->full_layers = sw_hf_size_or(r, "max_window_layers", NULL, 28);
        if (r->status == SW_OK && m->span < 1)
            sw_hf_refuse(r, &r->root, "sliding_window", "below 1",
                         "a number of at least 1 or null");
        if (r->status == SW_OK && m->full_layers < 0)
            sw_hf_refuse(r, &r->root, "max_window_layers", "below 0", "a number of at least 0");
    }
    read_layer_types(r, m);
    if (m->full_layers >= m->layers) /* no layer has it */
        m->span = m->full_layers = 0;
}

/* What only one of them has, and what others would have to be told. */
static void read_differences(sw_hf_reader *r, sw_model_config *m) {
    switch (m->architecture) {
    case SW_MISTRAL:
        read_mistral_span(r, m);
        sw_hf_must_be(r, "attention_bias", false);
        sw_hf_must_be_absent(r, "layer_types");
        break;
    case SW_QWEN2:
        m->qkv_bias = true;
        read_qwen_span(r, m);
        sw_hf_must_be(r, "attention_bias", true);
        break;
    case SW_QWEN3:
        m->qkv_bias = m->o_bias = sw_hf_bool_or(r, "attention_bias", false);
        m->qk_norm = true;
        read_qwen_span(r, m);
        break;
    default:
        m->qkv_bias = m->o_bias = sw_hf_bool_or(r, "attention_bias", false);
        m->mlp_bias = sw_hf_bool_or(r, "mlp_bias", false);
        break;
    }
    if (m->architecture != SW_LLAMA)
        sw_hf_must_be(r, "mlp_bias", false);
}

/* A negative id counts from the end; one beyond the vocabulary, which no token has, is none. */
static void read_padding(sw_hf_reader *r, sw_model_config *m) {
    const int64_t none = INT64_MIN, id = sw_hf_size_or(r, "pad_token_id", NULL, none);
    m->has_pad_token = m->vocabulary > 0 && id >= -m->vocabulary && id < m->vocabulary;
    m->pad_token = m->has_pad_token ? (id < 0 ? m->vocabulary + id : id) : 0;
}

static void read_llama(sw_hf_reader *r, sw_model_config *m) {
    const family *f = &families[m->architecture];
    m->hidden = sw_hf_size(r, "hidden_size", NULL);
    m->layers = sw_hf_size(r, "num_hidden_layers", NULL);
    m->heads = sw_hf_size(r, "num_attention_heads", NULL);
    m->ffn = sw_hf_size(r, "intermediate_size", NULL);
    m->vocabulary = sw_hf_size(r, "vocab_size", NULL);
    bool is_told = f->kv_heads == 0 || sw_json_is_null(&r->root, "num_key_value_heads");
    m->kv_heads = sw_hf_size_or(r, "num_key_value_heads", NULL, is_told ? m->heads : f->kv_heads);
    /* With 0 heads there is nothing to divide; the check names them. */
    int64_t quotient = m->heads > 0 ? m->hidden / m->heads : 1;
    m->head_channels =
        sw_hf_size_or(r, "head_dim", NULL, f->head_channels ? f->head_channels : quotient);
    m->max_positions = sw_hf_size_or(r, "max_position_embeddings", NULL, f->max_positions);
    m->norm_epsilon = sw_hf_real_or(r, "rms_norm_eps", 1e-6);
    m->init_std = sw_hf_real_or(r, "initializer_range", 0.02);
    sw_hf_read_rope(r, m);
    m->tied = sw_hf_bool_or(r, "tie_word_embeddings", false);
    m->bos_token = sw_hf_token_or(r, "bos_token_id", f->bos_token, m->vocabulary);
    m->eos_token = sw_hf_token_or(r, "eos_token_id", f->eos_token, m->vocabulary);
    sw_hf_must_be_word(r, "hidden_act", "silu", "swish");
    m->dropout.attention = sw_hf_real_or(r, "attention_dropout", 0);
    sw_hf_must_be_number(r, "partial_rotary_factor", 1);
    read_padding(r, m);
    read_differences(r, m);
}

/* ---- GPT-2 ---- */

/* Hugging Face's default for all three is 0.1, so a key that is not written is not 0. */
static void read_gpt2_dropout(sw_hf_reader *r, sw_model_config *m) {
    static const double otherwise = 0.1;
    m->dropout.embedding = sw_hf_real_or(r, "embd_pdrop", otherwise);
    m->dropout.residual = sw_hf_real_or(r, "resid_pdrop", otherwise);
    m->dropout.attention = sw_hf_real_or(r, "attn_pdrop", otherwise);
}

static void read_activation(sw_hf_reader *r, const char *key, sw_model_config *m) {
    const char *name = sw_hf_activations[SW_GELU_TANH];
    char quoted[96];
    sw_hf_ask(r, key);
    if (r->status == SW_OK)
        r->status = sw_json_text(&r->root, key, SW_JSON_OPTIONAL, &name, r->err);
    if (r->status != SW_OK || sw_hf_find_activation(name, &m->activation))
        return;
    snprintf(quoted, sizeof quoted, "\"%.80s\"", name);
    sw_hf_refuse(r, &r->root, key, quoted,
                 "a name that transformers knows (gelu, gelu_new, relu, silu and so on) of a "
                 "function without parameters");
}

static void read_gpt2(sw_hf_reader *r, sw_model_config *m) {
    m->hidden = sw_hf_size(r, "n_embd", "hidden_size");
    m->layers = sw_hf_size(r, "n_layer", "num_hidden_layers");
    m->heads = m->kv_heads = sw_hf_size(r, "n_head", "num_attention_heads");
    m->vocabulary = sw_hf_size(r, "vocab_size", NULL);
    m->head_channels = m->heads > 0 ? m->hidden / m->heads : 1;
    m->max_positions = sw_hf_size_or(r, "n_positions", "max_position_embeddings", 1024);
    /* A hidden size that cannot be multiplied is refused by the check of sizes. */
    m->ffn = sw_hf_size_or(r, "n_inner", NULL,
                           m->hidden > 0 && m->hidden < INT32_MAX / 4 ? 4 * m->hidden : m->hidden);
    m->norm_epsilon = sw_hf_real_or(r, "layer_norm_epsilon", 1e-5);
    m->init_std = sw_hf_real_or(r, "initializer_range", 0.02);
    m->rope_theta = 10000; /* unused */
    m->tied = sw_hf_bool_or(r, "tie_word_embeddings", true);
    m->bos_token = sw_hf_token_or(r, "bos_token_id", 50256, m->vocabulary);
    m->eos_token = sw_hf_token_or(r, "eos_token_id", 50256, m->vocabulary);
    m->pad_token =
        sw_hf_token_or(r, "pad_token_id", -1, m->vocabulary); /* written again, and no more */
    m->has_pad_token = m->pad_token >= 0;
    read_gpt2_dropout(r, m);
    read_activation(r, "activation_function", m);
    m->unscaled_attention = !sw_hf_bool_or(r, "scale_attn_weights", true);
    m->scales_by_layer = sw_hf_bool_or(r, "scale_attn_by_inverse_layer_idx", false);
    m->upcasts_attention = sw_hf_bool_or(r, "reorder_and_upcast_attn", false);
}

/* Where is_causal is null, transformers computes one thing or the other, by how it computes
 * attention. */
static void read_mask(sw_hf_reader *r, sw_model_config *m) {
    m->mask = sw_hf_bool_or(r, "is_causal", true) ? SW_MASK_CAUSAL : SW_MASK_FULL;
    if (r->status == SW_OK && sw_json_is_null(&r->root, "is_causal"))
        sw_hf_refuse(r, &r->root, "is_causal", "null", "true or false");
}

static void read_model_type(sw_hf_reader *r, sw_architecture *architecture) {
    static const char *const types[SW_N_ARCHITECTURES] = {[SW_LLAMA] = "llama",
                                                          [SW_GPT2] = "gpt2",
                                                          [SW_MISTRAL] = "mistral",
                                                          [SW_QWEN2] = "qwen2",
                                                          [SW_QWEN3] = "qwen3"};
    const char *type = NULL;
    sw_hf_ask(r, "model_type");
    if ((r->status = sw_json_text(&r->root, "model_type", SW_JSON_REQUIRED, &type, r->err)) !=
        SW_OK)
        return;
    for (int i = 0; i < SW_N_ARCHITECTURES; i++)
        if (strcmp(type, types[i]) == 0) {
            *architecture = (sw_architecture)i;
            return;
        }
    const char *nearest = sw_text_nearest(type, types, SW_N_ARCHITECTURES);
    r->status =
        sw_fail(r->err, SW_BAD_FILE, "%s: model_type \"%.80s\" is not built; %s%s%s",
                sw_json_name(&r->root), type, nearest ? "did you mean " : "there are ",
                nearest ? nearest : "llama, mistral, qwen2, qwen3 and gpt2", nearest ? "?" : "");
}

/* The keys that have a value and were not asked for, in the order of the file, as far as there is
 * room. */
static void list_unasked(const sw_hf_reader *r, char *keys, size_t n_bytes) {
    size_t n = 0;
    void *at = NULL;
    keys[0] = 0;
    for (const char *key; (key = sw_json_next_key(&r->root, &at)) && n + 1 < n_bytes;) {
        bool is_asked = !sw_json_has(&r->root, key); /* null is the same as absent */
        for (int i = 0; i < r->n_asked && !is_asked; i++)
            is_asked = strcmp(r->asked[i], key) == 0;
        if (!is_asked)
            n += (size_t)snprintf(keys + n, n_bytes - n, "%s%s", n ? ", " : "", key);
    }
}

/* `unread` [n_bytes], NULL: nobody wants the keys without effect. */
static sw_status parse(const char *name, const char *text, int64_t bytes, sw_model_config *config,
                       char *unread, size_t n_bytes, sw_error *err) {
    sw_json *document;
    sw_status status = sw_json_parse(name, text, bytes, &document, err);
    if (status != SW_OK)
        return status;
    sw_hf_reader r = {.root = sw_json_root(document), .err = err};
    sw_model_config m = {0};
    read_model_type(&r, &m.architecture);
    if (r.status == SW_OK)
        (m.architecture == SW_GPT2 ? read_gpt2 : read_llama)(&r, &m);
    read_mask(&r, &m);
    sw_hf_check_others(&r, &m);
    sw_hf_must_be(&r, "add_cross_attention", false);
    sw_hf_must_be(&r, "is_encoder_decoder", false);
    sw_hf_must_be_absent(&r, "quantization_config");
    if (r.status == SW_OK &&
        (r.status = sw_model_config_check(&m, SW_SPELL_HUGGING_FACE, err)) != SW_OK)
        r.status = sw_fail_within(err, "%s", name);
    if (r.status == SW_OK)
        *config = m;
    if (r.status == SW_OK && unread)
        list_unasked(&r, unread, n_bytes);
    sw_json_free(document);
    return r.status;
}

sw_status sw_model_config_parse(const char *name, const char *text, int64_t bytes,
                                sw_model_config *config, sw_error *err) {
    return parse(name, text, bytes, config, NULL, 0, err);
}

static sw_status read_file(const char *directory, sw_model_config *config, char *unread,
                           size_t n_bytes, sw_error *err) {
    char path[SW_PATH_BYTES], *text;
    int64_t bytes;
    sw_status status = sw_hf_folder_check(directory, err);
    if (status == SW_OK)
        status = sw_path_join(path, directory, "config.json", err);
    if (status != SW_OK ||
        (status = sw_file_read(path, MAX_CONFIG_BYTES, &text, &bytes, err)) != SW_OK)
        return status;
    status = parse(path, text, bytes, config, unread, n_bytes, err);
    free(text);
    return status;
}

sw_status sw_model_config_read(const char *directory, sw_model_config *config, sw_error *err) {
    return read_file(directory, config, NULL, 0, err);
}

sw_status sw_model_config_unread(const char *directory, char *keys, size_t n_bytes, sw_error *err) {
    sw_model_config config;
    return read_file(directory, &config, keys, n_bytes, err);
}
