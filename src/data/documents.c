/* documents.c: a growing list, and binary search in it. */
#include "data/documents.h"

#include <assert.h>
#include <stdlib.h>

void sw_documents_set(sw_documents *documents, int64_t to, int64_t end, bool is_whole) {
    const uint64_t bit = UINT64_C(1) << to % 64;
    documents->end[to] = end;
    documents->whole[to / 64] =
        is_whole ? documents->whole[to / 64] | bit : documents->whole[to / 64] & ~bit;
}

static bool grow(sw_documents *documents) {
    int64_t capacity = documents->capacity ? 2 * documents->capacity : 64;
    int64_t *end = realloc(documents->end, (size_t)capacity * sizeof *end);
    if (!end)
        return false;
    documents->end = end;
    uint64_t *whole = realloc(documents->whole, (size_t)capacity / 64 * sizeof *whole);
    if (!whole)
        return false;
    documents->whole = whole;
    documents->capacity = capacity;
    return true;
}

sw_status sw_documents_add(sw_documents *documents, int64_t n_tokens, bool is_whole,
                           sw_error *err) {
    assert(n_tokens > 0);
    if (documents->n == documents->capacity && !grow(documents))
        return sw_fail(err, SW_NO_MEMORY, "no memory for the ends of more than %lld documents",
                       (long long)documents->n);
    sw_documents_set(documents, documents->n, sw_document_first(documents, documents->n) + n_tokens,
                     is_whole);
    documents->n++;
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
    free(documents->whole);
    *documents = (sw_documents){0};
}
