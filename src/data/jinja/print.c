/* print.c: str() and repr(). */
#include "data/jinja/print.h"
#include "data/jinja/origin.h"

#include <stdio.h>

#include "data/jinja/call.h"
#include "data/jinja/compare.h"
#include "data/jinja/loop.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"

static bool show_character(jinja_run *run, uint32_t code, char quote, bool is_ascii) {
    char escaped[12] = {'\\', 0};
    if (code == (unsigned char)quote || code == '\\')
        escaped[1] = (char)code;
    else if (code == '\n' || code == '\r' || code == '\t')
        escaped[1] = code == '\n' ? 'n' : code == '\r' ? 'r' : 't';
    else if (code < 0x80 ? code >= ' ' && code != 0x7F
                         : !is_ascii && !sw_unicode_is_in(&sw_python_unprintables, code))
        return sw_jinja_write_code(run, code);
    else
        snprintf(escaped, sizeof escaped,
                 code < 0x100     ? "\\x%02x"
                 : code < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                 code);
    return sw_jinja_write_words(run, escaped);
}

static bool show_text(jinja_run *run, const jinja_text *text, bool is_ascii) {
    bool has_single = memchr(text->bytes, '\'', (size_t)text->n_bytes),
         has_double = memchr(text->bytes, '"', (size_t)text->n_bytes);
    char quote = has_single && !has_double ? '"' : '\'';
    bool is_done = (!text->is_markup || sw_jinja_write_words(run, "Markup(")) &&
                   sw_jinja_write(run, &quote, 1) && sw_jinja_spend_characters(run, text->n_bytes);
    for (const char *at = text->bytes, *here = at; at < sw_jinja_end_of(text) && is_done;
         here = at) {
        const int64_t written = run->n_output;
        is_done = show_character(run, sw_utf8_next(&at), quote, is_ascii);
        sw_jinja_inherit_origin(run, written, here);
    }
    return is_done && sw_jinja_write(run, &quote, 1) &&
           (!text->is_markup || sw_jinja_write_words(run, ")"));
}

static bool show_list(jinja_run *run, const jinja_list *list, bool is_tuple, bool is_ascii) {
    bool is_done = sw_jinja_write_words(run, is_tuple ? "(" : "[");
    for (int64_t i = 0; i < list->n && is_done; i++)
        is_done = (i == 0 || sw_jinja_write_words(run, ", ")) &&
                  sw_jinja_show(run, &list->items[i], is_ascii);
    return is_done && sw_jinja_write_words(run, is_tuple ? list->n == 1 ? ",)" : ")" : "]");
}

static bool show_dict(jinja_run *run, const jinja_dict *dict, bool is_ascii) {
    bool is_done = sw_jinja_write_words(run, "{");
    for (int64_t i = 0; i < dict->n && is_done; i++)
        is_done = (i == 0 || sw_jinja_write_words(run, ", ")) &&
                  sw_jinja_show(run, &dict->entries[i].key, is_ascii) &&
                  sw_jinja_write_words(run, ": ") &&
                  sw_jinja_show(run, &dict->entries[i].value, is_ascii);
    return is_done && sw_jinja_write_words(run, "}");
}

static bool show_view(jinja_run *run, const jinja_value *view, bool is_ascii) {
    const jinja_dict *dict = view->as.dict;
    bool is_done = sw_jinja_write_format(run, "%s([", sw_jinja_type_name(view));
    for (int64_t i = 0; i < dict->n && is_done; i++) {
        jinja_value pair;
        is_done = i == 0 || sw_jinja_write_words(run, ", ");
        if (is_done && view->kind == JINJA_ITEMS)
            is_done = sw_jinja_pair(run, &dict->entries[i].key, &dict->entries[i].value, &pair) &&
                      sw_jinja_show(run, &pair, is_ascii);
        else if (is_done)
            is_done = sw_jinja_show(
                run, view->kind == JINJA_KEYS ? &dict->entries[i].key : &dict->entries[i].value,
                is_ascii);
    }
    return is_done && sw_jinja_write_words(run, "])");
}

static bool show_namespace(jinja_run *run, jinja_namespace *space, bool is_ascii) {
    bool is_inside = space->is_shown;
    space->is_shown = true;
    bool is_done = sw_jinja_write_words(run, "<Namespace ") &&
                   (is_inside ? sw_jinja_write_words(run, "{...}")
                              : show_dict(run, &space->attributes, is_ascii)) &&
                   sw_jinja_write_words(run, ">");
    space->is_shown = is_inside;
    return is_done;
}

static bool show_within(jinja_run *run, const jinja_value *value, bool is_ascii) {
    switch (value->kind) {
    case JINJA_UNDEFINED:
        return sw_jinja_write_words(run, "Undefined");
    case JINJA_NONE:
        return sw_jinja_write_words(run, "None");
    case JINJA_BOOL:
    case JINJA_INTEGER:
    case JINJA_BIG:
    case JINJA_REAL:
        return sw_jinja_write_number(run, value);
    case JINJA_TEXT:
        return show_text(run, value->as.text, is_ascii);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return show_list(run, value->as.list, value->kind == JINJA_TUPLE, is_ascii);
    case JINJA_DICT:
        return show_dict(run, value->as.dict, is_ascii);
    case JINJA_KEYS:
    case JINJA_VALUES:
    case JINJA_ITEMS:
        return show_view(run, value, is_ascii);
    case JINJA_RANGE: {
        const jinja_range *range = value->as.range;
        return sw_jinja_write_format(run, "range(%lld, %lld", (long long)range->start,
                                     (long long)range->stop) &&
               (range->step == 1 || sw_jinja_write_format(run, ", %lld", (long long)range->step)) &&
               sw_jinja_write_words(run, ")");
    }
    case JINJA_NAMESPACE:
        return show_namespace(run, value->as.space, is_ascii);
    case JINJA_LOOP:
        return sw_jinja_show_loop(run, value->as.loop);
    case JINJA_MACRO:
        return sw_jinja_show_macro(run, value->as.macro);
    case JINJA_ITERATOR:
        return sw_jinja_fail(run, "what a filter lets through one by one (a generator) has no "
                                  "text: put `| list` or `| join` behind it");
    default:
        return sw_jinja_fail(run, "a %s has no text: was it meant to be called, with ()?",
                             sw_jinja_type_name(value));
    }
}

bool sw_jinja_show(jinja_run *run, const jinja_value *value, bool is_ascii) {
    bool is_done =
        sw_jinja_enter(run) && sw_jinja_spend(run, 1) && show_within(run, value, is_ascii);
    sw_jinja_leave(run);
    return is_done;
}

static bool print_text(jinja_run *run, const jinja_text *text) {
    int64_t start = run->n_output;
    if (!sw_jinja_write(run, text->bytes, text->n_bytes) ||
        !sw_jinja_spend_bytes(run, text->n_bytes))
        return false;
    for (int i = 0; i < text->n_marks; i++) {
        const jinja_mark *mark = &text->marks[i];
        if (!sw_jinja_mark_output(run, start + mark->first, start + mark->end, mark->id))
            return false;
    }
    return true;
}

bool sw_jinja_print(jinja_run *run, const jinja_value *value) {
    if (value->kind == JINJA_TEXT)
        return print_text(run, value->as.text);
    return value->kind == JINJA_UNDEFINED || sw_jinja_show(run, value, false);
}

jinja_text *sw_jinja_str(jinja_run *run, const jinja_value *value) {
    if (value->kind == JINJA_TEXT && !value->as.text->is_markup)
        return value->as.text;
    jinja_start start = sw_jinja_start(run);
    return sw_jinja_print(run, value) ? sw_jinja_collect(run, start) : NULL;
}
