/* gguf_vocabulary.c: see gguf_vocabulary.h. */
#include "hf/gguf_vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

int sw_gguf_token_kind(const sw_gguf_vocabulary *v, int64_t id) {
    return v->kinds ? sw_gguf_list_integer(v->kinds, id) : SW_GGUF_NORMAL;
}

/* ---- tokens by text ---- */

int32_t sw_gguf_token_id(const sw_gguf_vocabulary *v, const char *text, size_t n) {
    return sw_token_map_get(&v->ids, text, n);
}

static sw_status index_tokens(sw_gguf_vocabulary *v, sw_error *err) {
    if (!sw_token_map_create(&v->ids, (size_t)v->n))
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its tokens", v->file->path);
    for (int64_t id = 0; id < v->n; id++) {
        size_t n_bytes = strlen(v->token[id]);
        int32_t other = sw_token_map_get(&v->ids, v->token[id], n_bytes);
        if (other >= 0)
            return sw_fail(err, SW_BAD_FILE, "%s: tokens %d and %" PRId64 " are both \"%.80s\"",
                           v->file->path, other, id, v->token[id]);
        sw_token_map_put(&v->ids, v->token[id], n_bytes, (int32_t)id);
    }
    return SW_OK;
}

/* ---- reading the metadata ---- */

static sw_status read_tokens(sw_gguf_vocabulary *v, sw_error *err) {
    const sw_gguf_value *list;
    sw_status status =
        sw_gguf_list(v->file, "tokenizer.ggml.tokens", true, SW_GGUF_TEXT, &list, err);
    if (status != SW_OK)
        return status;
    size_t longest = 1;
    v->n = list->n;
    v->token = sw_arena_take(&v->file->arena, ((size_t)v->n + 1) * sizeof *v->token);
    if (!v->token || v->n > INT32_MAX)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for %" PRId64 " tokens", v->file->path,
                       v->n);
    const uint8_t *at = list->at;
    for (int64_t id = 0; id < v->n; id++) {
        int64_t n_bytes;
        const char *text = sw_gguf_next_text(&at, &n_bytes);
        if (n_bytes > SW_GGUF_LONGEST_TOKEN || memchr(text, 0, (size_t)n_bytes) ||
            !sw_text_is_utf8(text, (size_t)n_bytes))
            return sw_fail(err, SW_BAD_FILE,
                           "%s: token %" PRId64 " is no UTF-8 text of up to %d bytes",
                           v->file->path, id, SW_GGUF_LONGEST_TOKEN);
        char *copy = sw_arena_take(&v->file->arena, (size_t)n_bytes + 1);
        if (!copy)
            return sw_fail(err, SW_NO_MEMORY, "%s: no memory for %" PRId64 " tokens", v->file->path,
                           v->n);
        memcpy(copy, text, (size_t)n_bytes);
        v->token[id] = copy;
        longest = (size_t)n_bytes > longest ? (size_t)n_bytes : longest;
    }
    v->quoted = malloc(6 * longest + 3);
    return v->quoted ? index_tokens(v, err)
                     : sw_fail(err, SW_NO_MEMORY, "%s: no memory for its tokens", v->file->path);
}

/* A list beside the tokens has as many elements. */
static sw_status read_beside(const sw_gguf_vocabulary *v, const char *key, bool is_required,
                             sw_gguf_type type, const sw_gguf_value **list, sw_error *err) {
    sw_status status = sw_gguf_list(v->file, key, is_required, type, list, err);
    if (status == SW_OK && *list && (*list)->n != v->n)
        return sw_fail(err, SW_BAD_FILE, "%s: %s has %" PRId64 " elements for %" PRId64 " tokens",
                       v->file->path, key, (*list)->n, v->n);
    return status;
}

static sw_status read_id(const sw_gguf_vocabulary *v, const char *key, int64_t *id, sw_error *err) {
    sw_status status = sw_gguf_integer(v->file, key, false, id, err);
    if (status == SW_OK && *id == UINT32_MAX)
        *id = -1; /* how some writers say none */
    if (status == SW_OK && (*id < -1 || *id >= v->n))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %" PRId64 ", there are %" PRId64 " tokens",
                       v->file->path, key, *id, v->n);
    return status;
}

sw_status sw_gguf_vocabulary_read(sw_gguf_vocabulary *v, sw_error *err) {
    const struct {
        const char *key;
        int64_t *id;
    } ids[] = {{"tokenizer.ggml.bos_token_id", &v->bos},
               {"tokenizer.ggml.eos_token_id", &v->eos},
               {"tokenizer.ggml.unknown_token_id", &v->unknown},
               {"tokenizer.ggml.padding_token_id", &v->padding}};
    sw_status status = read_tokens(v, err);
    if (status == SW_OK)
        status = read_beside(v, "tokenizer.ggml.token_type", false, SW_GGUF_I32, &v->kinds, err);
    if (status == SW_OK)
        status = read_beside(v, "tokenizer.ggml.scores", v->is_sentence_piece, SW_GGUF_F32,
                             &v->scores, err);
    for (size_t i = 0; i < sizeof ids / sizeof *ids && status == SW_OK; i++)
        status = read_id(v, ids[i].key, ids[i].id, err);
    if (status == SW_OK)
        status = sw_gguf_bool(v->file, "tokenizer.ggml.add_bos_token", false, &v->adds_bos, err);
    if (status == SW_OK)
        status = sw_gguf_bool(v->file, "tokenizer.ggml.add_eos_token", false, &v->adds_eos, err);
    if (status == SW_OK)
        status =
            sw_gguf_bool(v->file, "tokenizer.ggml.add_space_prefix", false, &v->adds_blank, err);
    if (status == SW_OK && ((v->adds_bos && v->bos < 0) || (v->adds_eos && v->eos < 0)))
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: the tokenizer adds a token at the %s of texts and does not say which",
                         v->file->path, v->adds_bos && v->bos < 0 ? "start" : "end");
    return status;
}

void sw_gguf_vocabulary_free(sw_gguf_vocabulary *v) {
    sw_token_map_free(&v->ids);
    free(v->quoted);
    v->quoted = NULL;
}
