/* containers.h: growing bytes and ids, and a set of byte strings asked for the prefixes of a text.
 *
 * Growing is sticky: when memory is short nothing more is appended and `is_short` stays set, so
 * that a loop of appends is checked once, at its end.
 */
#ifndef SW_TOKENIZER_CONTAINERS_H
#define SW_TOKENIZER_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/token_map.h"

typedef struct sw_bytes {
    char *data;
    size_t n, capacity;
    bool is_short;
} sw_bytes;

/* Room for n more bytes? */
bool sw_bytes_reserve(sw_bytes *bytes, size_t n);
void sw_bytes_free(sw_bytes *bytes);

static inline void sw_bytes_append(sw_bytes *bytes, const char *data, size_t n) {
    if (bytes->capacity - bytes->n < n && !sw_bytes_reserve(bytes, n))
        return;
    if (n)
        memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
}

static inline void sw_bytes_put(sw_bytes *bytes, char byte) {
    if (bytes->capacity == bytes->n && !sw_bytes_reserve(bytes, 1))
        return;
    bytes->data[bytes->n++] = byte;
}

/* A character, in UTF-8. */
void sw_bytes_put_code(sw_bytes *bytes, uint32_t code);

/* Byte strings in order, none of them empty: the members that a text begins with are found by
 * narrowing a range byte by byte. */
typedef struct sw_prefix_set {
    sw_token_text *members;
    int32_t n;
    int32_t first[257]; /* members that begin with byte b: first[b] .. first[b + 1] */
} sw_prefix_set;

/* Take over the members (malloc) and sort them; of equal ones the last stays. */
void sw_prefix_set_create(sw_prefix_set *set, sw_token_text *members, int32_t n);
void sw_prefix_set_free(sw_prefix_set *set);

/* A search: members that `text` begins with, shortest first. */
typedef struct sw_prefix_search {
    const sw_prefix_set *set;
    const char *text;
    size_t n_bytes, depth; /* all members of low .. high agree with the text in `depth` bytes */
    int32_t low, high;
} sw_prefix_search;

sw_prefix_search sw_prefix_search_begin(const sw_prefix_set *set, const char *text, size_t n_bytes);
const sw_token_text *sw_prefix_search_next(sw_prefix_search *search); /* NULL: no more */

#endif
