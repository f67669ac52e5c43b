/* encode.h: one sample as ids, and for each id whether it counts as a target.
 *
 * A conversation is encoded as a whole, as apply_chat_template does it, but for control tokens that
 * messages spell: those are plain text. Where a supervised part begins or ends within a stretch
 * between control tokens, what precedes the edge is encoded once more: ids that both encodings
 * begin with lie before it, and an id that reaches over the edge has a share in it and counts.
 */
#ifndef SW_DATA_ENCODE_H
#define SW_DATA_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "data/chat_check.h"
#include "data/jsonl.h"
#include "data/text_options.h"
#include "tokenizer/tokenizer.h"

typedef struct sw_encoder {
    const sw_tokenizer *tokenizer; /* NULL: bytes are ids */
    const sw_chat *chat;
    sw_tokenizer_scratch *scratch;
    int text_flags; /* how all but conversations is encoded: SW_ENCODE_SPECIALS unless changed */
    int32_t begin, end_of_text; /* ids, -1: none */
    sw_chat_text conversation;
    sw_chat_keys keys;
    sw_unread_keys unread; /* of all rows so far */
    sw_token_edges edges;  /* work */
    sw_token_list before;
    char *joined;
    int64_t joined_capacity, marks_capacity;

    /* The sample. */
    sw_token_list ids;
    uint8_t *marks; /* [ids.n] */
} sw_encoder;

/* What the options say about the tokenizer and the format is taken; they must live as long.
 * Ownership: sw_encoder_free. */
sw_status sw_encoder_create(const sw_text_options *options, sw_encoder *encoder, sw_error *err);
void sw_encoder_free(sw_encoder *encoder);

/* A document: what the tokenizer's post-processor puts around it, and the end-of-text token where
 * there is one. All of it counts. An empty text has no ids. Errors: SW_BAD_FILE, SW_NO_MEMORY. */
sw_status sw_encode_document(sw_encoder *encoder, sw_slice text, sw_error *err);

/* A row of a .jsonl file, whose name and line the caller adds to errors. */
sw_status sw_encode_row(sw_encoder *encoder, const sw_jsonl_row *row, sw_error *err);

/* A rendered conversation: its ids, and marks by its supervised spans. */
sw_status sw_encode_conversation(sw_encoder *encoder, const sw_chat_text *text, sw_error *err);

/* Is the last id that counts a special token, which ends a turn or a text? */
bool sw_encoded_ends(const sw_encoder *encoder);

#endif
