/* columns.c: see columns.h. */
#include "base/columns.h"

#include <string.h>

const char *const sw_column_names[SW_N_COLUMNS] = {
#define NAME(name) #name,
    SW_COLUMNS(NAME)
#undef NAME
};

bool sw_column_is_of_message(int column) {
    return column == SW_COLUMN_role || column == SW_COLUMN_content;
}

bool sw_columns_are_one(const sw_columns *columns, const char **first, const char **second) {
    const char *const *names = (const char *const *)columns;
    for (int i = 0; i < SW_N_COLUMNS; i++)
        for (int k = 0; k < i; k++) {
            if (!names[i] || !names[k] || strcmp(names[i], names[k]) != 0 ||
                sw_column_is_of_message(i) != sw_column_is_of_message(k) ||
                !strcmp(names[i], sw_column_names[i]) || !strcmp(names[k], sw_column_names[k]))
                continue;
            *first = sw_column_names[k];
            *second = sw_column_names[i];
            return true;
        }
    return false;
}
