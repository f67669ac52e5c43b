/* turn.h: the heads of one token turned to its position, and back. */
#ifndef SW_DEVICE_CPU_PLAIN_TURN_H
#define SW_DEVICE_CPU_PLAIN_TURN_H

#include "device/cpu/plain/real.h"

/* The first `heads` heads of D channels of a row of `stride`; the other channels pass as they are.
 * turn [D/2,2] of (cos, sin); direction 1, or -1 to turn back. y may be x. */
static inline void turn_row(int64_t heads, int64_t D, int64_t stride, real direction,
                            const real *turn, const activation *x, activation *y) {
    const int64_t half = D / 2;
    for (int64_t head = 0; head < heads; head++, x += D, y += D) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < half; i++) {
            const real cosine = turn[2 * i], sine = direction * turn[2 * i + 1], low = load(x[i]),
                       high = load(x[i + half]);
            y[i] = stored(low * cosine - high * sine);
            y[i + half] = stored(high * cosine + low * sine);
        }
    }
    if (y != x)
        memcpy(y, x, (size_t)(stride - heads * D) * sizeof *x);
}

/* to[D] = factor times one head of reals, turned back. */
static inline void turn_head_back(int64_t D, const real *turn, real factor, const real *from,
                                  activation *to) {
    const int64_t half = D / 2;
    SW_ELEMENTWISE
    for (int64_t i = 0; i < half; i++) {
        const real cosine = turn[2 * i], sine = turn[2 * i + 1], low = factor * from[i],
                   high = factor * from[i + half];
        to[i] = stored(low * cosine + high * sine);
        to[i + half] = stored(high * cosine - low * sine);
    }
}

#endif
