/* chat_template.h: the chat template in a model's folder, where the model was trained with another
 * than its tokenizer's own. */
#ifndef SW_HF_CHAT_TEMPLATE_H
#define SW_HF_CHAT_TEMPLATE_H

#include <stdbool.h>

#include <shardwise/status.h>

#include "base/file.h"
#include "data/chat.h"

#define SW_MORE_TEMPLATES "additional_chat_templates" /* a folder of files NAME.jinja */

/* Is it the file of a folder that sw_chat_template_put writes anew? */
bool sw_chat_template_is_in(const char *name);

/* Make `text` the template of folder `to` for every reader: chat_template.jinja, and
 * tokenizer_config.json, which is that of `from` with the template in place of its own. `from` is
 * the tokenizer's folder; NULL: there is none. Errors: SW_BAD_FILE, SW_NO_MEMORY, SW_NO_SPACE. */
sw_status sw_chat_template_put(const char *from, const char *to, const char *text, sw_error *err);

/* The template of an adapter's folder, which is that of the model with the adapter, unless `chat`
 * names another. `path` keeps its name. `adapter` may be NULL. */
void sw_chat_template_of_adapter(const char *adapter, char path[SW_PATH_BYTES],
                                 sw_chat_options *chat);

/* Copy the templates that a folder has under names. Of a model that was trained with another:
 * without `default` and `tool_use`, which transformers would take in its place. */
sw_status sw_chat_templates_copy(const char *from, const char *to, bool is_another, sw_error *err);

/* Is it the name of a template there? */
bool sw_is_template_name(const char *name);

#endif
