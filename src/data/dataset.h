/* dataset.h: rows of tokens by logical index.
 *
 * The files, in order, are one stream of n tokens. A row has L inputs and L targets, one token
 * further; -1 stands for a target that does not count. How rows lie in the stream:
 *
 *   plain      row i has inputs stream[i*L .. i*L+L). There are floor((n-1)/L).
 *   packed     the same, and the stream is made of documents. A row holds pieces of them, a piece
 *              sees itself alone, and the first token of a document is nobody's target. A document
 *              that a row's end cuts goes on in the next row as a new piece.
 *   whole      rows hold whole documents, several where they fit, and are filled up with token 0,
 *              which is no target and sees only such tokens (rows.h).
 *   unpacked   each document has rows of its own, the last one filled up.
 *   windows    the same for scoring, with every token but a document's first a target once
 *              (rows.h).
 *
 * Where rows hold documents whole or alone, those of more than L+1 tokens are cut every L inputs,
 * left out or refused (data.long). Packed streams are whole where they have conversations, prompts
 * with completions, or token files with a mask and lengths: text that stands among them is cut like
 * one long document.
 *
 * Documents are the rows of a .jsonl file; each .txt file (ended by the end-of-text token where the
 * tokenizer has one); and where there are lengths (data.documents), the pieces of the token files.
 * A token file without lengths is one document. Without packing and without .jsonl files or lengths
 * the rows are plain.
 *
 * Logical row j of a run is row j of epoch 0, then of epoch 1 and so on; shuffled, each epoch goes
 * through the rows in a permutation of its own, a function of (seed, epoch) alone (shuffle.h). With
 * weights (data.mix) each source, which is one entry of the list, is a stream of its own with its
 * own epochs, and mix.h says which source row j comes from; facts.n_rows is then the sum over
 * sources. No rank holds the stream: rows are read by pread, so any rank reads any row.
 *
 * Text and token files may stand in one list. Ids are compared with the vocabulary when files are
 * opened, and again with the largest id found then when they are read. With tokenizer `bytes` the
 * bytes of a text are the ids 0 to 255 and .txt files are read as they are; other text is tokenized
 * once, into a cache (text_cache.h).
 */
#ifndef SW_DATA_DATASET_H
#define SW_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "data/text_cache.h"

typedef struct sw_dataset sw_dataset;

typedef enum sw_long_documents { SW_LONG_SPLIT, SW_LONG_DROP, SW_LONG_ERROR } sw_long_documents;

/* SW_PACKED: conversations whole, text cut where a row ends; SW_PACKED_WHOLE: text whole too. */
typedef enum sw_packing { SW_UNPACKED, SW_PACKED, SW_PACKED_WHOLE } sw_packing;

typedef struct sw_dataset_options {
    /* Already absolute: .txt, .jsonl, .npy (1-D, see npy.h), folders (their .txt and .jsonl files),
     * or patterns (pattern.h); files of a folder or pattern are taken in the order of their names'
     * bytes. */
    const char *const *paths;
    int n_paths;
    /* Beside token files, for all files together, none of which may be .jsonl. labels_mask: .npy of
     * 0 and 1, one for each token of the stream: 1, the token counts when it is the target.
     * documents: .npy of lengths that add up to the stream; a length of 0 is no document. NULL:
     * none. */
    const char *labels_mask, *documents;
    int64_t sequence_length;
    int64_t vocabulary; /* every id must be below it, and every id of the tokenizer; 0: not known
                           yet (vocab auto) */
    bool is_bytes;      /* tokenizer `bytes`: text files become bytes 0..255 */
    sw_packing packing;
    int64_t stride; /* of windows, 1 to sequence_length: then packing is not asked for; 0: rows */
    sw_long_documents long_documents;
    const double *mix; /* [n_paths] weights, NULL: no mixing */
    bool shuffle;
    uint64_t seed;
    sw_text_options text; /* how text is tokenized; text.tokenizer NULL: by bytes or not at all */
    const char *tokenizer_path; /* whose ids token files should have, where text.tokenizer is NULL
                                   (token_record.h); NULL: not known */
} sw_dataset_options;

typedef struct sw_dataset_facts {
    int64_t n_tokens, n_rows;
    int64_t n_dropped; /* tokens that no row has: at the end, of documents too short or left out */
    int64_t largest_id;
    /* Rows may hold pieces that must not see each other: attention needs document_start. False: it
     * is 0 everywhere. */
    bool has_documents;
    int64_t n_documents; /* 0 without */
    int64_t
        n_long; /* documents of more than L+1 tokens: cut, or left out, as long_documents says */
    /* Documents that lie in several rows; those of them that would fit into one. */
    int64_t n_cut, n_cut_short;
    int64_t n_blank_rows; /* of which no target counts */
    int64_t n_padding;    /* places of rows that are filled up, in one epoch */
    int64_t n_whole_rows; /* rows that hold documents whole, and their share of n_padding */
    int64_t n_whole_padding;
    sw_text_facts text; /* of all .jsonl and tokenized .txt files together */
} sw_dataset_facts;

/* Open and check every file, once through; tokenize what is not in the cache. No descriptor stays
 * open and nothing is written afterwards: one dataset may be used by many processes after fork, and
 * by many threads. Errors: SW_BAD_FILE, naming the file (id out of range: position, id, limit;
 * "text has 37 tokens, a row needs 513"; a pattern that matches nothing; a text file without a
 * target that counts; a tokenizer with more ids than the vocabulary; a long document);
 * SW_BAD_CONFIG for text without a tokenizer and for options that contradict each other;
 * SW_NO_MEMORY; SW_NO_SPACE for a cache that cannot be written. Ownership: free with
 * sw_dataset_close. */
sw_status sw_dataset_open(const sw_dataset_options *options, sw_dataset **dataset, sw_error *err);
void sw_dataset_close(sw_dataset *dataset);
sw_dataset_facts sw_dataset_describe(const sw_dataset *dataset);

/* The first .jsonl file of the data; NULL: there is none. */
const char *sw_dataset_first_rows(const sw_dataset *dataset);

/* What a person should know of the data before the run, a line each: documents, samples, what is
 * cut, left out or cannot be learned from. Lines that warn begin with "warning: ". */
void sw_dataset_tell(const sw_dataset *dataset, void (*line)(void *to, const char *text), void *to);

/* Row `logical` of the run, 0 or more. No allocation.
 *
 *   tokens          out: [L]
 *   targets         out: [L]; -1: does not count
 *   document_start  out: [L], for each token the index in the row of the first token of its piece;
 *                   NULL: not needed. A token sees those from there to itself, and its position is
 *                   its distance from there
 *
 * Errors: SW_BAD_FILE for a file that changed or went away since it was checked. */
sw_status sw_dataset_row(sw_dataset *dataset, int64_t logical, int32_t *tokens, int32_t *targets,
                         int32_t *document_start, sw_error *err);

/* A hash of up to 64 rows of each stream, evenly spread, as they lie in the files: no seed, no
 * shuffling and no weight changes it. By it a run knows the data that it began with. */
sw_status sw_dataset_fingerprint(sw_dataset *dataset, uint64_t *hash, sw_error *err);

/* Targets that count in logical rows first .. first + n_rows - 1. No allocation. */
sw_status sw_dataset_supervised(sw_dataset *dataset, int64_t first, int64_t n_rows,
                                int64_t *n_supervised, sw_error *err);

/* Does any target count in them? Not more is read than it takes to know. No allocation. */
sw_status sw_dataset_has_target(sw_dataset *dataset, int64_t first, int64_t n_rows, bool *has,
                                sw_error *err);

#endif
