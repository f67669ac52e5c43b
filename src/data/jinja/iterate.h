/* iterate.h: going over the items of whatever has items: a text's characters, a dict's keys, what
 * `map` and `select` let through, one at a time and not before they are asked for. */
#ifndef SW_DATA_JINJA_ITERATE_H
#define SW_DATA_JINJA_ITERATE_H

#include "data/jinja/collection.h"
#include "data/jinja/run.h"

struct jinja_iterator {
    /* The next item, or *is_end. False: failed. */
    bool (*next)(jinja_run *run, jinja_iterator *iterator, jinja_value *item, bool *is_end);
    jinja_value source; /* what its items come from */
    int64_t at;         /* items given */
    const char *byte;   /* of a text: where the next character begins */
    jinja_iterator *inner;
    const void *state; /* of a filter's own */
};

/* Begin. False: failed; "'int' object is not iterable". */
bool sw_jinja_iterate(jinja_run *run, const jinja_value *value, jinja_iterator *iterator);
/* The same from the last to the first. */
bool sw_jinja_iterate_back(jinja_run *run, const jinja_value *value, jinja_iterator *iterator);
bool sw_jinja_is_iterable(const jinja_value *value);
bool sw_jinja_is_reversible(const jinja_value *value);

static inline bool sw_jinja_next(jinja_run *run, jinja_iterator *iterator, jinja_value *item,
                                 bool *is_end) {
    return sw_jinja_spend(run, 1) && iterator->next(run, iterator, item, is_end);
}

/* A copy of it as a value. */
bool sw_jinja_give_iterator(jinja_run *run, const jinja_iterator *iterator, jinja_value *out);

/* How many items len() counts; -1: it has no length. */
int64_t sw_jinja_size(const jinja_value *value);

/* All (remaining) items in a row. */
bool sw_jinja_items_of(jinja_run *run, const jinja_value *value, const jinja_value **items,
                       int64_t *n);

#endif
