/* percent.c: printf's way to format, as Python has it. */
#include "data/jinja/percent.h"

#include <math.h>

#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/field.h"
#include "data/jinja/markup.h"
#include "data/jinja/number.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

typedef struct percent {
    jinja_run *run;
    const char *at, *end;
    const jinja_value *values;
    int64_t n_values, n_used;
    const jinja_value *whole; /* what stood behind the % */
    bool is_markup;
} percent;

static bool next_value(percent *pc, const jinja_value **value) {
    if (pc->n_used >= pc->n_values)
        return sw_jinja_fail(pc->run, "not enough arguments for format string");
    *value = &pc->values[pc->n_used++];
    return true;
}

/* (name) behind a %. */
static bool read_name(percent *pc, const jinja_value **value) {
    const char *first = ++pc->at;
    int depth = 1;
    for (; pc->at < pc->end; pc->at++) {
        depth += (*pc->at == '(') - (*pc->at == ')');
        if (depth == 0)
            break;
    }
    if (pc->at >= pc->end)
        return sw_jinja_fail(pc->run, "incomplete format key");
    jinja_text *name = sw_jinja_view(pc->run, first, pc->at++ - first);
    if (!name)
        return false;
    if (pc->whole->kind != JINJA_DICT)
        return sw_jinja_fail(pc->run, "format requires a mapping");
    *value = sw_jinja_get_text(pc->whole->as.dict, name);
    pc->n_used = pc->n_values;
    return *value || sw_jinja_fail(pc->run, "the format's key '%.*s' is not there",
                                   (int)name->n_bytes, name->bytes);
}

/* A number in the format, or * for one among the values. */
static bool read_count(percent *pc, int64_t *count) {
    *count = 0;
    if (pc->at < pc->end && *pc->at == '*') {
        const jinja_value *value = NULL;
        pc->at++;
        if (!next_value(pc, &value))
            return false;
        return sw_jinja_index_of(value, count) || sw_jinja_fail(pc->run, "* wants int");
    }
    for (; pc->at < pc->end && *pc->at >= '0' && *pc->at <= '9'; pc->at++)
        if (*count <= JINJA_MAX_FIELD)
            *count = 10 * *count + (*pc->at - '0');
    return true;
}

static bool write_text(percent *pc, const jinja_value *value, const jinja_field *field) {
    int64_t start = pc->run->n_output;
    bool is_done;
    if (field->type == 's' && pc->is_markup && value->kind == JINJA_TEXT) {
        jinja_text *escaped = sw_jinja_escape(pc->run, value->as.text);
        is_done = escaped && sw_jinja_write(pc->run, escaped->bytes, escaped->n_bytes);
    } else if (field->type == 's') {
        jinja_text *text = sw_jinja_str(pc->run, value);
        is_done = text && sw_jinja_write(pc->run, text->bytes, text->n_bytes);
    } else {
        is_done = sw_jinja_show(pc->run, value, field->type == 'a');
    }
    return is_done && sw_jinja_finish_text(pc->run, start, field);
}

static bool write_character(percent *pc, const jinja_value *value, const jinja_field *field) {
    int64_t code, start = pc->run->n_output;
    bool is_done;
    if (value->kind == JINJA_TEXT && sw_jinja_length(value->as.text) == 1)
        is_done = sw_jinja_write(pc->run, value->as.text->bytes, value->as.text->n_bytes);
    else if (value->kind == JINJA_TEXT || !sw_jinja_index_of(value, &code))
        return sw_jinja_fail(pc->run, "%%c requires int or char");
    else if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return sw_jinja_fail(pc->run, "%%c: no character has this number");
    else
        is_done = sw_jinja_write_code(pc->run, (uint32_t)code);
    return is_done && sw_jinja_finish_text(pc->run, start, field);
}

static bool write_number(percent *pc, const jinja_value *value, jinja_field *field) {
    bool is_of_reals = strchr("eEfFgG", field->type), is_decimal = strchr("diu", field->type);
    jinja_value whole = *value;
    if (value->kind == JINJA_UNDEFINED && (is_of_reals || is_decimal))
        return sw_jinja_fail_undefined(pc->run, value);
    if (!sw_jinja_is_number(value) || (value->kind == JINJA_REAL && !is_of_reals && !is_decimal))
        return sw_jinja_fail(pc->run, "%%%c format: a number is required, not %s", field->type,
                             sw_jinja_type_name(value));
    if (is_decimal) {
        if (value->kind == JINJA_REAL && !sw_jinja_whole_of(pc->run, trunc(value->as.real), &whole))
            return false;
        field->type = 'd';
    }
    if (!is_of_reals) {
        field->n_digits = field->precision > 0 ? field->precision : 0;
        field->precision = -1;
    }
    return sw_jinja_write_field(pc->run, &whole, field);
}

/* Behind a %. */
static bool write_one(percent *pc) {
    jinja_field field = {.precision = -1};
    const jinja_value *value = NULL;
    bool is_left = false;
    if (pc->at < pc->end && *pc->at == '%') {
        pc->at++;
        return sw_jinja_write(pc->run, "%", 1);
    }
    if (pc->at < pc->end && *pc->at == '(' && !read_name(pc, &value))
        return false;
    for (; pc->at < pc->end; pc->at++) {
        char c = *pc->at;
        if (c == '-')
            is_left = true;
        else if (c == '+')
            field.sign = '+';
        else if (c == ' ')
            field.sign = field.sign ? field.sign : ' ';
        else if (c == '#')
            field.is_alternate = true;
        else if (c == '0')
            field.has_zeros = true;
        else
            break;
    }
    if (!read_count(pc, &field.width))
        return false;
    if (field.width < 0) {
        is_left = true;
        field.width = field.width == INT64_MIN ? INT64_MAX : -field.width;
    }
    if (pc->at < pc->end && *pc->at == '.') {
        pc->at++;
        if (!read_count(pc, &field.precision))
            return false;
        field.precision = field.precision < 0 ? 0 : field.precision;
    }
    while (pc->at < pc->end && strchr("hlL", *pc->at) && *pc->at)
        pc->at++;
    if (pc->at >= pc->end)
        return sw_jinja_fail(pc->run, "incomplete format");
    field.type = *pc->at++;
    if (!strchr("sracdiuoxXeEfFgG", field.type) || !field.type)
        return sw_jinja_fail(pc->run, "unsupported format character '%c' in '%%' format",
                             field.type >= ' ' ? field.type : '?');
    if (!value && !next_value(pc, &value))
        return false;
    field.align = is_left ? '<' : '>';
    if (strchr("sra", field.type))
        return write_text(pc, value, &field);
    if (field.type == 'c') {
        field.precision = -1;
        return write_character(pc, value, &field);
    }
    if (field.has_zeros && !is_left)
        field.align = '=';
    else
        field.has_zeros = false;
    return write_number(pc, value, &field);
}

/* Does Python take it for a mapping, of which some may be left over? All that has x[...] does, but
 * tuples and texts. */
static bool may_be_left_over(const jinja_value *value) {
    return value->kind == JINJA_DICT || value->kind == JINJA_LIST || value->kind == JINJA_RANGE ||
           value->kind == JINJA_UNDEFINED;
}

bool sw_jinja_percent(jinja_run *run, const jinja_text *format, const jinja_value *values,
                      jinja_value *out) {
    jinja_start start = sw_jinja_start(run);
    percent pc = {.run = run,
                  .at = format->bytes,
                  .end = sw_jinja_end_of(format),
                  .values = values,
                  .n_values = 1,
                  .whole = values,
                  .is_markup = format->is_markup};
    if (values->kind == JINJA_TUPLE) {
        pc.values = values->as.list->items;
        pc.n_values = values->as.list->n;
    }
    while (pc.at < pc.end) {
        const char *sign = memchr(pc.at, '%', (size_t)(pc.end - pc.at));
        if (!sw_jinja_write(run, pc.at, (sign ? sign : pc.end) - pc.at) || !sw_jinja_spend(run, 1))
            return false;
        pc.at = sign ? sign + 1 : pc.end;
        if (sign && !write_one(&pc))
            return false;
    }
    if (pc.n_used < pc.n_values && !may_be_left_over(values))
        return sw_jinja_fail(run, "not all arguments converted during string formatting");
    jinja_text *text = sw_jinja_collect(run, start);
    if (text)
        text->is_markup = format->is_markup;
    return sw_jinja_give_text(text, out);
}
