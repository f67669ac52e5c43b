/* json_number.h: reals in JSON that is written: JSON knows no NaN and no infinity, and null says that there is no number. */
#ifndef SW_BASE_JSON_NUMBER_H
#define SW_BASE_JSON_NUMBER_H

#include <jansson.h>
#include <math.h>

static inline json_t *sw_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

#endif
