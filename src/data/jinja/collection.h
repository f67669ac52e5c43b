/* collection.h: lists, tuples and dicts: made, grown while they are being made, looked into. */
#ifndef SW_DATA_JINJA_COLLECTION_H
#define SW_DATA_JINJA_COLLECTION_H

#include "data/jinja/run.h"

/* A list of n items that lie in the rendering's memory. NULL: failed. */
jinja_list *sw_jinja_list(jinja_run *run, const jinja_value *items, int64_t n);
bool sw_jinja_give_list(jinja_list *list, jinja_kind kind, jinja_value *out);

/* A tuple of two. */
bool sw_jinja_pair(jinja_run *run, const jinja_value *first, const jinja_value *second,
                   jinja_value *out);

/* A list that is being filled; starts as {0}. */
typedef struct jinja_items {
    jinja_value *items;
    int64_t n, capacity;
} jinja_items;
bool sw_jinja_add(jinja_run *run, jinja_items *items, const jinja_value *item);
bool sw_jinja_give_items(jinja_run *run, const jinja_items *items, jinja_kind kind,
                         jinja_value *out);

/* a followed by b, in place where a ends its memory and there is room. NULL: failed. */
jinja_list *sw_jinja_list_join(jinja_run *run, jinja_list *a, const jinja_list *b);

/* An empty dict. NULL: failed. */
jinja_dict *sw_jinja_dict(jinja_run *run, int64_t capacity);
static inline jinja_value sw_jinja_of_dict(const jinja_dict *dict) {
    return (jinja_value){.kind = JINJA_DICT, .as.dict = dict};
}

/* Set a key while a dict is being made, or a namespace's. False: failed, also for a key that cannot
 * be one (a list). */
bool sw_jinja_set(jinja_run *run, jinja_dict *dict, const jinja_value *key,
                  const jinja_value *value);
/* What a key has: NULL in *found where it is absent. False: failed. */
bool sw_jinja_get(jinja_run *run, const jinja_dict *dict, const jinja_value *key,
                  const jinja_value **found);
/* The same for a text, which cannot fail. */
const jinja_value *sw_jinja_get_text(const jinja_dict *dict, jinja_text *key);
const jinja_value *sw_jinja_get_word(const jinja_dict *dict, const char *key);

#endif
