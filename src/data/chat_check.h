/* chat_check.h: does what a conversation says reach the text? What would change what is learned and
 * does not is refused. */
#ifndef SW_DATA_CHAT_CHECK_H
#define SW_DATA_CHAT_CHECK_H

#include "data/chat.h"
#include "data/unread_keys.h"

/* What a key of a message is to a template, found once for each. Starts as {0};
 * sw_chat_keys_free. */
typedef struct sw_chat_keys {
    struct sw_chat_key *key;
    int n, capacity;
} sw_chat_keys;
void sw_chat_keys_free(sw_chat_keys *keys);

/* Before rendering: keys of messages and of the row that the template does not speak of. Those
 * without harm are counted in *unread. Errors: SW_BAD_FILE for tools, tool calls, thoughts,
 * pictures and the like without effect, and for slips of the pen; SW_NO_MEMORY.
 */
sw_status sw_chat_check_keys(const sw_chat *chat, sw_chat_keys *keys,
                             const sw_conversation *conversation, sw_unread_keys *unread,
                             sw_error *err);

/* After it: a message of which no byte is in the text. Errors: SW_BAD_FILE. */
sw_status sw_chat_check_text(const sw_chat *chat, const sw_conversation *conversation,
                             const sw_chat_text *text, sw_error *err);

#endif
