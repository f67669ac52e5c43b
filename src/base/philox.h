/* philox.h: counter-based random numbers (Philox 4x32-10, Salmon et al. 2011).
 *
 * A number is a function of (seed, purpose, index): no state, so any rank can draw any number, in
 * any order.
 */
#ifndef SW_BASE_PHILOX_H
#define SW_BASE_PHILOX_H

#include <stdbool.h>
#include <stdint.h>

/* The four words of counter `counter` under `key`. */
static inline void sw_philox(const uint32_t counter[4], uint64_t key, uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* What random numbers are for: purposes never share a stream. */
typedef enum sw_purpose {
    SW_PURPOSE_INIT = 1,
    SW_PURPOSE_DROPOUT,
    SW_PURPOSE_SHUFFLE,
    SW_PURPOSE_SAMPLE,
    SW_PURPOSE_ATTENTION_DROPOUT
} sw_purpose;

/* Key of one purpose under a seed. */
static inline uint64_t sw_philox_key(uint64_t seed, sw_purpose purpose) {
    return seed ^ ((uint64_t)purpose * 0x9E3779B97F4A7C15u);
}

/* Number `index` of a stream, in [0, 1): word index % 4 of counter (index / 4, stream). */
static inline double sw_philox_uniform(uint64_t seed, sw_purpose purpose, uint64_t stream,
                                       uint64_t index) {
    uint64_t block = index / 4;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                           (uint32_t)(stream >> 32)},
             word[4];
    sw_philox(counter, sw_philox_key(seed, purpose), word);
    return word[index % 4] * 0x1p-32;
}

/* Is element `element` of logical row `row` kept by dropout call `stream`? Element e of a row uses
 * word e % 4 of counter (e / 4, stream, row low, row high). */
static inline bool sw_dropout_keeps(uint64_t seed, int64_t stream, int64_t row, int64_t element,
                                    double probability) {
    uint32_t counter[4] = {(uint32_t)(element / 4), (uint32_t)stream, (uint32_t)row,
                           (uint32_t)((uint64_t)row >> 32)},
             word[4];
    sw_philox(counter, sw_philox_key(seed, SW_PURPOSE_DROPOUT), word);
    return (double)word[element % 4] >= probability * 4294967296.0;
}

/* Attention's dropout: each head of each call has a key of its own. The factor is odd, so no two of
 * them share one. */
static inline uint64_t sw_attention_dropout_key(uint64_t seed, int64_t stream, int64_t head) {
    return sw_philox_key(seed, SW_PURPOSE_ATTENTION_DROPOUT) +
           ((uint64_t)stream << 32 | (uint64_t)head) * UINT64_C(0xD1342543DE82EF95);
}

/* Is the weight of `key` for `query`, of `head` in dropout call `stream` and logical row `row`,
 * kept? It uses word key % 4 of counter (key / 4, query, row low, row high). */
static inline bool sw_attention_keeps(uint64_t seed, int64_t stream, int64_t row, int64_t head,
                                      int64_t query, int64_t key, double probability) {
    uint32_t counter[4] = {(uint32_t)(key / 4), (uint32_t)query, (uint32_t)row,
                           (uint32_t)((uint64_t)row >> 32)},
             word[4];
    sw_philox(counter, sw_attention_dropout_key(seed, stream, head), word);
    return (double)word[key % 4] >= probability * 4294967296.0;
}

#endif
