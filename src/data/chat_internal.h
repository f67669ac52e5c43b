/* chat_internal.h: what a chat is made of. */
#ifndef SW_DATA_CHAT_INTERNAL_H
#define SW_DATA_CHAT_INTERNAL_H

#include "data/chat.h"

/* A template, and where it is from. */
typedef struct sw_chat_template {
    char *source, *text;
    int64_t bytes;
    sw_jinja *program; /* NULL: it cannot be read, `problem` says why */
    char problem[SW_MESSAGE_BYTES];
} sw_chat_template;

struct sw_chat {
    sw_chat_template usual,
        with_tools; /* with_tools: for conversations with tools; without a text: the usual one */
    json_t *own;    /* an object: special tokens, and what --set says */
    char reason[SW_MESSAGE_BYTES]; /* there is no template: why */
    struct tm now;
    int microsecond;
    bool has_set_prompt, sets_prompt; /* --set add_generation_prompt=... */
};

/* The template of a folder (chat_template.jinja, additional_chat_templates, tokenizer_config.json),
 * as transformers chooses, and its special tokens. Without a template `reason` is set. Errors:
 * SW_BAD_FILE, SW_NO_MEMORY. */
sw_status sw_chat_read_folder(const char *folder, bool wants_template, sw_chat *chat,
                              sw_error *err);

/* The template of a file. */
sw_status sw_chat_read_template(const char *path, sw_chat_template *out, sw_error *err);

/* Take a text as the template. Errors: SW_NO_MEMORY. */
sw_status sw_chat_take_template(const char *source, const char *text, int64_t bytes,
                                sw_chat_template *out, sw_error *err);

/* The one that renders this conversation. */
static inline const sw_chat_template *sw_chat_template_for(const sw_chat *chat, bool with_tools) {
    return with_tools && chat->with_tools.text ? &chat->with_tools : &chat->usual;
}

/* Forget what spans looked like. */
void sw_span_forget(struct sw_span_memo *memo);

/* Run a template over what a row gives it. */
sw_status sw_chat_run(const sw_chat *chat, const sw_chat_template *t, const json_t *data,
                      sw_jinja_rendering *out, sw_error *err);

/* Find what is supervised in out->whole, by the template's marks or by comparing renderings. `data`
 * is what the whole was rendered with; its messages and add_generation_prompt are others
 * afterwards. Errors: SW_BAD_FILE where it stays uncertain. */
sw_status sw_chat_find_spans(const sw_chat *chat, const sw_chat_template *t,
                             const sw_conversation *conversation, sw_chat_spans spans, json_t *data,
                             sw_chat_text *out, sw_error *err);

#endif
