/* encode.c: stretches of text and control tokens, to ids and marks. */
#include "data/encode.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static sw_status no_memory(sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory to tokenize a sample");
}

sw_status sw_encoder_create(const sw_text_options *options, sw_encoder *encoder, sw_error *err) {
    *encoder = (sw_encoder){.tokenizer = options->tokenizer,
                            .chat = options->chat,
                            .text_flags = SW_ENCODE_SPECIALS,
                            .begin = -1,
                            .end_of_text = -1};
    if (!options->tokenizer)
        return SW_OK;
    encoder->begin = sw_tokenizer_bos_id(options->tokenizer);
    encoder->end_of_text = sw_tokenizer_eos_id(options->tokenizer);
    return sw_tokenizer_scratch_create(options->tokenizer, &encoder->scratch, err);
}

void sw_encoder_free(sw_encoder *encoder) {
    sw_tokenizer_scratch_free(encoder->scratch);
    sw_chat_text_free(&encoder->conversation);
    sw_chat_keys_free(&encoder->keys);
    sw_token_edges_free(&encoder->edges);
    sw_token_list_free(&encoder->before);
    sw_token_list_free(&encoder->ids);
    free(encoder->joined);
    free(encoder->marks);
    *encoder = (sw_encoder){0};
}

/* Append the ids of a stretch. */
static sw_status append(sw_encoder *e, const char *text, int64_t bytes, int flags,
                        sw_token_list *ids, sw_error *err) {
    if (e->tokenizer)
        return sw_tokenizer_encode(e->tokenizer, e->scratch, text, (size_t)bytes, flags, ids, err);
    for (int64_t i = 0; i < bytes; i++)
        if (!sw_token_list_put(ids, (uint8_t)text[i]))
            return no_memory(err);
    return SW_OK;
}

/* Room for marks of all ids; those from `first` on become `mark`. */
static sw_status mark_from(sw_encoder *e, int64_t first, uint8_t mark, sw_error *err) {
    if (e->ids.n > e->marks_capacity) {
        int64_t capacity = e->ids.n + e->ids.n / 2 + 64;
        uint8_t *grown = realloc(e->marks, (size_t)capacity);
        if (!grown)
            return no_memory(err);
        e->marks = grown;
        e->marks_capacity = capacity;
    }
    if (first < e->ids.n)
        memset(e->marks + first, mark, (size_t)(e->ids.n - first));
    return SW_OK;
}

/* How many ids of the stretch that begins at id `first` lie before its byte `edge`. *is_exact: an
 * id begins there. */
static sw_status ids_before(sw_encoder *e, const char *text, int64_t edge, int flags, int64_t first,
                            int64_t *n, bool *is_exact, sw_error *err) {
    e->before.n = 0;
    sw_status status = append(e, text, edge, flags, &e->before, err);
    int64_t most = e->ids.n - first < e->before.n ? e->ids.n - first : e->before.n;
    for (*n = 0; *n < most && e->before.ids[*n] == e->ids.ids[first + *n];)
        ++*n;
    *is_exact = *n == e->before.n;
    return status;
}

/* ---- plain documents, prompts and completions ---- */

static sw_status end_document(sw_encoder *e, sw_error *err) {
    if (e->end_of_text >= 0 && (e->ids.n == 0 || e->ids.ids[e->ids.n - 1] != e->end_of_text) &&
        !sw_token_list_put(&e->ids, e->end_of_text))
        return no_memory(err);
    return SW_OK;
}

sw_status sw_encode_document(sw_encoder *e, sw_slice text, sw_error *err) {
    e->ids.n = 0;
    if (text.bytes == 0)
        return SW_OK;
    sw_status status = append(e, text.text, text.bytes, e->text_flags, &e->ids, err);
    if (status == SW_OK)
        status = end_document(e, err);
    return status == SW_OK ? mark_from(e, 0, 1, err) : status;
}

static sw_status encode_completion(sw_encoder *e, sw_slice prompt, sw_slice completion,
                                   sw_error *err) {
    int64_t bytes = prompt.bytes + completion.bytes, n_before;
    bool is_exact;
    e->ids.n = 0;
    if (bytes == 0)
        return SW_OK;
    if (bytes > e->joined_capacity) {
        char *grown = realloc(e->joined, (size_t)bytes);
        if (!grown)
            return no_memory(err);
        e->joined = grown;
        e->joined_capacity = bytes;
    }
    if (prompt.bytes)
        memcpy(e->joined, prompt.text, (size_t)prompt.bytes);
    if (completion.bytes)
        memcpy(e->joined + prompt.bytes, completion.text, (size_t)completion.bytes);
    sw_status status = append(e, e->joined, bytes, e->text_flags, &e->ids, err);
    if (status == SW_OK)
        status =
            ids_before(e, e->joined, prompt.bytes, e->text_flags, 0, &n_before, &is_exact, err);
    if (status == SW_OK && completion.bytes == 0)
        n_before =
            e->ids.n; /* what the post-processor put behind the prompt is none of the completion */
    if (status == SW_OK)
        status = end_document(e, err);
    if (status == SW_OK)
        status = mark_from(e, 0, 0, err);
    return status == SW_OK ? mark_from(e, n_before, 1, err) : status;
}

/* ---- conversations ---- */

static sw_status encode_bytes(sw_encoder *e, const sw_chat_text *text, sw_error *err) {
    for (int64_t i = 0; i < text->bytes; i++)
        if (!sw_token_list_put(&e->ids, (uint8_t)text->text[i]))
            return no_memory(err);
    return SW_OK;
}

/* The first id with a byte at `at` or behind it; with `shared` ids that reach over `at` lie before
 * it, else behind. */
static sw_status id_at(sw_encoder *e, const sw_chat_text *text, int64_t at, bool shared,
                       int64_t *id, sw_error *err) {
    if (!e->tokenizer) {
        *id = at;
        return SW_OK;
    }
    const sw_token_edge *edges = e->edges.edge;
    int64_t low = 0, high = e->edges.n - 1; /* the last edge is the text's end */
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (edges[middle].byte <= at)
            low = middle;
        else
            high = middle - 1;
    }
    *id = edges[low].id;
    if (edges[low].byte == at || low == e->edges.n - 1)
        return SW_OK;
    const int64_t n_ids = edges[low + 1].id - edges[low].id;
    if (n_ids <= 1) {
        *id += shared ? n_ids : 0;
        return SW_OK;
    }
    e->before.n = 0;
    sw_status status =
        sw_tokenizer_encode_beginning(e->tokenizer, e->scratch, text->text, (size_t)edges[low].byte,
                                      (size_t)at, text->literal, text->n_literal, &e->before, err);
    int64_t n = 0;
    while (n < n_ids && n < e->before.n && e->before.ids[n] == e->ids.ids[edges[low].id + n])
        n++;
    *id += n + (shared && n < e->before.n && n < n_ids);
    return status;
}

/* Ids that share a byte with a supervised span count. */
static sw_status mark_spans(sw_encoder *e, const sw_chat_text *text, sw_error *err) {
    sw_status status = mark_from(e, 0, 0, err);
    for (int i = 0; i < text->n_supervised && status == SW_OK; i++) {
        int64_t first = 0, end = 0;
        if (text->supervised[i].first == text->supervised[i].end)
            continue;
        status = id_at(e, text, text->supervised[i].first, false, &first, err);
        if (status == SW_OK)
            status = id_at(e, text, text->supervised[i].end, true, &end, err);
        if (status == SW_OK && end > first)
            memset(e->marks + first, 1, (size_t)(end - first));
    }
    return status;
}

sw_status sw_encode_conversation(sw_encoder *e, const sw_chat_text *text, sw_error *err) {
    e->ids.n = 0;
    sw_status status =
        e->tokenizer
            ? sw_tokenizer_encode_mixed(e->tokenizer, e->scratch, text->text, (size_t)text->bytes,
                                        text->literal, text->n_literal, &e->edges, &e->ids, err)
            : encode_bytes(e, text, err);
    return status == SW_OK ? mark_spans(e, text, err) : status;
}

static sw_status encode_messages(sw_encoder *e, const sw_conversation *conversation,
                                 sw_error *err) {
    sw_status status = sw_chat_check(e->chat, err);
    if (status == SW_OK)
        status = sw_chat_check_keys(e->chat, &e->keys, conversation, &e->unread, err);
    if (status == SW_OK)
        status =
            sw_chat_render(e->chat, conversation, SW_SPANS_LEARNED, NULL, &e->conversation, err);
    if (status == SW_OK)
        status = sw_chat_check_text(e->chat, conversation, &e->conversation, err);
    return status == SW_OK ? sw_encode_conversation(e, &e->conversation, err) : status;
}

sw_status sw_encode_row(sw_encoder *e, const sw_jsonl_row *row, sw_error *err) {
    sw_status status = row->form == SW_JSONL_TEXT ? sw_encode_document(e, row->text, err)
                       : row->form == SW_JSONL_COMPLETION
                           ? encode_completion(e, row->prompt, row->completion, err)
                           : encode_messages(e, row->conversation, err);
    for (int i = 0; i < row->n_unread; i++)
        sw_unread_keys_note(&e->unread, "", row->unread[i]);
    if (status == SW_OK && !row->gives_targets && e->ids.n)
        memset(e->marks, 0, (size_t)e->ids.n);
    return status;
}

bool sw_encoded_ends(const sw_encoder *e) {
    int64_t last = e->ids.n - 1;
    while (last >= 0 && !e->marks[last])
        last--;
    return last >= 0 && e->tokenizer &&
           (e->ids.ids[last] == e->end_of_text ||
            sw_tokenizer_is_special(e->tokenizer, e->ids.ids[last]));
}
