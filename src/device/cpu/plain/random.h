/* random.h: Philox (base/philox.h) for a run of counters at once, so that it vectorises. */
#ifndef SW_DEVICE_CPU_PLAIN_RANDOM_H
#define SW_DEVICE_CPU_PLAIN_RANDOM_H

#include "base/philox.h"
#include "device/cpu/plain/real.h"

enum { COUNTERS = 64 }; /* in a run: 256 words */

/* words[w][i] is word w of counter (first + i, c1, c2, c3), i < n; first + i wraps at 2^32 without
 * reaching c1. */
static inline void philox_counters(int n, uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3,
                                   uint64_t key, uint32_t words[4][COUNTERS]) {
    for (int i = 0; i < n; i++) {
        words[0][i] = first + (uint32_t)i;
        words[1][i] = c1;
        words[2][i] = c2;
        words[3][i] = c3;
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < n; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * words[0][i],
                           p1 = (uint64_t)0xCD9E8D57u * words[2][i];
            words[0][i] = (uint32_t)(p1 >> 32) ^ words[1][i] ^ k0;
            words[2][i] = (uint32_t)(p0 >> 32) ^ words[3][i] ^ k1;
            words[1][i] = (uint32_t)p1;
            words[3][i] = (uint32_t)p0;
        }
}

static inline void philox_run(uint32_t first, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t key,
                              uint32_t words[4][COUNTERS]) {
    philox_counters(COUNTERS, first, c1, c2, c3, key, words);
}

#endif
