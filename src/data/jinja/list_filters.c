/* list_filters.c: filters that take items apart and put them together. */
#include "base/integer.h"
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/filters.h"
#include "data/jinja/iterate.h"
#include "data/jinja/number.h"
#include "data/jinja/print.h"
#include "data/jinja/text.h"

/* Items that are gone over once, as what Python's generators give. */
static bool give_once(jinja_run *run, const jinja_items *items, jinja_value *out) {
    jinja_value list;
    jinja_iterator iterator;
    return sw_jinja_give_items(run, items, JINJA_LIST, &list) &&
           sw_jinja_iterate(run, &list, &iterator) && sw_jinja_give_iterator(run, &iterator, out);
}

static bool filter_length(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    (void)values;
    int64_t n = sw_jinja_size(self);
    *out = sw_jinja_integer(n);
    if (self->kind == JINJA_TEXT && !sw_jinja_spend_bytes(run, self->as.text->n_bytes))
        return false;
    return n >= 0 ||
           sw_jinja_fail(run, "object of type '%s' has no len()", sw_jinja_type_name(self));
}

static bool filter_first(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    jinja_iterator iterator;
    bool is_end;
    if (!sw_jinja_iterate(run, self, &iterator) || !sw_jinja_next(run, &iterator, out, &is_end))
        return false;
    return !is_end || sw_jinja_give_hint(run, "No first item, sequence was empty.", out);
}

static bool filter_last(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    (void)values;
    jinja_iterator iterator;
    bool is_end = true;
    if (self->kind != JINJA_UNDEFINED && (!sw_jinja_iterate_back(run, self, &iterator) ||
                                          !sw_jinja_next(run, &iterator, out, &is_end)))
        return false;
    return !is_end || sw_jinja_give_hint(run, "No last item, sequence was empty.", out);
}

static bool filter_list(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    (void)values;
    const jinja_value *items;
    int64_t n;
    return sw_jinja_items_of(run, self, &items, &n) &&
           sw_jinja_give_list(sw_jinja_list(run, items, n), JINJA_LIST, out);
}

static bool filter_reverse(jinja_run *run, const jinja_value *self, const jinja_value *values,
                           jinja_value *out) {
    (void)values;
    jinja_iterator iterator;
    jinja_value list = *self;
    if (self->kind == JINJA_TEXT) {
        jinja_start start = sw_jinja_start(run);
        if (!sw_jinja_spend_characters(run, self->as.text->n_bytes))
            return false;
        for (const char *at = sw_jinja_end_of(self->as.text), *end = at; at > self->as.text->bytes;
             end = at) {
            sw_jinja_previous(&at);
            if (!sw_jinja_write(run, at, end - at))
                return false;
        }
        jinja_text *reversed = sw_jinja_collect(run, start);
        if (reversed)
            reversed->is_markup = self->as.text->is_markup;
        return sw_jinja_give_text(reversed, out);
    }
    if (!sw_jinja_is_iterable(self))
        return sw_jinja_fail(run, "reverse: argument must be iterable, not %s",
                             sw_jinja_type_name(self));
    bool is_reversible = sw_jinja_is_reversible(self);
    if (!is_reversible && !filter_list(run, self, NULL, &list))
        return false;
    if (!sw_jinja_iterate_back(run, &list, &iterator) ||
        !sw_jinja_give_iterator(run, &iterator, out))
        return false;
    return is_reversible || self->kind == JINJA_UNDEFINED ||
           filter_list(run, out, NULL, out); /* of a generator: a list */
}

static bool filter_join(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    jinja_iterator iterator;
    jinja_path path;
    jinja_value item;
    bool is_end = false, is_first = true;
    jinja_text *between = values[0].kind == JINJA_MISSING ? NULL : sw_jinja_str(run, &values[0]);
    if ((values[0].kind != JINJA_MISSING && !between) || !sw_jinja_path(run, &values[1], &path) ||
        !sw_jinja_iterate(run, self, &iterator))
        return false;
    jinja_start start = sw_jinja_start(run);
    for (; sw_jinja_next(run, &iterator, &item, &is_end) && !is_end; is_first = false) {
        jinja_value part = item;
        if ((path.n && !sw_jinja_follow(run, &path, &item, NULL, &part)) ||
            (!is_first && between && !sw_jinja_write(run, between->bytes, between->n_bytes)) ||
            !sw_jinja_print(run, &part))
            return false;
    }
    return is_end && sw_jinja_give_text(sw_jinja_collect(run, start), out);
}

static bool filter_sum(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    jinja_iterator iterator;
    jinja_path path;
    jinja_value item, part, sum = values[1].kind == JINJA_MISSING ? sw_jinja_integer(0) : values[1];
    bool is_end = false;
    if (sum.kind == JINJA_TEXT)
        return sw_jinja_fail(run, "sum() can't sum strings; `join` does");
    if (!sw_jinja_path(run, &values[0], &path) || !sw_jinja_iterate(run, self, &iterator))
        return false;
    while (sw_jinja_next(run, &iterator, &item, &is_end) && !is_end) {
        jinja_value before = sum;
        if (!sw_jinja_follow(run, &path, &item, NULL, &part) ||
            !sw_jinja_operate(run, JINJA_ADD, &before, &part, &sum))
            return false;
    }
    *out = sum;
    return is_end;
}

/* In rows of so many; the last is filled up. */
static bool filter_batch(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    jinja_iterator iterator;
    jinja_items batches = {0}, batch = {0};
    jinja_value item, list;
    bool is_end = false, has_fill = values[1].kind != JINJA_MISSING && values[1].kind != JINJA_NONE;
    int64_t n;
    if (!sw_jinja_whole_argument(run, "batch", &values[0], 0, &n) ||
        !sw_jinja_iterate(run, self, &iterator))
        return false;
    while (sw_jinja_next(run, &iterator, &item, &is_end) && !is_end) {
        if (batch.n == n) {
            if (!sw_jinja_give_items(run, &batch, JINJA_LIST, &list) ||
                !sw_jinja_add(run, &batches, &list))
                return false;
            batch = (jinja_items){0};
        }
        if (!sw_jinja_add(run, &batch, &item))
            return false;
    }
    if (!is_end)
        return false;
    if (batch.n) {
        while (has_fill && batch.n < n)
            if (!sw_jinja_add(run, &batch, &values[1]))
                return false;
        if (!sw_jinja_give_items(run, &batch, JINJA_LIST, &list) ||
            !sw_jinja_add(run, &batches, &list))
            return false;
    }
    return give_once(run, &batches, out);
}

/* In so many rows; the shorter ones are filled up. */
static bool filter_slice(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    const jinja_value *items;
    jinja_items slices = {0};
    int64_t n, n_items, offset = 0;
    bool has_fill = values[1].kind != JINJA_MISSING && values[1].kind != JINJA_NONE;
    if (!sw_jinja_whole_argument(run, "slice", &values[0], 0, &n) ||
        !sw_jinja_items_of(run, self, &items, &n_items))
        return false;
    if (n == 0)
        return sw_jinja_fail(run, "slice: division by zero");
    int64_t per_slice = n > 0 ? n_items / n : 0, n_longer = n > 0 ? n_items % n : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = offset + i * per_slice;
        offset += i < n_longer;
        int64_t end = offset + (i + 1) * per_slice;
        jinja_items slice = {0};
        jinja_value list;
        for (int64_t j = first; j < end; j++)
            if (!sw_jinja_add(run, &slice, &items[j]))
                return false;
        if ((has_fill && i >= n_longer && !sw_jinja_add(run, &slice, &values[1])) ||
            !sw_jinja_give_items(run, &slice, JINJA_LIST, &list) ||
            !sw_jinja_add(run, &slices, &list))
            return false;
    }
    return give_once(run, &slices, out);
}

static bool filter_items(jinja_run *run, const jinja_value *self, const jinja_value *values,
                         jinja_value *out) {
    (void)values;
    jinja_iterator iterator;
    jinja_value items = *self;
    if (self->kind == JINJA_DICT)
        items.kind = JINJA_ITEMS;
    else if (self->kind != JINJA_UNDEFINED)
        return sw_jinja_fail(run, "Can only get item pairs from a mapping.");
    return sw_jinja_iterate(run, &items, &iterator) && sw_jinja_give_iterator(run, &iterator, out);
}

const jinja_builtin sw_jinja_list_filters[] = {
    {.name = "length", .call = filter_length},
    {.name = "count", .call = filter_length},
    {.name = "first", .call = filter_first},
    {.name = "last", .call = filter_last},
    {.name = "list", .call = filter_list},
    {.name = "reverse", .call = filter_reverse},
    {.name = "join", .call = filter_join, .parameters = {"d", "attribute"}},
    {.name = "sum", .call = filter_sum, .parameters = {"attribute", "start"}},
    {.name = "batch",
     .call = filter_batch,
     .is_deferred = true,
     .n_required = 1,
     .parameters = {"linecount", "fill_with"}},
    {.name = "slice",
     .call = filter_slice,
     .is_deferred = true,
     .n_required = 1,
     .parameters = {"slices", "fill_with"}},
    {.name = "items", .call = filter_items, .is_deferred = true},
    {0}};
