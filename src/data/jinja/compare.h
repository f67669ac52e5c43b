/* compare.h: what is true, equal, less, in; what may be a key. As Python has it: 1 == 1.0 == true,
 * lists by their items, no order between kinds. */
#ifndef SW_DATA_JINJA_COMPARE_H
#define SW_DATA_JINJA_COMPARE_H

#include "data/jinja/run.h"

bool sw_jinja_truth(const jinja_value *value);

/* All return false where they failed. */
bool sw_jinja_equal(jinja_run *run, const jinja_value *a, const jinja_value *b, bool *is_equal);
/* a < b, a <= b, a > b, a >= b; `sign` is how messages write it. */
typedef enum jinja_order {
    JINJA_LESS,
    JINJA_LESS_EQUAL,
    JINJA_GREATER,
    JINJA_GREATER_EQUAL
} jinja_order;
bool sw_jinja_order(jinja_run *run, const jinja_value *a, const jinja_value *b, jinja_order order,
                    bool *holds);
bool sw_jinja_is_hashable(const jinja_value *value); /* looks a few levels deep */
bool sw_jinja_hash(jinja_run *run, const jinja_value *value, uint64_t *hash);
bool sw_jinja_contains(jinja_run *run, const jinja_value *whole, const jinja_value *item,
                       bool *is_in);

/* The very same thing: `is`. */
bool sw_jinja_same(const jinja_value *a, const jinja_value *b);

/* What a value is, in Python's words: "str", "NoneType". And for messages about attributes: "dict
 * object", "None". */
const char *sw_jinja_type_name(const jinja_value *value);
const char *sw_jinja_owner_name(const jinja_value *value);

/* Fail for a value that has no value: says why, and returns false. */
bool sw_jinja_fail_undefined(jinja_run *run, const jinja_value *value);

#endif
