/* corpus.h: the documents of text files, encoded by several threads and handed out in their order.
 *
 * A file of text is one document; a file of rows (.jsonl) has one in each row's "text". Files are cut into jobs of about a
 * megabyte of whole documents; a ring of them is on its way at a time, so memory holds a file and its jobs, not the corpus.
 */
#ifndef SW_DATA_TOKENIZER_CORPUS_H
#define SW_DATA_TOKENIZER_CORPUS_H

#include "data/tokenizer/tokenizer.h"

typedef struct sw_corpus {
    const char *const *paths;
    int n_paths;
    bool all_are_rows; /* whatever their names; else those that end in .jsonl */
    int flags;         /* of sw_tokenizer_encode */
    int n_threads;     /* at least 1 */
} sw_corpus;

/* Called in the caller's thread. `take`: the next document [n ids], of n_bytes bytes of text. `progress` (may be NULL): bytes of
 * files that are done, of those in all. */
typedef struct sw_corpus_sink {
    sw_status (*take)(void *to, const int32_t *ids, int64_t n, int64_t n_bytes, sw_error *err);
    void (*progress)(void *to, int64_t done_bytes, int64_t all_bytes);
    void *to;
} sw_corpus_sink;

/* Errors: SW_BAD_FILE with file and line or byte (not UTF-8, a row that is no JSON or has no "text", no rows), SW_NO_MEMORY, the
 * sink's own. The first in the order of the documents is told; those before it were handed out. */
sw_status sw_corpus_encode(const sw_tokenizer *tokenizer, const sw_corpus *corpus, sw_corpus_sink sink, sw_error *err);

#endif
