/* containers.h: growing bytes and ids, a map from byte strings to ids, and a set of byte strings asked for the prefixes of a
 * text.
 *
 * Growing is sticky: when memory is short nothing more is appended and `is_short` stays set, so that a loop of appends is checked
 * once, at its end.
 */
#ifndef SW_TOKENIZER_CONTAINERS_H
#define SW_TOKENIZER_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* A byte string with its number. The bytes belong to someone else. */
typedef struct sw_token_text {
    const char *text;
    uint32_t n_bytes;
    int32_t id;
} sw_token_text;

/* From byte strings to ids: a hash table of a fixed number of slots, at most half of them taken. */
typedef struct sw_token_map {
    sw_token_text *slots;
    size_t mask;
} sw_token_map;

bool sw_token_map_create(sw_token_map *map, size_t n_tokens); /* false: memory is short */
void sw_token_map_free(sw_token_map *map);

/* The later of two equal keys wins. At most n_tokens keys. */
void sw_token_map_put(sw_token_map *map, const char *text, size_t n_bytes, int32_t id);

/* -1 if it is not there. */
int32_t sw_token_map_get(const sw_token_map *map, const char *text, size_t n_bytes);

/* A hash of a byte string. */
static inline uint64_t sw_bytes_hash(const char *text, size_t n_bytes) {
    uint64_t hash = 0x9E3779B97F4A7C15u ^ n_bytes, word;
    for (; n_bytes >= 8; n_bytes -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
    }
    word = 0;
    if (n_bytes)
        memcpy(&word, text, n_bytes);
    hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
    return hash ^ hash >> 32;
}

/* Byte strings in order, none of them empty: the members that a text begins with are found by narrowing a range byte by byte. */
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
