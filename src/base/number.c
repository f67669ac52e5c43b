/* number.c: see number.h. */
#include "base/number.h"

#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char decimal[] = "0123456789";

/* A decimal number taken apart; none of it is copied. */
typedef struct parts {
    bool is_negative;
    const char *whole, *fraction; /* n_whole and n_fraction digits */
    size_t n_whole, n_fraction;
    int64_t exponent; /* within +-10^6, where every double and integer has long ended */
    const char *end;  /* of what was read */
} parts;

/* The number at the beginning of the text. Leading zeros make none: they are octal to some. */
static bool take_number(const char *text, parts *p) {
    *p = (parts){.is_negative = *text == '-'};
    p->whole = text + (*text == '-' || *text == '+');
    p->n_whole = strspn(p->whole, decimal);
    const char *at = p->whole + p->n_whole;
    if (*at == '.') {
        p->fraction = at + 1;
        p->n_fraction = strspn(p->fraction, decimal);
        at = p->fraction + p->n_fraction;
    }
    if ((!p->n_whole && !p->n_fraction) || (p->n_whole > 1 && *p->whole == '0'))
        return false;
    if (*at == 'e' || *at == 'E') {
        const char *digits = at + 1 + (at[1] == '-' || at[1] == '+');
        size_t n = strspn(digits, decimal);
        for (size_t i = 0; i < n && p->exponent < 1000000; i++)
            p->exponent = 10 * p->exponent + (digits[i] - '0');
        if (at[1] == '-')
            p->exponent = -p->exponent;
        if (n)
            at = digits + n;
    }
    p->end = at;
    return true;
}

static char digit_of(const parts *p, size_t i) {
    return i < p->n_whole ? p->whole[i] : p->fraction[i - p->n_whole];
}

static bool is_zero(const parts *p) {
    for (size_t i = 0; i < p->n_whole + p->n_fraction; i++)
        if (digit_of(p, i) != '0')
            return false;
    return true;
}

/* |number| * factor, where that is whole and below 2^63. `factor` is below 2^61. */
static bool times_exactly(const parts *p, int64_t factor, int64_t *product) {
    size_t n = p->n_whole + p->n_fraction, first = 0;
    int64_t exponent = p->exponent - (int64_t)p->n_fraction;
    for (; n && digit_of(p, n - 1) == '0'; n--)
        exponent++;
    while (first < n && digit_of(p, first) == '0')
        first++;
    *product = 0;
    if (first == n)
        return true;
    if (n - first > 19)
        return false;
    __uint128_t value = 0; /* below 10^19 * 2^61 < 2^125 */
    for (size_t i = first; i < n; i++)
        value = 10 * value + (unsigned)(digit_of(p, i) - '0');
    value *= (uint64_t)factor;
    for (; exponent < 0; exponent++) {
        if (value % 10)
            return false;
        value /= 10;
    }
    for (; exponent > 0 && value <= INT64_MAX; exponent--)
        value *= 10;
    *product = (int64_t)value;
    return value <= INT64_MAX;
}

bool sw_text_parse_integer(const char *text, int64_t *value) {
    parts p;
    if (!take_number(text, &p) || *p.end || !times_exactly(&p, 1, value))
        return false;
    *value = p.is_negative ? -*value : *value;
    return true;
}

bool sw_text_parse_real(const char *text, double *value) {
    parts p;
    if (!take_number(text, &p) || *p.end)
        return false;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        return false;
    *value = strtod_l(text, NULL, c_locale);
    freelocale(c_locale);
    return isfinite(*value) && (*value != 0 || is_zero(&p));
}

static const char prefixes[] = "KMGTPE";

/* The number of bytes in a unit: "B", "kB", "MiB"; 0 if it is none. */
static int64_t unit_bytes(const char *unit) {
    int64_t factor = 1;
    if (!*unit || !strcmp(unit, "B"))
        return 1;
    const char *prefix = strchr(prefixes, toupper((unsigned char)*unit));
    bool is_binary = prefix && !strcmp(unit + 1, "iB");
    if (!prefix || (!is_binary && strcmp(unit + 1, "B")))
        return 0;
    for (const char *step = prefixes; step <= prefix; step++)
        factor *= is_binary ? 1024 : 1000;
    return factor;
}

/* "1.5 GiB" taken apart: the number, and its unit. No sign, and no exponent: 1E is not ten to some
 * power of bytes. */
static bool take_bytes(const char *text, parts *p, const char **unit) {
    char number[32];
    size_t n = strspn(text, "0123456789.");
    *unit = text + n;
    if (!n || n >= sizeof number || !take_number(text, p))
        return false;
    p->exponent = 0;
    *unit += strspn(*unit, " ");
    return p->fraction ? p->fraction + p->n_fraction == text + n
                       : p->whole + p->n_whole == text + n;
}

bool sw_text_parse_bytes(const char *text, int64_t *bytes) {
    parts p;
    const char *unit;
    if (!take_bytes(text, &p, &unit))
        return false;
    int64_t factor = unit_bytes(unit);
    return factor && !(factor == 1 && p.fraction) && times_exactly(&p, factor, bytes);
}

/* ---- what to write instead ---- */

static bool is_number(const char *text, sw_numeral kind) {
    int64_t whole;
    double real;
    return kind == SW_NUMERAL_REAL ? sw_text_parse_real(text, &real)
                                   : sw_text_parse_integer(text, &whole);
}

/* 0x10, 0o10, 0b10. */
static bool other_base(const char *text, char *buffer, size_t bytes) {
    const char *at = text + (*text == '-' || *text == '+');
    char letter = *at == '0' ? (char)tolower((unsigned char)at[1]) : 0, *end;
    int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (!base || !isxdigit((unsigned char)at[2]))
        return false;
    unsigned long long value = strtoull(at + 2, &end, base);
    if (*end || value > INT64_MAX)
        return false;
    snprintf(buffer, bytes, "write %s%llu", *text == '-' ? "-" : "", value);
    return true;
}

/* 010: 8 to some. */
static bool leading_zeros(const char *text, sw_numeral kind, char *buffer, size_t bytes) {
    const char *sign = *text == '-' ? "-" : "", *at = text + (*text == '-' || *text == '+');
    size_t n_digits = strspn(at, decimal), n_octal = strspn(at, "01234567");
    if (n_digits < 2 || *at != '0')
        return false;
    const char *rest = at;
    while (*rest == '0' && isdigit((unsigned char)rest[1]))
        rest++;
    if (!is_number(rest, kind))
        return false;
    if (n_octal == strlen(at) && strlen(rest) > 1 && strlen(rest) < 20)
        snprintf(buffer, bytes, "write %s%.40s, or %s%llu if that was octal", sign, rest, sign,
                 strtoull(rest, NULL, 8));
    else
        snprintf(buffer, bytes, "write %s%.40s", sign, rest);
    return true;
}

/* 1_000, 1,000, 1 000, 1'000, 1.000.000; 0,5. */
static bool separators(const char *text, sw_numeral kind, char *buffer, size_t bytes) {
    char plain[48];
    size_t n = 0;
    const char *comma = strchr(text, ',');
    bool has_dots = strchr(text, '.') && strchr(text, '.') != strrchr(text, '.');
    bool is_fraction = comma && !strchr(comma + 1, ',') && strspn(comma + 1, decimal) != 3;
    for (const char *at = text; *at && n < sizeof plain - 1; at++)
        if (*at == ',' && is_fraction)
            plain[n++] = '.';
        else if (!strchr("_,' ", *at) && !(has_dots && *at == '.'))
            plain[n++] = *at;
        else if (at == text || !isdigit((unsigned char)at[-1]))
            return false;
    plain[n] = 0;
    if (n == strlen(text) && !is_fraction)
        return false;
    if (!is_number(plain, kind))
        return false;
    snprintf(buffer, bytes, "write %s", plain);
    return true;
}

/* 1:30 is 90 where numbers of base 60 are known. */
static bool sexagesimal(const char *text, char *buffer, size_t bytes) {
    int64_t value = 0;
    const char *at = text;
    for (;; at++) {
        size_t n = strspn(at, decimal);
        if (!n || n > 4)
            return false;
        value = 60 * value + strtoll(at, NULL, 10);
        at += n;
        if (*at != ':' || at - text > 12)
            break;
    }
    if (*at || at == text || !strchr(text, ':'))
        return false;
    snprintf(buffer, bytes, "write %" PRId64 " if that is meant; a number has no colon", value);
    return true;
}

static bool not_finite(const char *text, char *buffer, size_t bytes) {
    static const char *const words[] = {"nan", "inf", "infinity"};
    const char *word = text + strspn(text, "-+.");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(word, words[i])) {
            snprintf(buffer, bytes, "a finite number is needed");
            return true;
        }
    return false;
}

/* 10k, 1M, 50%, 5 steps. */
static bool with_unit(const char *text, sw_numeral kind, char *buffer, size_t bytes) {
    parts p;
    char number[32];
    if (!take_number(text, &p) || !*p.end)
        return false;
    size_t n = (size_t)(p.end - text);
    const char *unit = p.end + strspn(p.end, " ");
    if (n >= sizeof number || strchr(decimal, *unit) || *unit == '.')
        return false;
    snprintf(number, sizeof number, "%.*s", (int)n, text);
    bool has_exponent = strpbrk(number, "eE");
    const char *thousands =
        *unit && !unit[1] && !has_exponent ? strchr("KMGT", toupper((unsigned char)*unit)) : NULL;
    if (thousands)
        snprintf(buffer, bytes, "write %se%d", number, 3 * (int)(thousands - "KMGT" + 1));
    else if (!strcmp(unit, "%") && kind == SW_NUMERAL_REAL && !has_exponent)
        snprintf(buffer, bytes, "write %se-2", number);
    else
        snprintf(buffer, bytes, "write the number alone");
    return true;
}

/* It is a number, but not one that is represented. */
static bool out_of_range(const char *text, sw_numeral kind, char *buffer, size_t bytes) {
    parts p;
    int64_t whole;
    double real;
    if (!take_number(text, &p) || *p.end)
        return false;
    bool is_whole = sw_text_parse_integer(text, &whole), is_real = sw_text_parse_real(text, &real);
    if (kind == SW_NUMERAL_INTEGER && !is_whole && is_real && fabs(real) >= 9.2e18)
        snprintf(buffer, bytes, "at most 9223372036854775807 is known");
    else if (kind == SW_NUMERAL_INTEGER && !is_whole && is_real && fabs(real) < 1e15)
        snprintf(buffer, bytes, "write %.0f or %.0f", floor(real), ceil(real));
    else if (!is_real)
        snprintf(buffer, bytes, "numbers from 5e-324 to 1.7e308 are known");
    else
        return false;
    return true;
}

static bool bytes_remedy(const char *text, char *buffer, size_t bytes) {
    parts p;
    const char *unit, *plain = text + strspn(text, "0");
    int64_t whole;
    if (plain > text && isdigit((unsigned char)*plain) && sw_text_parse_bytes(plain, &whole)) {
        snprintf(buffer, bytes, "write %.40s", plain);
        return true;
    }
    if (!take_bytes(text, &p, &unit))
        return false;
    char number[32], meant[40];
    const int64_t factor = unit_bytes(unit);
    snprintf(number, sizeof number, "%.*s", (int)strspn(text, "0123456789."), text);
    const char *prefix = *unit ? strchr(prefixes, toupper((unsigned char)*unit)) : NULL;
    bool is_near =
        !unit[0] || !unit[1] || !strcasecmp(unit + 1, "b") || !strcasecmp(unit + 1, "ib");
    snprintf(meant, sizeof meant, "%s%ciB", number, prefix && is_near ? *prefix : '?');
    double value;
    if (factor && p.fraction && !times_exactly(&p, factor, &whole) &&
        sw_text_parse_real(number, &value) && value * (double)factor < 9e15)
        snprintf(buffer, bytes, "that is no whole number of bytes: write %.0f",
                 floor(value * (double)factor));
    else if (!factor && prefix && sw_text_parse_bytes(meant, &whole) && strcasecmp(unit + 1, "ib"))
        snprintf(buffer, bytes, "write %s, or %s%cB for powers of 1000", meant, number, *prefix);
    else if (!factor && prefix && sw_text_parse_bytes(meant, &whole))
        snprintf(buffer, bytes, "write %s", meant);
    else
        return false;
    return true;
}

bool sw_numeral_remedy(const char *text, sw_numeral kind, char *buffer, size_t buffer_bytes) {
    if (kind == SW_NUMERAL_BYTES && bytes_remedy(text, buffer, buffer_bytes))
        return true;
    parts p;
    const char *unit;
    if (kind == SW_NUMERAL_BYTES && take_bytes(text + (*text == '-'), &p, &unit) && *unit &&
        unit_bytes(unit))
        return false; /* it is below zero, or too large */
    if (kind == SW_NUMERAL_BYTES)
        kind = SW_NUMERAL_INTEGER;
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at >= 0x80) {
            snprintf(buffer, buffer_bytes,
                     "a number is written with the digits 0 to 9, a minus and a dot");
            return true;
        }
    return other_base(text, buffer, buffer_bytes) ||
           leading_zeros(text, kind, buffer, buffer_bytes) ||
           separators(text, kind, buffer, buffer_bytes) ||
           sexagesimal(text, buffer, buffer_bytes) || not_finite(text, buffer, buffer_bytes) ||
           with_unit(text, kind, buffer, buffer_bytes) ||
           out_of_range(text, kind, buffer, buffer_bytes);
}
