/* slice.h: text with a length, which may hold any byte, and ranges of bytes of a text. */
#ifndef SW_BASE_SLICE_H
#define SW_BASE_SLICE_H

#include <stdint.h>
#include <string.h>

typedef struct sw_slice {
    const char *text; /* not ended by a NUL */
    int64_t bytes;
} sw_slice;

typedef struct sw_span {
    int64_t first, end; /* bytes first .. end - 1 */
} sw_span;

static inline sw_slice sw_slice_of(const char *text) {
    return (sw_slice){text, (int64_t)strlen(text)};
}

#endif
