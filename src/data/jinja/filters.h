/* filters.h: what filters share: attributes by path, tests and filters by name. */
#ifndef SW_DATA_JINJA_FILTERS_H
#define SW_DATA_JINJA_FILTERS_H

#include "data/jinja/call.h"

/* attribute='a.b.0': the steps to it. */
typedef struct jinja_path {
    jinja_value *steps;
    int64_t n;
} jinja_path;
bool sw_jinja_path(jinja_run *run, const jinja_value *attribute, jinja_path *path);
/* What is there; `instead` (NULL: none) where something on the way is undefined. */
bool sw_jinja_follow(jinja_run *run, const jinja_path *path, const jinja_value *item,
                     const jinja_value *instead, jinja_value *out);

/* A text in lower case, anything else as it is. */
bool sw_jinja_fold(jinja_run *run, const jinja_value *value, jinja_value *out);

/* True where the argument is given and true. */
bool sw_jinja_is_set(const jinja_value *argument);
/* The text of what a text filter works on: a text as it is, anything else as str() has it. NULL:
 * failed. */
jinja_text *sw_jinja_soft_text(jinja_run *run, const jinja_value *value);
/* A text argument, failed for anything else. NULL: failed. */
jinja_text *sw_jinja_text_argument(jinja_run *run, const char *of, const jinja_value *argument);
/* A whole number, `otherwise` where it is missing. */
bool sw_jinja_whole_argument(jinja_run *run, const char *of, const jinja_value *argument,
                             int64_t otherwise, int64_t *out);

#endif
