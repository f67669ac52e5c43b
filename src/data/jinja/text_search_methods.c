/* text_search_methods.c: methods of texts that look for another in them, between two characters if
 * wanted. */
#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/compare.h"
#include "data/jinja/filters.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"

/* The stretch from characters `start` to `end` (missing or none: the text's own), as bytes. False
 * in *is_there: it begins behind the text. */
static bool find_stretch(jinja_run *run, const jinja_value *self, const jinja_value *bounds,
                         const char **first, const char **end, bool *is_there) {
    const jinja_text *text = self->as.text;
    int64_t length = sw_jinja_length(text), at[2] = {0, length};
    for (int i = 0; i < 2; i++) {
        if (bounds[i].kind == JINJA_MISSING || bounds[i].kind == JINJA_NONE)
            continue;
        if (!sw_jinja_index_of(&bounds[i], &at[i]))
            return sw_jinja_fail(run, "slice indices must be integers or None, not %s",
                                 sw_jinja_type_name(&bounds[i]));
        if (at[i] < 0)
            at[i] = larger(0, at[i] + length);
    }
    at[1] = smaller(at[1], length);
    *is_there = at[0] <= at[1];
    *first = sw_jinja_at(text, smaller(at[0], length));
    *end = *is_there ? sw_jinja_at(text, at[1]) : *first;
    return sw_jinja_spend_characters(run, length == text->n_bytes ? text->n_bytes / 8
                                                                  : text->n_bytes / 2);
}

/* The character where it is, -1 if nowhere. */
static bool search(jinja_run *run, const jinja_value *self, const jinja_value *values, bool is_last,
                   int64_t *where) {
    const char *first, *end, *found = NULL;
    bool is_there = false;
    const jinja_text *needle = sw_jinja_text_argument(run, "a search", &values[0]);
    if (!needle || !find_stretch(run, self, values + 1, &first, &end, &is_there))
        return false;
    if (is_there && !is_last)
        found = sw_jinja_find(first, end, needle);
    else if (is_there && !sw_jinja_find_last(run, first, end, needle, &found))
        return false;
    *where = found ? sw_jinja_count(self->as.text->bytes, found - self->as.text->bytes) : -1;
    return true;
}

static bool give_place(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       bool is_last, bool must_be, jinja_value *out) {
    int64_t where;
    if (!search(run, self, values, is_last, &where))
        return false;
    *out = sw_jinja_integer(where);
    return where >= 0 || !must_be || sw_jinja_fail(run, "substring not found");
}

static bool text_find(jinja_run *run, const jinja_value *self, const jinja_value *values,
                      jinja_value *out) {
    return give_place(run, self, values, false, false, out);
}

static bool text_rfind(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return give_place(run, self, values, true, false, out);
}

static bool text_index(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return give_place(run, self, values, false, true, out);
}

static bool text_rindex(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    return give_place(run, self, values, true, true, out);
}

static bool text_count(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    const char *first, *end;
    bool is_there = false;
    int64_t n = 0;
    const jinja_text *needle = sw_jinja_text_argument(run, "count", &values[0]);
    if (!needle || !find_stretch(run, self, values + 1, &first, &end, &is_there))
        return false;
    if (is_there && needle->n_bytes == 0)
        n = sw_jinja_count(first, end - first) + 1;
    else if (is_there)
        for (const char *at = first; (at = sw_jinja_find(at, end, needle)); at += needle->n_bytes)
            n++;
    *out = sw_jinja_integer(n);
    return sw_jinja_spend(run, n / 4);
}

static bool matches(const jinja_text *affix, const char *first, const char *end, bool is_end) {
    return end - first >= affix->n_bytes &&
           memcmp(is_end ? end - affix->n_bytes : first, affix->bytes, (size_t)affix->n_bytes) == 0;
}

static bool has_affix(jinja_run *run, const jinja_value *self, const jinja_value *values,
                      bool is_end, jinja_value *out) {
    const char *first = NULL, *end = NULL;
    bool is_there = false, is_found = false;
    if (!find_stretch(run, self, values + 1, &first, &end, &is_there))
        return false;
    const jinja_value *affixes = &values[0];
    int64_t n = 1;
    if (affixes->kind == JINJA_TUPLE) {
        n = affixes->as.list->n;
        affixes = affixes->as.list->items;
    }
    for (int64_t i = 0; i < n && !is_found; i++) {
        if (affixes[i].kind == JINJA_UNDEFINED)
            return sw_jinja_fail_undefined(run, &affixes[i]);
        if (affixes[i].kind != JINJA_TEXT)
            return sw_jinja_fail(run, "%s first arg must be str or a tuple of str, not %s",
                                 is_end ? "endswith" : "startswith",
                                 sw_jinja_type_name(&affixes[i]));
        is_found = is_there && matches(affixes[i].as.text, first, end, is_end);
    }
    *out = sw_jinja_bool(is_found);
    return sw_jinja_spend(run, n);
}

static bool text_startswith(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    return has_affix(run, self, values, false, out);
}

static bool text_endswith(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    return has_affix(run, self, values, true, out);
}

#define SEARCH_PARAMETERS .n_required = 1, .parameters = {"/sub", "/start", "/end"}
const jinja_builtin sw_jinja_text_search_methods[] = {
    {.name = "startswith", .call = text_startswith, SEARCH_PARAMETERS},
    {.name = "endswith", .call = text_endswith, SEARCH_PARAMETERS},
    {.name = "find", .call = text_find, SEARCH_PARAMETERS},
    {.name = "rfind", .call = text_rfind, SEARCH_PARAMETERS},
    {.name = "index", .call = text_index, SEARCH_PARAMETERS},
    {.name = "rindex", .call = text_rindex, SEARCH_PARAMETERS},
    {.name = "count", .call = text_count, SEARCH_PARAMETERS},
    {0}};
