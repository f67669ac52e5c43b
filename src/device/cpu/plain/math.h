/* math.h: elementary functions in a form that vectorises: no branch, no table, no call.
 *
 * For float they are polynomials of our own, so that they do not depend on the C library; their
 * errors are measured in tests/device/test_math.c. For double, the oracle, they are the C
 * library's.
 */
#ifndef SW_DEVICE_CPU_PLAIN_MATH_H
#define SW_DEVICE_CPU_PLAIN_MATH_H

#include <math.h>

#include "device/cpu/plain/real.h"

#ifdef SW_KIND_f64

static inline real real_exp(real x) {
    return exp(x);
}
static inline real real_exp_to_zero(real x) {
    return exp(x);
}
static inline real real_log(real x) {
    return log(x);
}
static inline real real_sqrt(real x) {
    return sqrt(x);
}
static inline real real_tanh(real x) {
    return tanh(x);
}
/* e^(z^2) erfc(z) for z of 0 .. 10 */
static inline real real_erfcx(real z) {
    return exp(z * z) * erfc(z);
}
static inline void real_turn(real turns, real *cosine, real *sine) {
    *cosine = cos(6.283185307179586477 * turns);
    *sine = sin(6.283185307179586477 * turns);
}

#else

/* e^x for x in -87 .. 88, relative error below 1.5e-7; NaN for NaN. 2^n is built from its exponent;
 * adding 1.5 * 2^23 leaves n = x / log 2, rounded, in the low bits of a float. The polynomial is
 * that of Cephes' expf. */
static inline real real_exp(real x) {
    const float round = 0x1.8p23f;
    const float shifted = x * 1.44269504f + round, n = shifted - round;
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * sw_bits_float((sw_float_bits(shifted) << 23) + 0x3f800000u);
}

/* e^x for x below 88, zero below e^-64: a softmax's weights that small are nothing beside the
 * largest, and their products would be subnormal numbers, which many CPUs are slow with. */
static inline real real_exp_to_zero(real x) {
    const float y = real_exp(x);
    return x < -64.0f ? 0.0f : y;
}

/* Natural logarithm of a normal positive x, NaN for NaN and infinity, error below 1.5e-7 relative
 * or 1e-7 absolute near 1: x = 2^n m with m in sqrt(1/2) .. sqrt(2), and Cephes' polynomial in m -
 * 1. */
static inline real real_log(real x) {
    uint32_t bits = sw_float_bits(x) - 0x3f3504f3u; /* of sqrt(1/2) */
    float n = (float)((int32_t)bits >> 23);
    float m = sw_bits_float((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float square = m * m;
    float y = p * m * square + n * -2.12194440e-4f - 0.5f * square;
    return m + y + n * 0.693359375f + x * 0.0f;
}

/* The nearest float (IEEE 754), so 1 / real_sqrt(x) is within 1.2e-7 of itself: two roundings. */
static inline real real_sqrt(real x) {
    return sqrtf(x);
}

/* Error below 1.5e-7 of the result: near zero Cephes' polynomial, beyond it 1 - 2 / (1 + e^2x). */
static inline real real_tanh(real x) {
    float size = x < 0 ? -x : x;
    size = size > 20.0f ? 20.0f : size;
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    const float far = 1.0f - 2.0f / (1.0f + real_exp(2.0f * size));
    return size < 0.625f ? p : x < 0 ? -far : far;
}

/* e^(z^2) erfc(z) for z of 0 and more, relative error below 5e-7: a polynomial in t = 1 / (1 + 0.4
 * z), fitted to t of 0.05 .. 1 by the least largest relative error. */
static inline real real_erfcx(real z) {
    const float t = 1.0f / (1.0f + 0.4f * z);
    float p = 5.01620306e-2f;
    p = p * t - 1.82449695e-1f;
    p = p * t + 1.68233506e-1f;
    p = p * t - 4.73767653e-3f;
    p = p * t + 1.40910629e-1f;
    p = p * t + 1.68726828e-1f;
    p = p * t + 2.07805351e-1f;
    p = p * t + 2.25673437e-1f;
    p = p * t + 2.25675713e-1f;
    return p * t;
}

/* Cosine and sine of 2 pi * turns, |turns| <= 0.5; absolute error below 1.5e-7. Reduced to an
 * eighth of a turn on either side of the nearest quarter. */
static inline void real_turn(real turns, real *cosine, real *sine) {
    const float round = 0x1.8p23f;
    float shifted = turns * 4.0f + round;
    uint32_t quarter = sw_float_bits(shifted);
    float r = (turns * 4.0f - (shifted - round)) * 1.57079632679f, square = r * r;
    float s =
        ((-1.9515295891e-4f * square + 8.3321608736e-3f) * square - 1.6666654611e-1f) * square * r +
        r;
    float c = ((2.443315711809948e-5f * square - 1.388731625493765e-3f) * square +
               4.166664568298827e-2f) *
                  square * square -
              0.5f * square + 1.0f;
    uint32_t swap = 0u - (quarter & 1);
    uint32_t s_bits = sw_float_bits(s), c_bits = sw_float_bits(c), other = (s_bits ^ c_bits) & swap;
    *sine = sw_bits_float((s_bits ^ other) ^ (quarter & 2) << 30);
    *cosine = sw_bits_float((c_bits ^ other) ^ ((quarter + 1) & 2) << 30);
}

#endif

/* 1 / (1 + e^-x), and in *rest what it lacks to 1, exact where the result rounds to 1. x is held
 * within -80 .. 80, so that the results and what they are multiplied by stay normal numbers;
 * relative errors below 4e-7. */
static inline real real_sigmoid(real x, real *rest) {
    x = x < -80 ? -80 : x;
    x = x > 80 ? 80 : x;
    const real e = real_exp(-x), s = 1 / (1 + e);
    *rest = e * s;
    return s;
}

/* The distribution function of the standard normal distribution at x, and its density. x is held
 * within -12 .. 12, beyond which what is missing to 0 or 1 is less than 1e-32. The tail is
 * computed, never what it lacks to 1. Relative errors below 9e-7 + 3e-8 x^2 and 2e-7 + 3e-8 x^2:
 * x^2 is rounded. */
static inline real real_normal(real x, real *density) {
    x = x < -12 ? -12 : x;
    x = x > 12 ? 12 : x;
    const real size = x < 0 ? -x : x, bell = real_exp((real)-0.5 * x * x);
    const real tail = (real)0.5 * bell * real_erfcx(size * (real)0.70710678118654752440);
    *density = (real)0.39894228040143267794 * bell;
    return x < 0 ? tail : 1 - tail;
}

#endif
