/* added_tokens.h: tokens that are searched in the text itself, before or after it is normalized,
 * with their flags. */
#ifndef SW_TOKENIZER_ADDED_TOKENS_H
#define SW_TOKENIZER_ADDED_TOKENS_H

#include "base/slice.h"
#include "tokenizer/model.h"
#include "tokenizer/normalize.h"

typedef struct sw_added_token {
    char *content; /* NUL-terminated */
    size_t n_bytes;
    char *decoded; /* its spelling as the normalizers leave it, where it is normalized: so it is
                      searched, and so it decodes */
    size_t n_decoded;
    int32_t id;
    bool is_special, is_single_word, strips_left, strips_right, is_normalized;
} sw_added_token;

typedef struct sw_added_tokens {
    sw_added_token *tokens; /* [n], sorted by id */
    int32_t n;
    sw_prefix_set raw, normalized;                /* members' ids are indices into tokens */
    bool raw_begins[256], normalized_begins[256]; /* with which bytes members begin */
    bool has_normalized_specials;
} sw_added_tokens;

/* Read "added_tokens" of the root, and mark the special ones among the model's tokens. */
sw_status sw_added_tokens_read(const sw_part *root, const sw_normalizers *normalizers,
                               sw_model *model, sw_added_tokens *added, sw_error *err);
void sw_added_tokens_free(sw_added_tokens *added);

const sw_added_token *sw_added_tokens_find(const sw_added_tokens *added,
                                           int32_t id); /* NULL: none */

/* A search through a text: stretches of text and tokens in turn, in order, none of the stretches
 * empty. */
typedef struct sw_added_search {
    const sw_added_tokens *added;
    bool is_raw, is_literal;
    const char *text;
    size_t n_bytes;
    size_t at, done;        /* matching goes on at `at`; all before `done` was given out */
    const sw_span *literal; /* [n_literal] ranges that hold no special token, in order; those before
                               `at` are passed over */
    int64_t n_literal, offset; /* `text` begins at byte `offset` of what the ranges count in */
    const sw_added_token *waiting;
    size_t waiting_end;
} sw_added_search;

/* `is_raw`: among the tokens that are not normalized; else among the others. */
sw_added_search sw_added_search_begin(const sw_added_tokens *added, bool is_raw, bool is_literal,
                                      const char *text, size_t n_bytes);

/* The next stretch start .. end of text (*token NULL), or token. False: no more. */
bool sw_added_search_next(sw_added_search *search, const sw_added_token **token, size_t *start,
                          size_t *end);

#endif
