/* collection.c: lists and dicts. A dict keeps its keys in a row, in the order in which they came;
 * one of more than a dozen also has a table of their places. */
#include "data/jinja/collection.h"

#include <string.h>

#include "base/integer.h"
#include "data/jinja/compare.h"
#include "data/jinja/text.h"

enum { SMALL_DICT = 12, WORTH_GROWING = 8 };

jinja_list *sw_jinja_list(jinja_run *run, const jinja_value *items, int64_t n) {
    static const jinja_value nothing;
    jinja_list *list = sw_jinja_take(run, sizeof *list);
    if (list)
        *list = (jinja_list){.items = items ? items : &nothing, .n = n};
    return list;
}

bool sw_jinja_give_list(jinja_list *list, jinja_kind kind, jinja_value *out) {
    if (list)
        *out = (jinja_value){.kind = kind, .as.list = list};
    return list != NULL;
}

bool sw_jinja_pair(jinja_run *run, const jinja_value *first, const jinja_value *second,
                   jinja_value *out) {
    jinja_value *items = sw_jinja_take(run, 2 * (int64_t)sizeof *items);
    if (!items)
        return false;
    items[0] = *first;
    items[1] = *second;
    return sw_jinja_give_list(sw_jinja_list(run, items, 2), JINJA_TUPLE, out);
}

bool sw_jinja_add(jinja_run *run, jinja_items *items, const jinja_value *item) {
    if (items->n == items->capacity) {
        int64_t wider = larger(2 * items->capacity, 8);
        jinja_value *moved = sw_jinja_take(run, wider * (int64_t)sizeof *moved);
        if (!moved)
            return false;
        if (items->n)
            memcpy(moved, items->items, (size_t)items->n * sizeof *moved);
        items->items = moved;
        items->capacity = wider;
    }
    items->items[items->n++] = *item;
    return sw_jinja_spend(run, 1);
}

bool sw_jinja_give_items(jinja_run *run, const jinja_items *items, jinja_kind kind,
                         jinja_value *out) {
    return sw_jinja_give_list(sw_jinja_list(run, items->items, items->n), kind, out);
}

jinja_list *sw_jinja_list_join(jinja_run *run, jinja_list *a, const jinja_list *b) {
    int64_t n = a->n + b->n, more = b->n * (int64_t)sizeof *b->items;
    jinja_list *joined = sw_jinja_list(run, a->items, n);
    if (!joined || !sw_jinja_spend(run, b->n))
        return NULL;
    jinja_growth *growth = a->growth;
    if (!growth || growth->end != a->items + a->n || growth->room < more) {
        int64_t room = n < WORTH_GROWING ? 0 : n * (int64_t)sizeof *a->items;
        growth = sw_jinja_take(run, (int64_t)sizeof *growth + n * (int64_t)sizeof *a->items + room);
        if (!growth || !sw_jinja_spend(run, a->n / 4))
            return NULL;
        jinja_value *items = (jinja_value *)(growth + 1);
        if (a->n)
            memcpy(items, a->items, (size_t)a->n * sizeof *items);
        *growth = (jinja_growth){items + a->n, more + room};
        joined->items = items;
    }
    if (b->n)
        memcpy((jinja_value *)(uintptr_t)growth->end, b->items, (size_t)more);
    growth->end = (const jinja_value *)growth->end + b->n;
    growth->room -= more;
    joined->growth = growth;
    return joined;
}

jinja_dict *sw_jinja_dict(jinja_run *run, int64_t capacity) {
    jinja_dict *dict = sw_jinja_take(run, sizeof *dict);
    if (!dict)
        return NULL;
    *dict = (jinja_dict){0};
    if (capacity > 0) {
        dict->entries = sw_jinja_take(run, capacity * (int64_t)sizeof *dict->entries);
        dict->capacity = capacity;
    }
    return capacity > 0 && !dict->entries ? NULL : dict;
}

/* The entry of a key, -1 if there is none; -2: failed. Texts compare without a rendering. */
static int64_t find_entry(jinja_run *run, const jinja_dict *dict, const jinja_value *key,
                          uint64_t hash) {
    bool is_text = key->kind == JINJA_TEXT;
    int64_t n_looks = dict->index_size ? dict->index_size : dict->n, mask = dict->index_size - 1;
    for (int64_t i = 0; i < n_looks; i++) {
        int64_t at = i;
        if (dict->index_size) {
            uint32_t place = dict->index[((int64_t)hash + i) & mask];
            if (place == 0)
                return -1;
            at = (int64_t)place - 1;
        }
        const jinja_entry *entry = &dict->entries[at];
        if (entry->hash != hash)
            continue;
        if (is_text && entry->key.kind == JINJA_TEXT) {
            if (sw_jinja_same_text(entry->key.as.text, key->as.text))
                return at;
        } else if (run) {
            bool is_equal;
            if (!sw_jinja_equal(run, &entry->key, key, &is_equal))
                return -2;
            if (is_equal)
                return at;
        }
        if (run && !sw_jinja_spend(run, 1))
            return -2;
    }
    return -1;
}

static void index_entry(jinja_dict *dict, int64_t at) {
    int64_t mask = dict->index_size - 1, place = (int64_t)dict->entries[at].hash & mask;
    while (dict->index[place])
        place = (place + 1) & mask;
    dict->index[place] = (uint32_t)at + 1;
}

static bool widen_index(jinja_run *run, jinja_dict *dict) {
    int64_t size = larger(4 * SMALL_DICT, 2 * dict->index_size), rounded = 1;
    while (rounded < size)
        rounded *= 2;
    dict->index = sw_jinja_take(run, rounded * (int64_t)sizeof *dict->index);
    if (!dict->index)
        return false;
    memset(dict->index, 0, (size_t)rounded * sizeof *dict->index);
    dict->index_size = rounded;
    for (int64_t i = 0; i < dict->n; i++)
        index_entry(dict, i);
    return sw_jinja_spend(run, dict->n);
}

bool sw_jinja_set(jinja_run *run, jinja_dict *dict, const jinja_value *key,
                  const jinja_value *value) {
    uint64_t hash;
    if (!sw_jinja_hash(run, key, &hash))
        return false;
    int64_t at = find_entry(run, dict, key, hash);
    if (at == -2)
        return false;
    if (at >= 0) {
        dict->entries[at].value = *value;
        return true;
    }
    if (dict->n == dict->capacity) {
        int64_t wider = larger(2 * dict->capacity, 4);
        jinja_entry *moved =
            wider > UINT32_MAX / 2 ? NULL : sw_jinja_take(run, wider * (int64_t)sizeof *moved);
        if (!moved)
            return false;
        if (dict->n)
            memcpy(moved, dict->entries, (size_t)dict->n * sizeof *moved);
        dict->entries = moved;
        dict->capacity = wider;
    }
    dict->entries[dict->n++] = (jinja_entry){*key, *value, hash};
    if (dict->index_size && 2 * dict->n <= dict->index_size)
        index_entry(dict, dict->n - 1);
    else if (dict->n > SMALL_DICT && !widen_index(run, dict))
        return false;
    return sw_jinja_spend(run, 1);
}

bool sw_jinja_get(jinja_run *run, const jinja_dict *dict, const jinja_value *key,
                  const jinja_value **found) {
    uint64_t hash;
    if (!sw_jinja_hash(run, key, &hash))
        return false;
    int64_t at = find_entry(run, dict, key, hash);
    *found = at >= 0 ? &dict->entries[at].value : NULL;
    return at != -2;
}

const jinja_value *sw_jinja_get_text(const jinja_dict *dict, jinja_text *key) {
    jinja_value value = sw_jinja_of_text(key);
    int64_t at = find_entry(NULL, dict, &value, sw_jinja_text_hash(key));
    return at >= 0 ? &dict->entries[at].value : NULL;
}

const jinja_value *sw_jinja_get_word(const jinja_dict *dict, const char *key) {
    jinja_text text = {.bytes = key, .n_bytes = (int64_t)strlen(key), .n_characters = -1};
    return sw_jinja_get_text(dict, &text);
}
