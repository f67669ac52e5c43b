/* dataset_internal.h: what opening (dataset_files.c, dataset_open.c) leaves to reading
 * (dataset.c). */
#ifndef SW_DATA_DATASET_INTERNAL_H
#define SW_DATA_DATASET_INTERNAL_H

#include "base/arena.h"
#include "data/dataset.h"
#include "data/documents.h"
#include "data/mix.h"
#include "data/pieces.h"
#include "data/rows.h"
#include "data/token_record.h"

/* What is mixed, or the only one. */
typedef enum sw_row_kind {
    SW_ROWS_CUT,
    SW_ROWS_ALONE,
    SW_ROWS_WINDOWS,
    SW_ROWS_PACKED
} sw_row_kind;
typedef struct sw_stream {
    int64_t first, end; /* positions */
    sw_row_kind kind;
    sw_rows rows;
} sw_stream;

struct sw_dataset {
    sw_arena arena;
    sw_pieces pieces;
    sw_documents documents;
    sw_stream *streams;
    int n_streams;
    sw_mix *mix; /* NULL: one stream */
    bool has_marks, shuffle;
    bool is_masked; /* by data.labels_mask */
    int64_t sequence_length;
    uint64_t seed;
    sw_long_documents long_documents;
    const char *first_rows; /* the first .jsonl file; NULL: none */
    const char *first_empty,
        *first_unsupervised; /* places of such samples, in words; NULL: unknown */
    sw_dataset_facts facts;
};

/* What is only known while files are opened. */
typedef struct sw_dataset_opening {
    const sw_dataset_options *options;
    sw_dataset *dataset;
    int n_files, n_text, n_jsonl;
    const char **waiting; /* .txt files that are tokenized together */
    int n_waiting, waiting_capacity;
    const char *first_file, *first_jsonl;
    sw_token_reader reader;
    sw_error *err;
} sw_dataset_opening;

/* dataset_files.c: open all files of the options: the pieces and, where they are told by files, the
 * documents and streams. Errors: SW_BAD_CONFIG, SW_BAD_FILE, SW_NO_MEMORY. */
sw_status sw_dataset_add_files(sw_dataset_opening *opening);

/* dataset_files.c: a file of marks, one for each of `n_tokens`. Errors: SW_BAD_FILE. */
sw_status sw_dataset_check_marks(sw_dataset_opening *opening, const char *path, int64_t n_tokens,
                                 sw_token_file *file);

/* A .npy of lengths of documents. */
typedef struct sw_lengths {
    const char *path;
    int64_t n_tokens;  /* that they add up to */
    const char *whole; /* .npy of as many 0 and 1: which of them packing keeps whole; NULL: ... */
    bool are_whole;    /* ... all of them, or none */
    const sw_stream *bounds; /* [n_bounds] a document is cut where one of these ends */
    int n_bounds;
} sw_lengths;

/* dataset_files.c: add those documents. Errors: SW_BAD_FILE, SW_NO_MEMORY. */
sw_status sw_dataset_read_lengths(sw_dataset_opening *opening, const sw_lengths *lengths);

/* dataset.c: rows of a stream of which no target counts. Errors: SW_BAD_FILE. */
sw_status sw_dataset_count_blank(const sw_dataset *dataset, const sw_stream *of, int64_t *n_blank,
                                 sw_error *err);

#endif
