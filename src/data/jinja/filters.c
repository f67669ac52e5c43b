/* filters.c: finding filters, and what they share. */
#include "data/jinja/filters.h"

#include "data/jinja/attributes.h"
#include "data/jinja/builtins.h"
#include "data/jinja/case.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/number.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

const jinja_builtin *sw_jinja_filter(const jinja_text *name) {
    static const jinja_builtin *const tables[] = {sw_jinja_text_filters,  sw_jinja_list_filters,
                                                  sw_jinja_order_filters, sw_jinja_choice_filters,
                                                  sw_jinja_value_filters, sw_jinja_markup_filters};
    const jinja_builtin *found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found; i++)
        found = sw_jinja_find_builtin(tables[i], name);
    return found;
}

/* One step: a number where all its characters are digits. */
static bool add_step(jinja_run *run, jinja_items *steps, const char *first, const char *end) {
    bool is_number = first < end, is_read;
    for (const char *at = first; at < end;)
        is_number = sw_unicode_is_in(&sw_python_digits, sw_utf8_next(&at)) && is_number;
    jinja_text *text = sw_jinja_view(run, first, end - first);
    if (!text)
        return false;
    jinja_value step = sw_jinja_of_text(text);
    if (is_number && !sw_jinja_read_whole(run, text, 10, &is_read, &step))
        return false;
    return sw_jinja_add(run, steps, &step);
}

bool sw_jinja_path(jinja_run *run, const jinja_value *attribute, jinja_path *path) {
    jinja_items steps = {0};
    *path = (jinja_path){0};
    if (attribute->kind == JINJA_MISSING || attribute->kind == JINJA_NONE)
        return true;
    if (attribute->kind != JINJA_TEXT) {
        if (!sw_jinja_add(run, &steps, attribute))
            return false;
    } else {
        const jinja_text *text = attribute->as.text;
        const char *at = text->bytes, *end = sw_jinja_end_of(text);
        for (;;) {
            const char *dot = at < end ? memchr(at, '.', (size_t)(end - at)) : NULL;
            if (!add_step(run, &steps, at, dot ? dot : end))
                return false;
            if (!dot)
                break;
            at = dot + 1;
        }
    }
    *path = (jinja_path){steps.items, steps.n};
    return true;
}

bool sw_jinja_follow(jinja_run *run, const jinja_path *path, const jinja_value *item,
                     const jinja_value *instead, jinja_value *out) {
    *out = *item;
    for (int64_t i = 0; i < path->n; i++) {
        jinja_value owner = *out;
        if (!sw_jinja_get_item(run, &owner, &path->steps[i], out))
            return false;
        if (instead && instead->kind != JINJA_MISSING && instead->kind != JINJA_NONE &&
            out->kind == JINJA_UNDEFINED)
            *out = *instead;
    }
    return true;
}

bool sw_jinja_fold(jinja_run *run, const jinja_value *value, jinja_value *out) {
    *out = *value;
    return value->kind != JINJA_TEXT ||
           sw_jinja_give_text(sw_jinja_change_case(run, value->as.text, JINJA_LOWER), out);
}

bool sw_jinja_is_set(const jinja_value *argument) {
    return argument->kind != JINJA_MISSING && sw_jinja_truth(argument);
}

jinja_text *sw_jinja_soft_text(jinja_run *run, const jinja_value *value) {
    return value->kind == JINJA_TEXT ? value->as.text : sw_jinja_str(run, value);
}

jinja_text *sw_jinja_text_argument(jinja_run *run, const char *of, const jinja_value *argument) {
    if (argument->kind == JINJA_TEXT)
        return argument->as.text;
    if (argument->kind == JINJA_UNDEFINED)
        sw_jinja_fail_undefined(run, argument);
    else
        sw_jinja_fail(run, "%s needs a str, not %s", of, sw_jinja_type_name(argument));
    return NULL;
}

bool sw_jinja_whole_argument(jinja_run *run, const char *of, const jinja_value *argument,
                             int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (argument->kind == JINJA_MISSING || sw_jinja_index_of(argument, out))
        return true;
    if (argument->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, argument);
    return sw_jinja_fail(run, "%s needs an integer, not %s", of, sw_jinja_type_name(argument));
}
