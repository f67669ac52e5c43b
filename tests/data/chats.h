/* chats.h: chats for tests. */
#ifndef TESTS_DATA_CHATS_H
#define TESTS_DATA_CHATS_H

#include "scratch.h"

#include <jansson.h>

#include "base/file.h"
#include "data/chat.h"

#define CHAT_FOLDER SW_SOURCE_FOLDER "/tests/data/chat/"

static inline sw_chat *open_chat_with(const sw_chat_options *options) {
    sw_chat *chat;
    sw_error err = {0};
    if (sw_chat_open(options, &chat, &err) != SW_OK)
        fail_msg("%s", err.message);
    return chat;
}

static inline sw_chat *open_chat(const char *folder, const char *format) {
    return open_chat_with(&(sw_chat_options){.folder = folder, .format = format});
}

/* The tokens of a format of chat/formats.json, as the template sees them. */
static inline char *tokens_of(const json_t *format) {
    json_t *tokens = json_pack("{s:O, s:O}", "bos_token", json_object_get(format, "bos_token"),
                               "eos_token", json_object_get(format, "eos_token"));
    char *text = json_dumps(tokens, 0);
    json_decref(tokens);
    return text;
}

/* A format by the text of its template. */
static inline sw_chat *open_template(const json_t *format) {
    char path[SW_PATH_BYTES], *tokens = tokens_of(format);
    assert_int_equal(sw_path_join(path, CHAT_FOLDER,
                                  json_string_value(json_object_get(format, "template")), NULL),
                     SW_OK);
    sw_chat *chat =
        open_chat_with(&(sw_chat_options){.template_path = path, .special_tokens = tokens});
    free(tokens);
    return chat;
}

/* The conversation of a case; its messages belong to the case. */
static inline sw_conversation conversation_of(const json_t *one) {
    return (sw_conversation){.messages = json_object_get(one, "messages"),
                             .tools = json_object_get(one, "tools"),
                             .documents = json_object_get(one, "documents"),
                             .variables = json_object_get(one, "variables"),
                             .adds_prompt =
                                 json_is_true(json_object_get(one, "add_generation_prompt"))};
}

#endif
