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
                            .end_of_text = -1,
                            .turn_end = -1};
    if (!options->tokenizer)
        return SW_OK;
    encoder->begin = sw_tokenizer_bos_id(options->tokenizer);
    encoder->end_of_text = sw_tokenizer_eos_id(options->tokenizer);
    if (options->chat && options->chat->family != SW_CHAT_NONE)
        encoder->turn_end = sw_tokenizer_token_id(options->tokenizer, sw_chat_turn_end(options->chat));
    return sw_tokenizer_scratch_create(options->tokenizer, &encoder->scratch, err);
}

void sw_encoder_free(sw_encoder *encoder) {
    sw_tokenizer_scratch_free(encoder->scratch);
    sw_chat_text_free(&encoder->conversation);
    sw_token_list_free(&encoder->before);
    sw_token_list_free(&encoder->ids);
    free(encoder->joined);
    free(encoder->marks);
    *encoder = (sw_encoder){0};
}

/* Append the ids of a stretch. */
static sw_status append(sw_encoder *e, const char *text, int64_t bytes, int flags, sw_token_list *ids, sw_error *err) {
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

/* How many ids of the stretch that begins at id `first` lie before its byte `edge`. *is_exact: an id begins there. */
static sw_status ids_before(sw_encoder *e, const char *text, int64_t edge, int flags, int64_t first, int64_t *n, bool *is_exact,
                            sw_error *err) {
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

static sw_status encode_completion(sw_encoder *e, sw_slice prompt, sw_slice completion, sw_error *err) {
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
        status = ids_before(e, e->joined, prompt.bytes, e->text_flags, 0, &n_before, &is_exact, err);
    if (status == SW_OK && completion.bytes == 0)
        n_before = e->ids.n; /* what the post-processor put behind the prompt is none of the completion */
    if (status == SW_OK)
        status = end_document(e, err);
    if (status == SW_OK)
        status = mark_from(e, 0, 0, err);
    return status == SW_OK ? mark_from(e, n_before, 1, err) : status;
}

/* ---- conversations ---- */

/* The id of a control word, -1 if the tokenizer has no special token of that spelling. */
static int32_t control_id(const sw_encoder *e, const sw_chat_text *text, sw_span span) {
    char word[SW_CHAT_TEXT_BYTES];
    int64_t n = span.end - span.first;
    if (!e->tokenizer || n >= (int64_t)sizeof word)
        return -1;
    memcpy(word, text->text + span.first, (size_t)n);
    word[n] = 0;
    int32_t id = sw_tokenizer_token_id(e->tokenizer, word);
    return id >= 0 && sw_tokenizer_is_special(e->tokenizer, id) ? id : -1;
}

/* Mark the ids from `first_id` on, which are those of text bytes first .. end - 1, that share a byte with a supervised span. */
static sw_status mark_stretch(sw_encoder *e, const sw_chat_text *text, sw_span stretch, int64_t first_id, sw_error *err) {
    sw_status status = mark_from(e, first_id, 0, err);
    for (int i = 0; i < text->n_supervised && status == SW_OK; i++) {
        sw_span span = text->supervised[i];
        int64_t from = 0, to = e->ids.n - first_id;
        bool is_exact;
        if (span.end <= stretch.first || span.first >= stretch.end)
            continue;
        if (span.first > stretch.first)
            status = ids_before(e, text->text + stretch.first, span.first - stretch.first, SW_ENCODE_LITERAL, first_id, &from,
                                &is_exact, err);
        if (status == SW_OK && span.end < stretch.end) {
            status = ids_before(e, text->text + stretch.first, span.end - stretch.first, SW_ENCODE_LITERAL, first_id, &to,
                                &is_exact, err);
            to += !is_exact && first_id + to < e->ids.n;
        }
        if (status == SW_OK && to > from)
            memset(e->marks + first_id + from, 1, (size_t)(to - from));
    }
    return status;
}

static sw_status encode_stretch(sw_encoder *e, const sw_chat_text *text, int64_t first, int64_t end, sw_error *err) {
    int64_t first_id = e->ids.n;
    if (first == end)
        return SW_OK;
    sw_status status = append(e, text->text + first, end - first, SW_ENCODE_LITERAL, &e->ids, err);
    return status == SW_OK ? mark_stretch(e, text, (sw_span){first, end}, first_id, err) : status;
}

sw_status sw_encode_conversation(sw_encoder *e, const sw_chat_text *text, sw_error *err) {
    int64_t at = 0;
    sw_status status = SW_OK;
    e->ids.n = 0;
    for (int i = 0; i < text->n_control && status == SW_OK; i++) {
        sw_span span = text->control[i];
        int32_t id = control_id(e, text, span);
        if (id < 0)
            continue; /* a part of the stretch around it */
        status = encode_stretch(e, text, at, span.first, err);
        if (status == SW_OK && !sw_token_list_put(&e->ids, id))
            status = no_memory(err);
        if (status == SW_OK)
            status = mark_stretch(e, text, span, e->ids.n - 1, err);
        at = span.end;
    }
    return status == SW_OK ? encode_stretch(e, text, at, text->bytes, err) : status;
}

sw_status sw_encode_row(sw_encoder *e, const sw_jsonl_row *row, sw_error *err) {
    static const sw_chat none = {.family = SW_CHAT_NONE};
    if (row->form == SW_JSONL_TEXT)
        return sw_encode_document(e, row->text, err);
    if (row->form == SW_JSONL_COMPLETION)
        return encode_completion(e, row->prompt, row->completion, err);
    sw_status status = sw_chat_render(e->chat ? e->chat : &none, row->messages, row->n_messages, false, &e->conversation, err);
    return status == SW_OK ? sw_encode_conversation(e, &e->conversation, err) : status;
}

bool sw_encoded_ends(const sw_encoder *e) {
    int64_t last = e->ids.n - 1;
    while (last >= 0 && !e->marks[last])
        last--;
    return last >= 0 && (e->ids.ids[last] == e->end_of_text || e->ids.ids[last] == e->turn_end);
}
