/* value.h: one option's value between YAML and its field of sw_settings. */
#ifndef SW_CONFIG_VALUE_H
#define SW_CONFIG_VALUE_H

#include <stdio.h>

#include "config/table.h"

/* Put the value into the option's field. `place` is where it was written; a place with a line
 * follows the lines of the value. Errors: SW_BAD_CONFIG, where the option takes no such value;
 * SW_NO_MEMORY. */
sw_status sw_setting_read(sw_settings *settings, const sw_option *option, const sw_yaml *value,
                          sw_place place, sw_error *err);

/* The field's value as YAML on one line. false when memory is short. */
bool sw_setting_print(const sw_settings *settings, const sw_option *option, FILE *out);

/* What the option takes, in words: "a whole number from 1 to 16". */
char *sw_setting_describe(const sw_option *option, char *buffer, size_t bytes);

/* The bounds that `allowed` states for numbers. */
typedef struct sw_range {
    double low, high;
    bool has_low, has_high, excludes_low, excludes_high;
} sw_range;
sw_range sw_range_of(const sw_option *option);

/* Take the first word off `rest`, "a|b|c", which becomes NULL after the last; false when there was
 * none. */
bool sw_take_word(const char **rest, const char **word, size_t *length);

#endif
