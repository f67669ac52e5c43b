/* rows.c: cutting. */
#include "data/rows.h"

#include <assert.h>
#include <stdlib.h>

void sw_rows_cut(sw_rows *rows, int64_t first, int64_t end, int64_t length) {
    int64_t n = end - first, n_rows = n > 0 ? (n - 1) / length : 0;
    *rows = (sw_rows){.first = first, .end = end, .length = length, .n_rows = n_rows, .n_dropped = n - 1 - n_rows * length};
}

/* A document of n tokens has n-1 inputs with a target. */
static int64_t rows_of(int64_t n_tokens, int64_t length) {
    return (n_tokens - 1) / length + ((n_tokens - 1) % length != 0);
}

sw_status sw_rows_of_documents(sw_rows *rows, int64_t first, int64_t end, int64_t length, const sw_documents *documents,
                               sw_error *err) {
    *rows = (sw_rows){.first = first, .end = end, .length = length};
    int64_t first_document = first < end ? sw_documents_at(documents, first) : documents->n, last = first_document;
    for (; last < documents->n && documents->end[last] <= end; last++) {
        int64_t n = documents->end[last] - sw_document_first(documents, last);
        rows->n_rows += rows_of(n, length);
        rows->n_dropped += n == 1;
    }
    if (rows->n_rows == 0)
        return SW_OK;
    rows->start = calloc((size_t)rows->n_rows, sizeof *rows->start);
    if (!rows->start)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the places of %lld rows", (long long)rows->n_rows);
    int64_t i = 0;
    for (int64_t d = first_document; d < last; d++) {
        int64_t begin = sw_document_first(documents, d), n = documents->end[d] - begin;
        for (int64_t k = 0; k < rows_of(n, length); k++, i++) {
            rows->start[i] = begin + k * length;
            rows->n_padding += length - sw_rows_find(rows, documents, i).n_inputs;
        }
    }
    assert(i == rows->n_rows);
    return SW_OK;
}

void sw_rows_free(sw_rows *rows) {
    free(rows->start);
    *rows = (sw_rows){0};
}

sw_row sw_rows_find(const sw_rows *rows, const sw_documents *documents, int64_t i) {
    assert(i >= 0 && i < rows->n_rows);
    if (!rows->start)
        return (sw_row){rows->first + i * rows->length, rows->length, rows->length};
    int64_t position = rows->start[i], left = documents->end[sw_documents_at(documents, position)] - position;
    return (sw_row){position, left < rows->length ? left : rows->length, left - 1 < rows->length ? left - 1 : rows->length};
}
