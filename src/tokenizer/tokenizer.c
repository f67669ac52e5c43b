/* tokenizer.c: reading a tokenizer.json, what its ids are, and ids to text. The way of a text to
 * ids is in encode.c. */
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/hub_name.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/text.h"
#include "tokenizer/internal.h"
#include "tokenizer/missing.h"

enum { MAX_FILE_BYTES = 1 << 30 };

/* Another version may mean something else by the same keys; the library that writes these files
 * refuses it too. */
static sw_status check_version(const sw_part *root, sw_error *err) {
    const json_t *version = json_object_get(root->object, "version");
    if (!version || (json_is_string(version) && !strcmp(json_string_value(version), "1.0")))
        return SW_OK;
    return sw_fail(
        err, SW_BAD_FILE,
        "%s: version is %s%.40s%s, and only \"1.0\" is read; is it a tokenizer.json of tokenizers?",
        root->file, json_is_string(version) ? "\"" : "",
        json_is_string(version) ? json_string_value(version) : sw_json_type_words(version),
        json_is_string(version) ? "\"" : "");
}

static sw_status read_parts(const sw_part *root, sw_tokenizer *t, sw_error *err) {
    sw_status status = check_version(root, err);
    if (!status)
        status = sw_normalizers_read(root, &t->normalizers, err);
    if (!status)
        status = sw_pretokenizers_read(root, &t->pretokenizers, err);
    if (!status)
        status = sw_model_read(root, t->pretokenizers.ends_in_bytes, &t->model, err);
    if (!status)
        status = sw_added_tokens_read(root, &t->normalizers, &t->model, &t->added, err);
    if (!status)
        status = sw_postprocessor_read(root, &t->postprocessor, err);
    if (!status)
        status = sw_decoders_read(root, &t->decoders, err);
    t->pretokenizers.leaves_bytes = t->model.takes_bytes;
    return status;
}

sw_status sw_tokenizer_parse(const char *name, const char *text, int64_t n_bytes,
                             sw_tokenizer **tokenizer, sw_error *err) {
    json_error_t error;
    sw_status status;
    *tokenizer = NULL;
    if ((status = sw_json_begin(name, &text, &n_bytes, err)))
        return status;
    json_t *json = json_loadb(text, (size_t)n_bytes,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    sw_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", name);
    else if (!json)
        status = sw_fail(
            err, json_error_code(&error) == json_error_out_of_memory ? SW_NO_MEMORY : SW_BAD_FILE,
            "%s: line %d, column %d: not valid JSON: %s", name, error.line, error.column,
            error.text);
    else if (!json_is_object(json))
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: holds no JSON object ({...}); is it the right file?", name);
    else {
        const sw_part root = {.file = name, .object = json};
        t->bos_id = t->eos_id = -1;
        status = read_parts(&root, t, err);
    }
    json_decref(json);
    if (!status) {
        *tokenizer = t;
        return SW_OK;
    }
    sw_tokenizer_free(t);
    return status;
}

/* The id of "bos_token" or "eos_token", a text or an object with "content"; -1 if the file names
 * none or one that is no token. */
static int32_t named_id(const sw_tokenizer *t, json_t *config, const char *key) {
    json_t *value = json_object_get(config, key);
    if (json_is_object(value))
        value = json_object_get(value, "content");
    return json_is_string(value) ? sw_tokenizer_token_id(t, json_string_value(value)) : -1;
}

/* tokenizer_config.json lies beside the file and only names things; without it nothing is named.
 * Its model_max_length is often 10^30, which is no int64: numbers are taken as reals, for none is
 * used. */
static sw_status read_names(const char *folder, sw_tokenizer *t, sw_error *err) {
    char path[SW_PATH_BYTES];
    char *text = NULL;
    int64_t n_bytes = 0;
    json_error_t error;
    sw_status status = sw_path_join(path, folder, "tokenizer_config.json", err);
    if (status || !sw_file_exists(path))
        return status;
    status = sw_file_read(path, MAX_FILE_BYTES, &text, &n_bytes, err);
    if (status)
        return status;
    const char *begin = text;
    json_t *config = NULL;
    status = sw_json_begin(path, &begin, &n_bytes, err);
    if (!status)
        config = json_loadb(begin, (size_t)n_bytes,
                            JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    free(text);
    if (status)
        return status;
    if (!json_is_object(config)) {
        status = config ? sw_fail(err, SW_BAD_FILE,
                                  "%s: holds no JSON object ({...}); is it the right file?", path)
                        : sw_fail(err, SW_BAD_FILE, "%s: line %d, column %d: not valid JSON: %s",
                                  path, error.line, error.column, error.text);
        json_decref(config);
        return status;
    }
    t->bos_id = named_id(t, config, "bos_token");
    t->eos_id = named_id(t, config, "eos_token");
    json_decref(config);
    return SW_OK;
}

static bool is_folder(const char *path) {
    struct stat facts;
    return !stat(path, &facts) && S_ISDIR(facts.st_mode);
}

sw_status sw_tokenizer_folder(const char *path, char folder[SW_PATH_BYTES], sw_error *err) {
    if (strlen(path) >= SW_PATH_BYTES)
        return sw_fail(err, SW_BAD_CONFIG, "%.100s...: the path is too long", path);
    struct stat facts;
    if (stat(path, &facts) && errno != ENOENT &&
        errno != ENOTDIR) /* nobody can tell which of both it is */
        return sw_cannot_read(path, errno, err);
    strcpy(folder, path);
    char *slash = strrchr(folder, '/');
    if (!is_folder(path) && slash)
        slash[slash == folder] = 0;
    else if (!is_folder(path))
        strcpy(folder, ".");
    return SW_OK;
}

sw_status sw_tokenizer_read(const char *path, sw_tokenizer **tokenizer, sw_error *err) {
    char file[SW_PATH_BYTES], folder[SW_PATH_BYTES];
    char *text = NULL;
    int64_t n_bytes = 0;
    *tokenizer = NULL;
    sw_status status = sw_tokenizer_folder(path, folder, err);
    if (status)
        return status;
    if (!is_folder(path))
        strcpy(file, path);
    else if ((status = sw_path_join(file, folder, "tokenizer.json", err)) != SW_OK)
        return status;
    if ((status = sw_path_must_exist(path, "tokenizer*", err)) != SW_OK)
        return status;
    if (!sw_file_exists(file) && sw_gpt2_files_exist(folder))
        status = sw_gpt2_files_read(folder, &text, &n_bytes, err);
    else if (!sw_file_exists(file))
        status = sw_tokenizer_refuse_folder(folder, err);
    else
        status = sw_file_read(file, MAX_FILE_BYTES, &text, &n_bytes, err);
    if (!status)
        status = sw_tokenizer_parse(file, text, n_bytes, tokenizer, err);
    if (!status)
        status = read_names(folder, *tokenizer, err);
    free(text);
    if (status) {
        sw_tokenizer_free(*tokenizer);
        *tokenizer = NULL;
    }
    return status;
}

void sw_tokenizer_free(sw_tokenizer *t) {
    if (!t)
        return;
    sw_normalizers_free(&t->normalizers);
    sw_pretokenizers_free(&t->pretokenizers);
    sw_model_free(&t->model);
    sw_added_tokens_free(&t->added);
    sw_postprocessor_free(&t->postprocessor);
    sw_decoders_free(&t->decoders);
    free(t);
}

int64_t sw_tokenizer_n_ids(const sw_tokenizer *t) {
    const sw_vocabulary *v = &t->model.vocabulary;
    int64_t n = v->n ? (int64_t)v->by_id[v->n - 1].id + 1 : 0;
    int64_t n_added = t->added.n ? (int64_t)t->added.tokens[t->added.n - 1].id + 1 : 0;
    return n > n_added ? n : n_added;
}

/* Added tokens stand among the model's or not, as who wrote the file likes: an id has one text
 * either way. */
uint64_t sw_tokenizer_fingerprint(const sw_tokenizer *t, int64_t n_ids) {
    const sw_vocabulary *v = &t->model.vocabulary;
    uint64_t hash = SW_HASH_START;
    for (int32_t i = 0, k = 0; i < v->n || k < t->added.n;) {
        const int64_t model_id = i < v->n ? v->by_id[i].id : INT64_MAX,
                      added_id = k < t->added.n ? t->added.tokens[k].id : INT64_MAX;
        const bool is_added = added_id <= model_id;
        const int32_t id = (int32_t)(is_added ? added_id : model_id);
        if (id >= n_ids)
            break;
        const uint64_t n_bytes = is_added ? t->added.tokens[k].n_bytes : v->by_id[i].n_bytes;
        hash = sw_hash_bytes(hash, &id, sizeof id);
        hash = sw_hash_bytes(hash, &n_bytes, sizeof n_bytes);
        hash =
            sw_hash_bytes(hash, is_added ? t->added.tokens[k].content : v->by_id[i].text, n_bytes);
        while (i < v->n && v->by_id[i].id <= id)
            i++;
        while (k < t->added.n && t->added.tokens[k].id <= id)
            k++;
    }
    return hash;
}

int32_t sw_tokenizer_token_id(const sw_tokenizer *t, const char *text) {
    for (int32_t i = 0; i < t->added.n; i++)
        if (!strcmp(t->added.tokens[i].content, text))
            return t->added.tokens[i].id;
    return sw_token_map_get(&t->model.vocabulary.by_text, text, strlen(text));
}

int32_t sw_tokenizer_bos_id(const sw_tokenizer *t) {
    return t->bos_id;
}

int32_t sw_tokenizer_eos_id(const sw_tokenizer *t) {
    return t->eos_id;
}

bool sw_tokenizer_is_special(const sw_tokenizer *t, int32_t id) {
    const sw_added_token *token = sw_added_tokens_find(&t->added, id);
    return token && token->is_special;
}

sw_status sw_tokenizer_scratch_create(const sw_tokenizer *t, sw_tokenizer_scratch **scratch,
                                      sw_error *err) {
    sw_tokenizer_scratch *s = calloc(1, sizeof *s);
    (void)t;
    *scratch = NULL;
    if (!s || !sw_pattern_scratch_create(&s->pattern) || !sw_model_scratch_create(&s->model)) {
        sw_tokenizer_scratch_free(s);
        return sw_fail(err, SW_NO_MEMORY, "no memory for a tokenizer's buffers");
    }
    s->pretokenize.pattern = &s->pattern;
    *scratch = s;
    return SW_OK;
}

void sw_tokenizer_scratch_free(sw_tokenizer_scratch *s) {
    if (!s)
        return;
    sw_pattern_scratch_free(&s->pattern);
    sw_model_scratch_free(&s->model);
    for (int i = 0; i < 2; i++)
        sw_bytes_free(&s->normalized[i]);
    sw_bytes_free(&s->copy);
    for (int i = 0; i < SW_MAX_PRETOKENIZERS; i++) {
        sw_bytes_free(&s->pretokenize.texts[i]);
        sw_bytes_free(&s->pretokenize.copies[i]);
        sw_bytes_free(&s->pretokenize.mapped[i]);
    }
    free(s);
}

/* A special token is known by its spelling: one that the normalizers respell is text, as the
 * reference has it. */
static bool is_skipped(const sw_added_token *token) {
    bool is_respelled = token->decoded && (token->n_decoded != token->n_bytes ||
                                           memcmp(token->decoded, token->content, token->n_bytes));
    return token->is_special && !is_respelled;
}

sw_status sw_tokenizer_decode(const sw_tokenizer *t, const int32_t *ids, int64_t n,
                              bool skip_special, char **text, size_t *n_bytes, sw_error *err) {
    sw_texts texts = {0};
    *text = NULL;
    for (int64_t i = 0; i < n; i++) {
        const sw_added_token *added = sw_added_tokens_find(&t->added, ids[i]);
        const sw_token_text *token =
            added ? NULL : sw_vocabulary_find(&t->model.vocabulary, ids[i]);
        if ((!added && !token) || (skip_special && added && is_skipped(added)))
            continue;
        if (added && added->decoded)
            sw_bytes_append(&texts.bytes, added->decoded, added->n_decoded);
        else if (added)
            sw_bytes_append(&texts.bytes, added->content, added->n_bytes);
        else
            sw_bytes_append(&texts.bytes, token->text, token->n_bytes);
        sw_texts_close(&texts);
    }
    sw_status status =
        texts.bytes.is_short ? sw_fail(err, SW_NO_MEMORY, "no memory for decoding") : SW_OK;
    if (!status)
        status = sw_decoders_run(&t->decoders, &texts, err);
    *n_bytes = texts.bytes.n;
    sw_bytes_put(&texts.bytes, 0);
    if (!status && texts.bytes.is_short)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for decoding");
    if (!status) {
        *text = texts.bytes.data;
        texts.bytes.data = NULL;
    }
    sw_texts_free(&texts);
    return status;
}
