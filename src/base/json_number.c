/* json_number.c: 17 digits give every double back, and most need fewer. */
#include "base/json_number.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

char *sw_json_shortest(const json_t *value) {
    enum { FEWEST_DIGITS = 6, ALL_DIGITS = 17 };
    for (int digits = FEWEST_DIGITS; digits <= ALL_DIGITS; digits++) {
        char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        json_t *read = text ? json_loads(text, 0, NULL) : NULL;
        size_t n = text ? strlen(text) : 0;
        bool is_same = read && json_equal(read, value);
        char *longer = is_same ? realloc(text, n + 2) : NULL;
        json_decref(read);
        if (longer) {
            memcpy(longer + n, "\n", 2);
            return longer;
        }
        free(text);
        if (!text || is_same)
            return NULL;
    }
    return NULL;
}
