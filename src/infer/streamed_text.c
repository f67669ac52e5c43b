/* streamed_text.c: the end of what is there is held back while it may be the beginning of a stop
 * text. */
#include "infer/streamed_text.h"

#include <stdlib.h>
#include <string.h>

static sw_status append(sw_bytes *bytes, const char *from, size_t n, sw_error *err) {
    if (bytes->n + n > bytes->capacity) {
        size_t capacity = 2 * (bytes->n + n) + 64;
        char *grown = realloc(bytes->item, capacity);
        if (!grown)
            return sw_fail(err, SW_NO_MEMORY, "no memory for %zu bytes of text", capacity);
        bytes->item = grown;
        bytes->capacity = capacity;
    }
    if (n)
        memcpy(bytes->item + bytes->n, from, n);
    bytes->n += n;
    return SW_OK;
}

sw_status sw_streamed_text_create(const sw_generate_options *options, int64_t number,
                                  int64_t n_prompt_tokens, const sw_tokenizer *tokenizer,
                                  sw_streamed_text *text, sw_error *err) {
    *text = (sw_streamed_text){
        .options = options, .number = number, .n_prompt_tokens = n_prompt_tokens};
    return tokenizer ? sw_token_stream_create(tokenizer, true, &text->stream, err) : SW_OK;
}

void sw_streamed_text_free(sw_streamed_text *text) {
    sw_token_stream_free(text->stream);
    free(text->held.item);
    free(text->ready.item);
}

/* Where the earliest stop text begins in what is held; its length if none. */
static size_t find_stop(const sw_streamed_text *text) {
    size_t earliest = text->held.n;
    for (int i = 0; i < text->options->n_stops; i++) {
        const char *stop = text->options->stops[i];
        const char *found =
            text->held.n ? memmem(text->held.item, text->held.n, stop, strlen(stop)) : NULL;
        if (found && (size_t)(found - text->held.item) < earliest)
            earliest = (size_t)(found - text->held.item);
    }
    return earliest;
}

/* Bytes at the end that a stop text may begin with. */
static size_t open_end(const sw_streamed_text *text) {
    size_t longest = 0;
    for (int i = 0; i < text->options->n_stops; i++) {
        size_t length = strlen(text->options->stops[i]);
        for (size_t n = length - 1; n > longest; n--)
            if (n <= text->held.n &&
                !memcmp(text->held.item + text->held.n - n, text->options->stops[i], n))
                longest = n;
    }
    return longest;
}

static sw_status release(sw_streamed_text *text, size_t n, sw_error *err) {
    sw_status status = append(&text->ready, text->held.item, n, err);
    text->held.n -= n;
    if (text->held.n)
        memmove(text->held.item, text->held.item + n, text->held.n);
    return status;
}

static sw_status take(sw_streamed_text *text, const char *bytes, size_t n, sw_error *err) {
    sw_status status = append(&text->held, bytes, n, err);
    if (status)
        return status;
    size_t stop = find_stop(text);
    if (stop < text->held.n) {
        text->held.n = stop;
        text->is_over = true;
        text->end = SW_END_STOP;
        return release(text, stop, err);
    }
    return release(text, text->held.n - open_end(text), err);
}

sw_status sw_streamed_text_finish(sw_streamed_text *text, sw_text_end end, sw_error *err) {
    const char *bytes = NULL;
    size_t n = 0;
    sw_status status = SW_OK;
    if (text->is_over)
        return SW_OK;
    if (text->stream)
        status = sw_token_stream_end(text->stream, &bytes, &n, err);
    if (!status && n)
        status = take(text, bytes, n, err);
    if (status || text->is_over) /* by a stop text */
        return status;
    text->is_over = true;
    text->end = end;
    return release(text, text->held.n, err);
}

sw_status sw_streamed_text_push(sw_streamed_text *text, int32_t id, bool ends_text, sw_error *err) {
    const char *bytes;
    size_t n;
    sw_status status = SW_OK;
    text->n_tokens++;
    if (ends_text)
        return sw_streamed_text_finish(text, SW_END_OF_TEXT, err);
    if (text->stream)
        status = sw_token_stream_push(text->stream, id, &bytes, &n, err);
    if (!status && text->stream)
        status = take(text, bytes, n, err);
    if (!status && text->n_tokens == text->options->max_tokens)
        status = sw_streamed_text_finish(text, SW_END_TOKENS, err);
    return status;
}

sw_status sw_streamed_text_show(sw_streamed_text *text, sw_error *err) {
    const sw_text_sink *sink = &text->options->sink;
    sw_status status = SW_OK;
    if (!text->has_begun && sink->begin)
        status = sink->begin(sink->to, text->number, err);
    text->has_begun = true;
    if (!status && text->ready.n && sink->text)
        status = sink->text(sink->to, text->number, text->ready.item, text->ready.n, err);
    text->ready.n = 0;
    const sw_text_result result = {text->end, text->n_prompt_tokens, text->n_tokens,
                                   text->has_slid};
    if (!status && text->is_over && sink->end)
        status = sink->end(sink->to, text->number, &result, err);
    return status;
}
