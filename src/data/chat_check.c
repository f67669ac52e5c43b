/* chat_check.c: keys by what the template speaks of, messages by the bytes of theirs that came
 * out. */
#include "data/chat_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/chat_internal.h"
#include "tokenizer/unicode.h"

typedef enum key_class {
    KEY_KNOWN,   /* role, content, and what was read already */
    KEY_USED,    /* the template speaks of it */
    KEY_UNREAD,  /* no harm in that */
    KEY_LOST,    /* it says something that would be lost */
    KEY_LEARNED, /* it says whether the message is learned, which false does too */
    KEY_SLIP     /* it is nearly a known one */
} key_class;

struct sw_chat_key {
    char *name;
    key_class class[2]; /* in conversations without tools, and with */
    const char *meant;  /* KEY_SLIP */
};

static sw_status no_memory(sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory for a conversation");
}

void sw_chat_keys_free(sw_chat_keys *keys) {
    for (int i = 0; i < keys->n; i++)
        free(keys->key[i].name);
    free(keys->key);
    *keys = (sw_chat_keys){.key = NULL};
}

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (!strcmp(name, *names))
            return true;
    return false;
}

static key_class class_of(const sw_chat *chat, const char *name, bool with_tools,
                          const char **meant) {
    static const char *const read[] = {"role", "content", "weight", "train", NULL};
    static const char *const thoughts[] = {"reasoning_content", "thinking", "reasoning", NULL};
    static const char *const lost[] = {
        "tool_calls", "function_call", "tools",  "functions", "documents", "refusal", "image",
        "images",     "audio",         "audios", "video",     "videos",    "mask",    "masked",
        "ignore",     "labels",        "chosen", "rejected",  NULL};
    static const char *const learned[] = {
        "loss",         "loss_mask", "loss_weight", "trainable",     "training",
        "train_detail", "learn",     "supervised",  "train_on_turn", NULL};
    static const char *const harmless[] = {"name",      "id",   "tool_call_id", "type",  "source",
                                           "timestamp", "lang", "language",     "index", NULL};
    static const char *const known[] = {
        "content",  "tool_calls", "function_call", "reasoning_content",
        "thinking", "weight",     "train"};
    enum { N_KNOWN = sizeof known / sizeof *known };
    if (is_one_of(name, read))
        return KEY_KNOWN;
    if (sw_chat_mentions(chat, with_tools, name))
        return KEY_USED;
    if (is_one_of(name, thoughts)) {
        for (int i = 0; thoughts[i]; i++) /* whichever of the names it knows them by */
            if (sw_chat_mentions(chat, with_tools, thoughts[i]))
                return KEY_USED;
        return KEY_LOST;
    }
    if (is_one_of(name, lost))
        return KEY_LOST;
    if (is_one_of(name, learned))
        return KEY_LEARNED;
    if (!is_one_of(name, harmless) && strlen(name) < 48 &&
        (*meant = sw_unread_key_meant(name, known, N_KNOWN)) != NULL)
        return KEY_SLIP;
    return KEY_UNREAD;
}

static const struct sw_chat_key *find_key(const sw_chat *chat, sw_chat_keys *keys,
                                          const char *name) {
    for (int i = 0; i < keys->n; i++)
        if (!strcmp(keys->key[i].name, name))
            return &keys->key[i];
    if (keys->n == keys->capacity) {
        int capacity = keys->capacity ? 2 * keys->capacity : 16;
        struct sw_chat_key *grown = realloc(keys->key, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        keys->key = grown;
        keys->capacity = capacity;
    }
    struct sw_chat_key *key = &keys->key[keys->n];
    *key = (struct sw_chat_key){.name = strdup(name)};
    if (!key->name)
        return NULL;
    for (int tools = 0; tools < 2; tools++)
        key->class[tools] = class_of(chat, name, tools, &key->meant);
    keys->n++;
    return key;
}

/* Nothing, in whatever spelling: without effect wherever it stands. */
static bool is_empty(const json_t *value) {
    return json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           ((json_is_array(value) || json_is_object(value)) &&
            json_array_size(value) + json_object_size(value) == 0);
}

static sw_status check_key(const sw_chat *chat, const sw_chat_template *t, sw_chat_keys *keys,
                           int number, const char *name, const json_t *value, bool with_tools,
                           sw_unread_keys *unread, sw_error *err) {
    const struct sw_chat_key *key = find_key(chat, keys, name);
    if (!key)
        return no_memory(err);
    switch (key->class[with_tools]) {
    case KEY_KNOWN:
    case KEY_USED:
        return SW_OK;
    case KEY_LOST:
        if (is_empty(value))
            return SW_OK;
        return sw_fail(err, SW_BAD_FILE,
                       "message %d: `%s` would be lost: %s does not use it; leave it out, or give "
                       "a template that writes it "
                       "(data.chat_template, --chat-template)",
                       number, name, t->source);
    case KEY_LEARNED:
        if (is_empty(value) && !json_is_false(value))
            return SW_OK;
        return sw_fail(err, SW_BAD_FILE,
                       "message %d: `%s` is not read; write `train: false` into messages that are "
                       "not to be learned, and leave `%s` out",
                       number, name, name);
    case KEY_SLIP:
        return sw_fail(err, SW_BAD_FILE, "message %d: the key `%s` is unknown; did you mean `%s`?",
                       number, name, key->meant);
    case KEY_UNREAD:
        break;
    }
    sw_unread_keys_note(unread, "messages.", sw_slice_of(name));
    return SW_OK;
}

/* Only text is learned: the template writes a mark for a picture, and the model would see that
 * alone. */
static sw_status check_parts(const json_t *content, int number, sw_error *err) {
    size_t i;
    json_t *part;
    json_array_foreach(content, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        if (type && strcmp(type, "text") != 0 && !json_object_get(part, "text"))
            return sw_fail(
                err, SW_BAD_FILE,
                "message %d: part %zu of its content is of type `%s`; only text is trained on",
                number, i + 1, type);
    }
    return SW_OK;
}

/* Tools and documents that the template does not speak of. */
static sw_status check_list(const sw_chat *chat, const sw_chat_template *t, bool with_tools,
                            const char *name, const json_t *list, sw_error *err) {
    if (!list || json_array_size(list) == 0 || sw_chat_mentions(chat, with_tools, name))
        return SW_OK;
    return sw_fail(err, SW_BAD_FILE,
                   "`%s` would be lost: %s does not use it; leave it out, or give a template that "
                   "writes it (data.chat_template, "
                   "--chat-template)",
                   name, t->source);
}

/* The thoughts' second name, put first into the message when it was read: the row has them under
 * another one. */
static bool is_filled_in(json_t *message, const char *name, const json_t *value) {
    return !strcmp(name, "thinking") &&
           json_object_iter_value(json_object_iter(message)) == value &&
           (json_object_get(message, "reasoning_content") == value ||
            json_object_get(message, "reasoning") == value);
}

sw_status sw_chat_check_keys(const sw_chat *chat, sw_chat_keys *keys, const sw_conversation *c,
                             sw_unread_keys *unread, sw_error *err) {
    const bool with_tools = c->tools != NULL;
    const sw_chat_template *t = sw_chat_template_for(chat, with_tools);
    sw_status status = check_list(chat, t, with_tools, "tools", c->tools, err);
    if (!status)
        status = check_list(chat, t, with_tools, "documents", c->documents, err);
    size_t i;
    json_t *message, *value;
    const char *name;
    json_array_foreach(c->messages, i, message) {
        json_object_foreach(message, name, value) {
            if (!status && !is_filled_in(message, name, value))
                status = check_key(chat, t, keys, (int)i + 1, name, value, with_tools, unread, err);
        }
        if (!status)
            status = check_parts(json_object_get(message, "content"), (int)i + 1, err);
    }
    json_object_foreach(c->variables, name, value) {
        if (!status && !sw_chat_mentions(chat, with_tools, name))
            sw_unread_keys_note(unread, "chat_template_kwargs.", sw_slice_of(name));
    }
    return status;
}

/* ---- what came out ---- */

/* Has the value a character that a template would not trim away? Of a part, its text counts where
 * it has one, and the word that says what it is counts never. */
static bool says_something(const json_t *value) {
    const char *at = json_string_value(value), *end = at ? at + json_string_length(value) : at;
    const char *name;
    const json_t *text = json_object_get(value, "text");
    size_t i;
    json_t *part;
    if (json_is_number(value) || text)
        return !text || says_something(text);
    while (at && at < end) {
        const uint32_t c = sw_utf8_next(&at);
        if (!sw_unicode_is_space(c) && !(c >= 0x1C && c <= 0x1F))
            return true;
    }
    json_array_foreach(value, i, part) {
        if (says_something(part))
            return true;
    }
    json_object_foreach((json_t *)value, name, part) {
        if (strcmp(name, "type") != 0 && says_something(part))
            return true;
    }
    return false;
}

/* A list of parts that came out as a list: {'type': ... */
static bool shows_parts(const sw_chat_text *text, size_t message) {
    static const char before[] = "{'", key[] = "type";
    for (int64_t k = 0; k < text->whole.n_origins; k++) {
        const sw_jinja_origin *run = &text->whole.origins[k];
        if (run->origin == (int32_t)message + 2 && run->end - run->first == sizeof key - 1 &&
            run->first >= 2 && memcmp(text->text + run->first, key, sizeof key - 1) == 0 &&
            memcmp(text->text + run->first - 2, before, 2) == 0)
            return true;
    }
    return false;
}

sw_status sw_chat_check_text(const sw_chat *chat, const sw_conversation *c,
                             const sw_chat_text *text, sw_error *err) {
    const size_t n = json_array_size(c->messages);
    int64_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *message = json_array_get(c->messages, i);
        const int32_t origin = (int32_t)i + 2;
        if (json_is_array(json_object_get(message, "content")) && shows_parts(text, i))
            return sw_fail(err, SW_BAD_FILE,
                           "message %zu: %s writes its content as a list, brackets and all; it "
                           "takes texts: write it as one, or give "
                           "a template that reads parts (data.chat_template, --chat-template)",
                           i + 1, sw_chat_template_for(chat, c->tools != NULL)->source);
        int64_t at = k; /* mostly in order: go on where the last one was */
        while (at < text->whole.n_origins && text->whole.origins[at].origin != origin)
            at++;
        for (int64_t from = 0; at == text->whole.n_origins && from < k; from++)
            if (text->whole.origins[from].origin == origin)
                at = from;
        if (at < text->whole.n_origins) {
            k = at;
            continue;
        }
        if (says_something(json_object_get(message, "content")))
            return sw_fail(err, SW_BAD_FILE,
                           "message %zu (role `%s`) would be lost: %s leaves it out; leave it out "
                           "of the row, or give a template that "
                           "writes it (data.chat_template, --chat-template)",
                           i + 1, json_string_value(json_object_get(message, "role")),
                           sw_chat_template_for(chat, c->tools != NULL)->source);
    }
    return SW_OK;
}
