/* stream.c: decoding while ids arrive.
 *
 * What a token adds to the text depends on those before it (blanks between words, characters made
 * of several tokens). So the last ids are decoded with and without the new one, and the difference
 * is new text, unless it ends within a character. Ids are kept only from the last place where the
 * text was whole.
 */
#include <stdlib.h>

#include "tokenizer/internal.h"

struct sw_token_stream {
    const sw_tokenizer *tokenizer;
    bool skip_special;
    sw_token_list ids;  /* since the last place but one where the text was whole */
    int64_t n_shown;    /* of these ids: the text is out */
    char *shown, *text; /* the text of those ids; of all ids */
    size_t n_shown_bytes, n_text_bytes;
};

sw_status sw_token_stream_create(const sw_tokenizer *tokenizer, bool skip_special,
                                 sw_token_stream **stream, sw_error *err) {
    *stream = calloc(1, sizeof **stream);
    if (!*stream)
        return sw_fail(err, SW_NO_MEMORY, "no memory for decoding");
    **stream = (sw_token_stream){.tokenizer = tokenizer, .skip_special = skip_special};
    return SW_OK;
}

void sw_token_stream_free(sw_token_stream *stream) {
    if (!stream)
        return;
    sw_token_list_free(&stream->ids);
    free(stream->shown);
    free(stream->text);
    free(stream);
}

static bool ends_within_character(const char *text, size_t n_bytes) {
    return n_bytes >= 3 && !memcmp(text + n_bytes - 3, "\xEF\xBF\xBD", 3);
}

/* Give out what the text of all ids has beyond what was shown. A decoder may change its mind about
 * what was shown (a run of bytes that turns out to be no text); what is out stays, and only what is
 * longer follows. */
static sw_status show(sw_token_stream *s, bool is_end, const char **text, size_t *n_bytes,
                      sw_error *err) {
    *text = "";
    *n_bytes = 0;
    free(s->text);
    s->text = NULL;
    sw_status status = sw_tokenizer_decode(s->tokenizer, s->ids.ids, s->ids.n, s->skip_special,
                                           &s->text, &s->n_text_bytes, err);
    if (status || s->n_text_bytes <= s->n_shown_bytes ||
        (!is_end && ends_within_character(s->text, s->n_text_bytes)))
        return status;
    *text = s->text + s->n_shown_bytes;
    *n_bytes = s->n_text_bytes - s->n_shown_bytes;
    /* The ids shown before are the new beginning's past and go; those of this time stay as the past
     * of what comes. */
    int64_t n_kept = s->ids.n - s->n_shown;
    memmove(s->ids.ids, s->ids.ids + s->n_shown, (size_t)n_kept * sizeof *s->ids.ids);
    s->ids.n = s->n_shown = n_kept;
    free(s->shown);
    s->shown = NULL;
    return sw_tokenizer_decode(s->tokenizer, s->ids.ids, s->ids.n, s->skip_special, &s->shown,
                               &s->n_shown_bytes, err);
}

sw_status sw_token_stream_push(sw_token_stream *stream, int32_t id, const char **text,
                               size_t *n_bytes, sw_error *err) {
    if (!sw_token_list_put(&stream->ids, id))
        return sw_fail(err, SW_NO_MEMORY, "no memory for decoding");
    return show(stream, false, text, n_bytes, err);
}

sw_status sw_token_stream_end(sw_token_stream *stream, const char **text, size_t *n_bytes,
                              sw_error *err) {
    return show(stream, true, text, n_bytes, err);
}
