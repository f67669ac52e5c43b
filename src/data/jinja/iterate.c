/* iterate.c: iterators over the values themselves; those of filters are with the filters. */
#include "data/jinja/iterate.h"

#include "data/jinja/compare.h"
#include "data/jinja/text.h"

static bool next_of_nothing(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                            bool *is_end) {
    (void)run, (void)iterator, (void)item;
    *is_end = true;
    return true;
}

static bool next_of_list(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                         bool *is_end) {
    (void)run;
    const jinja_list *list = iterator->source.as.list;
    *is_end = iterator->at >= list->n;
    if (!*is_end)
        *item = list->items[iterator->at++];
    return true;
}

static bool next_of_text(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                         bool *is_end) {
    const jinja_text *text = iterator->source.as.text;
    *is_end = iterator->byte >= sw_jinja_end_of(text);
    if (*is_end)
        return true;
    const char *first = iterator->byte;
    iterator->byte += sw_utf8_length(*first);
    jinja_text *character = sw_jinja_part(run, text, first, iterator->byte);
    if (character)
        character->is_markup = false;
    return sw_jinja_give_text(character, item);
}

static bool entry_of(jinja_run *run, jinja_kind kind, const jinja_entry *entry, jinja_value *item) {
    if (kind == JINJA_ITEMS)
        return sw_jinja_pair(run, &entry->key, &entry->value, item);
    *item = kind == JINJA_VALUES ? entry->value : entry->key;
    return true;
}

static bool next_of_dict(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                         bool *is_end) {
    const jinja_dict *dict = iterator->source.as.dict;
    *is_end = iterator->at >= dict->n;
    return *is_end || entry_of(run, iterator->source.kind, &dict->entries[iterator->at++], item);
}

static bool next_of_range(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                          bool *is_end) {
    (void)run;
    const jinja_range *range = iterator->source.as.range;
    *is_end = iterator->at >= range->n;
    if (!*is_end)
        *item = sw_jinja_integer(range->start + range->step * iterator->at++);
    return true;
}

static bool next_of_iterator(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                             bool *is_end) {
    return iterator->inner->next(run, iterator->inner, item, is_end);
}

bool sw_jinja_is_iterable(const jinja_value *value) {
    return (value->kind >= JINJA_TEXT && value->kind <= JINJA_ITERATOR) ||
           value->kind == JINJA_UNDEFINED;
}

bool sw_jinja_iterate(jinja_run *run, const jinja_value *value, jinja_iterator *iterator) {
    *iterator = (jinja_iterator){.source = *value};
    switch (value->kind) {
    case JINJA_UNDEFINED:
        iterator->next = next_of_nothing;
        break;
    case JINJA_LIST:
    case JINJA_TUPLE:
        iterator->next = next_of_list;
        break;
    case JINJA_TEXT:
        iterator->next = next_of_text;
        iterator->byte = value->as.text->bytes;
        break;
    case JINJA_DICT:
    case JINJA_KEYS:
    case JINJA_VALUES:
    case JINJA_ITEMS:
        iterator->next = next_of_dict;
        break;
    case JINJA_RANGE:
        iterator->next = next_of_range;
        break;
    case JINJA_ITERATOR:
        iterator->next = next_of_iterator;
        iterator->inner = value->as.iterator;
        break;
    default:
        return sw_jinja_fail(run, "'%s' object is not iterable", sw_jinja_type_name(value));
    }
    return true;
}

static bool back_of_list(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                         bool *is_end) {
    (void)run;
    const jinja_list *list = iterator->source.as.list;
    *is_end = iterator->at >= list->n;
    if (!*is_end)
        *item = list->items[list->n - ++iterator->at];
    return true;
}

static bool back_of_text(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                         bool *is_end) {
    const jinja_text *text = iterator->source.as.text;
    *is_end = iterator->byte <= text->bytes;
    if (*is_end)
        return true;
    const char *end = iterator->byte;
    sw_jinja_previous(&iterator->byte);
    return sw_jinja_give_text(sw_jinja_view(run, iterator->byte, end - iterator->byte), item);
}

static bool back_of_dict(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                         bool *is_end) {
    const jinja_dict *dict = iterator->source.as.dict;
    *is_end = iterator->at >= dict->n;
    return *is_end ||
           entry_of(run, iterator->source.kind, &dict->entries[dict->n - ++iterator->at], item);
}

static bool back_of_range(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                          bool *is_end) {
    (void)run;
    const jinja_range *range = iterator->source.as.range;
    *is_end = iterator->at >= range->n;
    if (!*is_end)
        *item = sw_jinja_integer(range->start + range->step * (range->n - ++iterator->at));
    return true;
}

bool sw_jinja_is_reversible(const jinja_value *value) {
    return value->kind >= JINJA_TEXT && value->kind <= JINJA_RANGE;
}

bool sw_jinja_iterate_back(jinja_run *run, const jinja_value *value, jinja_iterator *iterator) {
    *iterator = (jinja_iterator){.source = *value};
    switch (value->kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        iterator->next = back_of_list;
        break;
    case JINJA_TEXT:
        iterator->next = back_of_text;
        iterator->byte = sw_jinja_end_of(value->as.text);
        break;
    case JINJA_DICT:
    case JINJA_KEYS:
    case JINJA_VALUES:
    case JINJA_ITEMS:
        iterator->next = back_of_dict;
        break;
    case JINJA_RANGE:
        iterator->next = back_of_range;
        break;
    default:
        return sw_jinja_fail(run, "'%s' object is not reversible", sw_jinja_type_name(value));
    }
    return true;
}

bool sw_jinja_give_iterator(jinja_run *run, const jinja_iterator *iterator, jinja_value *out) {
    jinja_iterator *kept = sw_jinja_take(run, sizeof *kept);
    if (!kept)
        return false;
    *kept = *iterator;
    *out = (jinja_value){.kind = JINJA_ITERATOR, .as.iterator = kept};
    return true;
}

int64_t sw_jinja_size(const jinja_value *value) {
    switch (value->kind) {
    case JINJA_UNDEFINED:
        return 0;
    case JINJA_TEXT:
        return sw_jinja_length(value->as.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return value->as.list->n;
    case JINJA_DICT:
    case JINJA_KEYS:
    case JINJA_VALUES:
    case JINJA_ITEMS:
        return value->as.dict->n;
    case JINJA_RANGE:
        return value->as.range->n;
    default:
        return -1;
    }
}

bool sw_jinja_items_of(jinja_run *run, const jinja_value *value, const jinja_value **items,
                       int64_t *n) {
    if (sw_jinja_is_sequence(value)) {
        *items = value->as.list->items;
        *n = value->as.list->n;
        return true;
    }
    jinja_iterator iterator;
    jinja_items found = {0};
    jinja_value item;
    bool is_end = false;
    if (!sw_jinja_iterate(run, value, &iterator))
        return false;
    while (sw_jinja_next(run, &iterator, &item, &is_end) && !is_end)
        if (!sw_jinja_add(run, &found, &item))
            return false;
    *items = found.items;
    *n = found.n;
    return is_end;
}
