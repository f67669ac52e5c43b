/* chat_spans_internal.h: how the spans of the assistant are looked for: chat_spans.c tells the
 * idea. */
#ifndef SW_DATA_CHAT_SPANS_INTERNAL_H
#define SW_DATA_CHAT_SPANS_INTERNAL_H

#include "data/chat_internal.h"

typedef struct sw_finder {
    const sw_chat *chat;
    const sw_chat_template *template;
    const sw_conversation *conversation;
    json_t *data; /* what templates are given; messages and add_generation_prompt change with each
                     rendering */
    sw_chat_text *out;
    sw_error *err;
    bool adds_prompt; /* the whole ends in a generation prompt */
    int i;            /* the message that is looked for */
} sw_finder;

/* What a text comes from: 0 is the template itself, 1 a row's other data, 2 + i its message i. */
enum { SW_FIRST_MESSAGE = 2 };

sw_status sw_spans_no_memory(sw_error *err);

/* It is not certain `what` ("where the assistant's turn ends"). Returns SW_BAD_FILE. */
sw_status sw_spans_refuse(const sw_finder *f, const char *what);

/* ---- renderings ---- */

static inline sw_slice sw_spans_part(const sw_jinja_rendering *r, int64_t first, int64_t end) {
    return (sw_slice){r->text + first, end - first};
}

/* The first n messages and, if it is not NULL, another one of this role that says "x". NULL: no
 * memory. */
json_t *sw_spans_messages(const sw_finder *f, int n, const char *role);

/* Render these messages, which are freed, into out->part. *is_there: the template takes them. */
sw_status sw_spans_render(sw_finder *f, json_t *messages, bool adds_prompt, bool *is_there);

/* What the generation prompt adds behind the messages before message i, or behind another's where
 * it is the first. `kept`: out, what *header points into; free() it. out->part is another rendering
 * afterwards. */
sw_status sw_spans_header(sw_finder *f, sw_slice *header, char **kept);

/* Where the first byte of message i stands; -1: nowhere. */
int64_t sw_spans_first_byte(const sw_jinja_rendering *r, int i);

/* Behind the last byte of message i that stands together, no other message's between, and is
 * followed by `tail`; -1: there is none from `first` on. */
int64_t sw_spans_last_byte(const sw_jinja_rendering *r, int i, int64_t first, sw_slice tail);

/* The last bytes of whatever origin before `limit`; NULL: all before it is the template's. */
const sw_jinja_origin *sw_spans_last_before(const sw_jinja_rendering *r, int64_t limit);

/* ---- what was found before ---- */

/* The answer that is message i stands among the same words of the template as one that was compared
 * before: *span is known. */
bool sw_span_recall(const sw_finder *f, sw_span *span);

/* Keep what was found. Does nothing where memory is short. */
void sw_span_remember(const sw_finder *f, sw_span span);

/* ---- the two ends ---- */

/* Where the answer begins that is message i, and where it ends. Errors: SW_BAD_FILE where that is
 * not certain. */
sw_status sw_spans_find_start(sw_finder *f, int64_t *start);
sw_status sw_spans_find_end(sw_finder *f, int64_t start, int64_t *end);

#endif
