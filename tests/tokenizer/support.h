/* support.h: tokenizers from text, ids as text, and failing with a message. */
#ifndef TESTS_TOKENIZER_SUPPORT_H
#define TESTS_TOKENIZER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tokenizer/tokenizer.h"

#define GOLDEN SW_SOURCE_FOLDER "/tests/tokenizer/"

static inline sw_tokenizer *parse_tokenizer(const char *json) {
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    if (sw_tokenizer_parse("tokenizer.json", json, (int64_t)strlen(json), &tokenizer, &err))
        fail_msg("%s", err.message);
    return tokenizer;
}

static inline sw_tokenizer *read_tokenizer(const char *path) {
    sw_tokenizer *tokenizer;
    sw_error err = {0};
    if (sw_tokenizer_read(path, &tokenizer, &err))
        fail_msg("%s", err.message);
    return tokenizer;
}

/* Ids with blanks between. */
static inline const char *ids_text(const sw_token_list *list, char *text, size_t n_text) {
    size_t n = 0;
    *text = 0;
    for (int64_t i = 0; i < list->n && n < n_text; i++)
        n += (size_t)snprintf(text + n, n_text - n, i ? " %d" : "%d", list->ids[i]);
    return text;
}

/* Encoding `text` gives the ids `wanted` ("3 4 5"). */
static inline void encodes_to(const sw_tokenizer *tokenizer, const char *text, int flags,
                              const char *wanted) {
    sw_tokenizer_scratch *scratch;
    sw_token_list ids = {0};
    sw_error err = {0};
    char given[4096];
    assert_int_equal(sw_tokenizer_scratch_create(tokenizer, &scratch, &err), SW_OK);
    if (sw_tokenizer_encode(tokenizer, scratch, text, strlen(text), flags, &ids, &err))
        fail_msg("%s: %s", text, err.message);
    if (strcmp(ids_text(&ids, given, sizeof given), wanted))
        fail_msg("\"%s\": wanted %s, given %s", text, wanted, given);
    sw_token_list_free(&ids);
    sw_tokenizer_scratch_free(scratch);
}

#endif
