/* rows.h: where the rows of a stream lie.
 *
 * A stream is a range of positions (pieces.h). Its rows are
 *
 *   cut      every L tokens, whatever lies there
 *   alone    of one document each, filled up; a longer document has several
 *   windows  the same, a longer document's beginning `stride` tokens apart: each of its tokens but
 *            the first is a target that counts in one of them, and before it are as many tokens as
 *            the window has room for
 *   packed   of whole documents, several in a row where they fit (bins.h), filled up; what is
 *            longer than a row is cut every L tokens, and what is left of it packed with the others
 *
 * A row is a list of parts: a position and the number of inputs and targets that are found from
 * there on. The rest of the row is padding. In packed rows a document of n tokens takes n - 1
 * places: its last token is a target and no input.
 */
#ifndef SW_DATA_ROWS_H
#define SW_DATA_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "data/documents.h"

typedef struct sw_row_part {
    int64_t position;            /* of its first input */
    int64_t n_inputs, n_targets; /* target i is at position + 1 + i */
    int64_t n_skipped;           /* targets from the first on that do not count */
} sw_row_part;

/* What lies in packed rows and is no whole document: from a position on, so many inputs and as many
 * targets. */
typedef struct sw_fragment {
    int64_t position;
    uint32_t n;
} sw_fragment;

typedef struct sw_rows {
    int64_t first, end; /* of the stream */
    int64_t length;     /* L */
    int64_t stride;     /* of windows; else 0 */
    int64_t n_rows;
    int64_t n_dropped,
        n_padding;      /* tokens that no row has, left_out among them; places that fill up */
    int64_t n_left_out; /* tokens of documents that are left out as they are longer than a row */
    int64_t n_cut,
        n_cut_short; /* documents that lie in several rows; those of them that would fit into one */

    int64_t *start; /* [n_rows] where rows are of one document each, else NULL; owned */

    /* Packed rows, else NULL; owned. part[part_end[i-1] .. part_end[i]) are row i: numbers of
     * documents, counted from the stream's first, and behind n_documents of fragments. 4 bytes a
     * document and 4 a row. */
    uint32_t *part, *part_end;
    sw_fragment *fragment;
    int64_t first_document, n_documents;
} sw_rows;

/* Rows cut every `length` tokens from positions first .. end - 1: floor((n-1)/L). documents: those
 * of the sequence, whose cuts are counted; NULL: there are none. */
void sw_rows_cut(sw_rows *rows, int64_t first, int64_t end, int64_t length,
                 const sw_documents *documents);

/* Rows of the documents that lie in that range, which begins and ends with one; each has rows of
 * its own. Documents of one token have none; those of more than L + 1 tokens are cut, or left out.
 * Errors: SW_NO_MEMORY. */
sw_status sw_rows_alone(sw_rows *rows, int64_t first, int64_t end, int64_t length,
                        const sw_documents *documents, bool leaves_out, sw_error *err);

/* Windows of the documents that lie in that range, 1 <= stride <= length. With a stride of L a
 * window has L inputs and, as long as the document goes on, L targets, and the next one begins
 * behind them. With a smaller one it has L tokens, of which the last is a target alone, and of all
 * but a document's first the new ones count: the windows of Hugging Face's perplexity of models
 * with fixed lengths. Documents of one token have none. Errors: SW_NO_MEMORY. */
sw_status sw_rows_windows(sw_rows *rows, int64_t first, int64_t end, int64_t length, int64_t stride,
                          const sw_documents *documents, sw_error *err);

/* packed_rows.c: the same, packed. Documents of which sw_document_is_whole says no are text, and
 * those that follow one another are cut like one; `keeps_all`: no document is text. Rows stand in
 * the order of their first parts, and parts in that of the stream. Errors: SW_NO_MEMORY,
 * SW_BAD_FILE for more than 2^32 - 2 documents. */
sw_status sw_rows_pack(sw_rows *rows, int64_t first, int64_t end, int64_t length,
                       const sw_documents *documents, bool keeps_all, bool leaves_out,
                       sw_error *err);

void sw_rows_free(sw_rows *rows);

/* The parts of row i, and part k of them. No allocation. */
int64_t sw_row_parts(const sw_rows *rows, int64_t i);
sw_row_part sw_row_part_at(const sw_rows *rows, const sw_documents *documents, int64_t i,
                           int64_t k);

/* For rows.c and packed_rows.c: the documents of a range of positions, which begins and ends with
 * one: *first_document .. *end_document - 1. */
void sw_rows_documents(int64_t first, int64_t end, const sw_documents *documents,
                       int64_t *first_document, int64_t *end_document);

/* For both: count documents d .. end - 1 that a cut every L tokens from `first` on cuts. */
void sw_rows_count_cut(sw_rows *rows, const sw_documents *documents, int64_t d, int64_t end,
                       int64_t first);

#endif
