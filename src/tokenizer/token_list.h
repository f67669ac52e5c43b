/* token_list.h: ids of tokens, as many as come. */
#ifndef SW_TOKENIZER_TOKEN_LIST_H
#define SW_TOKENIZER_TOKEN_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* Starts as {0}. */
typedef struct sw_token_list {
    int32_t *ids;
    int64_t n, capacity;
} sw_token_list;

/* Append an id; false: memory is short. */
bool sw_token_list_put(sw_token_list *list, int32_t id);
void sw_token_list_free(sw_token_list *list);

#endif
