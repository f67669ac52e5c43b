/* sight.h: which keys a query of attention sees: the rule of the plain kernels and of the tuned
 * ones. Always a range. */
#ifndef SW_DEVICE_CPU_PLAIN_SIGHT_H
#define SW_DEVICE_CPU_PLAIN_SIGHT_H

#include "base/integer.h"
#include "device/kernel.h"

/* Keys begin .. end-1. */
typedef struct key_range {
    int64_t begin, end;
} key_range;

typedef struct sight {
    int64_t T;
    int64_t before, after;    /* how many keys before a query, and after it, it may see */
    const int32_t *documents; /* [B*T]? the token of its row at which a token's document begins */
} sight;

/* From a call with the dimensions of ATTENTION. */
static inline sight sight_of(const int64_t *dim, const int32_t *documents) {
    const int64_t T = dim[1], span = dim[7] > 0 ? smaller(dim[7], T) : T;
    if (dim[8] == SW_MASK_FULL)
        return (sight){T, span, span, documents};
    return (sight){T, span - 1, 0, documents};
}

/* The first token after t that begins a document of its own, or T. document [T] never falls. */
static inline int64_t end_of_document(const int32_t *document, int64_t T, int64_t t) {
    int64_t first = t + 1, end = T;
    while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        if (document[middle] > t)
            end = middle;
        else
            first = middle + 1;
    }
    return end;
}

/* The keys that query t of row b sees; itself always, whatever `documents` says. */
static inline key_range keys_in_sight(const sight *s, int64_t b, int64_t t) {
    key_range seen = {larger(0, t - s->before), smaller(s->T, t + s->after + 1)};
    if (s->documents) {
        const int32_t *document = s->documents + b * s->T;
        seen.begin = larger(seen.begin, smaller(t, document[t]));
        if (s->after)
            seen.end = smaller(seen.end, end_of_document(document, s->T, t));
    }
    return seen;
}

#endif
