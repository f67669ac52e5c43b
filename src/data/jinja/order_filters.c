/* order_filters.c: filters that compare items: sort, dictsort, groupby, unique, min, max. Case is
 * ignored unless asked for. */
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/compare.h"
#include "data/jinja/execute.h"
#include "data/jinja/filters.h"
#include "data/jinja/iterate.h"
#include "data/jinja/text.h"

/* An item with what it is sorted by: one key, or several as a list. */
typedef struct keyed {
    jinja_value item;
    jinja_value key;
} keyed;

/* What an item is compared by. */
static bool key_of(jinja_run *run, const jinja_path *path, bool folds, const jinja_value *item,
                   const jinja_value *instead, jinja_value *key) {
    jinja_value found;
    if (!sw_jinja_follow(run, path, item, instead, &found))
        return false;
    *key = found;
    return !folds || sw_jinja_fold(run, &found, key);
}

/* Python wants a bool or integer here, and not just what is true. */
static bool read_reverse(jinja_run *run, const jinja_value *value, bool *is_reverse) {
    int64_t given;
    bool is_done = sw_jinja_whole_argument(run, "reverse", value, 0, &given);
    *is_reverse = is_done && given != 0;
    return is_done;
}

/* Stable: merges neighbours. Of a and b, which came later, b goes first only if it is less (or, in
 * reverse, more). */
static bool merge_sort(jinja_run *run, keyed *items, keyed *spare, int64_t n, bool is_reverse) {
    if (n < 2)
        return true;
    int64_t half = n / 2, left = 0, right = half, at = 0;
    if (!merge_sort(run, items, spare, half, is_reverse) ||
        !merge_sort(run, items + half, spare, n - half, is_reverse))
        return false;
    while (left < half && right < n) {
        bool right_first;
        if (!sw_jinja_spend(run, 1) ||
            !(is_reverse ? sw_jinja_order(run, &items[left].key, &items[right].key, JINJA_LESS,
                                          &right_first)
                         : sw_jinja_order(run, &items[right].key, &items[left].key, JINJA_LESS,
                                          &right_first)))
            return false;
        spare[at++] = right_first ? items[right++] : items[left++];
    }
    while (left < half)
        spare[at++] = items[left++];
    memcpy(items, spare, (size_t)at * sizeof *items);
    return true;
}

static bool sort(jinja_run *run, keyed *items, int64_t n, bool is_reverse) {
    keyed *spare = sw_jinja_take(run, n * (int64_t)sizeof *spare);
    return spare && merge_sort(run, items, spare, n, is_reverse);
}

static bool give_sorted(jinja_run *run, const keyed *items, int64_t n, jinja_value *out) {
    jinja_value *sorted = sw_jinja_take(run, n * (int64_t)sizeof *sorted);
    if (!sorted)
        return false;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = items[i].item;
    return sw_jinja_give_list(sw_jinja_list(run, sorted, n), JINJA_LIST, out);
}

/* Attributes with commas between them: a list of keys. */
static bool paths_of(jinja_run *run, const jinja_value *attribute, jinja_path **paths, int64_t *n) {
    *n = 1;
    if (attribute->kind == JINJA_TEXT)
        for (int64_t i = 0; i < attribute->as.text->n_bytes; i++)
            *n += attribute->as.text->bytes[i] == ',';
    *paths = sw_jinja_take(run, *n * (int64_t)sizeof **paths);
    if (!*paths)
        return false;
    if (attribute->kind != JINJA_TEXT)
        return sw_jinja_path(run, attribute, *paths);
    const char *at = attribute->as.text->bytes, *end = sw_jinja_end_of(attribute->as.text);
    for (int64_t i = 0; i < *n; i++) {
        const char *comma = i + 1 < *n ? memchr(at, ',', (size_t)(end - at)) : end;
        jinja_value part = sw_jinja_of_text(sw_jinja_view(run, at, comma - at));
        if (!part.as.text || !sw_jinja_path(run, &part, &(*paths)[i]))
            return false;
        at = comma + 1;
    }
    return true;
}

static bool filter_sort(jinja_run *run, const jinja_value *self, const jinja_value *values,
                        jinja_value *out) {
    const jinja_value *items;
    jinja_path *paths;
    int64_t n, n_paths;
    bool is_reverse;
    if (!read_reverse(run, &values[0], &is_reverse) ||
        !paths_of(run, &values[2], &paths, &n_paths) || !sw_jinja_items_of(run, self, &items, &n))
        return false;
    keyed *sorted = sw_jinja_take(run, n * (int64_t)sizeof *sorted);
    for (int64_t i = 0; sorted && i < n; i++) {
        jinja_value *keys = sw_jinja_take(run, n_paths * (int64_t)sizeof *keys);
        for (int64_t j = 0; keys && j < n_paths; j++)
            if (!key_of(run, &paths[j], !sw_jinja_is_set(&values[1]), &items[i], NULL, &keys[j]))
                return false;
        sorted[i].item = items[i];
        if (!keys ||
            !sw_jinja_give_list(sw_jinja_list(run, keys, n_paths), JINJA_LIST, &sorted[i].key))
            return false;
    }
    return sorted && sort(run, sorted, n, is_reverse) && give_sorted(run, sorted, n, out);
}

static bool filter_dictsort(jinja_run *run, const jinja_value *self, const jinja_value *values,
                            jinja_value *out) {
    bool by_value = values[1].kind == JINJA_TEXT && sw_jinja_is_word(values[1].as.text, "value");
    bool by_key = values[1].kind == JINJA_MISSING ||
                  (values[1].kind == JINJA_TEXT && sw_jinja_is_word(values[1].as.text, "key"));
    if (!by_value && !by_key)
        return sw_jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    if (self->kind == JINJA_UNDEFINED)
        return sw_jinja_fail_undefined(run, self);
    if (self->kind != JINJA_DICT)
        return sw_jinja_fail(run, "dictsort needs a mapping, not %s", sw_jinja_type_name(self));
    const jinja_dict *dict = self->as.dict;
    bool is_reverse;
    if (!read_reverse(run, &values[2], &is_reverse))
        return false;
    keyed *sorted = sw_jinja_take(run, dict->n * (int64_t)sizeof *sorted);
    for (int64_t i = 0; sorted && i < dict->n; i++) {
        const jinja_entry *entry = &dict->entries[i];
        const jinja_value *key = by_value ? &entry->value : &entry->key;
        sorted[i].key = *key;
        if (!sw_jinja_pair(run, &entry->key, &entry->value, &sorted[i].item) ||
            (!sw_jinja_is_set(&values[0]) && !sw_jinja_fold(run, key, &sorted[i].key)))
            return false;
    }
    return sorted && sort(run, sorted, dict->n, is_reverse) &&
           give_sorted(run, sorted, dict->n, out);
}

/* The items first .. end of a row, under the key that the first of them has. */
static bool add_group(jinja_run *run, const jinja_path *path, const jinja_value *instead,
                      const keyed *first, const keyed *end, bool folds, jinja_items *groups) {
    jinja_value *pair = sw_jinja_take(run, 2 * (int64_t)sizeof *pair), group;
    if (!pair || !give_sorted(run, first, end - first, &pair[1]))
        return false;
    pair[0] = first->key;
    if (folds && !sw_jinja_follow(run, path, &first->item, instead, &pair[0]))
        return false;
    jinja_list *list = sw_jinja_list(run, pair, 2);
    if (!sw_jinja_give_list(list, JINJA_TUPLE, &group))
        return false;
    list->is_group = true;
    return sw_jinja_add(run, groups, &group);
}

static bool filter_groupby(jinja_run *run, const jinja_value *self, const jinja_value *values,
                           jinja_value *out) {
    const jinja_value *items;
    jinja_path path;
    jinja_items groups = {0};
    int64_t n, first = 0;
    bool folds = !sw_jinja_is_set(&values[2]);
    if (!sw_jinja_path(run, &values[0], &path) || !sw_jinja_items_of(run, self, &items, &n))
        return false;
    keyed *sorted = sw_jinja_take(run, n * (int64_t)sizeof *sorted);
    for (int64_t i = 0; sorted && i < n; i++) {
        sorted[i].item = items[i];
        if (!key_of(run, &path, folds, &items[i], &values[1], &sorted[i].key))
            return false;
    }
    if (!sorted || !sort(run, sorted, n, false))
        return false;
    for (int64_t i = 1; i <= n; i++) {
        bool is_equal = false;
        if (i < n && !sw_jinja_equal(run, &sorted[i].key, &sorted[first].key, &is_equal))
            return false;
        if (is_equal)
            continue;
        if (!add_group(run, &path, &values[1], sorted + first, sorted + i, folds, &groups))
            return false;
        first = i;
    }
    return sw_jinja_give_items(run, &groups, JINJA_LIST, out);
}

static bool filter_unique(jinja_run *run, const jinja_value *self, const jinja_value *values,
                          jinja_value *out) {
    jinja_iterator iterator;
    jinja_path path;
    jinja_items unique = {0};
    jinja_value item, key, list;
    bool is_end = false;
    jinja_dict *seen = sw_jinja_dict(run, 0);
    if (!seen || !sw_jinja_path(run, &values[1], &path) || !sw_jinja_iterate(run, self, &iterator))
        return false;
    while (sw_jinja_next(run, &iterator, &item, &is_end) && !is_end) {
        const jinja_value *found;
        if (!key_of(run, &path, !sw_jinja_is_set(&values[0]), &item, NULL, &key) ||
            !sw_jinja_get(run, seen, &key, &found))
            return false;
        if (!found && (!sw_jinja_set(run, seen, &key, &item) || !sw_jinja_add(run, &unique, &item)))
            return false;
    }
    return is_end && sw_jinja_give_items(run, &unique, JINJA_LIST, &list) &&
           sw_jinja_iterate(run, &list, &iterator) && sw_jinja_give_iterator(run, &iterator, out);
}

static bool extreme(jinja_run *run, const jinja_value *self, const jinja_value *values,
                    jinja_order order, jinja_value *out) {
    jinja_iterator iterator;
    jinja_path path;
    jinja_value item, key, best_key = {0};
    bool is_end = false, is_first = true, is_better;
    if (!sw_jinja_path(run, &values[1], &path) || !sw_jinja_iterate(run, self, &iterator))
        return false;
    for (; sw_jinja_next(run, &iterator, &item, &is_end) && !is_end; is_first = false) {
        if (!key_of(run, &path, !sw_jinja_is_set(&values[0]), &item, NULL, &key))
            return false;
        if (!is_first && !sw_jinja_order(run, &key, &best_key, order, &is_better))
            return false;
        if (!is_first && !is_better)
            continue;
        *out = item;
        best_key = key;
    }
    return is_end &&
           (!is_first || sw_jinja_give_hint(run, "No aggregated item, sequence was empty.", out));
}

static bool filter_min(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return extreme(run, self, values, JINJA_LESS, out);
}

static bool filter_max(jinja_run *run, const jinja_value *self, const jinja_value *values,
                       jinja_value *out) {
    return extreme(run, self, values, JINJA_GREATER, out);
}

const jinja_builtin sw_jinja_order_filters[] = {
    {.name = "sort", .call = filter_sort, .parameters = {"reverse", "case_sensitive", "attribute"}},
    {.name = "dictsort",
     .call = filter_dictsort,
     .parameters = {"case_sensitive", "by", "reverse"}},
    {.name = "groupby",
     .call = filter_groupby,
     .n_required = 1,
     .parameters = {"attribute", "default", "case_sensitive"}},
    {.name = "unique",
     .call = filter_unique,
     .is_deferred = true,
     .parameters = {"case_sensitive", "attribute"}},
    {.name = "min", .call = filter_min, .parameters = {"case_sensitive", "attribute"}},
    {.name = "max", .call = filter_max, .parameters = {"case_sensitive", "attribute"}},
    {0}};
