/* integer.h: the few things that are done with counts everywhere. */
#ifndef SW_BASE_INTEGER_H
#define SW_BASE_INTEGER_H

#include <stdint.h>

static inline int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* How often n can be halved until it is 1. */
static inline int halvings(int64_t n) {
    return n > 1 ? 63 - __builtin_clzll((unsigned long long)n) : 0;
}

/* The largest divisor of n that is no larger than `most`; both are at least 1. 2 sqrt(n)
 * divisions. */
static inline int64_t largest_divisor(int64_t n, int64_t most) {
    int64_t k = most < n ? (n - 1) / most + 1
                         : 1; /* n / k is one if k is, down to the root; then those below it */
    for (; k <= n / k; k++)
        if (n % k == 0)
            return n / k;
    int64_t divisor = smaller(most, n / k);
    while (n % divisor)
        divisor--;
    return divisor;
}

/* The least multiple that is no smaller than n, for n from 0 on. */
static inline int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

#endif
