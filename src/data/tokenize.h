/* tokenize.h: text files to token files in a folder, by several processes where there is much of
 * it.
 *
 * Files are cut into chunks of whole lines (a .txt file is one chunk). Each is tokenized into a
 * part, which is a list of samples; the parts are then joined in order. So the result does not
 * depend on who made which part.
 */
#ifndef SW_DATA_TOKENIZE_H
#define SW_DATA_TOKENIZE_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "data/text_options.h"

typedef struct sw_text_chunk {
    int file;
    int64_t first, bytes, n_lines_before;
} sw_text_chunk;

/* The files that are tokenized together. */
typedef struct sw_text_files {
    const char *const *paths;
    int n;
    bool are_rows; /* .jsonl; else .txt */
} sw_text_files;

/* The chunks of files, found by reading them once; `seen` gets their bytes in order. */
typedef struct sw_text_chunks {
    sw_text_chunk *chunk; /* at least one; owned: free() it */
    int n, capacity;
    int64_t bytes; /* of all files */
} sw_text_chunks;

sw_status sw_text_scan(const sw_text_files *files,
                       void (*seen)(void *to, const void *bytes, int64_t n), void *to,
                       sw_text_chunks *chunks, sw_error *err);

/* Write the .npy files of text_cache.h, of these files, into `folder`, which exists and is empty.
 * Errors: SW_BAD_FILE with file, line and reason: the first in their order, whoever finds one
 * first; SW_NO_SPACE; SW_NO_MEMORY.
 */
sw_status sw_text_write(const sw_text_options *options, const sw_text_files *files,
                        const sw_text_chunks *chunks, const char *folder, sw_error *err);

#endif
