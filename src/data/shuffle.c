/* shuffle.c: a keyed Feistel network with cycle walking.
 *
 *   (left, right) -> (right, left XOR F(round, right))     F: Philox under the shuffle key, counter
 *                                                          (right, round, epoch)
 *
 * Each round can be undone, whatever F is, so the network is a bijection of 0 .. 4^h - 1 for halves
 * of h bits. h is the least with 4^h >= n. To stay below n, an output of n or more is fed in again:
 * the orbit of an index below n under a bijection must come back below n, and two indices cannot
 * arrive at the same place (Black and Rogaway 2002, "cycle walking"). 4^h < 4n, so four walks are
 * expected at most. With random F four rounds are indistinguishable from a random permutation (Luby
 * and Rackoff 1988); small halves want more, so there are twelve. Tried in
 * tests/data/test_shuffle.c: bijections for all small n, all orders of three.
 */
#include "data/shuffle.h"

#include <assert.h>

#include "base/philox.h"

#define N_ROUNDS 12

static uint64_t permute(uint64_t key, uint64_t epoch, int half_bits, uint64_t x) {
    uint32_t mask = (uint32_t)((UINT64_C(1) << half_bits) - 1);
    uint32_t left = (uint32_t)(x >> half_bits) & mask, right = (uint32_t)x & mask;
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        uint32_t counter[4] = {right, round, (uint32_t)epoch, (uint32_t)(epoch >> 32)}, word[4];
        sw_philox(counter, key, word);
        uint32_t next = left ^ (word[0] & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << half_bits | right;
}

int64_t sw_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t index) {
    assert(n >= 1 && index >= 0 && index < n && epoch >= 0);
    int half_bits = 1;
    while (half_bits < 32 && (UINT64_C(1) << (2 * half_bits)) < (uint64_t)n)
        half_bits++;
    uint64_t key = sw_philox_key(seed, SW_PURPOSE_SHUFFLE), x = (uint64_t)index;
    do
        x = permute(key, (uint64_t)epoch, half_bits, x);
    while (x >= (uint64_t)n);
    return (int64_t)x;
}
