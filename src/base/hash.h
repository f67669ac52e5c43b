/* hash.h: FNV-1a (Fowler, Noll and Vo), 64 bits: of names and of lines that are compared; not
 * against malice. */
#ifndef SW_BASE_HASH_H
#define SW_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SW_HASH_START UINT64_C(0xcbf29ce484222325)

/* `hash` of what came before, and then the text. */
static inline uint64_t sw_hash_text(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The same of bytes. */
static inline uint64_t sw_hash_bytes(uint64_t hash, const void *data, size_t n) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
