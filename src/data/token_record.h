/* token_record.h: beside a token file, what its ids mean.
 *
 * Ids are numbers, and any model of enough of them takes them for its own. So `shardwise tokenize
 * -o t.npy` writes t.npy.json too:
 *
 *   {"format": 1, "tokens": 3417, "ids": 49152, "tokenizer": "8d5a8bf5c0f4e3a1"}
 *
 * where `tokenizer` is a hash of the texts of ids 0 .. ids-1: tokens that are added later change
 * nothing, nor does the layout of tokenizer.json. A token file without a record is taken as it is.
 */
#ifndef SW_DATA_TOKEN_RECORD_H
#define SW_DATA_TOKEN_RECORD_H

#include <stdint.h>

#include <shardwise/status.h>

#include "tokenizer/tokenizer.h"

enum { SW_TOKEN_HASH_BYTES = 17 }; /* 16 digits 0-9a-f, and a NUL */

/* What a record says. */
typedef struct sw_token_record {
    int64_t n_tokens, n_ids;
    char tokenizer[SW_TOKEN_HASH_BYTES];
} sw_token_record;

/* Read the text of a record, which is `name` in messages. Errors: SW_BAD_FILE: it is none, or of
 * another format; SW_NO_MEMORY. */
sw_status sw_token_record_parse(const char *name, const char *text, int64_t n_bytes,
                                sw_token_record *record, sw_error *err);

/* May the token file `path` have a record: is there none yet, or one that may be replaced? Errors:
 * SW_BAD_CONFIG: something else has that name. */
sw_status sw_token_record_look(const char *path, sw_error *err);

/* Write the record of the token file `path` under another name, which sw_token_record_publish makes
 * the record's once the token file has its own, so that nothing that may fail lies between the two;
 * sw_token_record_abandon removes it. Errors: SW_NO_SPACE.
 */
sw_status sw_token_record_write(const char *path, const sw_tokenizer *tokenizer, int64_t n_tokens,
                                sw_error *err);
sw_status sw_token_record_publish(const char *path, sw_error *err);
void sw_token_record_abandon(const char *path);

/* Whose ids those of token files should be: `tokenizer`, or else the one of `path`, which is read
 * when a record asks for it. */
typedef struct sw_token_reader {
    const sw_tokenizer *tokenizer; /* NULL: see path */
    const char *path;     /* a folder or file that may have a tokenizer.json; NULL: not known */
    sw_tokenizer *opened; /* sw_tokenizer_free */
} sw_token_reader;

/* Does the record of the token file `path`, if there is one, fit the file's number of tokens and,
 * where it is known, the reader? Errors: SW_BAD_FILE, naming file and tokenizer; SW_NO_MEMORY. */
sw_status sw_token_record_check(const char *path, int64_t n_tokens, sw_token_reader *reader,
                                sw_error *err);

#endif
