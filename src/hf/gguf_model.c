/* gguf_model.c: see gguf_model.h. */
#include "hf/gguf_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

/* ---- tensors ---- */

static const char *const top_names[][2] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

/* In a block, before ".weight" or ".bias". */
static const char *const block_names[][2] = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

const char *sw_gguf_tensor_name(const char *parameter, char *buffer, size_t bytes) {
    static const char prefix[] = "model.layers.";
    for (size_t i = 0; i < sizeof top_names / sizeof *top_names; i++)
        if (strcmp(parameter, top_names[i][0]) == 0) {
            snprintf(buffer, bytes, "%s", top_names[i][1]);
            return buffer;
        }
    if (strncmp(parameter, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *number = parameter + sizeof prefix - 1;
    size_t n_digits = strspn(number, "0123456789");
    const char *rest = number + n_digits + 1, *ending = strrchr(parameter, '.');
    if (!n_digits || number[n_digits] != '.' || ending < rest)
        return NULL;
    for (size_t i = 0; i < sizeof block_names / sizeof *block_names; i++) {
        size_t length = strlen(block_names[i][0]);
        if ((size_t)(ending - rest) == length && strncmp(rest, block_names[i][0], length) == 0) {
            snprintf(buffer, bytes, "blk.%.*s.%s%s", (int)n_digits, number, block_names[i][1],
                     ending);
            return buffer;
        }
    }
    return NULL;
}

int64_t sw_gguf_rotary_channels(const char *architecture, int64_t head_channels,
                                const char *parameter) {
    bool is_rotary =
        strstr(parameter, ".self_attn.q_proj.") || strstr(parameter, ".self_attn.k_proj.");
    return strcmp(architecture, "llama") == 0 && is_rotary ? head_channels : 0;
}

int64_t sw_gguf_row_from_hf(int64_t row, int64_t head_channels) {
    int64_t half = head_channels / 2, at = row % head_channels;
    return row - at + 2 * (at % half) + at / half;
}

int64_t sw_gguf_row_to_hf(int64_t row, int64_t head_channels) {
    int64_t half = head_channels / 2, at = row % head_channels;
    return row - at + at % 2 * half + at / 2;
}

/* ---- settings ---- */

enum { LLAMA3_LOW = 1, LLAMA3_HIGH = 4, LLAMA3_POSITIONS = 8192 };

/* Settings of an architecture, after "ARCHITECTURE.", that are read below; the last three mean
 * nothing for the arithmetic: llama.cpp prints the first, looks at the second where there is no
 * vocabulary, and at the third where there are experts. */
static const char *const known_settings[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.causal",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scale_linear",
    "expert_count",
    "tensor_data_layout",
    "rope.scaling.finetuned",
    "vocab_size",
    "expert_used_count",
};

/* Reading goes on until the first error; then every further step does nothing. */
typedef struct reader {
    sw_gguf *file;
    const char *architecture;
    char key[160];
    sw_status status;
    sw_error *err;
} reader;

static const char *key_of(reader *r, const char *setting) {
    snprintf(r->key, sizeof r->key, "%.80s.%s", r->architecture, setting);
    return r->key;
}

static int64_t integer_of(reader *r, const char *setting, bool is_required, int64_t otherwise) {
    int64_t value = otherwise;
    if (r->status == SW_OK)
        r->status = sw_gguf_integer(r->file, key_of(r, setting), is_required, &value, r->err);
    return value;
}

static double real_of(reader *r, const char *setting, bool is_required, double otherwise) {
    double value = otherwise;
    if (r->status == SW_OK)
        r->status = sw_gguf_real(r->file, key_of(r, setting), is_required, &value, r->err);
    if (r->status == SW_OK && !isfinite(value))
        r->status =
            sw_fail(r->err, SW_BAD_FILE, "%s: %s is not a finite number", r->file->path, r->key);
    return value;
}

static bool bool_of(reader *r, const char *setting, bool otherwise) {
    bool value = otherwise;
    if (r->status == SW_OK)
        r->status = sw_gguf_bool(r->file, key_of(r, setting), false, &value, r->err);
    return value;
}

static void refuse(reader *r, const char *setting, const char *reason) {
    if (r->status == SW_OK)
        r->status =
            sw_fail(r->err, SW_BAD_FILE, "%s: %s %s", r->file->path, key_of(r, setting), reason);
}

static void check_settings(reader *r) {
    size_t length = strlen(r->architecture);
    for (int i = 0; i < r->file->n_values && r->status == SW_OK; i++) {
        const char *key = r->file->values[i].key;
        bool is_known = strncmp(key, r->architecture, length) != 0 || key[length] != '.';
        for (size_t k = 0; k < sizeof known_settings / sizeof *known_settings; k++)
            is_known |= strncmp(key, r->architecture, length) == 0 &&
                        strcmp(key + length + 1, known_settings[k]) == 0;
        if (!is_known)
            r->status = sw_fail(r->err, SW_BAD_FILE,
                                "%s: %.200s is a setting that shardwise does not know; it might "
                                "change the arithmetic",
                                r->file->path, key);
    }
}

static const char *real_text(double value, char text[SW_TEXT_NUMBER_BYTES + 2]) {
    sw_text_exact_real(value, text, SW_TEXT_NUMBER_BYTES);
    return strpbrk(text, ".e") ? text : strcat(text, ".0");
}

/* Llama 3.1 and later keep their rotary scaling as a tensor: what each frequency is divided by. It
 * is made of four numbers, of which all published models share three; so the fourth is read off,
 * and all divisors must then come out as they are stored. False: they do not. */
static bool explains_divisors(const float *divisor, int64_t n, double base, double factor) {
    for (int64_t i = 0; i < n; i++) {
        double turns = LLAMA3_POSITIONS * pow(base, -(double)i / (double)n) /
                       (2 * M_PI); /* within the original positions */
        double blend = (turns - LLAMA3_LOW) / (LLAMA3_HIGH - LLAMA3_LOW);
        blend = blend < 0 ? 0 : blend > 1 ? 1 : blend;
        double expected = 1 / ((1 - blend) / factor + blend);
        if (!(fabs(divisor[i] - expected) <= 1e-4 * expected))
            return false;
    }
    return true;
}

static void put_rope_of_tensor(reader *r, FILE *out, const sw_gguf_tensor *tensor, double base) {
    float divisor[512];
    char theta[SW_TEXT_NUMBER_BYTES + 2], text[SW_TEXT_NUMBER_BYTES + 2];
    int64_t n = tensor->n_elements;
    if (n < 1 || n > (int64_t)(sizeof divisor / sizeof *divisor)) {
        r->status = sw_fail(r->err, SW_BAD_FILE, "%s: tensor \"%s\" has %" PRId64 " elements",
                            r->file->path, tensor->name, n);
        return;
    }
    if ((r->status = sw_gguf_read(r->file, tensor, 0, n, divisor, r->err)) != SW_OK)
        return;
    double factor = divisor[n - 1]; /* the lowest frequency is scaled by all of it */
    if (!explains_divisors(divisor, n, base, factor)) {
        r->status = sw_fail(r->err, SW_BAD_FILE,
                            "%s: tensor \"%s\" scales rotary frequencies in another way than Llama "
                            "3; take the Hugging Face folder of this model",
                            r->file->path, tensor->name);
        return;
    }
    fprintf(out,
            "  \"rope_parameters\": {\"rope_theta\": %s, \"rope_type\": \"llama3\", \"factor\": "
            "%s, \"low_freq_factor\": %d.0, "
            "\"high_freq_factor\": %d.0, \"original_max_position_embeddings\": %d},\n",
            real_text(base, theta), real_text(factor, text), LLAMA3_LOW, LLAMA3_HIGH,
            LLAMA3_POSITIONS);
}

/* Rotary scaling: none, linear, YaRN with its usual ramp, or Llama 3's. A factor without a type is
 * linear, and one of 0 is none, as llama.cpp has it. */
static void put_rope(reader *r, FILE *out) {
    char theta[SW_TEXT_NUMBER_BYTES + 2], text[SW_TEXT_NUMBER_BYTES + 2];
    const char *type = "linear";
    double base = real_of(r, "rope.freq_base", false, 10000);
    double factor =
        real_of(r, "rope.scaling.factor", false, real_of(r, "rope.scale_linear", false, 1));
    factor = factor == 0 ? 1 : factor;
    int64_t original = integer_of(r, "rope.scaling.original_context_length", false, 0);
    if (r->status == SW_OK)
        r->status = sw_gguf_text(r->file, key_of(r, "rope.scaling.type"), false, &type, r->err);
    if (r->status != SW_OK)
        return;
    fprintf(out, "  \"rope_theta\": %s,\n", real_text(base, theta));
    const sw_gguf_tensor *divisors = sw_gguf_find_tensor(r->file, SW_GGUF_ROPE_TENSOR);
    bool is_plain = strcmp(type, "none") == 0 || factor == 1;
    if (divisors && !is_plain)
        refuse(r, "rope.scaling.type", "and the tensor \"rope_freqs.weight\" are both there");
    else if (divisors)
        put_rope_of_tensor(r, out, divisors, base);
    else if (is_plain)
        fprintf(out, "  \"rope_parameters\": {\"rope_theta\": %s, \"rope_type\": \"default\"},\n",
                theta);
    else if (strcmp(type, "linear") == 0)
        fprintf(out,
                "  \"rope_parameters\": {\"rope_theta\": %s, \"rope_type\": \"linear\", "
                "\"factor\": %s},\n",
                theta, real_text(factor, text));
    else if (strcmp(type, "yarn") == 0 && original > 0)
        fprintf(
            out,
            "  \"rope_parameters\": {\"rope_theta\": %s, \"rope_type\": \"yarn\", \"factor\": %s, "
            "\"original_max_position_embeddings\": %" PRId64 "},\n",
            theta, real_text(factor, text), original);
    else
        refuse(r, "rope.scaling.type", "is not none, linear or a complete yarn");
}

static void put_token(reader *r, FILE *out, const char *key, const char *name) {
    int64_t id = -1;
    if (r->status == SW_OK)
        r->status = sw_gguf_integer(r->file, key, false, &id, r->err);
    if (id >= 0 && id != UINT32_MAX)
        fprintf(out, "  \"%s\": %" PRId64 ",\n", name, id);
    else
        fprintf(out, "  \"%s\": null,\n", name);
}

static const struct {
    const char *architecture, *model_type, *class;
} families[] = {
    {"llama", "llama", "LlamaForCausalLM"},
    {"qwen2", "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "qwen3", "Qwen3ForCausalLM"},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* How the rows of q and k of a Llama lie: only the usual way has a name. */
static void check_layout(reader *r) {
    const char *layout = "Meta AI original pth";
    if (r->status == SW_OK)
        r->status = sw_gguf_text(r->file, key_of(r, "tensor_data_layout"), false, &layout, r->err);
    if (r->status == SW_OK && strcmp(layout, "Meta AI original pth") != 0)
        refuse(r, "tensor_data_layout",
               "is not \"Meta AI original pth\", the only one that is read");
}

static void put_config(reader *r, FILE *out, sw_dtype dtype) {
    const char *dtype_text = dtype == SW_F32    ? "float32"
                             : dtype == SW_BF16 ? "bfloat16"
                                                : "float16";
    char text[SW_TEXT_NUMBER_BYTES + 2];
    int family = 0;
    while (family < N_FAMILIES && strcmp(r->architecture, families[family].architecture) != 0)
        family++;
    if (family == N_FAMILIES) {
        r->status =
            sw_fail(r->err, SW_BAD_FILE,
                    "%s: general.architecture \"%.80s\" is not read; llama, qwen2 and qwen3 are",
                    r->file->path, r->architecture);
        return;
    }
    check_settings(r);
    int64_t hidden = integer_of(r, "embedding_length", true, 0),
            heads = integer_of(r, "attention.head_count", true, 0);
    int64_t kv_heads = integer_of(r, "attention.head_count_kv", false, heads);
    int64_t rotary = integer_of(r, "rope.dimension_count", false, 0);
    int64_t head_dim = integer_of(r, "attention.key_length", false,
                                  rotary      ? rotary
                                  : heads > 0 ? hidden / heads
                                              : 0);
    if (rotary && rotary != head_dim)
        refuse(r, "rope.dimension_count",
               "is not the size of a head: rotating a part of it is not built");
    if (integer_of(r, "attention.value_length", false, head_dim) != head_dim)
        refuse(r, "attention.value_length", "differs from attention.key_length");
    check_layout(r);
    if (integer_of(r, "expert_count", false, 0) != 0)
        refuse(r, "expert_count", "is not 0: experts are not built");
    if (integer_of(r, "attention.sliding_window", false, 0) != 0)
        refuse(r, "attention.sliding_window",
               "is not 0: take the Hugging Face folder of this model");
    const sw_gguf_tensor *embedding = sw_gguf_find_tensor(r->file, "token_embd.weight");
    if (r->status == SW_OK && (!embedding || embedding->n_dimensions != 2))
        r->status = sw_fail(r->err, SW_BAD_FILE, "%s: tensor \"token_embd.weight\" %s",
                            r->file->path, embedding ? "has not two dimensions" : "is missing");
    fprintf(out, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n",
            families[family].class, families[family].model_type);
    fprintf(out, "  \"hidden_size\": %" PRId64 ",\n", hidden);
    fprintf(out, "  \"intermediate_size\": %" PRId64 ",\n",
            integer_of(r, "feed_forward_length", true, 0));
    fprintf(out, "  \"num_hidden_layers\": %" PRId64 ",\n", integer_of(r, "block_count", true, 0));
    fprintf(out, "  \"num_attention_heads\": %" PRId64 ",\n", heads);
    fprintf(out, "  \"num_key_value_heads\": %" PRId64 ",\n", kv_heads);
    fprintf(out, "  \"head_dim\": %" PRId64 ",\n", head_dim);
    fprintf(out, "  \"max_position_embeddings\": %" PRId64 ",\n",
            integer_of(r, "context_length", true, 0));
    fprintf(out, "  \"hidden_act\": \"silu\",\n");
    fprintf(out, "  \"rms_norm_eps\": %s,\n",
            real_text(real_of(r, "attention.layer_norm_rms_epsilon", true, 0), text));
    put_rope(r, out);
    if (families[family].architecture == families[0].architecture) {
        bool has_bias = sw_gguf_find_tensor(r->file, "blk.0.attn_q.bias") != NULL;
        fprintf(out, "  \"attention_bias\": %s,\n  \"mlp_bias\": %s,\n",
                has_bias ? "true" : "false",
                sw_gguf_find_tensor(r->file, "blk.0.ffn_up.bias") ? "true" : "false");
    } else {
        fprintf(out, "  \"use_sliding_window\": false,\n");
    }
    if (!bool_of(r, "attention.causal", true))
        fprintf(out, "  \"is_causal\": false,\n");
    fprintf(out, "  \"attention_dropout\": 0.0,\n  \"initializer_range\": 0.02,\n");
    fprintf(out, "  \"vocab_size\": %" PRId64 ",\n", embedding ? embedding->dimension[0] : 0);
    fprintf(out, "  \"tie_word_embeddings\": %s,\n",
            sw_gguf_find_tensor(r->file, "output.weight") ? "false" : "true");
    put_token(r, out, "tokenizer.ggml.bos_token_id", "bos_token_id");
    put_token(r, out, "tokenizer.ggml.eos_token_id", "eos_token_id");
    put_token(r, out, "tokenizer.ggml.padding_token_id", "pad_token_id");
    fprintf(out, "  \"dtype\": \"%s\",\n  \"torch_dtype\": \"%s\",\n  \"use_cache\": true\n}\n",
            dtype_text, dtype_text);
}

sw_status sw_gguf_config(sw_gguf *file, sw_dtype dtype, char **json_text, sw_error *err) {
    char *text = NULL;
    size_t bytes;
    reader r = {.file = file, .err = err};
    r.status = sw_gguf_text(file, "general.architecture", true, &r.architecture, err);
    if (r.status != SW_OK)
        return r.status;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return sw_fail(err, SW_NO_MEMORY, "no memory for config.json");
    put_config(&r, out, dtype);
    if (!sw_text_close(out, &text) && r.status == SW_OK)
        r.status = sw_fail(err, SW_NO_MEMORY, "no memory for config.json");
    if (r.status == SW_OK)
        *json_text = text;
    else
        free(text);
    return r.status;
}
