/* dataset_internal.h: what opening (dataset_open.c) leaves to reading (dataset.c). */
#ifndef SW_DATA_DATASET_INTERNAL_H
#define SW_DATA_DATASET_INTERNAL_H

#include "base/arena.h"
#include "data/dataset.h"
#include "data/documents.h"
#include "data/mix.h"
#include "data/pieces.h"
#include "data/rows.h"

/* What is mixed, or the only one. */
typedef struct sw_stream {
    int64_t first, end; /* positions */
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
    int64_t sequence_length;
    uint64_t seed;
    sw_long_documents long_documents;
    const char *first_empty, *first_unsupervised; /* places of such samples, in words; NULL: unknown */
    sw_dataset_facts facts;
};

#endif
