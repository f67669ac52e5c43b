/* columns.c: see columns.h. */
#include "base/columns.h"

#include <string.h>

static const char *const own_names[SW_N_COLUMNS] = {
#define OWN_NAME(name) #name,
    SW_COLUMNS(OWN_NAME)
#undef OWN_NAME
};

static bool is_of_message(int column) {
    return column == SW_COLUMN_role || column == SW_COLUMN_content;
}

bool sw_columns_are_one(const sw_columns *columns, const char **first, const char **second) {
    const char *const *names = (const char *const *)columns;
    for (int i = 0; i < SW_N_COLUMNS; i++)
        for (int k = 0; k < i; k++) {
            if (!names[i] || !names[k] || strcmp(names[i], names[k]) != 0 ||
                is_of_message(i) != is_of_message(k) || !strcmp(names[i], own_names[i]) ||
                !strcmp(names[k], own_names[k]))
                continue;
            *first = own_names[k];
            *second = own_names[i];
            return true;
        }
    return false;
}
