/* tokenize.h: a whole text file to token files in a folder, by several processes where it is large.
 *
 * The file is cut into chunks of whole lines (a .txt file is one chunk). Each is tokenized into a part, which is a list of
 * samples; the parts are then joined in order. So the result does not depend on who made which part.
 */
#ifndef SW_DATA_TOKENIZE_H
#define SW_DATA_TOKENIZE_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "data/text_cache.h"

typedef struct sw_text_chunk {
    int64_t first, bytes, n_lines_before;
} sw_text_chunk;

/* A file's chunks, found by reading it once; `seen` gets its bytes in order. */
typedef struct sw_text_chunks {
    sw_text_chunk *chunk; /* at least one; owned: free() it */
    int n, capacity;
    int64_t bytes;
} sw_text_chunks;

sw_status sw_text_scan(const char *path, bool is_jsonl, void (*seen)(void *to, const void *bytes, int64_t n), void *to,
                       sw_text_chunks *chunks, sw_error *err);

/* Write tokens.npy, marks.npy, documents.npy, lines.npy and facts.npy of `path` into `folder`, which exists and is empty. Errors:
 * SW_BAD_FILE with file, line and reason: the first of the file, whoever finds one first; SW_NO_SPACE; SW_NO_MEMORY. */
sw_status sw_text_write(const sw_text_options *options, const char *path, bool is_jsonl, const sw_text_chunks *chunks,
                        const char *folder, sw_error *err);

#endif
