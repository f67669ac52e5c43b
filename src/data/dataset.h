/* dataset.h: rows of tokens by logical index.
 *
 * The files, in order, are one stream of n tokens. With rows of L tokens there are floor((n-1)/L) of them: row i has inputs
 * stream[i*L .. i*L+L) and targets one further. Logical row j of a run is row j of epoch 0, then of epoch 1 and so on; shuffled,
 * each epoch goes through the rows in a permutation of its own, a function of (seed, epoch) alone (shuffle.h). No rank holds the
 * stream: rows are read by pread, so any rank reads any row.
 *
 * Text and token files may stand in one list: the bytes of a text are the ids 0 to 255, and there is no end-of-text token among
 * them to put between files. Ids are compared with the vocabulary when files are opened, and again with the largest id found then
 * when they are read.
 */
#ifndef SW_DATA_DATASET_H
#define SW_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_dataset sw_dataset;

typedef struct sw_dataset_options {
    /* Already absolute: .txt (with the `bytes` tokenizer), .npy (1-D, see npy.h), or patterns of glob(3), whose files are taken
     * in the order of their names' bytes. A name that exists is no pattern. */
    const char *const *paths;
    int n_paths;
    /* .npy of 0 and 1, one for each token of the stream: 1, the token counts when it is the target. NULL: all do. */
    const char *labels_mask;
    int64_t sequence_length;
    int64_t vocabulary; /* every id must be below it; 0: not known yet (vocab auto) */
    bool is_bytes;      /* tokenizer `bytes`: text files become bytes 0..255 */
    bool shuffle;
    uint64_t seed;
} sw_dataset_options;

typedef struct sw_dataset_facts {
    int64_t n_tokens, n_rows;
    int64_t n_dropped; /* tokens at the end that fill no row */
    int64_t largest_id;
} sw_dataset_facts;

/* Open and check every file, once through. No descriptor stays open and nothing is written afterwards: one dataset may be used by
 * many processes after fork, and by many threads. Errors: SW_BAD_FILE, naming the file (id out of range: position, id, limit;
 * "text has 37 tokens, a row needs 513"; a pattern that matches nothing); SW_BAD_CONFIG for text without a tokenizer;
 * SW_NO_MEMORY. Ownership: free with sw_dataset_close. */
sw_status sw_dataset_open(const sw_dataset_options *options, sw_dataset **dataset, sw_error *err);
void sw_dataset_close(sw_dataset *dataset);
sw_dataset_facts sw_dataset_describe(const sw_dataset *dataset);

/* Row `logical` of the run, 0 or more: tokens [L], targets [L] (-1: does not count). No allocation.
 * Errors: SW_BAD_FILE for a file that changed or went away since it was checked. */
sw_status sw_dataset_row(sw_dataset *dataset, int64_t logical, int32_t *tokens, int32_t *targets, sw_error *err);

/* Targets that count in logical rows first .. first + n_rows - 1. No allocation. */
sw_status sw_dataset_supervised(sw_dataset *dataset, int64_t first, int64_t n_rows, int64_t *n_supervised, sw_error *err);

#endif
