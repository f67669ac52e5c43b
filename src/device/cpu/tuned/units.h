/* units.h: what the tuned product multiplies, made from numbers of either type and from parts of
 * vectors.
 *
 * A *unit* is the 32 bits that one lane multiplies at a time: a float; or, with SW_PAIRS, two bf16
 * numbers that follow each other along k, the first in the low half. Packed operands consist of
 * units, so one scheme of packing serves both.
 */
#ifndef SW_DEVICE_CPU_TUNED_UNITS_H
#define SW_DEVICE_CPU_TUNED_UNITS_H

#include <string.h>

#include "base/dtype.h"
#include "base/integer.h"
#include "device/cpu/tuned/vector.h"

#ifdef SW_PAIRS
enum { UNIT = 2 }; /* elements of k in a unit */
#else
enum { UNIT = 1 };
#endif

typedef uint32_t units __attribute__((vector_size(SW_VECTOR_BYTES)));
typedef uint16_t halves __attribute__((vector_size(SW_VECTOR_BYTES / 2)));

/* ---- n elements, at most VEC, at any address; lanes past them are zero. Nothing beyond them is
 * read or written. ---- */

static inline vec load_floats(const float *from, int64_t n) {
    if (n >= VEC)
        return vec_at(from);
    vec some = {0};
    memcpy(&some, from, (size_t)n * sizeof *from);
    return some;
}

static inline halves load_halves(const uint16_t *from, int64_t n) {
    if (n >= VEC) {
        halves x;
        memcpy(&x, from, sizeof x);
        return x;
    }
    halves some = {0};
    memcpy(&some, from, (size_t)n * sizeof *from);
    return some;
}

/* Compilers take halves apart before they extend them, so both directions are spelt out. */
static inline units extend(halves x) {
#if SW_VECTOR_BYTES == 64
    return (units)_mm512_cvtepu16_epi32((__m256i)x);
#else
    return (units)_mm256_cvtepu16_epi32((__m128i)x);
#endif
}

static inline halves shorten(units x) { /* each below 2^16 */
#if SW_VECTOR_BYTES == 64
    return (halves)_mm512_cvtepi32_epi16((__m512i)x);
#else
    const __m256i both = _mm256_packus_epi32((__m256i)x, (__m256i)x);
    return (halves)_mm256_castsi256_si128(_mm256_permute4x64_epi64(both, 0x08));
#endif
}

/* The rows of tiles that one vector holds, those of each tile to its own place, `apart` units
 * on. */
static inline void store_tiles(units x, uint32_t *to, int64_t apart) {
#if SW_VECTOR_BYTES == 64 /* two tiles of 8 rows */
    _mm256_storeu_si256((__m256i *)to, _mm512_castsi512_si256((__m512i)x));
    _mm256_storeu_si256((__m256i *)(to + apart), _mm512_extracti64x4_epi64((__m512i)x, 1));
#else /* one of 6 */
    (void)apart;
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128((__m256i)x));
    _mm_storel_epi64((__m128i *)(to + 4), _mm256_extracti128_si256((__m256i)x, 1));
#endif
}

static inline vec widen(halves x) {
    return (vec)(extend(x) << 16);
}

/* To nearest, ties to even; NaN stays NaN. With SW_PAIRS numbers below 2^-126 become zero, as in
 * its products. */
static inline halves narrow(vec x) {
#ifdef SW_PAIRS
    return (halves)_mm512_cvtneps_pbh((__m512)x);
#else
    const units bits = (units)x, rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    const units is_nan = (units)((bits & 0x7fffffffu) > 0x7f800000u);
    return shorten((rounded & ~is_nan) | ((bits >> 16 | 0x40u) & is_nan));
#endif
}

/* Elements at, at + 1 .. of an array of fp32 or bf16. */
static inline vec load_reals(const void *from, sw_dtype type, int64_t at, int64_t n) {
    return type == SW_BF16 ? widen(load_halves((const uint16_t *)from + at, n))
                           : load_floats((const float *)from + at, n);
}

static inline void store_reals(void *to, sw_dtype type, int64_t at, int64_t n, vec x) {
    if (type == SW_BF16) {
        const halves rounded = narrow(x);
        memcpy((uint16_t *)to + at, &rounded,
               n >= VEC ? sizeof rounded : (size_t)n * sizeof(uint16_t));
    } else {
        memcpy((float *)to + at, &x, n >= VEC ? sizeof x : (size_t)n * sizeof(float));
    }
}

/* ---- arithmetic ---- */

/* sum + a * b in every lane, a being one unit. */
static inline vec add_product(vec sum, uint32_t a, units b) {
#ifdef SW_PAIRS
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
#else
    return sum + sw_bits_float(a) * (vec)b;
#endif
}

#endif
