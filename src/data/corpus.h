/* corpus.h: the samples of text files, encoded by several threads and handed out in their order.
 *
 * A file of text is one sample; a file of rows (.jsonl) has one in each row, read and encoded as
 * training does. Files are cut into jobs of about a megabyte of whole samples; a ring of them is on
 * its way at a time, so memory holds a file and its jobs, not the corpus.
 */
#ifndef SW_DATA_CORPUS_H
#define SW_DATA_CORPUS_H

#include "data/encode.h"

typedef struct sw_corpus {
    const char *const *paths;
    int n_paths;
    bool all_are_rows; /* whatever their names; else those that end in .jsonl */
    const sw_tokenizer *tokenizer;
    const sw_chat *chat;       /* NULL: rows with `messages` are refused */
    const sw_columns *columns; /* what files call the keys of rows; NULL: their own names */
    int flags;                 /* of sw_tokenizer_encode, for all text but conversations */
    bool has_no_end;           /* no end-of-text token is put after a document */
    int n_threads;             /* at least 1 */
} sw_corpus;

typedef struct sw_corpus_sample {
    const int32_t *ids;   /* [n] */
    const uint8_t *marks; /* [n], as of sw_encoder */
    int64_t n,
        n_bytes; /* n may be 0; bytes of its text, which for conversations is what messages say */
    const char *path;
    int64_t line; /* of a row, from 1; 0: a file of text */
} sw_corpus_sample;

/* Called in the caller's thread. `take`: the next sample. `progress` (may be NULL): bytes of files
 * that are done, of those in all. */
typedef struct sw_corpus_sink {
    sw_status (*take)(void *to, const sw_corpus_sample *sample, sw_error *err);
    void (*progress)(void *to, int64_t done_bytes, int64_t all_bytes);
    void *to;
    sw_unread_keys *unread; /* keys of rows without effect are added; NULL: nobody asks */
} sw_corpus_sink;

/* Does the corpus have files of rows? */
bool sw_corpus_has_rows(const sw_corpus *corpus);

/* Errors: SW_BAD_FILE with file and line or byte (not UTF-8; all that data/jsonl.h, data/chat.h
 * refuse), SW_NO_MEMORY, the sink's own. The first in the order of the samples is told; those
 * before it were handed out. */
sw_status sw_corpus_encode(const sw_corpus *corpus, sw_corpus_sink sink, sw_error *err);

#endif
