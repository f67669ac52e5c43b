/* arena.c: chunks in a list; a piece is cut from the newest, or gets a chunk that fits it. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, CHUNK = 64 << 10 };

struct sw_arena_chunk {
    sw_arena_chunk *next;
    size_t used, capacity;
    _Alignas(ALIGNMENT) char bytes[];
};

void *sw_arena_take(sw_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    sw_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->capacity - chunk->used < need) {
        size_t capacity = need > CHUNK ? need : CHUNK;
        chunk = calloc(1, sizeof *chunk + capacity);
        if (!chunk)
            return NULL;
        chunk->capacity = capacity;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *piece = chunk->bytes + chunk->used;
    chunk->used += need;
    return piece;
}

char *sw_arena_text(sw_arena *arena, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = sw_arena_take(arena, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *sw_arena_format(sw_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    char *text = sw_arena_take(arena, (size_t)length + 1);
    if (!text)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void sw_arena_free(sw_arena *arena) {
    while (arena->chunks) {
        sw_arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}

void *sw_arena_grow(sw_arena *arena, void *items, int n, int *capacity, size_t item_bytes) {
    if (n < *capacity)
        return items;
    int wider = *capacity ? 2 * *capacity : 16;
    void *moved = sw_arena_take(arena, (size_t)wider * item_bytes);
    if (!moved)
        return NULL;
    if (n)
        memcpy(moved, items, (size_t)n * item_bytes);
    *capacity = wider;
    return moved;
}
