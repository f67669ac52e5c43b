/* attention_dropout.h: which weights of attention are dropped: sw_attention_keeps in base/philox.h,
 * computed 256 keys at a time.
 *
 * A dropped weight becomes zero, the others are divided by 1 - p. Kernels leave that factor out of
 * the weights and apply it to what they sum: out and dV, and the gradient of a weight before delta
 * is taken off.
 */
#ifndef SW_DEVICE_CPU_PLAIN_ATTENTION_DROPOUT_H
#define SW_DEVICE_CPU_PLAIN_ATTENTION_DROPOUT_H

#include "device/cpu/plain/random.h"

typedef struct attention_dropout {
    bool is_on;
    uint64_t seed, first_row;
    int64_t stream;
    uint32_t dropped; /* words up to this one are dropped */
    real kept;        /* 1 / (1 - p), or 1 */
} attention_dropout;

static inline attention_dropout attention_dropout_of(const sw_kernel_call *call) {
    const double probability = call->attribute[1];
    if (!(probability > 0))
        return (attention_dropout){.kept = 1};
    /* word >= bound as a comparison of integers: words are whole numbers, so the bound may be
     * rounded up; it is at least 1 */
    const double exact_bound = probability * 4294967296.0;
    uint64_t bound = (uint64_t)exact_bound;
    bound += (double)bound < exact_bound;
    return (attention_dropout){.is_on = true,
                               .seed = call->scalars->seed,
                               .first_row = (uint64_t)call->scalars->first_row,
                               .stream = (int64_t)call->attribute[2],
                               .dropped = (uint32_t)(bound - 1),
                               .kept = (real)(1 / (1 - probability))};
}

/* keep[i] for keys first + i, 0 <= i < n: all bits set, or none. `first` is a multiple of 4; up to
 * the next multiple of 4 after n is written. */
static inline void weights_kept(const attention_dropout *d, int64_t b, int64_t head, int64_t query,
                                int64_t first, int64_t n, uint32_t *keep) {
    const uint64_t row = d->first_row + (uint64_t)b,
                   key = sw_attention_dropout_key(d->seed, d->stream, head);
    uint32_t words[4][COUNTERS];
    for (int64_t done = 0; done < n; done += 4 * COUNTERS) {
        const int n_counters = (int)smaller(COUNTERS, (n - done + 3) / 4);
        philox_counters(n_counters, (uint32_t)((first + done) / 4), (uint32_t)query, (uint32_t)row,
                        (uint32_t)(row >> 32), key, words);
        for (int i = 0; i < n_counters; i++)
            for (int w = 0; w < 4; w++)
                keep[done + 4 * i + w] = words[w][i] > d->dropped ? UINT32_MAX : 0;
    }
}

#endif
