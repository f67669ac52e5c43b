/* rows.h: where the rows of a stream lie.
 *
 * A stream is a range of positions (pieces.h). Rows are cut from it every L tokens, or made of its documents one by one. Row i is
 * a position and the number of inputs and targets that are found from there on; the rest of the row is padding.
 */
#ifndef SW_DATA_ROWS_H
#define SW_DATA_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "data/documents.h"

typedef struct sw_rows {
    int64_t first, end; /* of the stream */
    int64_t length;     /* L */
    int64_t n_rows;
    int64_t n_dropped, n_padding;
    int64_t *start; /* [n_rows] where rows are made of documents, else NULL; owned */
} sw_rows;

typedef struct sw_row {
    int64_t position;            /* of its first input */
    int64_t n_inputs, n_targets; /* at most L; target i is at position + 1 + i */
} sw_row;

/* Rows cut every `length` tokens from positions first .. end - 1: floor((n-1)/L). */
void sw_rows_cut(sw_rows *rows, int64_t first, int64_t end, int64_t length);

/* Rows of the documents that lie in that range, which begins and ends with one. Those of one token have none. Errors:
 * SW_NO_MEMORY. */
sw_status sw_rows_of_documents(sw_rows *rows, int64_t first, int64_t end, int64_t length, const sw_documents *documents,
                               sw_error *err);
void sw_rows_free(sw_rows *rows);

sw_row sw_rows_find(const sw_rows *rows, const sw_documents *documents, int64_t i);

#endif
