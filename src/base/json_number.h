/* json_number.h: reals in JSON that is written: JSON knows no NaN and no infinity, and null says
 * that there is no number; and as few digits as give the same number back. */
#ifndef SW_BASE_JSON_NUMBER_H
#define SW_BASE_JSON_NUMBER_H

#include <jansson.h>
#include <math.h>

static inline json_t *sw_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* The text of a value, indented, with a line break at its end; NULL: no memory (a member that could
 * not be made, and is not there, is for the caller to see). free() it. */
char *sw_json_shortest(const json_t *value);

#endif
