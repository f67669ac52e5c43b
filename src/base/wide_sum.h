/* wide_sum.h: an exact sum of doubles.
 *
 * A fixed-point number wide enough for every double and for 2^31 additions: digits of 32 bits, each
 * in a signed 64-bit limb, so adding is integer addition and the order of additions does not
 * matter. That is what makes the gradient norm and the loss independent of how work is dealt to
 * ranks. Non-finite values are counted, not added.
 */
#ifndef SW_BASE_WIDE_SUM_H
#define SW_BASE_WIDE_SUM_H

#include <stdint.h>

#define SW_WIDE_LIMBS 68

typedef struct sw_wide_sum {
    int64_t limb[SW_WIDE_LIMBS]; /* limb i weighs 2^(32 i - 1088) */
    int64_t n_nonfinite;
} sw_wide_sum;

void sw_wide_sum_add(sw_wide_sum *sum, double x);
void sw_wide_sum_merge(sw_wide_sum *sum, const sw_wide_sum *other);

/* The exact sum rounded to double (within one unit in the last place); NaN if a non-finite value
 * was met. */
double sw_wide_sum_value(const sw_wide_sum *sum);

#endif
