/* dtype.c: sizes and names of element types, and conversions with rounding to nearest even. */
#include "base/dtype.h"

int64_t sw_dtype_bytes(sw_dtype dtype) {
    static const int64_t bytes[] = {
        [SW_F32] = 4, [SW_F64] = 8, [SW_BF16] = 2, [SW_F16] = 2, [SW_I32] = 4,
        [SW_U8] = 1,  [SW_U16] = 2, [SW_U32] = 4,  [SW_I64] = 8};
    return bytes[dtype];
}

const char *sw_dtype_name(sw_dtype dtype) {
    static const char *const names[] = {
        [SW_F32] = "fp32",   [SW_F64] = "fp64",   [SW_BF16] = "bf16",
        [SW_F16] = "fp16",   [SW_I32] = "int32",  [SW_U8] = "uint8",
        [SW_U16] = "uint16", [SW_U32] = "uint32", [SW_I64] = "int64"};
    return names[dtype];
}

float sw_f16_to_float(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, exponent = x >> 10 & 31, fraction = x & 1023;
    if (exponent == 31)
        return sw_bits_float(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return sw_bits_float(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals, exactly */
    return sw_bits_float(sign | sw_float_bits(magnitude));
}

uint16_t sw_float_to_f16(float x) {
    uint32_t bits = sw_float_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* below the smallest normal: adding 0.5 aligns the fraction and
                                      rounds to even */
        float aligned = sw_bits_float(magnitude) + 0.5f;
        return (uint16_t)(sign | (sw_float_bits(aligned) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1) - 0x38000000u;
    return (uint16_t)(sign | rounded >> 13);
}
