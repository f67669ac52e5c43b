/* vector.h: one vector of floats, as wide as the kernel set has: 8 for AVX2, 16 for AVX-512. What
 * differs between the two is here; what is written with it is written once. Sums and products of
 * vectors are written with the operators.
 */
#ifndef SW_DEVICE_CPU_TUNED_VECTOR_H
#define SW_DEVICE_CPU_TUNED_VECTOR_H

#include <immintrin.h>
#include <stdint.h>

#define SW_INLINE static inline __attribute__((always_inline))

/* A loop over rows of registers: only unrolled do they stay registers. */
#define SW_UNROLLED _Pragma("GCC unroll 16")

#if SW_VECTOR_BYTES == 64

typedef __m512 vec;
enum { VEC = 16 };

SW_INLINE vec vec_of(float x) {
    return _mm512_set1_ps(x);
}
SW_INLINE vec vec_at(const float *x) {
    return _mm512_loadu_ps(x);
}
SW_INLINE void vec_put(float *to, vec x) {
    _mm512_storeu_ps(to, x);
}
/* a * b + c, rounded once */
SW_INLINE vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
/* the larger of each pair; where x is NaN, y */
SW_INLINE vec vec_larger(vec x, vec y) {
    return _mm512_max_ps(x, y);
}
/* x in lanes from .. to-1, `other` in the rest; from and to may lie outside of the vector */
SW_INLINE vec vec_between(vec x, int64_t from, int64_t to, vec other) {
    const uint32_t first = from < 0     ? 0
                           : from > VEC ? VEC
                                        : (uint32_t)from,
                   end = to < 0     ? 0
                         : to > VEC ? VEC
                                    : (uint32_t)to;
    return _mm512_mask_mov_ps(other, (__mmask16)(((1u << end) - 1) & ~((1u << first) - 1)), x);
}
/* a * b where x >= least or x is NaN, zero elsewhere */
SW_INLINE vec vec_product_unless_below(vec a, vec b, vec x, float least) {
    return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(least), _CMP_NLT_UQ), a, b);
}
/* the bits that both have */
SW_INLINE vec vec_and(vec a, vec b) {
    return _mm512_and_ps(a, b);
}
/* 2^n, from the low bits of 1.5 * 2^23 + n */
SW_INLINE vec vec_power_of_two(vec shifted) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(shifted), 23),
                                                _mm512_set1_epi32(0x3f800000)));
}

/* Lanes 0 .. 7, and 8 .. 15. */
SW_INLINE __m256 vec_low(vec x) {
    return _mm512_castps512_ps256(x);
}
SW_INLINE __m256 vec_high(vec x) {
    return _mm512_extractf32x8_ps(x, 1);
}

/* pairs[VEC][2] taken apart */
SW_INLINE void vec_apart(const float *pairs, vec *first, vec *second) {
    const vec a = vec_at(pairs), b = vec_at(pairs + VEC);
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    *first = _mm512_permutex2var_ps(a, even, b);
    *second = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}

/* row[i][j] becomes row[j][i]; 32 bits each, whatever they mean. */
SW_INLINE void vec_turn(vec row[VEC]) {
    vec pair[VEC], four[VEC];
    for (int i = 0; i < VEC; i += 2) {
        pair[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
    }
    for (int i = 0; i < VEC; i += 4)
        for (int j = 0; j < 2; j++) {
            const __m512d low = _mm512_castps_pd(pair[i + j]),
                          high = _mm512_castps_pd(pair[i + j + 2]);
            four[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            four[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    /* four[4i + c] has column c + 4l of rows 4i .. 4i+3 in its quarter l */
    for (int c = 0; c < 4; c++) {
        const vec low_even = _mm512_shuffle_f32x4(four[c], four[4 + c], 0x88),
                  low_odd = _mm512_shuffle_f32x4(four[c], four[4 + c], 0xdd),
                  high_even = _mm512_shuffle_f32x4(four[8 + c], four[12 + c], 0x88),
                  high_odd = _mm512_shuffle_f32x4(four[8 + c], four[12 + c], 0xdd);
        row[c] = _mm512_shuffle_f32x4(low_even, high_even, 0x88);
        row[c + 8] = _mm512_shuffle_f32x4(low_even, high_even, 0xdd);
        row[c + 4] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
        row[c + 12] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xdd);
    }
}

#else

typedef __m256 vec;
enum { VEC = 8 };

SW_INLINE vec vec_of(float x) {
    return _mm256_set1_ps(x);
}
SW_INLINE vec vec_at(const float *x) {
    return _mm256_loadu_ps(x);
}
SW_INLINE void vec_put(float *to, vec x) {
    _mm256_storeu_ps(to, x);
}
SW_INLINE vec vec_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
SW_INLINE vec vec_larger(vec x, vec y) {
    return _mm256_max_ps(x, y);
}
SW_INLINE vec vec_between(vec x, int64_t from, int64_t to, vec other) {
    const int32_t first = from < 0     ? 0
                          : from > VEC ? VEC
                                       : (int32_t)from,
                  end = to < 0     ? 0
                        : to > VEC ? VEC
                                   : (int32_t)to;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
    const __m256i inside =
        _mm256_andnot_si256(before, _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane));
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(inside));
}
SW_INLINE vec vec_product_unless_below(vec a, vec b, vec x, float least) {
    return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(least), _CMP_NLT_UQ), _mm256_mul_ps(a, b));
}
SW_INLINE vec vec_and(vec a, vec b) {
    return _mm256_and_ps(a, b);
}
SW_INLINE vec vec_power_of_two(vec shifted) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23),
                                                _mm256_set1_epi32(0x3f800000)));
}
SW_INLINE void vec_apart(const float *pairs, vec *first, vec *second) {
    const vec a = vec_at(pairs), b = vec_at(pairs + VEC);
    const vec low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    *first = _mm256_shuffle_ps(low, high, 0x88);
    *second = _mm256_shuffle_ps(low, high, 0xdd);
}

SW_INLINE void vec_turn(vec row[VEC]) {
    vec pair[VEC], four[VEC];
    for (int i = 0; i < VEC; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    for (int i = 0; i < VEC; i += 4)
        for (int j = 0; j < 2; j++) {
            const __m256d low = _mm256_castps_pd(pair[i + j]),
                          high = _mm256_castps_pd(pair[i + j + 2]);
            four[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
            four[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
        }
    for (int c = 0; c < 4; c++) { /* four[4i + c] has columns c and c + 4 of rows 4i .. 4i+3 */
        row[c] = _mm256_permute2f128_ps(four[c], four[4 + c], 0x20);
        row[c + 4] = _mm256_permute2f128_ps(four[c], four[4 + c], 0x31);
    }
}

#endif

SW_INLINE float vec_first(vec x) {
    return x[0];
}

/* The sum of all lanes, added in halves; and the largest. */
SW_INLINE float vec_sum(vec x) {
#if SW_VECTOR_BYTES == 64
    const __m256 eight = _mm256_add_ps(vec_low(x), vec_high(x));
#else
    const __m256 eight = x;
#endif
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
SW_INLINE float vec_largest(vec x) {
#if SW_VECTOR_BYTES == 64
    const __m256 eight = _mm256_max_ps(vec_low(x), vec_high(x));
#else
    const __m256 eight = x;
#endif
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* 2^x for x below 127, relative error below 2e-7; a true zero below 2^-92, for what is smaller is
 * nothing beside a softmax's largest weight, and products with it would be subnormal numbers, which
 * many CPUs are slow with. NaN for NaN. x = n + r with |r| <= 1/2: 2^n is built from its exponent,
 * 2^r is 1 + r p(r) with the least largest relative error, 9.2e-8. */
SW_INLINE vec vec_exp2_to_zero(vec x) {
    const vec round = vec_of(0x1.8p23f);
    const vec shifted = x + round, r = x - (shifted - round);
    vec p = vec_of(1.326469499e-3f);
    p = vec_fma(p, r, vec_of(9.671534246e-3f));
    p = vec_fma(p, r, vec_of(5.550734017e-2f));
    p = vec_fma(p, r, vec_of(2.402224175e-1f));
    p = vec_fma(p, r, vec_of(6.931469773e-1f));
    p = vec_fma(p, r, vec_of(1.0f));
    return vec_product_unless_below(p, vec_power_of_two(shifted), x, -92.0f);
}

#endif
