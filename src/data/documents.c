/* documents.c: a growing list, and binary search in it. */
#include "data/documents.h"

#include <assert.h>
#include <stdlib.h>

sw_status sw_documents_add(sw_documents *documents, int64_t n_tokens, sw_error *err) {
    assert(n_tokens > 0);
    if (documents->n == documents->capacity) {
        int64_t capacity = documents->capacity ? 2 * documents->capacity : 64;
        int64_t *grown = realloc(documents->end, (size_t)capacity * sizeof *grown);
        if (!grown)
            return sw_fail(err, SW_NO_MEMORY, "no memory for the ends of %lld documents", (long long)capacity);
        documents->end = grown;
        documents->capacity = capacity;
    }
    int64_t first = sw_document_first(documents, documents->n);
    documents->end[documents->n++] = first + n_tokens;
    return SW_OK;
}

int64_t sw_documents_at(const sw_documents *documents, int64_t position) {
    int64_t low = 0, high = documents->n; /* the answer is the least d with end[d] > position */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (documents->end[middle] > position)
            high = middle;
        else
            low = middle + 1;
    }
    assert(low < documents->n);
    return low;
}

void sw_documents_free(sw_documents *documents) {
    free(documents->end);
    *documents = (sw_documents){0};
}
