/* arena.h: memory that lives and dies together. Graphs, programs and settings are made of many
 * small pieces with one lifetime. */
#ifndef SW_BASE_ARENA_H
#define SW_BASE_ARENA_H

#include <stddef.h>

typedef struct sw_arena_chunk sw_arena_chunk;

typedef struct sw_arena {
    sw_arena_chunk *chunks; /* newest first */
} sw_arena;

/* Zeroed bytes, aligned for any type; NULL when memory is short. An arena starts as {0}. */
void *sw_arena_take(sw_arena *arena, size_t bytes);
char *sw_arena_text(sw_arena *arena, const char *text);
char *sw_arena_format(sw_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sw_arena_free(sw_arena *arena);

/* Grow a list {item, n, capacity} so that one more fits: returns the possibly moved items, NULL
 * when memory is short. */
void *sw_arena_grow(sw_arena *arena, void *items, int n, int *capacity, size_t item_bytes);

#endif
