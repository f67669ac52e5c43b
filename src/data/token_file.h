/* token_file.h: one file of token ids, checked once and then read by position.
 *
 * A file is text, of which every byte is a token, or a .npy. It is opened for each use and not kept
 * open, so that a corpus of many small files needs no more descriptors than one of a single large
 * file, and nothing is shared between ranks. Every id is compared with the limit when the file is
 * checked, and again with the largest id found then when it is read: a file that changes under a
 * run is an error, not a wild index into the embedding.
 */
#ifndef SW_DATA_TOKEN_FILE_H
#define SW_DATA_TOKEN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/dtype.h"

typedef struct sw_token_file {
    const char *path;   /* the caller's, lives as long as this */
    sw_dtype dtype;     /* of an element in the file; SW_U8 for text */
    int64_t data_first; /* byte where token 0 lies */
    int64_t n_tokens;
    int64_t largest_id;
} sw_token_file;

/* What the numbers of a file are called in messages, and the limit that they stay below. */
typedef struct sw_token_rule {
    const char *noun;  /* "id" */
    int64_t limit;     /* every number is 0 .. limit-1, limit at most 2^31 */
    const char *whose; /* "the vocabulary" */
} sw_token_rule;

/* Read the header (of a .npy) and then every number of the file once. Errors: SW_BAD_FILE, naming
 * file, position, number and limit; SW_NO_MEMORY. */
sw_status sw_token_file_check(const char *path, bool is_text, const sw_token_rule *rule,
                              sw_token_file *file, sw_error *err);

/* Read the header of a .npy alone: its numbers are known, by a checksum, to be 0 to `largest`; each
 * is compared with that when it is read. Errors: SW_BAD_FILE. */
sw_status sw_token_file_describe(const char *path, int64_t largest, sw_token_file *file,
                                 sw_error *err);

/* A descriptor to read from; close(2) it. */
sw_status sw_token_file_open(const sw_token_file *file, int *descriptor, sw_error *err);

/* Tokens first .. first + n - 1: ids [n]. No allocation. */
sw_status sw_token_file_read(const sw_token_file *file, int descriptor, int64_t first, int64_t n,
                             int32_t *ids, sw_error *err);

#endif
