/* sight.h: which keys a query of causal attention sees: the rule of the plain kernels and of the tuned ones. */
#ifndef SW_DEVICE_CPU_PLAIN_SIGHT_H
#define SW_DEVICE_CPU_PLAIN_SIGHT_H

#include "base/integer.h"

/* The first key that query t of row b sees; the last is t itself, whatever `documents` [B*T]? says. span: from 1 on. */
static inline int64_t first_key_in_sight(int64_t T, int64_t span, const int32_t *documents, int64_t b, int64_t t) {
    const int64_t first = larger(0, t - span + 1);
    return documents ? larger(first, smaller(t, documents[b * T + t])) : first;
}

#endif
