/* number.c: arithmetic on bools, whole numbers and doubles. 64 bits as long as they suffice; then
 * big.c. */
#include "data/jinja/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "data/jinja/big.h"
#include "data/jinja/compare.h"

static const int64_t EXACT = INT64_C(1) << 53; /* whole numbers up to here are doubles */

static int64_t small_of(const jinja_value *value) {
    return value->kind == JINJA_BOOL ? value->as.truth : value->as.integer;
}

bool sw_jinja_index_of(const jinja_value *value, int64_t *index) {
    if (value->kind == JINJA_BIG)
        *index = value->as.big->is_negative ? INT64_MIN : INT64_MAX;
    else if (value->kind == JINJA_BOOL || value->kind == JINJA_INTEGER)
        *index = small_of(value);
    else
        return false;
    return true;
}

bool sw_jinja_real_of(jinja_run *run, const jinja_value *a, double *real) {
    *real = a->kind == JINJA_REAL  ? a->as.real
            : a->kind == JINJA_BIG ? sw_jinja_big_real(a->as.big)
                                   : (double)small_of(a);
    if (a->kind == JINJA_BIG && isinf(*real))
        return sw_jinja_fail(run, "a whole number is too large for a float");
    return true;
}

bool sw_jinja_whole_of(jinja_run *run, double real, jinja_value *out) {
    if (!isfinite(real))
        return sw_jinja_fail(run, "%s is no whole number", isnan(real) ? "nan" : "infinity");
    if (fabs(real) < 9e18) {
        *out = sw_jinja_integer((int64_t)real);
        return true;
    }
    return sw_jinja_give_big(sw_jinja_big_of_real(run, real), out);
}

static bool fail_zero(jinja_run *run) {
    return sw_jinja_fail(run, "division by zero");
}

static bool calculate_reals(jinja_run *run, jinja_sign sign, double a, double b, jinja_value *out) {
    double result = 0;
    switch (sign) {
    case JINJA_ADD:
        result = a + b;
        break;
    case JINJA_SUBTRACT:
        result = a - b;
        break;
    case JINJA_MULTIPLY:
        result = a * b;
        break;
    case JINJA_DIVIDE:
        if (b == 0)
            return fail_zero(run);
        result = a / b;
        break;
    case JINJA_FLOOR:
    case JINJA_MODULO: {
        if (b == 0)
            return fail_zero(run);
        double rest = fmod(a, b), quotient = (a - rest) / b;
        if (rest != 0 && (b < 0) != (rest < 0)) {
            rest += b;
            quotient -= 1;
        } else if (rest == 0) {
            rest = copysign(0, b);
        }
        if (sign == JINJA_MODULO) {
            result = rest;
        } else if (quotient != 0) {
            result = floor(quotient);
            result += quotient - result > 0.5;
        } else {
            result = copysign(0, a / b);
        }
        break;
    }
    case JINJA_POWER:
        if (a == 0 && b < 0)
            return sw_jinja_fail(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return sw_jinja_fail(run, "a negative number to a power with a fraction is a complex "
                                      "number, which templates cannot have");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            return sw_jinja_fail(run, "the result of ** is too large for a float");
        break;
    }
    *out = sw_jinja_real(result);
    return true;
}

static bool calculate_bigs(jinja_run *run, jinja_sign sign, const jinja_value *left,
                           const jinja_value *right, jinja_value *out) {
    const jinja_big *a = sw_jinja_big_of(run, left), *b = sw_jinja_big_of(run, right), *quotient,
                    *rest;
    if (!a || !b)
        return false;
    switch (sign) {
    case JINJA_ADD:
    case JINJA_SUBTRACT:
        return sw_jinja_give_big(sw_jinja_big_add(run, a, b, sign == JINJA_SUBTRACT), out);
    case JINJA_MULTIPLY:
        return sw_jinja_give_big(sw_jinja_big_multiply(run, a, b), out);
    case JINJA_DIVIDE: {
        double ratio;
        if (b->n == 0)
            return fail_zero(run);
        if (!sw_jinja_big_ratio(run, a, b, &ratio))
            return false;
        if (isinf(ratio))
            return sw_jinja_fail(run, "the result of / is too large for a float");
        *out = sw_jinja_real(ratio);
        return true;
    }
    case JINJA_FLOOR:
    case JINJA_MODULO:
        if (b->n == 0)
            return fail_zero(run);
        return sw_jinja_big_divide(run, a, b, &quotient, &rest) &&
               sw_jinja_give_big(sign == JINJA_FLOOR ? quotient : rest, out);
    case JINJA_POWER:
        break;
    }
    int64_t exponent = 0;
    sw_jinja_index_of(right, &exponent);
    if (exponent < 0) {
        double x, y;
        return sw_jinja_real_of(run, left, &x) && sw_jinja_real_of(run, right, &y) &&
               calculate_reals(run, sign, x, y, out);
    }
    return sw_jinja_give_big(sw_jinja_big_power(run, a, exponent), out);
}

/* *is_done: 64 bits were enough. */
static bool calculate_integers(jinja_run *run, jinja_sign sign, int64_t a, int64_t b,
                               jinja_value *out, bool *is_done) {
    int64_t result = 0;
    *is_done = true;
    switch (sign) {
    case JINJA_ADD:
        *is_done = !__builtin_add_overflow(a, b, &result);
        break;
    case JINJA_SUBTRACT:
        *is_done = !__builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_MULTIPLY:
        *is_done = !__builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_DIVIDE:
        if (b == 0)
            return fail_zero(run);
        *is_done = a >= -EXACT && a <= EXACT && b >= -EXACT && b <= EXACT;
        *out = sw_jinja_real((double)a / (double)b);
        return true;
    case JINJA_FLOOR:
    case JINJA_MODULO: {
        if (b == 0)
            return fail_zero(run);
        if (a == INT64_MIN && b == -1) {
            *is_done = false;
            return true;
        }
        int64_t rest = a % b;
        bool is_below = rest != 0 && (rest < 0) != (b < 0);
        result = sign == JINJA_FLOOR ? a / b - is_below : rest + (is_below ? b : 0);
        break;
    }
    case JINJA_POWER:
        *is_done = false;
        break;
    }
    *out = sw_jinja_integer(result);
    return true;
}

bool sw_jinja_calculate(jinja_run *run, jinja_sign sign, const jinja_value *a, const jinja_value *b,
                        jinja_value *out) {
    if (a->kind == JINJA_REAL || b->kind == JINJA_REAL) {
        double x, y;
        return sw_jinja_real_of(run, a, &x) && sw_jinja_real_of(run, b, &y) &&
               calculate_reals(run, sign, x, y, out);
    }
    bool is_done = false;
    if (a->kind != JINJA_BIG && b->kind != JINJA_BIG &&
        !calculate_integers(run, sign, small_of(a), small_of(b), out, &is_done))
        return false;
    return is_done || calculate_bigs(run, sign, a, b, out);
}

bool sw_jinja_negate(jinja_run *run, const jinja_value *a, jinja_value *out) {
    if (a->kind == JINJA_REAL) {
        *out = sw_jinja_real(-a->as.real);
        return true;
    }
    jinja_value zero = sw_jinja_integer(0);
    return sw_jinja_calculate(run, JINJA_SUBTRACT, &zero, a, out);
}

int sw_jinja_number_order(const jinja_value *a, const jinja_value *b) {
    if (a->kind == JINJA_BIG && b->kind == JINJA_BIG)
        return sw_jinja_big_order(a->as.big, b->as.big);
    if (a->kind != JINJA_REAL && b->kind != JINJA_REAL) {
        if (a->kind == JINJA_BIG)
            return a->as.big->is_negative ? -1 : 1;
        if (b->kind == JINJA_BIG)
            return b->as.big->is_negative ? 1 : -1;
        return (small_of(a) > small_of(b)) - (small_of(a) < small_of(b));
    }
    /* long double holds every 64-bit integer; beyond, the nearest double decides. */
    long double x = a->kind == JINJA_REAL  ? a->as.real
                    : a->kind == JINJA_BIG ? sw_jinja_big_real(a->as.big)
                                           : (long double)small_of(a);
    long double y = b->kind == JINJA_REAL  ? b->as.real
                    : b->kind == JINJA_BIG ? sw_jinja_big_real(b->as.big)
                                           : (long double)small_of(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

uint64_t sw_jinja_number_hash(const jinja_value *a) {
    double real = a->kind == JINJA_REAL  ? a->as.real
                  : a->kind == JINJA_BIG ? sw_jinja_big_real(a->as.big)
                                         : 0;
    uint64_t bits = 0;
    if (a->kind == JINJA_BOOL || a->kind == JINJA_INTEGER)
        bits = (uint64_t)small_of(a);
    else if (real == floor(real) && fabs(real) < 9e18)
        bits = (uint64_t)(int64_t)real;
    else
        memcpy(&bits, &real, sizeof bits);
    bits *= UINT64_C(0x9E3779B97F4A7C15); /* neighbours lie apart in the low bits */
    return bits ^ bits >> 32;
}

/* Doubles to so many decimal digits behind the point (before it, if negative). */
static double round_real(double real, int64_t digits) {
    char text[800];
    if (!isfinite(real) || digits > 323)
        return real;
    if (digits < -308)
        return copysign(0, real);
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, real);
        return strtod(text, NULL);
    }
    snprintf(text, sizeof text, "%.17e", fabs(real)); /* 18 digits: the exponent is right */
    int first = (int)strtol(strchr(text, 'e') + 1, NULL, 10), n_kept = first + 1 + (int)digits;
    if (n_kept >= 1) {
        snprintf(text, sizeof text, "%.*e", n_kept - 1, real);
        return strtod(text, NULL);
    }
    snprintf(text, sizeof text, "5e%d", first);
    bool is_up = n_kept == 0 && fabs(real) > strtod(text, NULL);
    snprintf(text, sizeof text, "1e%d", first + 1);
    return copysign(is_up ? strtod(text, NULL) : 0, real);
}

bool sw_jinja_round(jinja_run *run, const jinja_value *value, int64_t digits, jinja_value *out) {
    *out = *value;
    if (value->kind == JINJA_REAL) {
        if (!sw_jinja_spend(run, 10 * JINJA_STEPS_OF_A_REAL))
            return false;
        double rounded = round_real(value->as.real, digits);
        if (isinf(rounded) && isfinite(value->as.real))
            return sw_jinja_fail(run, "the rounded number is too large for a float");
        *out = sw_jinja_real(rounded);
        return true;
    }
    if (value->kind == JINJA_BOOL)
        *out = sw_jinja_integer(value->as.truth);
    if (digits >= 0)
        return true;
    jinja_value ten = sw_jinja_integer(10), two = sw_jinja_integer(2),
                n = sw_jinja_integer(-larger(digits, -6000));
    jinja_value unit = ten, quotient = ten, rest = ten, twice = ten;
    if (n.as.integer > 4900) {
        *out = sw_jinja_integer(0);
        return true;
    }
    if (!sw_jinja_calculate(run, JINJA_POWER, &ten, &n, &unit) ||
        !sw_jinja_calculate(run, JINJA_FLOOR, value, &unit, &quotient) ||
        !sw_jinja_calculate(run, JINJA_MODULO, value, &unit, &rest) ||
        !sw_jinja_calculate(run, JINJA_MULTIPLY, &two, &rest, &twice))
        return false;
    int order = sw_jinja_number_order(&twice, &unit);
    jinja_value parity = ten, one = sw_jinja_integer(1);
    if (!sw_jinja_calculate(run, JINJA_MODULO, &quotient, &two, &parity))
        return false;
    if ((order > 0 || (order == 0 && parity.as.integer == 1)) &&
        !sw_jinja_calculate(run, JINJA_ADD, &quotient, &one, &quotient))
        return false;
    return sw_jinja_calculate(run, JINJA_MULTIPLY, &quotient, &unit, out);
}
