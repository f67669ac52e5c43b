/* conversation.h: a row's conversation, as a chat template sees it.
 *
 * Messages are the row's own objects, with all their keys. What is changed in them is what
 * transformers changes before it renders: keys whose value is null are dropped, and
 * reasoning_content and thinking stand for each other. Besides, roles and texts get the names that
 * templates know: `from` and `value` of ShareGPT become `role` and `content`, `human` becomes
 * `user`.
 */
#ifndef SW_DATA_CONVERSATION_H
#define SW_DATA_CONVERSATION_H

#include <stdbool.h>

#include <jansson.h>

#include <shardwise/status.h>

#include "base/columns.h"

typedef struct sw_conversation {
    json_t *messages;          /* a list of objects, each with a text as `role`; at least one */
    json_t *tools, *documents; /* lists of objects; NULL: none are given */
    json_t *variables;         /* an object: further names that the template sees; NULL: none */
    bool *gives_targets;       /* [messages] what is said there is learned */
    int capacity;              /* of gives_targets */
    bool adds_prompt;          /* the text ends where the assistant's next answer would begin */
} sw_conversation;

/* Does the assistant speak in this message? */
bool sw_message_is_assistants(const json_t *message);

/* Append the messages of a list, which stays as it is, to the conversation.
 *
 *   list         any value
 *   key          what the row calls the list, for messages
 *   is_sharegpt  roles are ShareGPT's too
 *   gives        false: the assistant's messages give no targets either
 *
 * A message gives targets where its role is `assistant`, unless it says `weight: 0` or `train:
 * false`. Errors: SW_BAD_FILE, without the file and line: what is no list of messages, a role that
 * is misspelt, a weight that cannot be honoured; SW_NO_MEMORY. */
sw_status sw_conversation_add(sw_conversation *conversation, json_t *list, const char *key,
                              const sw_columns *columns, bool is_sharegpt, bool gives,
                              sw_error *err);

/* Put a system message in front. Errors: SW_BAD_FILE where there is one already. */
sw_status sw_conversation_add_system(sw_conversation *conversation, const char *text, size_t bytes,
                                     sw_error *err);

/* Forget everything; the memory of gives_targets stays. */
void sw_conversation_clear(sw_conversation *conversation);
void sw_conversation_free(sw_conversation *conversation);

#endif
