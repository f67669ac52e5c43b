/* format.c: str.format, and the little language of its fields. Attributes are those that templates
 * have, no others. */
#include "data/jinja/format.h"

#include <stdio.h>

#include "base/integer.h"
#include "data/jinja/attributes.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/field.h"
#include "data/jinja/markup.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

typedef struct formatter {
    jinja_run *run;
    const jinja_arguments *arguments;
    const jinja_value *map; /* of format_map; NULL */
    int64_t n_automatic;    /* {} so far; -1: fields have numbers */
    bool is_markup;
} formatter;

/* The language of a field: [[fill]align][sign][z][#][0][width][grouping][.precision][type] */
static bool read_width(const char **at, const char *end, int64_t *width) {
    const char *first = *at;
    for (*width = 0; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        if (*width <= JINJA_MAX_FIELD)
            *width = 10 * *width + (**at - '0');
    return *at > first;
}

static bool read_field(jinja_run *run, const jinja_text *spec, jinja_field *field) {
    const char *at = spec->bytes, *end = sw_jinja_end_of(spec), *second = at;
    *field = (jinja_field){.precision = -1};
    uint32_t code = at < end ? sw_utf8_next(&second) : 0;
    if (second < end && at < end && strchr("<>=^", *second)) {
        field->fill = code;
        field->align = *second;
        at = second + 1;
    } else if (at < end && strchr("<>=^", *at)) {
        field->align = *at++;
    }
    if (at < end && (*at == '+' || *at == '-' || *at == ' '))
        field->sign = *at++;
    if (at < end && *at == 'z') {
        field->no_minus_zero = true;
        at++;
    }
    if (at < end && *at == '#') {
        field->is_alternate = true;
        at++;
    }
    if (at < end && *at == '0') {
        at++;
        field->has_zeros = field->fill == 0;
    }
    read_width(&at, end, &field->width);
    if (at < end && (*at == ',' || *at == '_'))
        field->grouping = *at++;
    if (at < end && *at == '.') {
        at++;
        if (!read_width(&at, end, &field->precision))
            return sw_jinja_fail(run, "Format specifier missing precision");
    }
    if (at < end)
        field->type = *at++;
    return at == end || sw_jinja_fail(run, "Invalid format specifier '%.*s'",
                                      (int)smaller(spec->n_bytes, 200), spec->bytes);
}

static bool fail_type(jinja_run *run, const jinja_field *field, const jinja_value *value) {
    return sw_jinja_fail(run, "Unknown format code '%c' for object of type '%s'",
                         field->type >= ' ' ? field->type : '?', sw_jinja_type_name(value));
}

static bool format_text(formatter *fm, const jinja_value *value, jinja_field *field) {
    int64_t start = fm->run->n_output;
    if (field->type && field->type != 's')
        return fail_type(fm->run, field, value);
    if (field->sign || field->is_alternate || field->grouping || field->align == '=' ||
        field->no_minus_zero)
        return sw_jinja_fail(
            fm->run, "a sign, '=', '#', 'z' or grouping is not allowed in the format of a string");
    if (field->has_zeros)
        field->fill = '0';
    return sw_jinja_write(fm->run, value->as.text->bytes, value->as.text->n_bytes) &&
           sw_jinja_finish_text(fm->run, start, field);
}

static bool format_number(formatter *fm, const jinja_value *value, jinja_field *field) {
    bool is_whole = value->kind != JINJA_REAL,
         is_of_reals = field->type && strchr("eEfFgG%", field->type);
    bool is_of_whole = field->type && strchr("bcdoxXn", field->type);
    if (field->sign == '-')
        field->sign = 0;
    if (field->type && !is_of_reals && !(is_of_whole && (is_whole || field->type == 'n')))
        return fail_type(fm->run, field, value);
    if (is_whole && !is_of_reals) {
        if (field->precision >= 0 || field->no_minus_zero)
            return sw_jinja_fail(
                fm->run, "Precision and 'z' are not allowed in the format of a whole number");
        if (field->grouping == ',' && field->type && strchr("bcoxX", field->type))
            return sw_jinja_fail(fm->run, "Cannot specify ',' with '%c'", field->type);
        if (field->type == 'c') {
            if (field->sign || field->is_alternate || field->grouping || value->kind == JINJA_BIG ||
                value->as.integer < 0 || value->as.integer > 0x10FFFF ||
                (value->as.integer >= 0xD800 && value->as.integer < 0xE000))
                return sw_jinja_fail(fm->run, "'c' needs the number of a character, and no sign");
            int64_t start = fm->run->n_output;
            if (!field->align)
                field->align = '>';
            if (field->has_zeros)
                field->fill = '0';
            uint32_t code =
                value->kind == JINJA_BOOL ? value->as.truth : (uint32_t)value->as.integer;
            return sw_jinja_write_code(fm->run, code) &&
                   sw_jinja_finish_text(fm->run, start, field);
        }
    }
    if (field->type == 'n' && field->grouping)
        return sw_jinja_fail(fm->run, "Cannot specify '%c' with 'n'", field->grouping);
    if (field->has_zeros && field->align)
        field->fill = '0', field->has_zeros = field->align == '=';
    return sw_jinja_write_field(fm->run, value, field);
}

static bool format_value(formatter *fm, const jinja_value *value, const jinja_text *spec) {
    jinja_field field = {0};
    jinja_text *text;
    if (spec->n_bytes == 0) {
        text = sw_jinja_str(fm->run, value);
        if (text && fm->is_markup && !(value->kind == JINJA_TEXT && value->as.text->is_markup))
            return sw_jinja_write_escaped(fm->run, text);
        return text && sw_jinja_write(fm->run, text->bytes, text->n_bytes);
    }
    if (value->kind != JINJA_TEXT && !sw_jinja_is_number(value))
        return sw_jinja_fail(fm->run, "unsupported format string passed to %s",
                             sw_jinja_type_name(value));
    if (!read_field(fm->run, spec, &field))
        return false;
    return value->kind == JINJA_TEXT ? format_text(fm, value, &field)
                                     : format_number(fm, value, &field);
}

static bool is_all_digits(const char *first, const char *end) {
    for (const char *at = first; at < end; at++)
        if (*at < '0' || *at > '9')
            return false;
    return first < end;
}

static int64_t read_index(const char *first, const char *end) {
    int64_t index = 0;
    for (; first < end; first++)
        index = index > INT32_MAX ? index : 10 * index + (*first - '0');
    return index;
}

static bool find_argument(formatter *fm, const char *first, const char *end, jinja_value *out) {
    const jinja_arguments *arguments = fm->arguments;
    if (is_all_digits(first, end)) {
        int64_t index = read_index(first, end);
        if (fm->map || index >= arguments->n)
            return sw_jinja_fail(fm->run,
                                 "Replacement index %lld out of range for positional args tuple",
                                 (long long)index);
        *out = arguments->values[index];
        return true;
    }
    jinja_text *name = sw_jinja_view(fm->run, first, end - first);
    if (!name)
        return false;
    for (int64_t i = 0; arguments && i < arguments->n_keywords; i++)
        if (sw_jinja_same_text(arguments->keywords[i].name.as.text, name)) {
            *out = arguments->keywords[i].value;
            return true;
        }
    const jinja_value *found =
        fm->map && fm->map->kind == JINJA_DICT ? sw_jinja_get_text(fm->map->as.dict, name) : NULL;
    if (found)
        *out = *found;
    return found || sw_jinja_fail(fm->run, "format: there is no argument '%.*s'",
                                  (int)smaller(end - first, 200), first);
}

/* name.attribute[key] ... */
static bool find_field(formatter *fm, const char *first, const char *end, jinja_value *out) {
    const char *at = first;
    while (at < end && *at != '.' && *at != '[')
        at++;
    char number[24];
    const char *name = first, *name_end = at;
    if (at == first && at == end) { /* {}: the next one */
        if (fm->n_automatic < 0)
            return sw_jinja_fail(
                fm->run,
                "cannot switch from manual field specification to automatic field numbering");
        name = number;
        name_end = number + snprintf(number, sizeof number, "%lld", (long long)fm->n_automatic++);
    } else if (at == end && is_all_digits(first, at)) {
        if (fm->n_automatic > 0)
            return sw_jinja_fail(
                fm->run,
                "cannot switch from automatic field numbering to manual field specification");
        fm->n_automatic = -1;
    }
    if (!find_argument(fm, name, name_end, out))
        return false;
    while (at < end) {
        bool is_attribute = *at == '.';
        const char *part = ++at;
        jinja_value owner = *out, key;
        while (at < end && (is_attribute ? *at != '.' && *at != '[' : *at != ']'))
            at++;
        if (part == at)
            return sw_jinja_fail(fm->run, "Empty attribute in format string");
        if (!is_attribute && at == end)
            return sw_jinja_fail(fm->run, "Missing ']' in format string");
        jinja_text *text = sw_jinja_view(fm->run, part, at - part);
        if (!text)
            return false;
        key = !is_attribute && is_all_digits(part, at) ? sw_jinja_integer(read_index(part, at))
                                                       : sw_jinja_of_text(text);
        if (is_attribute ? !sw_jinja_get_attribute(fm->run, &owner, text, true, out)
                         : !sw_jinja_get_item(fm->run, &owner, &key, out))
            return false;
        at += !is_attribute;
        if (!is_attribute && at < end && *at != '.' && *at != '[')
            return sw_jinja_fail(fm->run,
                                 "Only '.' or '[' may follow ']' in format field specifier");
    }
    return true;
}

static bool format_parts(formatter *fm, const char *at, const char *end, int depth);

/* One field, without its braces. */
static bool format_field(formatter *fm, const char *first, const char *end, int depth) {
    const char *name_end = first;
    int n_brackets = 0;
    for (; name_end < end && (n_brackets || (*name_end != '!' && *name_end != ':')); name_end++)
        n_brackets = *name_end == '[' ? 1 : *name_end == ']' ? 0 : n_brackets;
    const char *spec = name_end;
    char conversion = 0;
    if (spec < end && *spec == '!') {
        if (spec + 1 >= end || (spec + 2 < end && spec[2] != ':'))
            return sw_jinja_fail(
                fm->run, spec + 1 >= end ? "end of string while looking for conversion specifier"
                                         : "expected ':' after conversion specifier");
        conversion = spec[1];
        spec += 2;
    }
    spec += spec < end;
    jinja_value value = {0};
    if (!find_field(fm, first, name_end, &value))
        return false;
    jinja_start start = sw_jinja_start(fm->run);
    if (conversion == 's' || conversion == 'r' || conversion == 'a') {
        if (conversion == 's' ? !sw_jinja_print(fm->run, &value)
                              : !sw_jinja_show(fm->run, &value, conversion == 'a'))
            return false;
        if (!sw_jinja_give_text(sw_jinja_collect(fm->run, start), &value))
            return false;
    } else if (conversion) {
        return sw_jinja_fail(fm->run, "Unknown conversion specifier '%c'",
                             conversion >= ' ' ? conversion : '?');
    }
    if (!format_parts(fm, spec, end, depth - 1))
        return false;
    jinja_text *specifier = sw_jinja_collect(fm->run, start);
    return specifier && format_value(fm, &value, specifier);
}

static bool format_parts(formatter *fm, const char *at, const char *end, int depth) {
    if (depth < 0)
        return sw_jinja_fail(fm->run, "Max string recursion exceeded");
    while (at < end) {
        const char *first = at;
        while (at < end && *at != '{' && *at != '}')
            at++;
        if (!sw_jinja_write(fm->run, first, at - first) ||
            !sw_jinja_spend(fm->run, 2 + (at - first) / JINJA_BYTES_PER_STEP))
            return false;
        if (at == end)
            return true;
        if (at + 1 < end && at[1] == *at) {
            if (!sw_jinja_write(fm->run, at, 1))
                return false;
            at += 2;
            continue;
        }
        if (*at == '}')
            return sw_jinja_fail(fm->run, "Single '}' encountered in format string");
        const char *field = ++at;
        int n_open = 1;
        for (; at < end && n_open; at++)
            n_open += (*at == '{') - (*at == '}');
        if (n_open)
            return sw_jinja_fail(fm->run, field == end ? "Single '{' encountered in format string"
                                                       : "expected '}' before end of string");
        if (!format_field(fm, field, at - 1, depth))
            return false;
    }
    return true;
}

static bool format_whole(formatter *fm, const jinja_text *format, jinja_value *out) {
    jinja_start start = sw_jinja_start(fm->run);
    fm->is_markup = format->is_markup;
    if (!format_parts(fm, format->bytes, sw_jinja_end_of(format), 2))
        return false;
    jinja_text *text = sw_jinja_collect(fm->run, start);
    if (text)
        text->is_markup = format->is_markup;
    return sw_jinja_give_text(text, out);
}

bool sw_jinja_format(jinja_run *run, const jinja_text *format, const jinja_arguments *arguments,
                     jinja_value *out) {
    formatter fm = {.run = run, .arguments = arguments};
    return format_whole(&fm, format, out);
}

bool sw_jinja_format_map(jinja_run *run, const jinja_text *format, const jinja_value *map,
                         jinja_value *out) {
    formatter fm = {.run = run, .map = map};
    return format_whole(&fm, format, out);
}
