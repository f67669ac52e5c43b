/* few_rows.h: y = x W + b for so few rows of x that reading W is all the time there is.
 *
 * W is read once, in the order in which it lies, and bf16 is widened in registers. A weight that lies [out,in] gives dot
 * products, each in two vectors of sums; one that lies [in,out] gives sums of its rows. An element of y is the same sum in the
 * same order however many rows there are: what a text becomes does not depend on the texts beside it.
 */
#ifndef SW_DEVICE_CPU_PLAIN_FEW_ROWS_H
#define SW_DEVICE_CPU_PLAIN_FEW_ROWS_H

#include "device/cpu/plain/lanes.h"

enum { FEW_STEP = 2 * VECTOR_LANES };

static inline vector load_weights(const parameter *weight) {
#ifdef SW_KIND_bf16
    typedef uint16_t halves __attribute__((vector_size(SW_VECTOR_BYTES / 2)));
    typedef uint32_t words __attribute__((vector_size(SW_VECTOR_BYTES)));
    halves h;
    memcpy(&h, weight, sizeof h);
    return (vector)(__builtin_convertvector(h, words) << 16);
#else
    return load_vector(weight);
#endif
}

static inline real add_two_vectors(const vector *sum) {
    real lane[FEW_STEP];
    memcpy(lane, sum, sizeof lane);
    for (int width = FEW_STEP / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

/* y[r][o] = x[r] . weight[o] + bias[o] for `rows` rows of x and `outputs` rows of the weight, constants where this is inlined. */
static inline __attribute__((always_inline)) void dot_tile(int rows, int outputs, int64_t in, int64_t out, const real *x,
                                                           const parameter *weight, const parameter *bias, real *y) {
    vector sum[4][4][2] = {0}; /* [row][output] */
    int64_t i = 0;
    for (; i + FEW_STEP <= in; i += FEW_STEP)
        for (int o = 0; o < outputs; o++) {
            const vector left = load_weights(weight + o * in + i), right = load_weights(weight + o * in + i + VECTOR_LANES);
            for (int r = 0; r < rows; r++) {
                sum[r][o][0] += load_vector(x + r * in + i) * left;
                sum[r][o][1] += load_vector(x + r * in + i + VECTOR_LANES) * right;
            }
        }
    if (i < in)
        for (int o = 0; o < outputs; o++) {
            parameter w_tail[FEW_STEP] = {0};
            memcpy(w_tail, weight + o * in + i, (size_t)(in - i) * sizeof *weight);
            for (int r = 0; r < rows; r++) {
                real x_tail[FEW_STEP] = {0};
                memcpy(x_tail, x + r * in + i, (size_t)(in - i) * sizeof *x);
                sum[r][o][0] += load_vector(x_tail) * load_weights(w_tail);
                sum[r][o][1] += load_vector(x_tail + VECTOR_LANES) * load_weights(w_tail + VECTOR_LANES);
            }
        }
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < outputs; o++)
            y[r * out + o] = add_two_vectors(sum[r][o]) + (bias ? widen(bias[o]) : 0);
}

static void dot_few_rows(int64_t n, int64_t in, int64_t out, const real *x, const parameter *weight, const parameter *bias,
                         real *y) {
    for (int64_t o = 0, outputs; o < out; o += outputs) {
        outputs = n == 1 && o + 4 <= out ? 4 : 1;
        const parameter *w = weight + o * in, *b = bias ? bias + o : NULL;
        if (outputs == 4)
            dot_tile(1, 4, in, out, x, w, b, y + o);
        else
            for (int64_t row = 0, rows; row < n; row += rows) {
                const real *some = x + row * in;
                real *to = y + row * out + o;
                rows = n - row >= 4 ? 4 : n - row >= 2 ? 2 : 1;
                if (rows == 4)
                    dot_tile(4, 1, in, out, some, w, b, to);
                else if (rows == 2)
                    dot_tile(2, 1, in, out, some, w, b, to);
                else
                    dot_tile(1, 1, in, out, some, w, b, to);
            }
    }
}

/* Eight rows of the weight at a time meet each row of x while they are in a near cache. */
static void sum_few_rows(int64_t n, int64_t in, int64_t out, const real *x, const parameter *weight, const parameter *bias,
                         real *y) {
    for (int64_t row = 0; row < n; row++)
        for (int64_t o = 0; o < out; o++)
            y[row * out + o] = bias ? widen(bias[o]) : 0;
    int64_t i = 0;
    for (; i + 8 <= in; i += 8)
        for (int64_t row = 0; row < n; row++) {
            const real *a = x + row * in + i;
            const parameter *w = weight + i * out;
            real *to = y + row * out;
            SW_ELEMENTWISE
            for (int64_t o = 0; o < out; o++) {
                const real low =
                    a[0] * widen(w[o]) + a[1] * widen(w[out + o]) + a[2] * widen(w[2 * out + o]) + a[3] * widen(w[3 * out + o]);
                const real high = a[4] * widen(w[4 * out + o]) + a[5] * widen(w[5 * out + o]) + a[6] * widen(w[6 * out + o]) +
                                  a[7] * widen(w[7 * out + o]);
                to[o] += low + high;
            }
        }
    for (; i < in; i++)
        for (int64_t row = 0; row < n; row++) {
            SW_ELEMENTWISE
            for (int64_t o = 0; o < out; o++)
                y[row * out + o] += x[row * in + i] * widen(weight[i * out + o]);
        }
}

/* x [n,in], weight [out,in] if is_out_in, else [in,out], bias [out] or NULL, y [n,out]. */
static inline void multiply_few_rows(int64_t n, int64_t in, int64_t out, bool is_out_in, const real *x, const parameter *weight,
                                     const parameter *bias, real *y) {
    if (is_out_in)
        dot_few_rows(n, in, out, x, weight, bias, y);
    else
        sum_few_rows(n, in, out, x, weight, bias, y);
}

#endif
