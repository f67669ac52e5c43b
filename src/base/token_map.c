/* token_map.c: open addressing. */
#include "base/token_map.h"

#include <stdlib.h>

bool sw_token_map_create(sw_token_map *map, size_t n_tokens) {
    size_t n_slots = 16;
    while (n_slots / 2 < n_tokens)
        n_slots *= 2;
    map->slots = calloc(n_slots, sizeof *map->slots);
    map->mask = n_slots - 1;
    return map->slots != NULL;
}

void sw_token_map_free(sw_token_map *map) {
    free(map->slots);
    *map = (sw_token_map){0};
}

static sw_token_text *find_slot(const sw_token_map *map, const char *text, size_t n_bytes) {
    size_t at = sw_bytes_hash(text, n_bytes) & map->mask;
    while (map->slots[at].text &&
           (map->slots[at].n_bytes != n_bytes || memcmp(map->slots[at].text, text, n_bytes) != 0))
        at = (at + 1) & map->mask;
    return &map->slots[at];
}

void sw_token_map_put(sw_token_map *map, const char *text, size_t n_bytes, int32_t id) {
    *find_slot(map, text, n_bytes) = (sw_token_text){text, (uint32_t)n_bytes, id};
}

int32_t sw_token_map_get(const sw_token_map *map, const char *text, size_t n_bytes) {
    if (!map->slots)
        return -1;
    const sw_token_text *slot = find_slot(map, text, n_bytes);
    return slot->text ? slot->id : -1;
}
