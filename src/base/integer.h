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

/* The least multiple that is no smaller than n, for n from 0 on. */
static inline int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

#endif
