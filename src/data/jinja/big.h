/* big.h: whole numbers beyond 64 bits, up to JINJA_MAX_BIG_LIMBS. Sign and magnitude; limbs of 32
 * bits, the lowest first. */
#ifndef SW_DATA_JINJA_BIG_H
#define SW_DATA_JINJA_BIG_H

#include "data/jinja/run.h"

struct jinja_big {
    bool is_negative;
    int n; /* without leading zeros; 0 is the number 0 */
    uint32_t limbs[];
};

/* The whole number of a bool, an integer or a big one. NULL: failed, as everywhere here. */
const jinja_big *sw_jinja_big_of(jinja_run *run, const jinja_value *value);
/* As a value, which is an integer where 64 bits hold it. */
bool sw_jinja_give_big(const jinja_big *big, jinja_value *out);

const jinja_big *sw_jinja_big_add(jinja_run *run, const jinja_big *a, const jinja_big *b,
                                  bool is_difference);
const jinja_big *sw_jinja_big_multiply(jinja_run *run, const jinja_big *a, const jinja_big *b);
/* Quotient towards minus infinity, and what remains, of the sign of b, which is not 0. */
bool sw_jinja_big_divide(jinja_run *run, const jinja_big *a, const jinja_big *b,
                         const jinja_big **quotient, const jinja_big **rest);
const jinja_big *sw_jinja_big_power(jinja_run *run, const jinja_big *a, int64_t exponent);

int sw_jinja_big_order(const jinja_big *a, const jinja_big *b);
/* The nearest double, halves to even; infinite beyond its range. */
double sw_jinja_big_real(const jinja_big *a);
/* a / b to the nearest double. */
bool sw_jinja_big_ratio(jinja_run *run, const jinja_big *a, const jinja_big *b, double *ratio);
/* A double without its fraction. */
const jinja_big *sw_jinja_big_of_real(jinja_run *run, double real);
/* From digits [n] of a base from 2 to 36, already numbers. */
const jinja_big *sw_jinja_big_of_digits(jinja_run *run, const uint8_t *digits, int64_t n, int base);

/* Write it in base 2, 8, 10 or 16, without its sign. */
bool sw_jinja_big_write(jinja_run *run, const jinja_big *a, int base, bool is_upper);

#endif
