/* compare.c: comparing values by what they hold. Lists within lists are walked by recursion, whose
 * depth counts. */
#include "data/jinja/compare.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/integer.h"
#include "data/jinja/collection.h"
#include "data/jinja/iterate.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"

const char *sw_jinja_type_name(const jinja_value *value) {
    static const char *const names[JINJA_N_KINDS] = {
        "missing",     "Undefined",  "NoneType", "bool",      "int",       "int",
        "float",       "str",        "list",     "tuple",     "dict",      "dict_keys",
        "dict_values", "dict_items", "range",    "generator", "namespace", "LoopContext",
        "Macro",       "method",     "function", "Cycler",    "Joiner"};
    return names[value->kind];
}

const char *sw_jinja_owner_name(const jinja_value *value) {
    static const char *const names[JINJA_N_KINDS] = {"missing",
                                                     "Undefined",
                                                     "None",
                                                     "bool object",
                                                     "int object",
                                                     "int object",
                                                     "float object",
                                                     "str object",
                                                     "list object",
                                                     "tuple object",
                                                     "dict object",
                                                     "dict_keys object",
                                                     "dict_values object",
                                                     "dict_items object",
                                                     "range object",
                                                     "generator object",
                                                     "namespace object",
                                                     "loop",
                                                     "macro",
                                                     "method",
                                                     "function",
                                                     "cycler",
                                                     "joiner"};
    return names[value->kind];
}

/* "'name' is undefined", "'dict object' has no attribute 'x'", "list object has no element 7" */
bool sw_jinja_fail_undefined(jinja_run *run, const jinja_value *value) {
    const jinja_undefined *undefined = value->as.undefined;
    if (undefined->hint)
        return sw_jinja_fail(run, "%s", undefined->hint);
    const char *name = "?";
    int n = 1;
    char number[40];
    if (undefined->name.kind == JINJA_TEXT) {
        name = undefined->name.as.text->bytes;
        n = (int)smaller(undefined->name.as.text->n_bytes, 200);
    } else if (undefined->name.kind == JINJA_INTEGER) {
        n = snprintf(number, sizeof number, "%lld", (long long)undefined->name.as.integer);
        name = number;
    } else {
        name = sw_jinja_type_name(&undefined->name);
        n = (int)strlen(name);
    }
    if (undefined->is_unsafe)
        return sw_jinja_fail(run, "access to attribute '%.*s' of '%s' is unsafe", n, name,
                             undefined->owner);
    if (!undefined->owner)
        return sw_jinja_fail(run, "'%.*s' is undefined", n, name);
    if (undefined->name.kind == JINJA_TEXT)
        return sw_jinja_fail(run, "'%s' has no attribute '%.*s'", undefined->owner, n, name);
    return sw_jinja_fail(run, "%s has no element %.*s", undefined->owner, n, name);
}

bool sw_jinja_truth(const jinja_value *value) {
    switch (value->kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value->as.truth;
    case JINJA_INTEGER:
        return value->as.integer != 0;
    case JINJA_REAL:
        return value->as.real != 0;
    case JINJA_TEXT:
        return value->as.text->n_bytes != 0;
    default:
        return sw_jinja_size(value) != 0; /* what has no length is true */
    }
}

bool sw_jinja_same(const jinja_value *a, const jinja_value *b) {
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case JINJA_NONE:
        return true;
    case JINJA_BOOL:
        return a->as.truth == b->as.truth;
    case JINJA_INTEGER:
        return a->as.integer == b->as.integer && a->as.integer >= -5 &&
               a->as.integer <= 256; /* those Python keeps */
    case JINJA_TEXT:
        return a->as.text == b->as.text ||
               (a->as.text->n_bytes <= 1 && sw_jinja_same_text(a->as.text, b->as.text));
    case JINJA_REAL:
        return false;
    default:
        return a->as.pointer == b->as.pointer;
    }
}

static bool equal_items(jinja_run *run, const jinja_list *a, const jinja_list *b, bool *is_equal) {
    *is_equal = a->n == b->n;
    for (int64_t i = 0; i < a->n && *is_equal; i++)
        if (!sw_jinja_equal(run, &a->items[i], &b->items[i], is_equal))
            return false;
    return true;
}

static bool equal_dicts(jinja_run *run, const jinja_dict *a, const jinja_dict *b, bool with_values,
                        bool *is_equal) {
    *is_equal = a->n == b->n;
    for (int64_t i = 0; i < a->n && *is_equal; i++) {
        const jinja_value *found;
        if (!sw_jinja_get(run, b, &a->entries[i].key, &found))
            return false;
        *is_equal = found != NULL;
        if (found && with_values && !sw_jinja_equal(run, &a->entries[i].value, found, is_equal))
            return false;
    }
    return true;
}

static bool equal_ranges(const jinja_range *a, const jinja_range *b) {
    return a->n == b->n &&
           (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

static bool equal_within(jinja_run *run, const jinja_value *a, const jinja_value *b,
                         bool *is_equal) {
    switch (a->kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        return a->as.list == b->as.list || equal_items(run, a->as.list, b->as.list, is_equal);
    default:
        return a->as.dict == b->as.dict ||
               equal_dicts(run, a->as.dict, b->as.dict, a->kind != JINJA_KEYS, is_equal);
    }
}

bool sw_jinja_equal(jinja_run *run, const jinja_value *a, const jinja_value *b, bool *is_equal) {
    *is_equal = true;
    if (sw_jinja_is_number(a) && sw_jinja_is_number(b)) {
        *is_equal = sw_jinja_number_order(a, b) == 0;
        return true;
    }
    if (a->kind != b->kind) {
        *is_equal = false;
        return true;
    }
    switch (a->kind) {
    case JINJA_NONE:
    case JINJA_UNDEFINED:
        return true;
    case JINJA_TEXT:
        *is_equal = sw_jinja_same_text(a->as.text, b->as.text);
        return *is_equal ? sw_jinja_spend_bytes(run, a->as.text->n_bytes) : true;
    case JINJA_RANGE:
        *is_equal = equal_ranges(a->as.range, b->as.range);
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_KEYS:
    case JINJA_ITEMS: {
        bool is_done = sw_jinja_enter(run) && sw_jinja_spend(run, 1);
        is_done = is_done && equal_within(run, a, b, is_equal);
        sw_jinja_leave(run);
        return is_done;
    }
    default:
        *is_equal = a->as.pointer == b->as.pointer;
        return true;
    }
}

static bool holds(jinja_order order, int sign) {
    switch (order) {
    case JINJA_LESS:
        return sign < 0;
    case JINJA_LESS_EQUAL:
        return sign <= 0;
    case JINJA_GREATER:
        return sign > 0 && sign != 2;
    default:
        return sign >= 0 && sign != 2;
    }
}

static bool order_items(jinja_run *run, const jinja_list *a, const jinja_list *b, jinja_order order,
                        bool *is_so) {
    int64_t n = smaller(a->n, b->n);
    for (int64_t i = 0; i < n; i++) {
        bool is_equal;
        if (!sw_jinja_equal(run, &a->items[i], &b->items[i], &is_equal))
            return false;
        if (!is_equal)
            return sw_jinja_order(run, &a->items[i], &b->items[i], order, is_so);
    }
    *is_so = holds(order, (a->n > b->n) - (a->n < b->n));
    return true;
}

bool sw_jinja_order(jinja_run *run, const jinja_value *a, const jinja_value *b, jinja_order order,
                    bool *is_so) {
    if (sw_jinja_is_number(a) && sw_jinja_is_number(b)) {
        *is_so = holds(order, sw_jinja_number_order(a, b));
        return true;
    }
    if (a->kind == JINJA_TEXT && b->kind == JINJA_TEXT) {
        int sign = sw_jinja_text_order(a->as.text, b->as.text);
        *is_so = holds(order, (sign > 0) - (sign < 0));
        return sw_jinja_spend(run, 1);
    }
    if (a->kind == b->kind && sw_jinja_is_sequence(a)) {
        bool is_done = sw_jinja_enter(run) && sw_jinja_spend(run, 1) &&
                       order_items(run, a->as.list, b->as.list, order, is_so);
        sw_jinja_leave(run);
        return is_done;
    }
    if (a->kind == JINJA_UNDEFINED || b->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, a->kind == JINJA_UNDEFINED ? a : b);
    static const char *const signs[] = {"<", "<=", ">", ">="};
    return sw_jinja_fail(run, "'%s' not supported between instances of '%s' and '%s'", signs[order],
                         sw_jinja_type_name(a), sw_jinja_type_name(b));
}

static bool is_hashable(const jinja_value *value, int depth) {
    if (value->kind == JINJA_LIST || value->kind == JINJA_DICT || value->kind == JINJA_KEYS ||
        value->kind == JINJA_ITEMS)
        return false;
    for (int64_t i = 0; value->kind == JINJA_TUPLE && depth > 0 && i < value->as.list->n; i++)
        if (!is_hashable(&value->as.list->items[i], depth - 1))
            return false;
    return true;
}

bool sw_jinja_is_hashable(const jinja_value *value) {
    return is_hashable(value, 3);
}

bool sw_jinja_hash(jinja_run *run, const jinja_value *value, uint64_t *hash) {
    switch (value->kind) {
    case JINJA_BOOL:
    case JINJA_INTEGER:
    case JINJA_BIG:
    case JINJA_REAL:
        *hash = sw_jinja_number_hash(value);
        return true;
    case JINJA_TEXT:
        *hash = sw_jinja_text_hash(value->as.text);
        return true;
    case JINJA_NONE:
    case JINJA_UNDEFINED:
        *hash = 0x9E37 + value->kind;
        return true;
    case JINJA_RANGE:
        *hash = (uint64_t)value->as.range->n * 31;
        return true;
    case JINJA_TUPLE: {
        bool is_done = sw_jinja_enter(run);
        *hash = SW_HASH_START;
        for (int64_t i = 0; i < value->as.list->n && is_done; i++) {
            uint64_t part = 0;
            is_done =
                sw_jinja_spend(run, 1) && sw_jinja_hash(run, &value->as.list->items[i], &part);
            if (is_done)
                *hash = sw_hash_bytes(*hash, &part, sizeof part);
        }
        sw_jinja_leave(run);
        return is_done;
    }
    case JINJA_LIST:
    case JINJA_DICT:
    case JINJA_KEYS:
    case JINJA_ITEMS:
        return sw_jinja_fail(run, "unhashable type: '%s'", sw_jinja_type_name(value));
    default:
        *hash = (uint64_t)(uintptr_t)value->as.pointer >> 4;
        return true;
    }
}

static bool find_item(jinja_run *run, const jinja_value *whole, const jinja_value *item,
                      bool *is_in) {
    jinja_iterator iterator;
    jinja_value other;
    bool is_end = false;
    *is_in = false;
    if (!sw_jinja_iterate(run, whole, &iterator))
        return false;
    while (!*is_in) {
        if (!sw_jinja_next(run, &iterator, &other, &is_end))
            return false;
        if (is_end)
            return true;
        *is_in = sw_jinja_same(&other, item);
        if (!*is_in && !sw_jinja_equal(run, &other, item, is_in))
            return false;
    }
    return true;
}

bool sw_jinja_contains(jinja_run *run, const jinja_value *whole, const jinja_value *item,
                       bool *is_in) {
    if (whole->kind == JINJA_TEXT) {
        if (item->kind != JINJA_TEXT)
            return sw_jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                                 sw_jinja_type_name(item));
        *is_in = sw_jinja_find(whole->as.text->bytes, sw_jinja_end_of(whole->as.text),
                               item->as.text) != NULL;
        return sw_jinja_spend_bytes(run, whole->as.text->n_bytes);
    }
    if (whole->kind == JINJA_DICT || whole->kind == JINJA_KEYS) {
        const jinja_value *found;
        bool is_done = sw_jinja_get(run, whole->as.dict, item, &found);
        *is_in = is_done && found;
        return is_done;
    }
    if (!sw_jinja_is_iterable(whole))
        return sw_jinja_fail(run, "argument of type '%s' is not iterable",
                             sw_jinja_type_name(whole));
    return find_item(run, whole, item, is_in);
}
