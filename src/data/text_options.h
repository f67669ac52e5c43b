/* text_options.h: what turns text into tokens, and what is counted of it on the way. */
#ifndef SW_DATA_TEXT_OPTIONS_H
#define SW_DATA_TEXT_OPTIONS_H

#include <stdint.h>

#include <shardwise/status.h>

#include "base/columns.h"
#include "base/file.h"
#include "data/chat.h"
#include "data/unread_keys.h"

typedef struct sw_text_options {
    const struct sw_tokenizer *tokenizer; /* NULL: bytes are ids */
    const char *tokenizer_file;           /* that it was read from, hashed; NULL with bytes */
    const sw_chat *chat;                  /* NULL: rows with `messages` are refused */
    const sw_columns *columns; /* what .jsonl files call the keys of rows; NULL: their own names */
    const char *
        cache; /* folder; NULL: $XDG_CACHE_HOME/shardwise/tokens or $HOME/.cache/shardwise/tokens */
    /* Where entries are kept when that cannot be written, for `why`; or only, where they would be,
     * if it is NULL: then nothing may be made. NULL: sw_text_cache_temporary, or nowhere where
     * `cache` is given. */
    sw_status (*fallback)(void *told, const char *why, char folder[SW_PATH_BYTES], sw_error *err);
    void (*tell)(void *told, const char *line); /* of damage; may be NULL */
    void *told;
    int n_workers; /* processes for large files; 0 or 1: this one */
    /* Told now and then while a file is tokenized; may be NULL. */
    void (*progress)(void *to, const char *path, int64_t done_bytes, int64_t all_bytes);
    void *progress_to;
} sw_text_options;

/* Every field is an int64: facts.npy is this struct. */
typedef struct sw_text_facts {
    int64_t n_samples;      /* rows of .jsonl files; .txt files */
    int64_t n_empty;        /* without a token: no document */
    int64_t n_unsupervised; /* with tokens, none of which counts */
    int64_t first_empty,
        first_unsupervised; /* where they come from, as lines.npy has it; 0: none */
    int64_t n_ended;        /* whose last token that counts ends the turn or the text */
    int64_t n_supervised;   /* tokens that count */
    int64_t n_double_begin; /* that begin with two begin-of-text tokens */
    int64_t largest_id;     /* of all tokens */
    int64_t has_marks;
    sw_unread_keys unread; /* keys of rows without effect */
} sw_text_facts;

#endif
