/* dataset.h: rows of tokens by logical index.
 *
 * The files, in order, are one stream of n tokens. With rows of L tokens there are floor((n-1)/L) of them: row i has inputs
 * stream[i*L .. i*L+L) and targets one further. Logical row j of a run is row j of epoch 0, then of epoch 1 and so on; shuffled, each
 * epoch goes through the rows in a permutation of its own, a function of (seed, epoch) alone. No rank holds the stream: rows are read
 * by pread, so any rank reads any row.
 */
#ifndef SW_DATA_DATASET_H
#define SW_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_dataset sw_dataset;

typedef struct sw_dataset_options {
    const char *const *paths;  /* files or globs, already absolute; .txt with the `bytes` tokenizer, or .npy (1-D uint16, int32, uint32) */
    int n_paths;
    const char *labels_mask;   /* .npy uint8 beside one token file, NULL: every target counts */
    int64_t sequence_length;
    int64_t vocabulary;        /* every id must be below it; 0: not known yet (vocab auto) */
    bool is_bytes;             /* tokenizer `bytes`: text files become bytes 0..255 */
    bool shuffle;
    uint64_t seed;
} sw_dataset_options;

typedef struct sw_dataset_facts {
    int64_t n_tokens, n_rows;
    int64_t n_dropped;      /* tokens at the end that fill no row */
    int64_t largest_id;
} sw_dataset_facts;

/* Open and check every file (ids against the vocabulary: file, position, id, limit). Errors: SW_BAD_FILE, with "text has 37 tokens,
 * a row needs 513" where there is not one row. Ownership: free with sw_dataset_close. Safe to use after fork. */
sw_status sw_dataset_open(const sw_dataset_options *options, sw_dataset **dataset, sw_error *err);
void sw_dataset_close(sw_dataset *dataset);
sw_dataset_facts sw_dataset_describe(const sw_dataset *dataset);

/* Row `logical`: tokens [L], targets [L] (-1: does not count). No allocation. */
sw_status sw_dataset_row(sw_dataset *dataset, int64_t logical, int32_t *tokens, int32_t *targets, sw_error *err);

/* Targets that count in logical rows first .. first + n_rows - 1. No allocation. */
sw_status sw_dataset_supervised(sw_dataset *dataset, int64_t first, int64_t n_rows, int64_t *n_supervised, sw_error *err);

#endif
