/* lanes.h: sums and maxima in a fixed order.
 *
 * A row is dealt to LANES accumulators, element i to lane i mod LANES; then lanes are added in
 * halves. The order is the same for every vector width, and the compiler needs no licence to
 * reorder. What is past the end of a row counts as zero.
 */
#ifndef SW_DEVICE_CPU_PLAIN_LANES_H
#define SW_DEVICE_CPU_PLAIN_LANES_H

#include "device/cpu/plain/real.h"

enum {
    LANES = 32,
    VECTOR_LANES = SW_VECTOR_BYTES / SW_REAL_BYTES,
    LANE_VECTORS = LANES / VECTOR_LANES
};

typedef real vector __attribute__((vector_size(SW_VECTOR_BYTES)));

static inline vector load_vector(const real *x) {
    vector v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* The values of VECTOR_LANES activations. */
static inline vector load_activations(const activation *x) {
#ifdef SW_KIND_bf16
    typedef uint16_t halves __attribute__((vector_size(SW_VECTOR_BYTES / 2)));
    typedef uint32_t words __attribute__((vector_size(SW_VECTOR_BYTES)));
    halves half;
    memcpy(&half, x, sizeof half);
    return (vector)(__builtin_convertvector(half, words) << 16);
#else
    return load_vector(x);
#endif
}

static inline real add_lanes(const vector *sum) {
    real lane[LANES];
    memcpy(lane, sum, sizeof lane);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

/* sum of x */
static inline real sum_row(int64_t n, const real *x) {
    vector sum[LANE_VECTORS] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANE_VECTORS; j++)
            sum[j] += load_vector(x + i + j * VECTOR_LANES);
    if (i < n) {
        real tail[LANES] = {0};
        memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
        for (int j = 0; j < LANE_VECTORS; j++)
            sum[j] += load_vector(tail + j * VECTOR_LANES);
    }
    return add_lanes(sum);
}

/* sum of x * y */
static inline real dot_rows(int64_t n, const real *x, const real *y) {
    vector sum[LANE_VECTORS] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANE_VECTORS; j++)
            sum[j] += load_vector(x + i + j * VECTOR_LANES) * load_vector(y + i + j * VECTOR_LANES);
    if (i < n) {
        real x_tail[LANES] = {0}, y_tail[LANES] = {0};
        memcpy(x_tail, x + i, (size_t)(n - i) * sizeof *x);
        memcpy(y_tail, y + i, (size_t)(n - i) * sizeof *y);
        for (int j = 0; j < LANE_VECTORS; j++)
            sum[j] +=
                load_vector(x_tail + j * VECTOR_LANES) * load_vector(y_tail + j * VECTOR_LANES);
    }
    return add_lanes(sum);
}

/* sum of x^2 */
static inline real squares_row(int64_t n, const activation *x) {
    vector sum[LANE_VECTORS] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANE_VECTORS; j++) {
            const vector v = load_activations(x + i + j * VECTOR_LANES);
            sum[j] += v * v;
        }
    if (i < n) {
        activation tail[LANES] = {0};
        memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
        for (int j = 0; j < LANE_VECTORS; j++) {
            const vector v = load_activations(tail + j * VECTOR_LANES);
            sum[j] += v * v;
        }
    }
    return add_lanes(sum);
}

/* the largest element of x, n >= 1; NaN is passed over */
static inline real max_row(int64_t n, const real *x) {
    real lane[LANES];
    for (int j = 0; j < LANES; j++)
        lane[j] = x[0];
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        SW_ELEMENTWISE
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    }
    real largest = lane[0];
    for (int j = 1; j < LANES; j++)
        largest = lane[j] > largest ? lane[j] : largest;
    for (; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

#endif
