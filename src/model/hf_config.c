/* hf_config.c: a Hugging Face config.json becomes dimensions.
 *
 * Three kinds of keys: those that say a dimension; those that change the arithmetic into something that is not built, which are
 * refused by name unless they say what is built; and those without effect on training, which are passed over. Where a key is
 * absent or null the default of `transformers` holds, except for the sizes, which no file leaves out on purpose.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "model/model.h"

enum { MAX_CONFIG_BYTES = 4 << 20 };

/* Reading goes on until the first error; then every further step does nothing. */
typedef struct reader {
    sw_json_object root;
    sw_status status;
    sw_error *err;
} reader;

/* ---- keys that say a dimension ---- */

/* `key`, or the second name that transformers knows it by (may be NULL). */
static const char *spelled(const reader *r, const char *key, const char *alias) {
    return alias && !sw_json_has(&r->root, key) && sw_json_has(&r->root, alias) ? alias : key;
}

static int64_t size_of(reader *r, const char *key, const char *alias) {
    int64_t value = 0;
    if (r->status == SW_OK)
        r->status = sw_json_integer(&r->root, spelled(r, key, alias), SW_JSON_REQUIRED, &value, r->err);
    return value;
}

static int64_t size_or(reader *r, const char *key, const char *alias, int64_t otherwise) {
    int64_t value = otherwise;
    if (r->status == SW_OK)
        r->status = sw_json_integer(&r->root, spelled(r, key, alias), SW_JSON_OPTIONAL, &value, r->err);
    return value;
}

static double real_or(reader *r, const char *key, double otherwise) {
    double value = otherwise;
    if (r->status == SW_OK)
        r->status = sw_json_real(&r->root, key, SW_JSON_OPTIONAL, &value, r->err);
    return value;
}

static bool bool_or(reader *r, const char *key, bool otherwise) {
    bool value = otherwise;
    if (r->status == SW_OK)
        r->status = sw_json_bool(&r->root, key, SW_JSON_OPTIONAL, &value, r->err);
    return value;
}

/* A token id: an integer or a list, of which the first counts; null and negative ids are none. */
static int64_t token_or(reader *r, const char *key, int64_t otherwise, int64_t vocabulary) {
    int64_t id = otherwise < vocabulary ? otherwise : -1;
    int n;
    if (r->status != SW_OK || sw_json_is_null(&r->root, key))
        return -1;
    if (sw_json_is_list(&r->root, key)) {
        id = -1;
        r->status = sw_json_integers(&r->root, key, &id, 1, &n, r->err);
    } else {
        r->status = sw_json_integer(&r->root, key, SW_JSON_OPTIONAL, &id, r->err);
    }
    return id < 0 ? -1 : id;
}

/* ---- keys that change the arithmetic ---- */

static void refuse(reader *r, const sw_json_object *object, const char *key, const char *value, const char *built) {
    r->status = sw_fail(r->err, SW_BAD_FILE, "%s: %s%s %s asks for arithmetic that is not built; only %s is",
                        sw_json_name(object), object->path, key, value, built);
}

static void must_be(reader *r, const char *key, bool built) {
    if (bool_or(r, key, built) != built && r->status == SW_OK)
        refuse(r, &r->root, key, built ? "false" : "true", built ? "true" : "false");
}

static void must_be_absent(reader *r, const char *key) {
    if (r->status == SW_OK && sw_json_has(&r->root, key))
        refuse(r, &r->root, key, "(it is set)", "null");
}

static void must_be_number(reader *r, const char *key, double built) {
    char value[SW_TEXT_NUMBER_BYTES], only[SW_TEXT_NUMBER_BYTES];
    double found = real_or(r, key, built);
    if (found != built && r->status == SW_OK)
        refuse(r, &r->root, key, sw_text_exact_real(found, value, sizeof value), sw_text_exact_real(built, only, sizeof only));
}

/* A word that must be one of two names for the same thing. */
static void must_be_word(reader *r, const sw_json_object *object, const char *key, const char *built, const char *synonym) {
    const char *word = built;
    char quoted[96];
    if (r->status == SW_OK)
        r->status = sw_json_text(object, key, SW_JSON_OPTIONAL, &word, r->err);
    if (r->status != SW_OK || strcmp(word, built) == 0 || strcmp(word, synonym) == 0)
        return;
    snprintf(quoted, sizeof quoted, "\"%.80s\"", word);
    refuse(r, object, key, quoted, built);
}

/* ---- rotary embedding, in both spellings ---- */

/* rope_parameters, or rope_scaling of older files: {"rope_type" or "type": "default", "rope_theta": x}. */
static void read_rope_object(reader *r, const char *key, double *theta) {
    sw_json_object rope;
    if (r->status != SW_OK || !sw_json_has(&r->root, key) || (r->status = sw_json_child(&r->root, key, &rope, r->err)) != SW_OK)
        return;
    must_be_word(r, &rope, "rope_type", "default", "default");
    must_be_word(r, &rope, "type", "default", "default");
    double partial = 1, own_theta = *theta;
    if (r->status == SW_OK)
        r->status = sw_json_real(&rope, "rope_theta", SW_JSON_OPTIONAL, &own_theta, r->err);
    if (r->status == SW_OK)
        r->status = sw_json_real(&rope, "partial_rotary_factor", SW_JSON_OPTIONAL, &partial, r->err);
    if (r->status == SW_OK && partial != 1)
        refuse(r, &rope, "partial_rotary_factor", "(it is not 1)", "1");
    void *at = NULL;
    for (const char *name; r->status == SW_OK && (name = sw_json_next_key(&rope, &at));) {
        static const char *const known[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= strcmp(name, known[i]) == 0;
        if (!is_known && sw_json_has(&rope, name))
            refuse(r, &rope, name, "(it is set)", "the type \"default\" without it");
    }
    if (r->status == SW_OK && sw_json_has(&r->root, "rope_theta") && own_theta != *theta)
        r->status = sw_fail(r->err, SW_BAD_FILE, "%s: rope_theta and %s.rope_theta differ; leave one of them out",
                            sw_json_name(&r->root), key);
    *theta = own_theta;
}

/* ---- the architectures ---- */

static void read_llama(reader *r, sw_model_config *m) {
    m->hidden = size_of(r, "hidden_size", NULL);
    m->layers = size_of(r, "num_hidden_layers", NULL);
    m->heads = size_of(r, "num_attention_heads", NULL);
    m->ffn = size_of(r, "intermediate_size", NULL);
    m->vocabulary = size_of(r, "vocab_size", NULL);
    m->kv_heads = size_or(r, "num_key_value_heads", NULL, m->heads);
    /* With 0 heads there is nothing to divide; the check names them. */
    m->head_channels = size_or(r, "head_dim", NULL, m->heads > 0 ? m->hidden / m->heads : 1);
    m->max_positions = size_or(r, "max_position_embeddings", NULL, 2048);
    m->norm_epsilon = real_or(r, "rms_norm_eps", 1e-6);
    m->init_std = real_or(r, "initializer_range", 0.02);
    m->rope_theta = real_or(r, "rope_theta", 10000);
    read_rope_object(r, "rope_parameters", &m->rope_theta);
    read_rope_object(r, "rope_scaling", &m->rope_theta);
    m->tied = bool_or(r, "tie_word_embeddings", false);
    m->bos_token = token_or(r, "bos_token_id", 1, m->vocabulary);
    m->eos_token = token_or(r, "eos_token_id", 2, m->vocabulary);
    must_be_word(r, &r->root, "hidden_act", "silu", "swish");
    must_be(r, "attention_bias", false);
    must_be(r, "mlp_bias", false);
    must_be_number(r, "attention_dropout", 0);
    must_be_number(r, "partial_rotary_factor", 1);
    must_be_number(r, "pretraining_tp", 1);
    if (bool_or(r, "use_sliding_window", true))
        must_be_absent(r, "sliding_window");
}

/* Dropout falls on the embedding and on what is added to the residual, with one probability; none on attention. Hugging Face's
 * default for all three keys is 0.1, so a key that is not written is not 0. */
static void read_gpt2_dropout(reader *r, sw_model_config *m) {
    static const double otherwise = 0.1;
    double attention = real_or(r, "attn_pdrop", otherwise), embedding = real_or(r, "embd_pdrop", otherwise);
    m->dropout = real_or(r, "resid_pdrop", otherwise);
    if (r->status != SW_OK)
        return;
    char text[SW_TEXT_NUMBER_BYTES];
    if (attention != 0)
        r->status = sw_fail(r->err, SW_BAD_FILE,
                            "%s: attn_pdrop is %s%s: dropout on attention probabilities is not built; write \"attn_pdrop\": 0.0",
                            sw_json_name(&r->root), sw_text_exact_real(attention, text, sizeof text),
                            sw_json_has(&r->root, "attn_pdrop") ? "" : " where it is not written");
    else if (embedding != m->dropout)
        r->status = sw_fail(r->err, SW_BAD_FILE,
                            "%s: embd_pdrop and resid_pdrop differ (0.1 where they are not written): one dropout for "
                            "both is built; write the same number",
                            sw_json_name(&r->root));
}

static void read_gpt2(reader *r, sw_model_config *m) {
    m->hidden = size_of(r, "n_embd", "hidden_size");
    m->layers = size_of(r, "n_layer", "num_hidden_layers");
    m->heads = m->kv_heads = size_of(r, "n_head", "num_attention_heads");
    m->vocabulary = size_of(r, "vocab_size", NULL);
    m->head_channels = m->heads > 0 ? m->hidden / m->heads : 1;
    m->max_positions = size_or(r, "n_positions", "max_position_embeddings", 1024);
    /* A hidden size that cannot be multiplied is refused by the check of sizes. */
    m->ffn = size_or(r, "n_inner", NULL, m->hidden > 0 && m->hidden < INT32_MAX / 4 ? 4 * m->hidden : m->hidden);
    m->norm_epsilon = real_or(r, "layer_norm_epsilon", 1e-5);
    m->init_std = real_or(r, "initializer_range", 0.02);
    m->rope_theta = 10000; /* unused */
    m->tied = bool_or(r, "tie_word_embeddings", true);
    m->bos_token = token_or(r, "bos_token_id", 50256, m->vocabulary);
    m->eos_token = token_or(r, "eos_token_id", 50256, m->vocabulary);
    read_gpt2_dropout(r, m);
    must_be_word(r, &r->root, "activation_function", "gelu_new", "gelu_pytorch_tanh");
    must_be(r, "scale_attn_weights", true);
    must_be(r, "scale_attn_by_inverse_layer_idx", false);
    must_be(r, "reorder_and_upcast_attn", false);
}

static void read_model_type(reader *r, sw_architecture *architecture) {
    static const char *const types[SW_N_ARCHITECTURES] = {[SW_LLAMA] = "llama", [SW_GPT2] = "gpt2"};
    const char *type = NULL;
    if ((r->status = sw_json_text(&r->root, "model_type", SW_JSON_REQUIRED, &type, r->err)) != SW_OK)
        return;
    for (int i = 0; i < SW_N_ARCHITECTURES; i++)
        if (strcmp(type, types[i]) == 0) {
            *architecture = (sw_architecture)i;
            return;
        }
    const char *nearest = sw_text_nearest(type, types, SW_N_ARCHITECTURES);
    r->status = sw_fail(r->err, SW_BAD_FILE, "%s: model_type \"%.80s\" is not built; %s%s%s", sw_json_name(&r->root), type,
                        nearest ? "did you mean " : "there are ", nearest ? nearest : "llama and gpt2", nearest ? "?" : "");
}

sw_status sw_model_config_parse(const char *name, const char *text, int64_t bytes, sw_model_config *config, sw_error *err) {
    sw_json *document;
    sw_status status = sw_json_parse(name, text, bytes, &document, err);
    if (status != SW_OK)
        return status;
    reader r = {.root = sw_json_root(document), .err = err};
    sw_model_config m = {0};
    read_model_type(&r, &m.architecture);
    if (r.status == SW_OK)
        (m.architecture == SW_GPT2 ? read_gpt2 : read_llama)(&r, &m);
    must_be(&r, "add_cross_attention", false);
    must_be(&r, "is_encoder_decoder", false);
    must_be_absent(&r, "quantization_config");
    if (r.status == SW_OK && (r.status = sw_model_config_check(&m, SW_SPELL_HUGGING_FACE, err)) != SW_OK)
        r.status = sw_fail_within(err, "%s", name);
    if (r.status == SW_OK)
        *config = m;
    sw_json_free(document);
    return r.status;
}

sw_status sw_model_config_read(const char *directory, sw_model_config *config, sw_error *err) {
    char path[SW_PATH_BYTES], *text;
    int64_t bytes;
    sw_status status = sw_path_join(path, directory, "config.json", err);
    if (status != SW_OK || (status = sw_file_read(path, MAX_CONFIG_BYTES, &text, &bytes, err)) != SW_OK)
        return status;
    status = sw_model_config_parse(path, text, bytes, config, err);
    free(text);
    return status;
}
