/* documents.h: where documents end in a sequence of tokens.
 *
 * One number for each document, its end, and one bit: is it one that packing keeps whole, a
 * conversation and not a text? They lie in memory that ranks share after fork. A document has at
 * least one token; the last one ends where the sequence does.
 */
#ifndef SW_DATA_DOCUMENTS_H
#define SW_DATA_DOCUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_documents {
    int64_t *end;    /* [n], increasing; owned */
    uint64_t *whole; /* [(n + 63) / 64] bits; owned */
    int64_t n, capacity;
} sw_documents;

/* A document of n_tokens behind the others. Errors: SW_NO_MEMORY. */
sw_status sw_documents_add(sw_documents *documents, int64_t n_tokens, bool is_whole, sw_error *err);

/* The document that holds a position, which lies before the last end. */
int64_t sw_documents_at(const sw_documents *documents, int64_t position);

static inline int64_t sw_document_first(const sw_documents *documents, int64_t document) {
    return document ? documents->end[document - 1] : 0;
}

static inline bool sw_document_is_whole(const sw_documents *documents, int64_t document) {
    return documents->whole[document / 64] >> document % 64 & 1;
}

/* Give document `to` the end and the bit of another. */
void sw_documents_set(sw_documents *documents, int64_t to, int64_t end, bool is_whole);

void sw_documents_free(sw_documents *documents);

#endif
