/* collection_methods.c: methods of lists, tuples, ranges and dicts. */
#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/iterate.h"
#include "data/jinja/number.h"
#include "data/jinja/text.h"

static bool is_item(jinja_run *run, const jinja_value *item, const jinja_value *wanted,
                    bool *is_equal) {
    *is_equal = sw_jinja_same(item, wanted);
    return sw_jinja_spend(run, 1) && (*is_equal || sw_jinja_equal(run, item, wanted, is_equal));
}

static bool list_index(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    const jinja_value *items;
    int64_t n, at[2] = {0, INT64_MAX};
    if (!sw_jinja_items_of(run, self, &items, &n))
        return false;
    for (int i = 0; i < 2; i++) {
        if (values[i + 1].kind == JINJA_MISSING)
            continue;
        if (!sw_jinja_index_of(&values[i + 1], &at[i]))
            return sw_jinja_fail(run, "slice indices must be integers, not %s",
                                 sw_jinja_type_name(&values[i + 1]));
        if (at[i] < 0)
            at[i] = larger(0, at[i] + n);
    }
    for (int64_t i = at[0]; i < smaller(at[1], n); i++) {
        bool is_equal;
        if (!is_item(run, &items[i], &values[0], &is_equal))
            return false;
        if (is_equal) {
            *out = sw_jinja_integer(i);
            return true;
        }
    }
    return sw_jinja_fail(run, "index(): that value is not in the %s", sw_jinja_type_name(self));
}

static bool list_count(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    const jinja_value *items;
    int64_t n, n_found = 0;
    if (!sw_jinja_items_of(run, self, &items, &n))
        return false;
    for (int64_t i = 0; i < n; i++) {
        bool is_equal;
        if (!is_item(run, &items[i], &values[0], &is_equal))
            return false;
        n_found += is_equal;
    }
    *out = sw_jinja_integer(n_found);
    return true;
}

/* Nothing changes a list or dict, so it is its own copy. */
static bool copy(jinja_run *run, const jinja_value *self, const jinja_value *values,
                 jinja_value *out) {
    (void)run, (void)values;
    *out = *self;
    return true;
}

static bool dict_get(jinja_run *run, const jinja_value *self, const jinja_value *values,
                     jinja_value *out) {
    const jinja_value *found;
    if (!sw_jinja_get(run, self->as.dict, &values[0], &found))
        return false;
    *out = found ? *found : values[1].kind == JINJA_MISSING ? sw_jinja_none() : values[1];
    return true;
}

static bool view(const jinja_value *self, jinja_kind kind, jinja_value *out) {
    *out = (jinja_value){.kind = kind, .as.dict = self->as.dict};
    return true;
}

static bool dict_items(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    (void)run, (void)values;
    return view(self, JINJA_ITEMS, out);
}

static bool dict_keys(jinja_run *run, const jinja_value *self, const jinja_value *values,
                      jinja_value *out) {
    (void)run, (void)values;
    return view(self, JINJA_KEYS, out);
}

static bool dict_values(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    (void)run, (void)values;
    return view(self, JINJA_VALUES, out);
}

static bool dict_fromkeys(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    (void)self;
    jinja_iterator iterator;
    jinja_value key, none = sw_jinja_none();
    bool is_end = false;
    jinja_dict *dict = sw_jinja_dict(run, 0);
    if (!dict || !sw_jinja_iterate(run, &values[0], &iterator))
        return false;
    while (sw_jinja_next(run, &iterator, &key, &is_end) && !is_end)
        if (!sw_jinja_set(run, dict, &key, values[1].kind == JINJA_MISSING ? &none : &values[1]))
            return false;
    *out = sw_jinja_of_dict(dict);
    return is_end;
}

const jinja_builtin sw_jinja_list_methods[] = {
    {.name = "index",
     .call = list_index,
     .n_required = 1,
     .parameters = {"/value", "/start", "/stop"}},
    {.name = "count", .call = list_count, .n_required = 1, .parameters = {"/value"}},
    {.name = "copy", .call = copy},
    {0}};

const jinja_builtin sw_jinja_dict_methods[] = {
    {.name = "get", .call = dict_get, .n_required = 1, .parameters = {"/key", "/default"}},
    {.name = "items", .call = dict_items},
    {.name = "keys", .call = dict_keys},
    {.name = "values", .call = dict_values},
    {.name = "copy", .call = copy},
    {.name = "fromkeys", .call = dict_fromkeys, .n_required = 1, .parameters = {"/keys", "/value"}},
    {0}};
