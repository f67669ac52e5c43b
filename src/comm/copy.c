/* copy.c: 64 bytes at a time, stored without fetching the line (non-temporal). */
#include "comm/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

enum { LINE = 64, LARGE = 512 << 10 };

void sw_copy_past_caches(void *to, const void *from, size_t bytes) {
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    if (bytes < LARGE) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    char *destination = (char *)to + head;
    const char *source = (const char *)from + head;
    size_t lines = (bytes - head) / LINE;
    for (size_t i = 0; i < lines; i++, destination += LINE, source += LINE) {
        __m128i part[4];
        for (int p = 0; p < 4; p++)
            part[p] = _mm_loadu_si128((const __m128i *)source + p);
        for (int p = 0; p < 4; p++)
            _mm_stream_si128((__m128i *)destination + p, part[p]);
    }
    memcpy(destination, source, bytes - head - lines * LINE);
    _mm_sfence(); /* such stores are not ordered with those that say that the copy is there */
}
#else
void sw_copy_past_caches(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}
#endif
