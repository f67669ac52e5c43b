/* tojson.c: json.dumps. */
#include "data/jinja/tojson.h"

#include <math.h>
#include <stdlib.h>

#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"

static bool write_escape(jinja_run *run, uint32_t code) {
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *found = code && code < 0x80 ? strchr(plain, (int)code) : NULL;
    if (found)
        return sw_jinja_write_format(run, "\\%c", letters[found - plain]);
    if (code < 0x10000)
        return sw_jinja_write_format(run, "\\u%04x", code);
    code -= 0x10000;
    return sw_jinja_write_format(run, "\\u%04x\\u%04x", 0xD800 + (code >> 10),
                                 0xDC00 + (code & 0x3FF));
}

static bool write_string(jinja_run *run, const jinja_text *text, bool is_ascii) {
    const char *end = sw_jinja_end_of(text), *plain = text->bytes;
    if (!sw_jinja_write(run, "\"", 1) || !sw_jinja_spend_characters(run, text->n_bytes / 2))
        return false;
    for (const char *at = plain; at < end;) {
        const char *first = at;
        uint32_t code = sw_utf8_next(&at);
        if (code >= ' ' && code != '"' && code != '\\' && (!is_ascii || code < 0x7F))
            continue;
        if (!sw_jinja_write(run, plain, first - plain) || !write_escape(run, code))
            return false;
        plain = at;
    }
    return sw_jinja_write(run, plain, end - plain) && sw_jinja_write(run, "\"", 1);
}

static bool write_number(jinja_run *run, const jinja_value *value) {
    if (value->kind == JINJA_BOOL)
        return sw_jinja_write_words(run, value->as.truth ? "true" : "false");
    if (value->kind == JINJA_REAL && !isfinite(value->as.real))
        return sw_jinja_write_words(run, isnan(value->as.real) ? "NaN"
                                         : value->as.real < 0  ? "-Infinity"
                                                               : "Infinity");
    return sw_jinja_write_number(run, value);
}

static bool write_value(jinja_run *run, const jinja_value *value, const jinja_json_style *style,
                        int depth);

/* A new line where there is an indent. */
static bool write_break(jinja_run *run, const jinja_json_style *style, int depth) {
    return !style->indent ||
           (sw_jinja_write(run, "\n", 1) &&
            sw_jinja_write_repeated(run, style->indent->bytes, style->indent->n_bytes, depth));
}

static bool write_list(jinja_run *run, const jinja_list *list, const jinja_json_style *style,
                       int depth) {
    if (list->n == 0)
        return sw_jinja_write(run, "[]", 2);
    bool is_done = sw_jinja_write(run, "[", 1);
    for (int64_t i = 0; i < list->n && is_done; i++)
        is_done = (i == 0 || sw_jinja_write(run, style->comma->bytes, style->comma->n_bytes)) &&
                  write_break(run, style, depth + 1) &&
                  write_value(run, &list->items[i], style, depth + 1);
    return is_done && write_break(run, style, depth) && sw_jinja_write(run, "]", 1);
}

static bool write_key(jinja_run *run, const jinja_value *key, const jinja_json_style *style) {
    if (key->kind == JINJA_TEXT)
        return write_string(run, key->as.text, style->is_ascii);
    if (key->kind == JINJA_NONE)
        return sw_jinja_write_words(run, "\"null\"");
    if (sw_jinja_is_number(key))
        return sw_jinja_write(run, "\"", 1) && write_number(run, key) &&
               sw_jinja_write(run, "\"", 1);
    return sw_jinja_fail(run, "tojson: keys must be str, int, float, bool or None, not %s",
                         sw_jinja_type_name(key));
}

/* Places of entries by their keys; merges neighbours. */
static bool sort_places(jinja_run *run, const jinja_dict *dict, int64_t *places, int64_t *spare,
                        int64_t n) {
    if (n < 2)
        return true;
    int64_t half = n / 2, left = 0, right = half, at = 0;
    if (!sort_places(run, dict, places, spare, half) ||
        !sort_places(run, dict, places + half, spare, n - half))
        return false;
    while (left < half && right < n) {
        bool right_first;
        if (!sw_jinja_spend(run, 1) ||
            !sw_jinja_order(run, &dict->entries[places[right]].key,
                            &dict->entries[places[left]].key, JINJA_LESS, &right_first))
            return false;
        spare[at++] = right_first ? places[right++] : places[left++];
    }
    while (left < half)
        spare[at++] = places[left++];
    memcpy(places, spare, (size_t)at * sizeof *places);
    return true;
}

static bool write_dict(jinja_run *run, const jinja_dict *dict, const jinja_json_style *style,
                       int depth) {
    int64_t *places = NULL;
    if (dict->n == 0)
        return sw_jinja_write(run, "{}", 2);
    if (style->sorts_keys) {
        places = sw_jinja_take(run, 2 * dict->n * (int64_t)sizeof *places);
        for (int64_t i = 0; places && i < dict->n; i++)
            places[i] = i;
        if (!places || !sort_places(run, dict, places, places + dict->n, dict->n))
            return false;
    }
    bool is_done = sw_jinja_write(run, "{", 1);
    for (int64_t i = 0; i < dict->n && is_done; i++) {
        const jinja_entry *entry = &dict->entries[places ? places[i] : i];
        is_done = (i == 0 || sw_jinja_write(run, style->comma->bytes, style->comma->n_bytes)) &&
                  write_break(run, style, depth + 1) && write_key(run, &entry->key, style) &&
                  sw_jinja_write(run, style->colon->bytes, style->colon->n_bytes) &&
                  write_value(run, &entry->value, style, depth + 1);
    }
    return is_done && write_break(run, style, depth) && sw_jinja_write(run, "}", 1);
}

static bool write_within(jinja_run *run, const jinja_value *value, const jinja_json_style *style,
                         int depth) {
    switch (value->kind) {
    case JINJA_NONE:
        return sw_jinja_write_words(run, "null");
    case JINJA_BOOL:
    case JINJA_INTEGER:
    case JINJA_BIG:
    case JINJA_REAL:
        return write_number(run, value);
    case JINJA_TEXT:
        return write_string(run, value->as.text, style->is_ascii);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return write_list(run, value->as.list, style, depth);
    case JINJA_DICT:
        return write_dict(run, value->as.dict, style, depth);
    default:
        return sw_jinja_fail(run, "tojson: an object of type %s is not JSON serializable",
                             sw_jinja_type_name(value));
    }
}

static bool write_value(jinja_run *run, const jinja_value *value, const jinja_json_style *style,
                        int depth) {
    bool is_done =
        sw_jinja_enter(run) && sw_jinja_spend(run, 1) && write_within(run, value, style, depth);
    sw_jinja_leave(run);
    return is_done;
}

bool sw_jinja_write_json(jinja_run *run, const jinja_value *value, const jinja_json_style *style) {
    return write_value(run, value, style, 0);
}
