/* wide_sum.c: a double is 53 bits at some power of two; it falls on three neighbouring limbs. */
#include "base/wide_sum.h"

#include <math.h>
#include <string.h>

enum { LOWEST = -1088 }; /* the weight of bit 0; below the smallest subnormal, 2^-1074 */

void sw_wide_sum_add(sw_wide_sum *sum, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & 0xfffffffffffffu;
    if (exponent == 0x7ff) {
        sum->n_nonfinite++;
        return;
    }
    if (exponent)
        mantissa |= (uint64_t)1 << 52;
    else
        exponent = 1;
    int position = exponent - 1075 - LOWEST; /* of the mantissa's lowest bit */
    int limb = position >> 5, shift = position & 31;
    unsigned __int128 wide = (unsigned __int128)mantissa << shift;
    int64_t sign = bits >> 63 ? -1 : 1;
    sum->limb[limb] += sign * (int64_t)(uint32_t)wide;
    sum->limb[limb + 1] += sign * (int64_t)(uint32_t)(wide >> 32);
    sum->limb[limb + 2] += sign * (int64_t)(uint32_t)(wide >> 64);
}

/* Bring every limb but the highest into 0 .. 2^32-1, so that the digits are those of one number. */
static void carry(sw_wide_sum *sum) {
    for (int i = 0; i + 1 < SW_WIDE_LIMBS; i++) {
        int64_t over = sum->limb[i] >> 32;
        sum->limb[i] -= over * ((int64_t)1 << 32);
        sum->limb[i + 1] += over;
    }
}

void sw_wide_sum_merge(sw_wide_sum *sum, const sw_wide_sum *other) {
    sw_wide_sum carried = *other;
    carry(&carried);
    carry(sum);
    for (int i = 0; i < SW_WIDE_LIMBS; i++)
        sum->limb[i] += carried.limb[i];
    sum->n_nonfinite += other->n_nonfinite;
}

double sw_wide_sum_value(const sw_wide_sum *sum) {
    if (sum->n_nonfinite)
        return NAN;
    sw_wide_sum digits = *sum;
    carry(&digits);
    int negative = digits.limb[SW_WIDE_LIMBS - 1] < 0;
    if (negative) {
        for (int i = 0; i < SW_WIDE_LIMBS; i++)
            digits.limb[i] = -digits.limb[i];
        carry(&digits);
    }
    int top = SW_WIDE_LIMBS - 1;
    while (top > 0 && !digits.limb[top])
        top--;
    double value = 0; /* the digits below the fourth are less than half a unit in the last place */
    for (int i = top; i >= 0 && i > top - 4; i--)
        value += ldexp((double)digits.limb[i], 32 * i + LOWEST);
    return negative ? -value : value;
}
