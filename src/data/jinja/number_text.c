/* number_text.c: numbers from text and into it, as Python reads and prints them. */
#include "data/jinja/number.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/integer.h"
#include "data/jinja/big.h"
#include "data/jinja/text.h"

int sw_jinja_print_real(double real, char *buffer) {
    if (!isfinite(real))
        return sprintf(buffer, "%s", isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
    char text[40];
    /* Up to 15 digits all survive; numbers near zero (denormal) have fewer, and the first that
     * reads back is the shortest. */
    for (int n_digits = fabs(real) < DBL_MIN ? 1 : 15; n_digits <= 17; n_digits++) {
        snprintf(text, sizeof text, "%.*e", n_digits - 1, real);
        if (strtod(text, NULL) == real)
            break;
    }
    /* -d.ddde+xx: the digits without the zeros at their end, and where their point is */
    char digits[20] = "";
    int n = 0, exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    for (const char *at = text; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[n++] = *at;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    char *out = buffer;
    if (signbit(real))
        *out++ = '-';
    if (exponent < -4 || exponent >= 16) {
        *out++ = digits[0];
        if (n > 1)
            *out++ = '.';
        memcpy(out, digits + 1, (size_t)n - 1);
        out += n - 1;
        out += sprintf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        out += sprintf(out, "0.%.*s%.*s", -exponent - 1, "0000", n, digits);
    } else {
        for (int i = 0; i <= exponent; i++)
            *out++ = i < n ? digits[i] : '0';
        *out++ = '.';
        if (n > exponent + 1) {
            memcpy(out, digits + exponent + 1, (size_t)(n - exponent - 1));
            out += n - exponent - 1;
        } else {
            *out++ = '0';
        }
    }
    *out = '\0';
    return (int)(out - buffer);
}

bool sw_jinja_write_number(jinja_run *run, const jinja_value *value) {
    char buffer[40];
    switch (value->kind) {
    case JINJA_BOOL:
        return sw_jinja_write_words(run, value->as.truth ? "True" : "False");
    case JINJA_REAL:
        return sw_jinja_write(run, buffer, sw_jinja_print_real(value->as.real, buffer));
    case JINJA_BIG:
        return (!value->as.big->is_negative || sw_jinja_write(run, "-", 1)) &&
               sw_jinja_big_write(run, value->as.big, 10, false);
    default:
        return sw_jinja_write(run, buffer,
                              snprintf(buffer, sizeof buffer, "%" PRId64, value->as.integer));
    }
}

/* The text in ASCII, without white space around: digits of other scripts are digits; anything else
 * beyond ASCII is '?'. NUL-terminated. NULL: failed. */
static char *to_ascii(jinja_run *run, const jinja_text *text, int64_t *n) {
    const char *end = sw_jinja_skip_spaces_back(text->bytes, sw_jinja_end_of(text));
    const char *at = sw_jinja_skip_spaces(text->bytes, end);
    char *ascii = sw_jinja_take(run, end - at + 1);
    if (!ascii || !sw_jinja_spend_characters(run, 4 * (end - at)))
        return NULL;
    for (*n = 0; at < end; (*n)++) {
        uint32_t code = sw_utf8_next(&at);
        int digit = sw_python_decimal(code);
        ascii[*n] = (char)(digit >= 0 ? '0' + digit : code < 0x80 && code ? (int)code : '?');
    }
    ascii[*n] = '\0';
    return ascii;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'z' ? c - 'a' + 10
           : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                  : 99;
}

bool sw_jinja_read_whole(jinja_run *run, const jinja_text *text, int base, bool *is_number,
                         jinja_value *out) {
    int64_t n;
    char *at = to_ascii(run, text, &n);
    *is_number = false;
    if (!at)
        return false;
    if (base != 0 && (base < 2 || base > 36))
        return true;
    bool is_negative = *at == '-', has_prefix = false;
    at += *at == '-' || *at == '+';
    int prefix = at[0] == '0' ? (at[1] | 32) == 'x'   ? 16
                                : (at[1] | 32) == 'o' ? 8
                                : (at[1] | 32) == 'b' ? 2
                                                      : 0
                              : 0;
    if (prefix && (base == 0 || base == prefix)) {
        base = prefix;
        at += 2;
        has_prefix = true;
        at += *at == '_';
    }
    bool is_decimal = base == 0; /* no zeros before a number of unsaid base */
    if (base == 0)
        base = 10;
    uint8_t *digits = sw_jinja_take(run, n + 1);
    if (!digits)
        return false;
    int64_t n_digits = 0;
    bool is_zero = true;
    for (const char *first = at; *at; at++) {
        if (*at == '_' && at > first && at[-1] != '_' && at[1])
            continue;
        int digit = digit_of(*at);
        if (digit >= base)
            return true;
        digits[n_digits++] = (uint8_t)digit;
        is_zero = is_zero && digit == 0;
    }
    if (n_digits == 0 || (is_decimal && !has_prefix && n_digits > 1 && digits[0] == 0 && !is_zero))
        return true;
    *is_number = true;
    jinja_value whole;
    if (!sw_jinja_give_big(sw_jinja_big_of_digits(run, digits, n_digits, base), &whole))
        return false;
    *out = whole;
    return !is_negative || sw_jinja_negate(run, &whole, out);
}

/* Past digits with single underscores between them. NULL: there is none. */
static const char *skip_digits(const char *at) {
    if (*at < '0' || *at > '9')
        return NULL;
    while ((*at >= '0' && *at <= '9') || (*at == '_' && at[1] >= '0' && at[1] <= '9'))
        at++;
    return at;
}

static bool is_real(const char *at) {
    at += *at == '-' || *at == '+';
    if (strcasecmp(at, "inf") == 0 || strcasecmp(at, "infinity") == 0 || strcasecmp(at, "nan") == 0)
        return true;
    const char *whole = skip_digits(at), *fraction = NULL;
    if (whole)
        at = whole;
    if (*at == '.') {
        fraction = skip_digits(++at);
        if (fraction)
            at = fraction;
    }
    if (!whole && !fraction)
        return false;
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '-' || at[1] == '+');
        at = skip_digits(at);
    }
    return at && *at == '\0';
}

bool sw_jinja_read_real(jinja_run *run, const jinja_text *text, bool *is_number, double *out) {
    int64_t n;
    char *ascii = to_ascii(run, text, &n);
    if (!ascii)
        return false;
    *is_number = is_real(ascii);
    if (!*is_number)
        return true;
    char *to = ascii;
    for (const char *from = ascii; *from; from++)
        if (*from != '_')
            *to++ = *from;
    *to = '\0';
    *out = strtod(ascii, NULL);
    return true;
}
