/* token_list.c: see token_list.h. */
#include "tokenizer/token_list.h"

#include <stdlib.h>

bool sw_token_list_put(sw_token_list *list, int32_t id) {
    if (list->n == list->capacity) {
        int64_t capacity = list->capacity + list->capacity / 2 + 64;
        int32_t *ids = realloc(list->ids, (size_t)capacity * sizeof *ids);
        if (!ids)
            return false;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->n++] = id;
    return true;
}

void sw_token_list_free(sw_token_list *list) {
    free(list->ids);
    *list = (sw_token_list){0};
}
