/* value_filters.c: filters of single values: default, numbers, attributes, JSON. */
#include <math.h>

#include "base/integer.h"
#include "data/jinja/attributes.h"
#include "data/jinja/builtins.h"
#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/filters.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"
#include "data/jinja/tojson.h"

static bool filter_default(jinja_run *run, const jinja_value *self, const jinja_value *values,
                           jinja_value *out) {
    if (self->kind != JINJA_UNDEFINED && (sw_jinja_truth(self) || !sw_jinja_is_set(&values[1]))) {
        *out = *self;
        return true;
    }
    *out = values[0];
    return values[0].kind != JINJA_MISSING || sw_jinja_give_text(sw_jinja_words(run, ""), out);
}

static bool filter_abs(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)values;
    jinja_value zero = sw_jinja_integer(0);
    if (!sw_jinja_is_number(self))
        return sw_jinja_fail(run, "bad operand type for abs(): '%s'", sw_jinja_type_name(self));
    *out = *self;
    if (self->kind == JINJA_BOOL)
        *out = sw_jinja_integer(self->as.truth);
    else if (self->kind == JINJA_REAL)
        *out = sw_jinja_real(fabs(self->as.real));
    else if (sw_jinja_number_order(self, &zero) < 0)
        return sw_jinja_negate(run, self, out);
    return true;
}

/* int(text, base), else int(float(text)), else the default. */
static bool int_of_text(jinja_run *run, const jinja_text *text, int64_t base,
                        const jinja_value *otherwise, jinja_value *out) {
    bool is_number;
    double real;
    if (!sw_jinja_read_whole(run, text, base < 0 || base > 36 ? -1 : (int)base, &is_number, out))
        return false;
    if (is_number)
        return true;
    if (!sw_jinja_read_real(run, text, &is_number, &real))
        return false;
    *out = *otherwise;
    return !is_number || !isfinite(real) || sw_jinja_whole_of(run, real, out);
}

static bool filter_int(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    int64_t base = values[1].kind == JINJA_MISSING ? 10 : -1;
    jinja_value otherwise = values[0].kind == JINJA_MISSING ? sw_jinja_integer(0) : values[0];
    sw_jinja_index_of(&values[1], &base); /* a base that is none reads no number */
    *out = otherwise;
    switch (self->kind) {
    case JINJA_UNDEFINED:
        return sw_jinja_fail_undefined(run, self);
    case JINJA_TEXT:
        return int_of_text(run, self->as.text, base, &otherwise, out);
    case JINJA_BOOL:
        *out = sw_jinja_integer(self->as.truth);
        return true;
    case JINJA_INTEGER:
    case JINJA_BIG:
        *out = *self;
        return true;
    case JINJA_REAL:
        return isnan(self->as.real) || sw_jinja_whole_of(run, self->as.real, out);
    default:
        return true;
    }
}

static bool filter_float(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    double real;
    bool is_number = true;
    *out = values[0].kind == JINJA_MISSING ? sw_jinja_real(0) : values[0];
    if (self->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, self);
    if (self->kind == JINJA_TEXT ? !sw_jinja_read_real(run, self->as.text, &is_number, &real)
                                 : sw_jinja_is_number(self) && !sw_jinja_real_of(run, self, &real))
        return false;
    if (is_number && (self->kind == JINJA_TEXT || sw_jinja_is_number(self)))
        *out = sw_jinja_real(real);
    return true;
}

/* value times 10 ** precision, up or down, and back. */
static bool round_to_side(jinja_run *run, const jinja_value *self, const jinja_value *precision,
                          bool is_up, jinja_value *out) {
    jinja_value ten = sw_jinja_integer(10), power, scaled, whole;
    if (!sw_jinja_calculate(run, JINJA_POWER, &ten, precision, &power) ||
        !sw_jinja_calculate(run, JINJA_MULTIPLY, self, &power, &scaled))
        return false;
    whole = scaled;
    if (scaled.kind == JINJA_REAL &&
        !sw_jinja_whole_of(run, is_up ? ceil(scaled.as.real) : floor(scaled.as.real), &whole))
        return false;
    return sw_jinja_calculate(run, JINJA_DIVIDE, &whole, &power, out);
}

static bool filter_round(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    int64_t digits = 0;
    const jinja_text *method = values[1].kind == JINJA_TEXT ? values[1].as.text : NULL;
    bool is_common =
        values[1].kind == JINJA_MISSING || (method && sw_jinja_is_word(method, "common"));
    bool is_up = method && sw_jinja_is_word(method, "ceil"),
         is_down = method && sw_jinja_is_word(method, "floor");
    if (!is_common && !is_up && !is_down)
        return sw_jinja_fail(run, "round: method must be common, ceil or floor");
    if (self->kind == JINJA_UNDEFINED)
        return sw_jinja_fail(run, "type Undefined doesn't define __round__ method");
    if (!sw_jinja_is_number(self))
        return sw_jinja_fail(run, "round needs a number, not %s", sw_jinja_type_name(self));
    if (is_common && values[0].kind == JINJA_NONE)
        return self->kind != JINJA_REAL ? sw_jinja_round(run, self, 0, out)
                                        : sw_jinja_whole_of(run, rint(self->as.real), out);
    if (!sw_jinja_whole_argument(run, "round", &values[0], 0, &digits))
        return false;
    jinja_value precision = sw_jinja_integer(digits);
    return is_common ? sw_jinja_round(run, self, digits, out)
                     : round_to_side(run, self, &precision, is_up, out);
}

static bool filter_attr(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    jinja_text *name = sw_jinja_text_argument(run, "attr", &values[0]);
    if (!name)
        return false;
    if (self->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, self);
    if (!sw_jinja_attribute(run, self, name, out))
        return false;
    return out->kind != JINJA_MISSING ||
           sw_jinja_give_undefined(run, sw_jinja_owner_name(self), &values[0], false, out);
}

static bool filter_filesizeformat(jinja_run *run, const jinja_value *self,
                                  const jinja_value *values, jinja_value *out) {
    static const char prefixes[] = "kMGTPEZY";
    bool is_binary = sw_jinja_is_set(&values[0]), is_number = true;
    double bytes = 0, base = is_binary ? 1024 : 1000, unit;
    if (self->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, self);
    if (self->kind == JINJA_TEXT ? !sw_jinja_read_real(run, self->as.text, &is_number, &bytes)
                                 : sw_jinja_is_number(self) && !sw_jinja_real_of(run, self, &bytes))
        return false;
    if (!is_number || (self->kind != JINJA_TEXT && !sw_jinja_is_number(self)) || !isfinite(bytes))
        return sw_jinja_fail(run, "filesizeformat needs a number");
    jinja_start start = sw_jinja_start(run);
    int i = 0;
    for (unit = base * base; i < 7 && bytes >= unit; i++)
        unit *= base;
    bool is_done = bytes == 1     ? sw_jinja_write_words(run, "1 Byte")
                   : bytes < base ? sw_jinja_write_format(run, "%.0f Bytes", trunc(bytes))
                                  : sw_jinja_write_format(run, "%.1f %c%sB", base * bytes / unit,
                                                          is_binary && i == 0 ? 'K' : prefixes[i],
                                                          is_binary ? "i" : "");
    return is_done && sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

/* A number of blanks, or a text. */
static bool read_indent(jinja_run *run, const jinja_value *value, const jinja_text **indent) {
    int64_t n;
    *indent = NULL;
    if (value->kind == JINJA_MISSING || value->kind == JINJA_NONE)
        return true;
    if (value->kind == JINJA_TEXT) {
        *indent = value->as.text;
        return true;
    }
    if (!sw_jinja_whole_argument(run, "tojson: indent", value, 0, &n))
        return false;
    jinja_start start = sw_jinja_start(run);
    if (!sw_jinja_write_repeated(run, " ", 1, n))
        return false;
    *indent = sw_jinja_collect(run, start);
    return *indent != NULL;
}

static bool filter_tojson(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    jinja_json_style style = {.is_ascii = sw_jinja_is_set(&values[0]),
                              .sorts_keys = sw_jinja_is_set(&values[3])};
    if (!read_indent(run, &values[1], &style.indent))
        return false;
    style.comma = sw_jinja_words(run, style.indent ? "," : ", ");
    style.colon = sw_jinja_words(run, ": ");
    if (values[2].kind != JINJA_MISSING && values[2].kind != JINJA_NONE) {
        const jinja_list *pair = sw_jinja_is_sequence(&values[2]) ? values[2].as.list : NULL;
        if (!pair || pair->n != 2 || pair->items[0].kind != JINJA_TEXT ||
            pair->items[1].kind != JINJA_TEXT)
            return sw_jinja_fail(run, "tojson: separators are two texts, as (', ', ': ')");
        style.comma = pair->items[0].as.text;
        style.colon = pair->items[1].as.text;
    }
    jinja_start start = sw_jinja_start(run);
    return style.comma && style.colon && sw_jinja_write_json(run, self, &style) &&
           sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

const jinja_builtin sw_jinja_value_filters[] = {
    {.name = "default", .call = filter_default, .parameters = {"default_value", "boolean"}},
    {.name = "d", .call = filter_default, .parameters = {"default_value", "boolean"}},
    {.name = "abs", .call = filter_abs},
    {.name = "int", .call = filter_int, .parameters = {"default", "base"}},
    {.name = "float", .call = filter_float, .parameters = {"default"}},
    {.name = "round", .call = filter_round, .parameters = {"precision", "method"}},
    {.name = "attr", .call = filter_attr, .n_required = 1, .parameters = {"name"}},
    {.name = "filesizeformat", .call = filter_filesizeformat, .parameters = {"binary"}},
    {.name = "tojson",
     .call = filter_tojson,
     .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {0}};
