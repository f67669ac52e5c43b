/* chat.h: a conversation as the text that a model was trained on.
 *
 * The chat template of the model's folder is run (jinja/), whatever it is; so is one that is given
 * instead, and the formats of data.chat_format are templates too (chat_formats.h). What
 * transformers hands to a template is handed to it here.
 *
 * Two kinds of ranges come with the text. Literal ones are what the row's messages hold: a control
 * token that is spelled there is plain text. Supervised ones are what the model says after the
 * prompt: from the end of the assistant's header through the token that ends the turn, not the
 * newline that some formats put after it. A template with generation marks says them itself; for
 * others they are found by comparing renderings (chat_spans.c).
 */
#ifndef SW_DATA_CHAT_H
#define SW_DATA_CHAT_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/slice.h"
#include "data/conversation.h"
#include "data/jinja/jinja.h"

#define SW_CHAT_TEXT_BYTES 256

typedef struct sw_chat sw_chat;

/* Where the template and what it sees come from; zeros for what is not given. */
typedef struct sw_chat_options {
    const char *folder; /* of the tokenizer: tokenizer_config.json, chat_template.jinja and so on
                           are read where they exist */
    const char *format; /* of data.chat_format: NULL or "auto", or the name of a format */
    const char *template_path;  /* a template in place of the folder's and the format's */
    const char *special_tokens; /* an object of names and tokens, as JSON, in place of those of the
                                   folder */
    const char *now; /* what strftime_now tells: "2025-06-30", "2025-06-30 12:00:00"; NULL: the
                        clock, when opened */
    const char *const *set; /* [n_set] "NAME=VALUE": further names that the template sees, VALUE as
                               JSON or else as text */
    int n_set;
} sw_chat_options;

/* A folder without a template, or with one that is no template, is no error until a conversation
 * comes; one that is given by its path is read at once. Ownership: sw_chat_free. Errors:
 * SW_BAD_CONFIG for an unknown format, a time that is none, a --set without a name; SW_BAD_FILE for
 * a damaged tokenizer_config.json or template; SW_NO_MEMORY. */
sw_status sw_chat_open(const sw_chat_options *options, sw_chat **chat, sw_error *err);
void sw_chat_free(sw_chat *chat);

/* Where the template is from, for people: "chat_template of ./m/tokenizer_config.json", "the format
 * chatml"; NULL: none. */
const char *sw_chat_source(const sw_chat *chat);

/* The text of the template that is chosen in place of the folder's (`format`, `template_path`), to
 * be kept with a model: special tokens that the tokenizer does not name are set in it. *text NULL:
 * none is chosen. Ownership: free(*text). Errors: as above. */
sw_status sw_chat_chosen(const sw_chat_options *options, char **text, sw_error *err);

/* Is there one that can be run? Errors: SW_BAD_FILE, which says why not and what to do. NULL is a
 * chat without one. */
sw_status sw_chat_check(const sw_chat *chat, sw_error *err);

/* Today, "2025-06-30": for what is made once and kept, such as tokens in a cache. */
enum { SW_CHAT_TIME_BYTES = 32 };
void sw_chat_today(char day[SW_CHAT_TIME_BYTES]);

/* Does the template ask for the time? Then *now [SW_CHAT_TIME_BYTES] is what it is told,
 * "2025-06-30 00:00:00". */
bool sw_chat_asks_time(const sw_chat *chat, char now[SW_CHAT_TIME_BYTES]);

/* Everything that a text depends on, handed over piece by piece: for the key of a cache. */
void sw_chat_hash(const sw_chat *chat, void (*seen)(void *to, const void *bytes, int64_t n),
                  void *to);

/* Does the template speak of this name (for conversations with tools, or without)? */
bool sw_chat_mentions(const sw_chat *chat, bool with_tools, const char *name);

/* A rendered conversation; starts as {0} and may be used again, its memory grows as needed.
 * sw_chat_text_free frees it. */
typedef struct sw_chat_text {
    const char *text; /* [bytes], not ended by a NUL */
    int64_t bytes;
    sw_span *literal; /* [n_literal] in order, apart from each other */
    int64_t n_literal, literal_capacity;
    /* In order, apart from each other; none is empty, but where a template's mark says so. */
    sw_span *supervised;
    int n_supervised, supervised_capacity;
    /* work: the text is `whole`'s */
    sw_jinja_rendering whole, part;
    struct sw_span_memo *memo; /* chat_span_memo.c */
} sw_chat_text;

typedef enum sw_chat_spans {
    SW_SPANS_NONE,    /* nobody asks */
    SW_SPANS_LEARNED, /* of messages that give targets */
    SW_SPANS_ALL      /* of all of the assistant's messages */
} sw_chat_spans;

/* Render a conversation. `is_certain`: out, whether the spans are known; where they are not the
 * text stands and *err tells why, though SW_OK is returned. NULL: that is SW_BAD_FILE. Errors:
 * SW_BAD_FILE where there is no template or it refuses the conversation; SW_NO_MEMORY. */
sw_status sw_chat_render(const sw_chat *chat, const sw_conversation *conversation,
                         sw_chat_spans spans, bool *is_certain, sw_chat_text *out, sw_error *err);
void sw_chat_text_free(sw_chat_text *out);

/* The spelling of what ends a turn of the assistant, "<|im_end|>"; "" where the template has
 * none. */
sw_status sw_chat_turn_end(const sw_chat *chat, char end[SW_CHAT_TEXT_BYTES], sw_error *err);

#endif
