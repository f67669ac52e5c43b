/* gguf_formats.c: the element formats of GGUF and how blocks of the common ones become fp32.
 *
 * A block holds 32 or 256 elements as small integers q and, in fp16, a step d and sometimes a
 * minimum m: element = d q, d q + m or d (q - middle). The K formats have blocks of 256 whose step
 * and minimum are themselves 6- or 8-bit multiples for each 32 or 16 elements. Products and sums
 * are rounded one by one in fp32, in the order of the reference (ggml, and its Python package gguf,
 * quants.py), so the values are equal to the bit.
 */
#include <string.h>

#include "base/dtype.h"
#include "formats/gguf.h"

static uint16_t read_16(const uint8_t *from) {
    return (uint16_t)(from[0] | from[1] << 8);
}

static float read_f16(const uint8_t *from) {
    return sw_f16_to_float(read_16(from));
}

/* A product that no compiler may fuse with the sum it goes into. */
static float product(float a, float b) {
    volatile float rounded = a * b;
    return rounded;
}

static void unpack_f32(const uint8_t *from, float *out) {
    *out = sw_bits_float((uint32_t)read_16(from) | (uint32_t)read_16(from + 2) << 16);
}

static void unpack_f16(const uint8_t *from, float *out) {
    *out = read_f16(from);
}

static void unpack_bf16(const uint8_t *from, float *out) {
    *out = sw_bf16_to_float(read_16(from));
}

/* d; 16 bytes: elements 0 to 15 in the low halves, 16 to 31 in the high ones. */
static void unpack_q4_0(const uint8_t *from, float *out) {
    float d = read_f16(from);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((from[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((from[2 + i] >> 4) - 8);
    }
}

/* d, m; 16 bytes as above. */
static void unpack_q4_1(const uint8_t *from, float *out) {
    float d = read_f16(from), m = read_f16(from + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = product(d, (float)(from[4 + i] & 15)) + m;
        out[i + 16] = product(d, (float)(from[4 + i] >> 4)) + m;
    }
}

static uint32_t read_32(const uint8_t *from) {
    return (uint32_t)read_16(from) | (uint32_t)read_16(from + 2) << 16;
}

/* d; 32 fifth bits; 16 bytes with the low four. */
static void unpack_q5_0(const uint8_t *from, float *out) {
    float d = read_f16(from);
    uint32_t fifth = read_32(from + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((int)((from[6 + i] & 15) | (fifth >> i & 1) << 4) - 16);
        out[i + 16] = d * (float)((int)(from[6 + i] >> 4 | (fifth >> (i + 16) & 1) << 4) - 16);
    }
}

/* d, m; then as above. */
static void unpack_q5_1(const uint8_t *from, float *out) {
    float d = read_f16(from), m = read_f16(from + 2);
    uint32_t fifth = read_32(from + 4);
    for (int i = 0; i < 16; i++) {
        out[i] = product(d, (float)((from[8 + i] & 15) | (fifth >> i & 1) << 4)) + m;
        out[i + 16] = product(d, (float)(from[8 + i] >> 4 | (fifth >> (i + 16) & 1) << 4)) + m;
    }
}

/* d; 32 signed bytes. */
static void unpack_q8_0(const uint8_t *from, float *out) {
    float d = read_f16(from);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)from[2 + i] * d;
}

/* d, dmin; 12 bytes with a step and a minimum of 6 bits for each of 8 runs of 32 elements; 128
 * bytes of 4 bits: 32 bytes hold a run in their low halves and the next one in their high
 * halves. */
static void unpack_q4_k(const uint8_t *from, float *out) {
    float d = read_f16(from), d_min = read_f16(from + 2);
    const uint8_t *scales = from + 4, *q = from + 16;
    for (int run = 0; run < 8; run++) {
        int low = run & 3;
        uint8_t step =
            run < 4 ? scales[run] & 63 : (scales[8 + low] & 15) | (scales[low] >> 6) << 4;
        uint8_t least =
            run < 4 ? scales[4 + run] & 63 : scales[8 + low] >> 4 | (scales[4 + low] >> 6) << 4;
        float run_step = product(d, (float)step), run_least = product(d_min, (float)least);
        for (int i = 0; i < 32; i++) {
            uint8_t byte = q[32 * (run / 2) + i];
            out[32 * run + i] =
                product(run_step, (float)(run & 1 ? byte >> 4 : byte & 15)) - run_least;
        }
    }
}

/* 128 bytes with the low four bits, 64 with the high two, 16 signed steps for runs of 16, d. Each
 * half of 128 elements: 64 bytes of low bits (their low halves are elements 0 to 63, the high ones
 * 64 to 127) and 32 of high bits (two for every 32nd). */
static void unpack_q6_k(const uint8_t *from, float *out) {
    const uint8_t *low = from, *high = from + 128, *steps = from + 192;
    float d = read_f16(from + 208);
    for (int e = 0; e < 256; e++) {
        int half = e / 128, at = e % 128;
        int four = low[64 * half + at % 64] >> (at / 64 * 4) & 15;
        int two = high[32 * half + at % 32] >> (at / 32 * 2) & 3;
        out[e] = product(d, (float)(int8_t)steps[e / 16]) * (float)((four | two << 4) - 32);
    }
}

/* Every number that files use, so that one that is not readable is refused by its name. */
static const sw_gguf_format formats[] = {
    {0, "F32", 1, 4, unpack_f32},
    {1, "F16", 1, 2, unpack_f16},
    {2, "Q4_0", 32, 18, unpack_q4_0},
    {3, "Q4_1", 32, 20, unpack_q4_1},
    {6, "Q5_0", 32, 22, unpack_q5_0},
    {7, "Q5_1", 32, 24, unpack_q5_1},
    {8, "Q8_0", 32, 34, unpack_q8_0},
    {9, "Q8_1", 32, 36, NULL},
    {10, "Q2_K", 256, 84, NULL},
    {11, "Q3_K", 256, 110, NULL},
    {12, "Q4_K", 256, 144, unpack_q4_k},
    {13, "Q5_K", 256, 176, NULL},
    {14, "Q6_K", 256, 210, unpack_q6_k},
    {15, "Q8_K", 256, 292, NULL},
    {16, "IQ2_XXS", 256, 66, NULL},
    {17, "IQ2_XS", 256, 74, NULL},
    {18, "IQ3_XXS", 256, 98, NULL},
    {19, "IQ1_S", 256, 50, NULL},
    {20, "IQ4_NL", 32, 18, NULL},
    {21, "IQ3_S", 256, 110, NULL},
    {22, "IQ2_S", 256, 82, NULL},
    {23, "IQ4_XS", 256, 136, NULL},
    {24, "I8", 1, 1, NULL},
    {25, "I16", 1, 2, NULL},
    {26, "I32", 1, 4, NULL},
    {27, "I64", 1, 8, NULL},
    {28, "F64", 1, 8, NULL},
    {29, "IQ1_M", 256, 56, NULL},
    {30, "BF16", 1, 2, unpack_bf16},
    {34, "TQ1_0", 256, 54, NULL},
    {35, "TQ2_0", 256, 66, NULL},
    {39, "MXFP4", 32, 17, NULL},
};

const sw_gguf_format *sw_gguf_format_of(uint32_t id) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if ((uint32_t)formats[i].id == id)
            return &formats[i];
    return NULL;
}
