/* attributes.c: what values have. The tables here and in the methods' files are all that a template
 * can reach; what Python has besides (names with underscores, methods that change a list or dict)
 * is undefined and says so when it is used. */
#include "data/jinja/attributes.h"

#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/functions.h"
#include "data/jinja/iterate.h"
#include "data/jinja/loop.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"

/* Methods that change what they belong to. */
static bool is_changing(const jinja_value *owner, const jinja_text *name) {
    static const char *const of_lists[] = {"append", "clear",  "extend",  "insert",
                                           "pop",    "remove", "reverse", "sort"};
    static const char *const of_dicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
    for (size_t i = 0; owner->kind == JINJA_LIST && i < sizeof of_lists / sizeof *of_lists; i++)
        if (sw_jinja_is_word(name, of_lists[i]))
            return true;
    for (size_t i = 0; owner->kind == JINJA_DICT && i < sizeof of_dicts / sizeof *of_dicts; i++)
        if (sw_jinja_is_word(name, of_dicts[i]))
            return true;
    return false;
}

static bool is_internal(const jinja_text *name) {
    return name->n_bytes > 4 && memcmp(name->bytes, "__", 2) == 0 &&
           memcmp(sw_jinja_end_of(name) - 2, "__", 2) == 0;
}

static const jinja_builtin *find_text_method(const jinja_text *name) {
    const jinja_builtin *found = sw_jinja_find_builtin(sw_jinja_text_methods, name);
    found = found ? found : sw_jinja_find_builtin(sw_jinja_text_search_methods, name);
    return found ? found : sw_jinja_find_builtin(sw_jinja_text_case_methods, name);
}

bool sw_jinja_is_attribute_name(const jinja_text *name) {
    static const char *const others[] = {
        "real", "imag", "numerator", "denominator", "start", "stop", "step", "grouper", "list",
        /* of loops, macros, cyclers */
        "index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0",
        "previtem", "nextitem", "cycle", "changed", "name", "arguments", "caller", "catch_kwargs",
        "catch_varargs", "explicit_caller", "current", "next", "reset", "items", "pos", "sep",
        "used"};
    jinja_value list = {.kind = JINJA_LIST}, dict = {.kind = JINJA_DICT};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sw_jinja_is_word(name, others[i]))
            return true;
    return is_changing(&list, name) || is_changing(&dict, name) || is_internal(name) ||
           find_text_method(name) || sw_jinja_find_builtin(sw_jinja_list_methods, name) ||
           sw_jinja_find_builtin(sw_jinja_dict_methods, name) ||
           sw_jinja_find_builtin(sw_jinja_number_methods, name) ||
           sw_jinja_find_builtin(sw_jinja_object_methods, name);
}

const jinja_builtin *sw_jinja_method(const jinja_value *owner, const jinja_text *name) {
    switch (owner->kind) {
    case JINJA_TEXT:
        return find_text_method(name);
    case JINJA_LIST:
        return is_changing(owner, name) ? NULL : sw_jinja_find_builtin(sw_jinja_list_methods, name);
    case JINJA_TUPLE:
    case JINJA_RANGE: {
        const jinja_builtin *found = sw_jinja_find_builtin(sw_jinja_list_methods, name);
        return found && strcmp(found->name, "copy") != 0 ? found : NULL;
    }
    case JINJA_DICT:
        return is_changing(owner, name) ? NULL : sw_jinja_find_builtin(sw_jinja_dict_methods, name);
    case JINJA_BOOL:
    case JINJA_INTEGER:
    case JINJA_BIG:
    case JINJA_REAL: {
        const jinja_builtin *found = sw_jinja_find_builtin(sw_jinja_number_methods, name);
        bool is_of_reals = found && strcmp(found->name, "is_integer") == 0,
             is_of_whole = found && strncmp(found->name, "bit", 3) == 0;
        return (is_of_reals && owner->kind != JINJA_REAL) ||
                       (is_of_whole && owner->kind == JINJA_REAL)
                   ? NULL
                   : found;
    }
    case JINJA_LOOP:
    case JINJA_CYCLER:
    case JINJA_FUNCTION:
        return sw_jinja_object_method(owner, name);
    default:
        return NULL;
    }
}

static bool number_part(const jinja_value *owner, const jinja_text *name, jinja_value *out) {
    bool is_whole = owner->kind != JINJA_REAL;
    jinja_value self = owner->kind == JINJA_BOOL ? sw_jinja_integer(owner->as.truth) : *owner;
    if (sw_jinja_is_word(name, "real") || (is_whole && sw_jinja_is_word(name, "numerator")))
        *out = self;
    else if (sw_jinja_is_word(name, "imag"))
        *out = is_whole ? sw_jinja_integer(0) : sw_jinja_real(0);
    else if (is_whole && sw_jinja_is_word(name, "denominator"))
        *out = sw_jinja_integer(1);
    return true;
}

static bool range_part(const jinja_range *range, const jinja_text *name, jinja_value *out) {
    if (sw_jinja_is_word(name, "start"))
        *out = sw_jinja_integer(range->start);
    else if (sw_jinja_is_word(name, "stop"))
        *out = sw_jinja_integer(range->stop);
    else if (sw_jinja_is_word(name, "step"))
        *out = sw_jinja_integer(range->step);
    return true;
}

bool sw_jinja_attribute(jinja_run *run, const jinja_value *owner, jinja_text *name,
                        jinja_value *out) {
    *out = sw_jinja_missing();
    if (owner->kind == JINJA_NAMESPACE) {
        const jinja_value *found = sw_jinja_get_text(&owner->as.space->attributes, name);
        if (found)
            *out = *found;
        return true;
    }
    if (is_internal(name) || is_changing(owner, name)) {
        jinja_value of = sw_jinja_of_text(name);
        return sw_jinja_give_undefined(run, sw_jinja_type_name(owner), &of, true, out);
    }
    const jinja_builtin *method = sw_jinja_method(owner, name);
    if (method)
        return sw_jinja_give_method(run, method, owner, out);
    switch (owner->kind) {
    case JINJA_BOOL:
    case JINJA_INTEGER:
    case JINJA_BIG:
    case JINJA_REAL:
        return number_part(owner, name, out);
    case JINJA_RANGE:
        return range_part(owner->as.range, name, out);
    case JINJA_TUPLE:
        if (owner->as.list->is_group &&
            (sw_jinja_is_word(name, "grouper") || sw_jinja_is_word(name, "list")))
            *out = owner->as.list->items[name->bytes[0] == 'l'];
        return true;
    case JINJA_LOOP:
        return sw_jinja_loop_attribute(run, owner->as.loop, name, out);
    case JINJA_MACRO:
        return sw_jinja_macro_attribute(run, owner->as.macro, name, out);
    case JINJA_CYCLER:
        return sw_jinja_cycler_attribute(run, owner->as.cycler, name, out);
    default:
        return true;
    }
}

/* What x[key] finds; missing if nothing, or if x has no items by that kind of index. */
static bool find_item(jinja_run *run, const jinja_value *owner, const jinja_value *index,
                      jinja_value *out) {
    int64_t at, n;
    *out = sw_jinja_missing();
    switch (owner->kind) {
    case JINJA_UNDEFINED:
        return sw_jinja_fail_undefined(run, owner);
    case JINJA_DICT: {
        const jinja_value *found;
        if (!sw_jinja_is_hashable(index))
            return true;
        if (!sw_jinja_get(run, owner->as.dict, index, &found))
            return false;
        if (found)
            *out = *found;
        return true;
    }
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_TEXT:
    case JINJA_RANGE:
        break;
    default:
        return true;
    }
    n = sw_jinja_size(owner);
    if (!sw_jinja_index_of(index, &at) || at >= n || at < -n)
        return true;
    at += at < 0 ? n : 0;
    if (sw_jinja_is_sequence(owner)) {
        *out = owner->as.list->items[at];
    } else if (owner->kind == JINJA_RANGE) {
        *out = sw_jinja_integer(owner->as.range->start + at * owner->as.range->step);
    } else {
        const char *first = sw_jinja_at(owner->as.text, at);
        return sw_jinja_spend_characters(
                   run, n == owner->as.text->n_bytes ? 0 : (first - owner->as.text->bytes) / 3) &&
               sw_jinja_give_text(
                   sw_jinja_part(run, owner->as.text, first, first + sw_utf8_length(*first)), out);
    }
    return true;
}

static bool give_nothing(jinja_run *run, const jinja_value *owner, const jinja_value *name,
                         jinja_value *out) {
    return sw_jinja_give_undefined(run, sw_jinja_owner_name(owner), name, false, out);
}

bool sw_jinja_get_attribute(jinja_run *run, const jinja_value *owner, jinja_text *name,
                            bool may_be_attribute, jinja_value *out) {
    jinja_value key = sw_jinja_of_text(name);
    if (owner->kind == JINJA_DICT && !may_be_attribute) { /* nearly always */
        const jinja_value *found = sw_jinja_get_text(owner->as.dict, name);
        if (found)
            *out = *found;
        return found || give_nothing(run, owner, &key, out);
    }
    if (owner->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, owner);
    if (!sw_jinja_attribute(run, owner, name, out) || out->kind != JINJA_MISSING)
        return run->status == SW_OK;
    if (!find_item(run, owner, &key, out))
        return false;
    return out->kind != JINJA_MISSING || give_nothing(run, owner, &key, out);
}

bool sw_jinja_get_item(jinja_run *run, const jinja_value *owner, const jinja_value *index,
                       jinja_value *out) {
    if (!find_item(run, owner, index, out))
        return false;
    if (out->kind == JINJA_MISSING && index->kind == JINJA_TEXT &&
        !sw_jinja_attribute(run, owner, index->as.text, out))
        return false;
    return out->kind != JINJA_MISSING || give_nothing(run, owner, index, out);
}

int64_t sw_jinja_slice_bounds(int64_t length, int64_t *start, int64_t *stop, int64_t step,
                              bool has_start, bool has_stop) {
    int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? length - 1 : length;
    *start = !has_start   ? (step < 0 ? highest : lowest)
             : *start < 0 ? larger(*start + length, lowest)
                          : smaller(*start, highest);
    *stop = !has_stop   ? (step < 0 ? lowest : highest)
            : *stop < 0 ? larger(*stop + length, lowest)
                        : smaller(*stop, highest);
    if (step < 0)
        return *stop < *start ? (*start - *stop - 1) / -step + 1 : 0;
    return *start < *stop ? (*stop - *start - 1) / step + 1 : 0;
}

static bool slice_text(jinja_run *run, const jinja_text *text, int64_t start, int64_t step,
                       int64_t n, jinja_value *out) {
    if (!sw_jinja_spend_characters(run,
                                   sw_jinja_length(text) == text->n_bytes ? 0 : text->n_bytes / 3))
        return false;
    if (n == 0)
        return sw_jinja_give_text(sw_jinja_part(run, text, text->bytes, text->bytes), out);
    const char *at = sw_jinja_at(text, start);
    if (step == 1) {
        const char *end = at;
        if (sw_jinja_length(text) == text->n_bytes)
            end += n;
        else
            for (int64_t i = 0; i < n; i++)
                end += sw_utf8_length(*end);
        return sw_jinja_give_text(sw_jinja_part(run, text, at, end), out);
    }
    jinja_start begin = sw_jinja_start(run);
    if (!sw_jinja_spend_characters(run, n * 2))
        return false;
    for (int64_t i = 0; i < n; i++) {
        if (!sw_jinja_write(run, at, sw_utf8_length(*at)))
            return false;
        for (int64_t j = 0; j < step && i + 1 < n; j++)
            at += sw_utf8_length(*at);
        for (int64_t j = 0; j > step && i + 1 < n; j--)
            sw_jinja_previous(&at);
    }
    jinja_text *slice = sw_jinja_collect(run, begin);
    if (slice)
        slice->is_markup = text->is_markup;
    return sw_jinja_give_text(slice, out);
}

static bool slice_list(jinja_run *run, const jinja_value *owner, int64_t start, int64_t step,
                       int64_t n, jinja_value *out) {
    const jinja_list *list = owner->as.list;
    if (step == 1) /* shares the items */
        return sw_jinja_give_list(sw_jinja_list(run, list->items + (n ? start : 0), n), owner->kind,
                                  out);
    jinja_value *items = sw_jinja_take(run, n * (int64_t)sizeof *items);
    if (!items || !sw_jinja_spend(run, n))
        return false;
    for (int64_t i = 0; i < n; i++)
        items[i] = list->items[start + i * step];
    return sw_jinja_give_list(sw_jinja_list(run, items, n), owner->kind, out);
}

bool sw_jinja_get_slice(jinja_run *run, const jinja_value *owner, const jinja_value parts[3],
                        jinja_value *out) {
    int64_t at[3] = {0, 0, 1};
    if (owner->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, owner);
    if (!sw_jinja_is_sequence(owner) && owner->kind != JINJA_TEXT && owner->kind != JINJA_RANGE)
        return sw_jinja_fail(run,
                             owner->kind == JINJA_DICT ? "a '%s' cannot be sliced"
                                                       : "'%s' object is not subscriptable",
                             sw_jinja_type_name(owner));
    for (int i = 0; i < 3; i++)
        if (parts[i].kind != JINJA_NONE && !sw_jinja_index_of(&parts[i], &at[i]))
            return sw_jinja_fail(run, "slice indices must be integers or None, not %s",
                                 sw_jinja_type_name(&parts[i]));
    if (at[2] == 0)
        return sw_jinja_fail(run, "slice step cannot be zero");
    int64_t length = sw_jinja_size(owner);
    at[2] = larger(at[2], -INT64_MAX); /* has an opposite */
    int64_t n = sw_jinja_slice_bounds(length, &at[0], &at[1], at[2], parts[0].kind != JINJA_NONE,
                                      parts[1].kind != JINJA_NONE);
    if (owner->kind == JINJA_TEXT)
        return slice_text(run, owner->as.text, at[0], at[2], n, out);
    if (owner->kind != JINJA_RANGE)
        return slice_list(run, owner, at[0], at[2], n, out);
    const jinja_range *whole = owner->as.range;
    jinja_range *range = sw_jinja_take(run, sizeof *range);
    if (!range)
        return false;
    uint64_t first = (uint64_t)whole->start,
             step = (uint64_t)
                        whole->step; /* the end may lie beyond 64 bits, and is then not reached */
    *range = (jinja_range){(int64_t)(first + (uint64_t)at[0] * step),
                           (int64_t)(first + (uint64_t)at[1] * step),
                           (int64_t)(step * (uint64_t)at[2]), n};
    *out = (jinja_value){.kind = JINJA_RANGE, .as.range = range};
    return true;
}
