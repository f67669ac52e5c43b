/* token_map.h: from byte strings, the tokens of a vocabulary, to their ids. */
#ifndef SW_BASE_TOKEN_MAP_H
#define SW_BASE_TOKEN_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

#endif
