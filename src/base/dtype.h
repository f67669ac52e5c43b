/* dtype.h: element types, their sizes, and the conversions between fp32 and its 16-bit
 * relatives. */
#ifndef SW_BASE_DTYPE_H
#define SW_BASE_DTYPE_H

#include <stdint.h>
#include <string.h>

typedef enum sw_dtype {
    SW_F32,
    SW_F64,
    SW_BF16,
    SW_F16,
    SW_I32,
    SW_U8,
    SW_U16,
    SW_U32,
    SW_I64
} sw_dtype;

int64_t sw_dtype_bytes(sw_dtype dtype);
const char *sw_dtype_name(sw_dtype dtype); /* "fp32", "fp64", "bf16", "fp16", "int32" ... */

static inline uint32_t sw_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float sw_bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float sw_bf16_to_float(uint16_t x) {
    return sw_bits_float((uint32_t)x << 16);
}

/* A master is its bf16 compute copy plus a signed 16-bit rest: the copy is the master rounded to
 * nearest, ties away from zero, and master = (copy << 16) + rest. Lossless. See
 * docs/design/numbers.md, "The split master". */
static inline uint16_t sw_split_high(float master) {
    return (uint16_t)((sw_float_bits(master) + 0x8000u) >> 16);
}
static inline uint16_t sw_split_low(float master) {
    return (uint16_t)sw_float_bits(master);
}
static inline float sw_split_join(uint16_t high, uint16_t low) {
    return sw_bits_float(((uint32_t)high << 16 | low) - (low >= 0x8000u ? 0x10000u : 0));
}

/* To nearest, ties to even, as every other writer of bf16 does; NaN stays NaN. Activations are
 * rounded so, and files. Without a branch, so that it vectorises. */
static inline uint16_t sw_float_to_bf16(float x) {
    const uint32_t bits = sw_float_bits(x), rounded = bits + 0x7fffu + (bits >> 16 & 1);
    return (uint16_t)((x != x ? bits | 0x400000u : rounded) >> 16);
}
uint16_t sw_float_to_f16(float x); /* the same way */
float sw_f16_to_float(uint16_t x);

#endif
