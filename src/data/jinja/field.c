/* field.c: numbers laid out: sign, prefix, digits in groups, fraction, and what fills them up. */
#include "data/jinja/field.h"
#include "data/jinja/origin.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/integer.h"
#include "data/jinja/big.h"
#include "data/jinja/compare.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"

/* A number in parts. */
typedef struct parts {
    bool is_negative;
    const char *prefix;       /* "0x" */
    const char *whole, *rest; /* digits before the point, and what follows */
    int64_t n_whole, n_rest;
    int group; /* digits in one */
} parts;

static bool check_size(jinja_run *run, const jinja_field *field) {
    if (field->width <= JINJA_MAX_FIELD && field->precision <= JINJA_MAX_FIELD &&
        field->n_digits <= JINJA_MAX_FIELD)
        return true;
    return sw_jinja_fail(run, "a formatted field of more than %d characters", JINJA_MAX_FIELD);
}

static bool fill(jinja_run *run, uint32_t code, int64_t n) {
    char bytes[4] = " ";
    return sw_jinja_write_repeated(run, bytes, code ? sw_utf8_put(code, bytes) : 1, n);
}

bool sw_jinja_finish_text(jinja_run *run, int64_t start, const jinja_field *field) {
    const char *first = run->memory->output + start;
    int64_t n_bytes = run->n_output - start, n = sw_jinja_count(first, n_bytes);
    if (!check_size(run, field))
        return false;
    if (field->precision >= 0 && field->precision < n) {
        n = field->precision;
        n_bytes = 0;
        for (int64_t i = 0; i < n; i++)
            n_bytes += sw_utf8_length(first[n_bytes]);
        run->n_output = start + n_bytes;
    }
    if (field->width <= n)
        return true;
    int64_t missing = field->width - n;
    int64_t before = field->align == '>' || field->align == '=' ? missing
                     : field->align == '^'                      ? missing / 2
                                                                : 0;
    char *copy = sw_jinja_take(run, n_bytes + 1);
    if (!copy)
        return false;
    memcpy(copy, run->memory->output + start, (size_t)n_bytes);
    if (sw_jinja_traces(run))
        sw_jinja_copy_origins(run, copy, run->memory->output + start, n_bytes);
    run->n_output = start;
    return fill(run, field->fill, before) && sw_jinja_write(run, copy, n_bytes) &&
           fill(run, field->fill, missing - before);
}

static int64_t with_separators(int64_t n_digits, int group) {
    return group && n_digits > 0 ? n_digits + (n_digits - 1) / group : n_digits;
}

static bool write_grouped(jinja_run *run, const parts *p, int64_t n_zeros, char separator) {
    int64_t n = n_zeros + p->n_whole;
    if (!p->group)
        return fill(run, '0', n_zeros) && sw_jinja_write(run, p->whole, p->n_whole);
    for (int64_t i = 0; i < n; i++) {
        char digit = i < n_zeros ? '0' : p->whole[i - n_zeros];
        if ((i > 0 && (n - i) % p->group == 0 && !sw_jinja_write(run, &separator, 1)) ||
            !sw_jinja_write(run, &digit, 1))
            return false;
    }
    return sw_jinja_spend_characters(run, n);
}

static bool write_parts(jinja_run *run, const parts *p, const jinja_field *field) {
    char sign = p->is_negative ? '-' : field->sign;
    int64_t n_prefix = (sign != 0) + (int64_t)strlen(p->prefix),
            n_zeros = larger(0, field->n_digits - p->n_whole);
    char align = field->align ? field->align : field->has_zeros ? '=' : '>';
    bool zeros_fill =
        align == '=' && (field->fill == '0' || (field->has_zeros && field->fill == 0));
    if (zeros_fill) /* zeros stand in groups too */
        while (n_prefix + with_separators(n_zeros + p->n_whole, p->group) + p->n_rest <
               field->width) {
            int64_t wanted = field->width - n_prefix - p->n_rest -
                             with_separators(n_zeros + p->n_whole, p->group);
            n_zeros += p->group ? larger(1, wanted * p->group / (p->group + 1)) : wanted;
        }
    int64_t n = n_prefix + with_separators(n_zeros + p->n_whole, p->group) + p->n_rest,
            missing = larger(0, field->width - n);
    int64_t before = align == '>'   ? missing
                     : align == '^' ? missing / 2
                                    : 0,
            inside = align == '=' ? missing : 0;
    return fill(run, field->fill, before) && (!sign || sw_jinja_write(run, &sign, 1)) &&
           sw_jinja_write_words(run, p->prefix) && fill(run, field->fill, inside) &&
           write_grouped(run, p, n_zeros, field->grouping) &&
           sw_jinja_write(run, p->rest, p->n_rest) &&
           fill(run, field->fill, missing - before - inside);
}

static bool write_whole(jinja_run *run, const jinja_value *number, const jinja_field *field) {
    bool is_upper = field->type == 'X';
    int base = field->type == 'b'                         ? 2
               : field->type == 'o'                       ? 8
               : field->type == 'x' || field->type == 'X' ? 16
                                                          : 10;
    const jinja_big *big = sw_jinja_big_of(run, number);
    jinja_start start = sw_jinja_start(run);
    jinja_text *digits =
        big && sw_jinja_big_write(run, big, base, is_upper) ? sw_jinja_collect(run, start) : NULL;
    if (!digits)
        return false;
    parts p = {.is_negative = big->is_negative,
               .whole = digits->bytes,
               .n_whole = digits->n_bytes,
               .rest = "",
               .prefix = ""};
    if (field->is_alternate && base != 10)
        p.prefix = base == 2 ? "0b" : base == 8 ? "0o" : is_upper ? "0X" : "0x";
    p.group = field->grouping ? (base == 10 ? 3 : 4) : 0;
    return write_parts(run, &p, field);
}

/* A double's digits by C, but for what Python does its own way. */
static char *print_double(jinja_run *run, double real, const jinja_field *field, int64_t *n_bytes) {
    char type = field->type, format[16];
    int64_t precision = field->precision;
    bool is_short = type == 0 && precision < 0, adds_point = type == 0;
    if (type == '%' || type == 'F')
        type = 'f';
    if (type == 0 || type == 'n')
        type = 'g';
    if (precision < 0)
        precision = 6;
    if (precision > 2000) {
        sw_jinja_fail(run, "a precision of more than 2000 digits");
        return NULL;
    }
    if (type == 'g' && precision == 0)
        precision = 1;
    int64_t capacity = precision + 400;
    char *text = sw_jinja_take(run, capacity);
    if (!text || !sw_jinja_spend(run, JINJA_STEPS_OF_A_REAL + precision))
        return NULL;
    if (is_short) {
        *n_bytes = sw_jinja_print_real(real, text);
        return text;
    }
    snprintf(format, sizeof format, "%%%s.*%c", field->is_alternate ? "#" : "", type);
    *n_bytes = snprintf(text, (size_t)capacity, format, (int)precision, real);
    if (!adds_point)
        return text;
    /* As g, but with a point, and an exponent one digit earlier. */
    char probe[64];
    snprintf(probe, sizeof probe, "%.*e", (int)smaller(precision - 1, 40), real);
    if (isfinite(real) && strtol(strchr(probe, 'e') + 1, NULL, 10) == precision - 1 &&
        !strchr(text, 'e')) {
        *n_bytes = snprintf(text, (size_t)capacity, "%.*e", (int)precision - 1, real);
        char *exponent = strchr(text, 'e'), *end = exponent;
        while (strchr(text, '.') && end[-1] == '0')
            end--;
        end -= end[-1] == '.';
        memmove(end, exponent, strlen(exponent) + 1);
        *n_bytes = (int64_t)strlen(text);
    } else if (isfinite(real) && !strpbrk(text, ".e")) {
        *n_bytes += sprintf(text + *n_bytes, ".0");
    }
    return text;
}

static bool write_real(jinja_run *run, double real, const jinja_field *field) {
    int64_t n_bytes;
    if (field->type == '%')
        real *= 100;
    char *text = print_double(run, fabs(real), field, &n_bytes);
    if (!text)
        return false;
    bool is_negative = signbit(real) && !isnan(real);
    if (is_negative && field->no_minus_zero && strspn(text, "0.") == strcspn(text, "eE%"))
        is_negative = false;
    if (field->type == 'E' || field->type == 'F' || field->type == 'G')
        for (int64_t i = 0; i < n_bytes; i++)
            text[i] = (char)toupper((unsigned char)text[i]);
    if (field->type == '%')
        text[n_bytes++] = '%';
    parts p = {
        .is_negative = is_negative, .prefix = "", .whole = text, .group = field->grouping ? 3 : 0};
    while (p.n_whole < n_bytes && isdigit((unsigned char)text[p.n_whole]))
        p.n_whole++;
    p.rest = text + p.n_whole;
    p.n_rest = n_bytes - p.n_whole;
    return write_parts(run, &p, field);
}

bool sw_jinja_write_field(jinja_run *run, const jinja_value *number, const jinja_field *field) {
    bool is_of_reals = field->type && strchr("eEfFgG%", field->type);
    double real;
    if (!check_size(run, field))
        return false;
    if (number->kind != JINJA_REAL && !is_of_reals)
        return write_whole(run, number, field);
    return sw_jinja_real_of(run, number, &real) && write_real(run, real, field);
}
