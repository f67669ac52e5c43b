/* big.c: schoolbook arithmetic of whole numbers; they are short. */
#include "data/jinja/big.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"

static jinja_big *make(jinja_run *run, int n) {
    if (n > JINJA_MAX_BIG_LIMBS) {
        sw_jinja_fail(run, "a whole number of more than %d bits", 32 * JINJA_MAX_BIG_LIMBS);
        return NULL;
    }
    jinja_big *big = sw_jinja_take(run, (int64_t)sizeof *big + n * (int64_t)sizeof *big->limbs);
    if (!big || !sw_jinja_spend(run, 1 + n / 8))
        return NULL;
    *big = (jinja_big){.n = n};
    memset(big->limbs, 0, (size_t)n * sizeof *big->limbs);
    return big;
}

static jinja_big *trim(jinja_big *big) {
    while (big->n > 0 && big->limbs[big->n - 1] == 0)
        big->n--;
    if (big->n == 0)
        big->is_negative = false;
    return big;
}

static jinja_big *of_integer(jinja_run *run, int64_t integer) {
    jinja_big *big = make(run, 2);
    if (!big)
        return NULL;
    uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    big->is_negative = integer < 0;
    big->limbs[0] = (uint32_t)magnitude;
    big->limbs[1] = (uint32_t)(magnitude >> 32);
    return trim(big);
}

const jinja_big *sw_jinja_big_of(jinja_run *run, const jinja_value *value) {
    if (value->kind == JINJA_BIG)
        return value->as.big;
    return of_integer(run, value->kind == JINJA_BOOL ? value->as.truth : value->as.integer);
}

bool sw_jinja_give_big(const jinja_big *big, jinja_value *out) {
    if (!big)
        return false;
    uint64_t magnitude = big->n > 1 ? (uint64_t)big->limbs[1] << 32 | big->limbs[0]
                         : big->n   ? big->limbs[0]
                                    : 0;
    if (big->n <= 2 && magnitude <= (uint64_t)INT64_MAX + big->is_negative)
        *out = sw_jinja_integer(big->is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude);
    else
        *out = (jinja_value){.kind = JINJA_BIG, .as.big = big};
    return true;
}

static int order_magnitudes(const jinja_big *a, const jinja_big *b) {
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->limbs[i] != b->limbs[i])
            return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

int sw_jinja_big_order(const jinja_big *a, const jinja_big *b) {
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    return a->is_negative ? -order_magnitudes(a, b) : order_magnitudes(a, b);
}

const jinja_big *sw_jinja_big_add(jinja_run *run, const jinja_big *a, const jinja_big *b,
                                  bool is_difference) {
    bool b_is_negative = b->n && b->is_negative != is_difference;
    jinja_big *sum = make(run, (int)larger(a->n, b->n) + 1);
    if (!sum)
        return NULL;
    if (a->is_negative == b_is_negative) {
        uint64_t carry = 0;
        for (int i = 0; i < sum->n; i++) {
            carry += (uint64_t)(i < a->n ? a->limbs[i] : 0) + (i < b->n ? b->limbs[i] : 0);
            sum->limbs[i] = (uint32_t)carry;
            carry >>= 32;
        }
        sum->is_negative = a->is_negative;
        return trim(sum);
    }
    bool a_is_larger = order_magnitudes(a, b) >= 0;
    const jinja_big *more = a_is_larger ? a : b, *less = a_is_larger ? b : a;
    int64_t borrow = 0;
    for (int i = 0; i < more->n; i++) {
        int64_t difference = (int64_t)more->limbs[i] - (i < less->n ? less->limbs[i] : 0) - borrow;
        sum->limbs[i] = (uint32_t)difference;
        borrow = difference < 0;
    }
    sum->is_negative = a_is_larger ? a->is_negative : b_is_negative;
    return trim(sum);
}

const jinja_big *sw_jinja_big_multiply(jinja_run *run, const jinja_big *a, const jinja_big *b) {
    if (!sw_jinja_spend(run, (int64_t)a->n * b->n / 4))
        return NULL;
    jinja_big *product = make(run, a->n + b->n);
    if (!product)
        return NULL;
    for (int i = 0; i < a->n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b->n; j++) {
            carry += (uint64_t)a->limbs[i] * b->limbs[j] + product->limbs[i + j];
            product->limbs[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product->limbs[i + b->n] = (uint32_t)carry;
    }
    product->is_negative = a->is_negative != b->is_negative;
    return trim(product);
}

/* Bits from the highest: magnitudes are short, and this is plain. quotient and rest are of
 * magnitudes. */
static bool divide_magnitudes(jinja_run *run, const jinja_big *a, const jinja_big *b,
                              jinja_big **quotient, jinja_big **rest) {
    jinja_big *q = make(run, a->n), *r = make(run, b->n + 1);
    if (!q || !r || !sw_jinja_spend(run, (int64_t)a->n * b->n * 4 + 32 * (int64_t)a->n))
        return false;
    for (int bit = 32 * a->n - 1; bit >= 0; bit--) {
        uint32_t carry = a->limbs[bit / 32] >> bit % 32 & 1;
        for (int i = 0; i < r->n; i++) {
            uint32_t next = r->limbs[i] >> 31;
            r->limbs[i] = r->limbs[i] << 1 | carry;
            carry = next;
        }
        int order = r->limbs[b->n] ? 1 : 0;
        for (int i = b->n - 1; i >= 0 && order == 0; i--)
            order = r->limbs[i] < b->limbs[i] ? -1 : r->limbs[i] > b->limbs[i];
        if (order < 0)
            continue;
        int64_t borrow = 0;
        for (int i = 0; i < r->n; i++) {
            int64_t difference = (int64_t)r->limbs[i] - (i < b->n ? b->limbs[i] : 0) - borrow;
            r->limbs[i] = (uint32_t)difference;
            borrow = difference < 0;
        }
        q->limbs[bit / 32] |= UINT32_C(1) << bit % 32;
    }
    *quotient = q;
    *rest = r;
    trim(q);
    trim(r);
    return true;
}

bool sw_jinja_big_divide(jinja_run *run, const jinja_big *a, const jinja_big *b,
                         const jinja_big **quotient, const jinja_big **rest) {
    jinja_big *q, *r;
    if (!divide_magnitudes(run, a, b, &q, &r))
        return false;
    q->is_negative = q->n && a->is_negative != b->is_negative;
    r->is_negative = r->n && a->is_negative;
    *quotient = q;
    *rest = r;
    if (r->n == 0 || a->is_negative == b->is_negative)
        return true;
    const jinja_big *one = of_integer(run, 1);
    *quotient = one ? sw_jinja_big_add(run, q, one, true) : NULL;
    *rest = sw_jinja_big_add(run, r, b, false);
    return *quotient && *rest;
}

const jinja_big *sw_jinja_big_power(jinja_run *run, const jinja_big *a, int64_t exponent) {
    const jinja_big *power = of_integer(run, 1), *square = a;
    if (a->n == 0 && exponent > 0)
        return a;
    if (a->n == 1 && a->limbs[0] == 1) /* one of any length of exponent */
        return of_integer(run, a->is_negative && exponent % 2 ? -1 : 1);
    for (int64_t rest = exponent; power && square && rest > 0; rest /= 2) {
        if (rest % 2)
            power = sw_jinja_big_multiply(run, power, square);
        if (rest > 1)
            square = sw_jinja_big_multiply(run, square, square);
    }
    return square ? power : NULL;
}

/* The highest 64 bits, the lowest of them set if any beyond is (then rounding sees no false half);
 * *shift bits lie below. */
static uint64_t leading_bits(const jinja_big *a, int *shift) {
    uint64_t bits = 0;
    int n_bits = 32 * a->n - (a->n ? __builtin_clz(a->limbs[a->n - 1]) : 0);
    *shift = n_bits > 64 ? n_bits - 64 : 0;
    for (int i = n_bits - 1; i >= *shift; i--)
        bits = bits << 1 | (a->limbs[i / 32] >> i % 32 & 1);
    for (int i = 0; i < *shift; i++)
        bits |= a->limbs[i / 32] >> i % 32 & 1;
    return bits;
}

/* 64 bits to the nearest double times 2^shift, for results that are not denormal. */
double sw_jinja_big_real(const jinja_big *a) {
    int shift;
    uint64_t bits = leading_bits(a, &shift);
    double real =
        ldexp((double)bits,
              shift); /* conversion rounds halves to even; the scaling is exact or infinite */
    return a->is_negative ? -real : real;
}

static jinja_big *shift_left(jinja_run *run, const jinja_big *a, int bits) {
    jinja_big *shifted = make(run, a->n + bits / 32 + 1);
    if (!shifted)
        return NULL;
    for (int i = 0; i < a->n; i++) {
        uint64_t wide = (uint64_t)a->limbs[i] << bits % 32;
        shifted->limbs[i + bits / 32] |= (uint32_t)wide;
        shifted->limbs[i + bits / 32 + 1] |= (uint32_t)(wide >> 32);
    }
    shifted->is_negative = a->is_negative;
    return trim(shifted);
}

bool sw_jinja_big_ratio(jinja_run *run, const jinja_big *a, const jinja_big *b, double *ratio) {
    /* At least 66 bits of quotient, the lowest set where something remains. */
    int shift = (int)larger(0, 32 * ((int64_t)b->n - a->n + 4));
    jinja_big *quotient, *rest;
    a = shift_left(run, a, shift);
    if (!a || !divide_magnitudes(run, a, b, &quotient, &rest))
        return false;
    if (rest->n && quotient->n)
        quotient->limbs[0] |= 1;
    quotient->is_negative = false;
    *ratio = ldexp(sw_jinja_big_real(quotient), -shift);
    if (a->is_negative != b->is_negative)
        *ratio = -*ratio;
    return true;
}

const jinja_big *sw_jinja_big_of_real(jinja_run *run, double real) {
    int exponent;
    double fraction = frexp(fabs(trunc(real)), &exponent); /* 0.5 .. 1 */
    const jinja_big *bits = of_integer(run, (int64_t)ldexp(fraction, 53));
    if (!bits)
        return NULL;
    jinja_big *big;
    if (exponent >= 53) {
        big = shift_left(run, bits, exponent - 53);
    } else {
        big = of_integer(run, exponent > 0 ? (int64_t)ldexp(fraction, 53) >> (53 - exponent) : 0);
    }
    if (big)
        big->is_negative = big->n && real < 0;
    return big;
}

const jinja_big *sw_jinja_big_of_digits(jinja_run *run, const uint8_t *digits, int64_t n,
                                        int base) {
    while (n > 0 && *digits == 0)
        digits++, n--;
    int64_t n_limbs = n * 6 / 32 + 1; /* at most 6 bits each */
    if (n_limbs > 2 * JINJA_MAX_BIG_LIMBS) {
        sw_jinja_fail(run, "a whole number of more than %d bits", 32 * JINJA_MAX_BIG_LIMBS);
        return NULL;
    }
    jinja_big *big = make(run, (int)smaller(n_limbs, JINJA_MAX_BIG_LIMBS));
    if (!big || !sw_jinja_spend(run, n * n_limbs / 8))
        return NULL;
    int used = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t carry = digits[i];
        for (int j = 0; j < used; j++) {
            carry += (uint64_t)big->limbs[j] * (unsigned)base;
            big->limbs[j] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry && used == big->n) {
            sw_jinja_fail(run, "a whole number of more than %d bits", 32 * JINJA_MAX_BIG_LIMBS);
            return NULL;
        }
        if (carry)
            big->limbs[used++] = (uint32_t)carry;
    }
    return trim(big);
}

bool sw_jinja_big_write(jinja_run *run, const jinja_big *a, int base, bool is_upper) {
    jinja_big *rest = make(run, a->n);
    int64_t capacity = 32 * (int64_t)a->n + 1, at = capacity;
    char *digits = sw_jinja_take(run, capacity);
    if (!rest || !digits || !sw_jinja_spend(run, (int64_t)a->n * a->n))
        return false;
    if (a->n)
        memcpy(rest->limbs, a->limbs, (size_t)a->n * sizeof *a->limbs);
    trim(rest);
    do {
        uint64_t left = 0;
        for (int i = rest->n - 1; i >= 0; i--) {
            left = left << 32 | rest->limbs[i];
            rest->limbs[i] = (uint32_t)(left / (unsigned)base);
            left %= (unsigned)base;
        }
        digits[--at] = (is_upper ? "0123456789ABCDEF" : "0123456789abcdef")[left];
        trim(rest);
    } while (rest->n);
    return sw_jinja_write(run, digits + at, capacity - at);
}
