/* documents.h: where documents end in a sequence of tokens.
 *
 * One number for each document, its end, in memory that ranks share after fork. A document has at least one token; the last one
 * ends where the sequence does.
 */
#ifndef SW_DATA_DOCUMENTS_H
#define SW_DATA_DOCUMENTS_H

#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_documents {
    int64_t *end; /* [n], increasing; owned */
    int64_t n, capacity;
} sw_documents;

/* A document of n_tokens behind the others. Errors: SW_NO_MEMORY. */
sw_status sw_documents_add(sw_documents *documents, int64_t n_tokens, sw_error *err);

/* The document that holds a position, which lies before the last end. */
int64_t sw_documents_at(const sw_documents *documents, int64_t position);

static inline int64_t sw_document_first(const sw_documents *documents, int64_t document) {
    return document ? documents->end[document - 1] : 0;
}

void sw_documents_free(sw_documents *documents);

#endif
