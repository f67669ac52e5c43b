/* gguf_write_tokenizer.c: a tokenizer.json as GGUF's lists: the inverse of gguf_tokenizer.c.
 *
 * GGUF names how text is split, so the components of the file must be those of a known name.
 * SentencePiece's BPE gets scores: a piece that is the n-th to be made by a merge has score -n, one
 * that no merge makes comes behind them all.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/gguf_write.h"
#include "hf/gguf_tokenizer.h"
#include "hf/gguf_vocabulary.h"

enum { MAX_FILE_BYTES = 1 << 28 };

typedef struct folder_tokenizer {
    char path[SW_PATH_BYTES]; /* of tokenizer.json */
    json_t *root, *model, *settings,
        *config; /* tokenizer.json, its model; tokenizer_config.json and config.json or NULL */
    const char **token;  /* [n], NULL where no token has the id */
    unsigned char *kind; /* [n] */
    float *score;        /* [n] of SentencePiece */
    int64_t n;
} folder_tokenizer;

/* A file's object; *root NULL where there is no file. `flags`: JSON_DECODE_INT_AS_REAL where nobody
 * uses its integers. */
static sw_status read_object(const char *folder, const char *name, size_t flags,
                             char path[SW_PATH_BYTES], json_t **root, sw_error *err) {
    char *text;
    int64_t bytes;
    json_error_t error;
    *root = NULL;
    sw_status status = sw_path_join(path, folder, name, err);
    if (status != SW_OK || !sw_file_exists(path) ||
        (status = sw_file_read(path, MAX_FILE_BYTES, &text, &bytes, err)) != SW_OK)
        return status;
    const char *begin = text;
    if ((status = sw_json_begin(path, &begin, &bytes, err)) == SW_OK)
        *root = json_loadb(begin, (size_t)bytes, JSON_REJECT_DUPLICATES | flags, &error);
    free(text);
    if (status != SW_OK)
        return status;
    if (!json_is_object(*root))
        return sw_fail(err, SW_BAD_FILE, "%s: line %d: is not an object of JSON: %s", path,
                       error.line, *root ? "it is a list" : error.text);
    return SW_OK;
}

static sw_status not_known(const folder_tokenizer *t, const char *what, sw_error *err) {
    return sw_fail(err, SW_BAD_FILE, "%s: %s; leave the tokenizer out with --no-tokenizer", t->path,
                   what);
}

/* ---- tokens ---- */

static sw_status take_token(folder_tokenizer *t, const char *text, const json_t *id, int kind,
                            sw_error *err) {
    int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    if (!text || value < 0 || value >= t->n)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: token \"%.80s\" has id %" PRId64 ", the model has %" PRId64 " rows",
                       t->path, text ? text : "", value, t->n);
    if (t->token[value] && strcmp(t->token[value], text) != 0)
        return sw_fail(err, SW_BAD_FILE, "%s: tokens \"%.80s\" and \"%.80s\" have the same id",
                       t->path, t->token[value], text);
    t->token[value] = text;
    t->kind[value] = (unsigned char)kind;
    return SW_OK;
}

static sw_status take_tokens(folder_tokenizer *t, bool is_sentence_piece, sw_error *err) {
    json_t *vocabulary = json_object_get(t->model, "vocab"),
           *added = json_object_get(t->root, "added_tokens");
    const char *text, *unknown = json_string_value(json_object_get(t->model, "unk_token"));
    json_t *value;
    size_t i;
    sw_status status = SW_OK;
    if (!json_is_object(vocabulary))
        return not_known(t, "its model has no vocabulary by text", err);
    json_object_foreach(vocabulary, text, value) {
        unsigned byte;
        int n_read = 0;
        bool is_byte = is_sentence_piece && sscanf(text, "<0x%2X>%n", &byte, &n_read) == 1 &&
                       n_read == 6 && !text[6];
        if ((status = take_token(t, text, value, is_byte ? SW_GGUF_BYTE : SW_GGUF_NORMAL, err)) !=
            SW_OK)
            return status;
    }
    json_array_foreach(added, i, value) {
        bool is_special = json_is_true(json_object_get(value, "special"));
        text = json_string_value(json_object_get(value, "content"));
        int kind = !is_special                                     ? SW_GGUF_USER_DEFINED
                   : unknown && text && strcmp(text, unknown) == 0 ? SW_GGUF_UNKNOWN
                                                                   : SW_GGUF_CONTROL;
        if ((status = take_token(t, text, json_object_get(value, "id"), kind, err)) != SW_OK)
            return status;
    }
    return SW_OK;
}

/* ---- merges: ["left", "right"], in older files "left right" ---- */

static bool merge_at(const json_t *merges, size_t i, char pair[8192], size_t *n_left) {
    const json_t *merge = json_array_get(merges, i);
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    int n = json_is_string(merge) ? snprintf(pair, 8192, "%s", json_string_value(merge))
            : json_array_size(merge) == 2 && left && right
                ? snprintf(pair, 8192, "%s %s", left, right)
                : -1;
    if (n < 3 || n >= 8192)
        return false;
    const char *blank = strchr(pair + 1, ' ');
    *n_left = blank ? (size_t)(blank - pair) : 0;
    return blank && blank[1] && !strchr(blank + 1, ' ');
}

static sw_status write_merges(const folder_tokenizer *t, sw_gguf_writer *w, sw_error *err) {
    const json_t *merges = json_object_get(t->model, "merges");
    char pair[8192];
    size_t n_left;
    sw_gguf_write_list(w, "tokenizer.ggml.merges", SW_GGUF_TEXT, json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        if (!merge_at(merges, i, pair, &n_left))
            return not_known(t, "a merge is no pair of tokens without blanks", err);
        sw_gguf_put_text(w->out, pair);
    }
    return SW_OK;
}

static sw_status score_tokens(folder_tokenizer *t, sw_error *err) {
    const json_t *merges = json_object_get(t->model, "merges"),
                 *vocabulary = json_object_get(t->model, "vocab");
    size_t n = json_array_size(merges), n_left;
    char pair[8192];
    t->score = calloc((size_t)t->n + 1, sizeof *t->score);
    if (!t->score)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its scores", t->path);
    for (int64_t id = 0; id < t->n; id++)
        if (t->kind[id] == SW_GGUF_NORMAL)
            t->score[id] = -(float)n - 1;
    int64_t n_made = 0;
    for (size_t i = 0; i < n; i++) {
        if (!merge_at(merges, i, pair, &n_left))
            return not_known(t, "a merge is no pair of tokens without blanks", err);
        memmove(pair + n_left, pair + n_left + 1, strlen(pair + n_left + 1) + 1);
        const json_t *id = json_object_get(vocabulary, pair);
        if (!json_is_integer(id))
            return not_known(t, "a merge makes what is no token", err);
        float *score = &t->score[json_integer_value(id)];
        if (*score == -(float)n - 1)
            *score = -(float)n_made++;
    }
    return SW_OK;
}

/* ---- what surrounds the model ---- */

static bool is_same(const json_t *value, const char *text) {
    json_t *expected = json_loads(text, JSON_DECODE_ANY, NULL);
    bool same = expected && (value ? json_equal(value, expected) : json_is_null(expected));
    json_decref(expected);
    return same;
}

static const sw_gguf_split *find_split(const folder_tokenizer *t) {
    const sw_gguf_split *split;
    for (int i = 0; (split = sw_gguf_split_at(i)); i++)
        if (is_same(json_object_get(t->root, "pre_tokenizer"), split->pre_tokenizer) &&
            is_same(json_object_get(t->root, "normalizer"), split->normalizer) &&
            json_is_true(json_object_get(t->model, "ignore_merges")) == split->ignores_merges)
            return split;
    return NULL;
}

/* Is a special token put before texts, or behind them? In a TemplateProcessing, alone or in a
 * sequence. */
static bool adds_token(const json_t *processor, bool at_end) {
    const json_t *list = json_object_get(processor, "processors"),
                 *single = json_object_get(processor, "single");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (adds_token(json_array_get(list, i), at_end))
            return true;
    size_t n = json_array_size(single);
    return n && json_object_get(json_array_get(single, at_end ? n - 1 : 0), "SpecialToken");
}

/* The id of a special token: by its text in tokenizer_config.json, or else by number in
 * config.json; -1: none. */
static int64_t special_id(const folder_tokenizer *t, const char *text_key, const char *id_key) {
    const json_t *text = json_object_get(t->settings, text_key),
                 *id = json_object_get(t->config, id_key);
    const char *content =
        json_string_value(json_is_object(text) ? json_object_get(text, "content") : text);
    for (int64_t i = 0; content && i < t->n; i++)
        if (t->token[i] && strcmp(t->token[i], content) == 0)
            return i;
    if (json_is_array(id))
        id = json_array_get(id, 0);
    return json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < t->n
               ? json_integer_value(id)
               : -1;
}

static void write_special_ids(const folder_tokenizer *t, sw_gguf_writer *w) {
    static const char *const ids[][3] = {
        {"bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id"},
        {"eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id"},
        {"unk_token", "unk_token_id", "tokenizer.ggml.unknown_token_id"},
        {"pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id"}};
    for (int i = 0; i < 4; i++) {
        int64_t id = special_id(t, ids[i][0], ids[i][1]);
        if (id >= 0)
            sw_gguf_write_integer(w, ids[i][2], (uint32_t)id);
    }
}

/* A text, or a list of templates with names, of which GGUF takes the default. */
static const char *template_of(const json_t *settings) {
    const json_t *value = json_object_get(settings, "chat_template"), *one;
    size_t i;
    json_array_foreach(value, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && !strcmp(name, "default"))
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(value);
}

static sw_status write_chat_template(const folder_tokenizer *t, const char *folder,
                                     sw_gguf_writer *w, sw_error *err) {
    char path[SW_PATH_BYTES], *text = NULL;
    const char *template = template_of(t->settings);
    sw_status status = sw_path_join(path, folder, "chat_template.jinja", err);
    if (status == SW_OK && sw_file_exists(path)) {
        status = sw_file_read(path, MAX_FILE_BYTES, &text, NULL, err);
        template = text;
    }
    if (status == SW_OK && template)
        sw_gguf_write_text(w, "tokenizer.chat_template", template);
    free(text);
    return status;
}

static void write_lists(const folder_tokenizer *t, sw_gguf_writer *w) {
    char filler[32];
    sw_gguf_write_list(w, "tokenizer.ggml.tokens", SW_GGUF_TEXT, (uint64_t)t->n);
    for (int64_t id = 0; id < t->n; id++) {
        snprintf(filler, sizeof filler, "[PAD%" PRId64 "]", id);
        sw_gguf_put_text(w->out, t->token[id] ? t->token[id] : filler);
    }
    if (t->score) {
        sw_gguf_write_list(w, "tokenizer.ggml.scores", SW_GGUF_F32, (uint64_t)t->n);
        for (int64_t id = 0; id < t->n; id++) {
            uint32_t bits;
            memcpy(&bits, &t->score[id], sizeof bits);
            sw_gguf_put_32(w->out, bits);
        }
    }
    sw_gguf_write_list(w, "tokenizer.ggml.token_type", SW_GGUF_I32, (uint64_t)t->n);
    for (int64_t id = 0; id < t->n; id++)
        sw_gguf_put_32(w->out, t->token[id] ? t->kind[id] : SW_GGUF_UNUSED);
}

static sw_status write_all(folder_tokenizer *t, const char *folder, sw_gguf_writer *w,
                           sw_error *err) {
    const char *type = json_string_value(json_object_get(t->model, "type"));
    const json_t *processor = json_object_get(t->root, "post_processor"),
                 *normalizer = json_object_get(t->root, "normalizer");
    bool is_sentence_piece = json_is_true(json_object_get(t->model, "byte_fallback"));
    const sw_gguf_split *split = is_sentence_piece ? NULL : find_split(t);
    bool adds_blank = is_same(normalizer, SW_GGUF_BLANKS_AND_PREFIX);
    if (!type || strcmp(type, "BPE") != 0)
        return not_known(t, "its model is no BPE", err);
    if (!is_sentence_piece && !split)
        return not_known(
            t, "its normalizer and pre_tokenizer are none of those that GGUF files have a name for",
            err);
    if (is_sentence_piece && (!is_same(json_object_get(t->root, "pre_tokenizer"), "null") ||
                              !(adds_blank || is_same(normalizer, SW_GGUF_BLANKS))))
        return not_known(t, "its normalizer and pre_tokenizer are not SentencePiece's", err);
    sw_status status = take_tokens(t, is_sentence_piece, err);
    if (status == SW_OK && is_sentence_piece)
        status = score_tokens(t, err);
    if (status != SW_OK)
        return status;
    sw_gguf_write_text(w, "tokenizer.ggml.model", is_sentence_piece ? "llama" : "gpt2");
    sw_gguf_write_text(w, "tokenizer.ggml.pre", is_sentence_piece ? "default" : split->name);
    write_lists(t, w);
    if (!is_sentence_piece)
        status = write_merges(t, w, err);
    write_special_ids(t, w);
    sw_gguf_write_bool(w, "tokenizer.ggml.add_bos_token", adds_token(processor, false));
    sw_gguf_write_bool(w, "tokenizer.ggml.add_eos_token", adds_token(processor, true));
    sw_gguf_write_bool(w, "tokenizer.ggml.add_space_prefix", adds_blank);
    return status == SW_OK ? write_chat_template(t, folder, w, err) : status;
}

sw_status sw_gguf_write_tokenizer(sw_gguf_writer *w, const char *folder, int64_t vocabulary,
                                  sw_error *err) {
    folder_tokenizer t = {.n = vocabulary};
    char path[SW_PATH_BYTES];
    sw_status status = read_object(folder, "tokenizer.json", 0, t.path, &t.root, err);
    if (status != SW_OK || !t.root)
        goto done;
    t.model = json_object_get(t.root, "model");
    t.token = calloc((size_t)t.n + 1, sizeof *t.token);
    t.kind = calloc((size_t)t.n + 1, 1);
    if (!t.token || !t.kind)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for its tokens", t.path);
    if (status == SW_OK) /* its model_max_length is often 1e30, written as an integer */
        status = read_object(folder, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL, path,
                             &t.settings, err);
    if (status == SW_OK)
        status = read_object(folder, "config.json", 0, path, &t.config, err);
    if (status == SW_OK)
        status = write_all(&t, folder, w, err);
done:
    free(t.score);
    free(t.kind);
    free(t.token);
    json_decref(t.config);
    json_decref(t.settings);
    json_decref(t.root);
    return status;
}
