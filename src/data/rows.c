/* rows.c: cutting, rows of one document each, and reading both and packed rows (packed_rows.c). */
#include "data/rows.h"

#include <assert.h>
#include <stdlib.h>

void sw_rows_documents(int64_t first, int64_t end, const sw_documents *documents,
                       int64_t *first_document, int64_t *end_document) {
    *first_document = *end_document = documents->n;
    if (first < end) {
        *first_document = sw_documents_at(documents, first);
        *end_document = sw_documents_at(documents, end - 1) + 1;
    }
}

/* ---- cut ---- */

void sw_rows_count_cut(sw_rows *rows, const sw_documents *documents, int64_t d, int64_t end,
                       int64_t first) {
    for (; d < end; d++) {
        int64_t begin = sw_document_first(documents, d), n = documents->end[d] - begin;
        bool is_cut = n > 1 && (begin - first) / rows->length !=
                                   (documents->end[d] - 2 - first) / rows->length;
        rows->n_cut += is_cut;
        rows->n_cut_short += is_cut && n - 1 <= rows->length;
    }
}

void sw_rows_cut(sw_rows *rows, int64_t first, int64_t end, int64_t length,
                 const sw_documents *documents) {
    int64_t n = end - first, n_rows = n > 0 ? (n - 1) / length : 0, d, d_end;
    *rows = (sw_rows){.first = first,
                      .end = end,
                      .length = length,
                      .n_rows = n_rows,
                      .n_dropped = n - 1 - n_rows * length};
    if (!documents)
        return;
    sw_rows_documents(first, end, documents, &d, &d_end);
    sw_rows_count_cut(rows, documents, d, d_end, first);
}

/* ---- alone, and windows ---- */

static bool are_windows_of_tokens(const sw_rows *rows) {
    return rows->stride > 0 && rows->stride < rows->length;
}

/* Rows of a document: n tokens are n-1 inputs with a target. Windows reach its end with their last
 * token. */
static int64_t rows_of(const sw_rows *rows, int64_t n_tokens, bool leaves_out) {
    if (leaves_out && n_tokens - 1 > rows->length)
        return 0;
    if (are_windows_of_tokens(rows) && n_tokens > 1)
        return n_tokens <= rows->length
                   ? 1
                   : 1 + (n_tokens - rows->length + rows->stride - 1) / rows->stride;
    return (n_tokens - 1) / rows->length + ((n_tokens - 1) % rows->length != 0);
}

/* Find the rows of *rows, whose first, end, length and stride are there. */
static sw_status place_rows(sw_rows *rows, const sw_documents *documents, bool leaves_out,
                            sw_error *err) {
    const int64_t step = rows->stride ? rows->stride : rows->length;
    int64_t first_document, last;
    sw_rows_documents(rows->first, rows->end, documents, &first_document, &last);
    for (int64_t d = first_document; d < last; d++) {
        int64_t n = documents->end[d] - sw_document_first(documents, d),
                n_rows = rows_of(rows, n, leaves_out);
        rows->n_rows += n_rows;
        rows->n_dropped += n_rows ? 0 : n;
        rows->n_left_out += n > 1 && !n_rows ? n : 0;
        rows->n_cut += n_rows > 1;
    }
    if (rows->n_rows == 0)
        return SW_OK;
    rows->start = calloc((size_t)rows->n_rows, sizeof *rows->start);
    if (!rows->start)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the places of %lld rows",
                       (long long)rows->n_rows);
    int64_t i = 0;
    for (int64_t d = first_document; d < last; d++) {
        int64_t begin = sw_document_first(documents, d),
                n_rows = rows_of(rows, documents->end[d] - begin, leaves_out);
        for (int64_t k = 0; k < n_rows; k++, i++) {
            rows->start[i] = begin + k * step;
            rows->n_padding += rows->length - sw_row_part_at(rows, documents, i, 0).n_inputs;
        }
    }
    assert(i == rows->n_rows);
    return SW_OK;
}

sw_status sw_rows_alone(sw_rows *rows, int64_t first, int64_t end, int64_t length,
                        const sw_documents *documents, bool leaves_out, sw_error *err) {
    *rows = (sw_rows){.first = first, .end = end, .length = length};
    return place_rows(rows, documents, leaves_out, err);
}

sw_status sw_rows_windows(sw_rows *rows, int64_t first, int64_t end, int64_t length, int64_t stride,
                          const sw_documents *documents, sw_error *err) {
    *rows = (sw_rows){.first = first, .end = end, .length = length, .stride = stride};
    return place_rows(rows, documents, false, err);
}

void sw_rows_free(sw_rows *rows) {
    free(rows->start);
    free(rows->part);
    free(rows->part_end);
    free(rows->fragment);
    *rows = (sw_rows){0};
}

/* ---- reading ---- */

int64_t sw_row_parts(const sw_rows *rows, int64_t i) {
    assert(i >= 0 && i < rows->n_rows);
    return rows->part ? (int64_t)rows->part_end[i] - (i ? rows->part_end[i - 1] : 0) : 1;
}

sw_row_part sw_row_part_at(const sw_rows *rows, const sw_documents *documents, int64_t i,
                           int64_t k) {
    assert(k >= 0 && k < sw_row_parts(rows, i));
    if (rows->part) {
        int64_t number = rows->part[(i ? rows->part_end[i - 1] : 0) + k];
        if (number >= rows->n_documents) {
            const sw_fragment *f = &rows->fragment[number - rows->n_documents];
            return (sw_row_part){f->position, f->n, f->n, 0};
        }
        int64_t d = rows->first_document + number, begin = sw_document_first(documents, d),
                n = documents->end[d] - begin - 1;
        return (sw_row_part){begin, n, n, 0};
    }
    if (!rows->start)
        return (sw_row_part){rows->first + i * rows->length, rows->length, rows->length, 0};
    int64_t position = rows->start[i], d = sw_documents_at(documents, position),
            left = documents->end[d] - position;
    int64_t n_inputs = left < rows->length ? left : rows->length;
    if (!are_windows_of_tokens(rows))
        return (sw_row_part){position, n_inputs, left - 1 < rows->length ? left - 1 : rows->length,
                             0};
    bool is_first = position == sw_document_first(documents, d);
    return (sw_row_part){position, n_inputs, n_inputs - 1,
                         is_first ? 0 : rows->length - rows->stride - 1};
}
