/* conversation.c: lists of messages in the spellings that data come in, to one. */
#include "data/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

/* ---- roles ---- */

/* What ShareGPT calls them. */
static const struct {
    const char *theirs, *ours;
} sharegpt_roles[] = {
    {"human", "user"},         {"gpt", "assistant"},          {"chatgpt", "assistant"},
    {"bard", "assistant"},     {"bing", "assistant"},         {"bot", "assistant"},
    {"model", "assistant"},    {"function_call", NULL},       {"observation", "tool"},
    {"tool_response", "tool"}, {"function_response", "tool"},
};

enum { N_SHAREGPT_ROLES = sizeof sharegpt_roles / sizeof *sharegpt_roles };

static int sharegpt_role(const char *role) {
    for (int i = 0; i < N_SHAREGPT_ROLES; i++)
        if (!strcmp(role, sharegpt_roles[i].theirs))
            return i;
    return -1;
}

/* A role that templates may not know is theirs to refuse; one that is nearly a known one is a
 * slip. */
static sw_status check_role(const char *role, int number, const char *key, bool is_sharegpt,
                            sw_error *err) {
    static const char *const ours[] = {"system", "user",      "assistant",
                                       "tool",   "developer", "function"};
    enum { N_OURS = sizeof ours / sizeof *ours };
    const char *known[N_OURS + N_SHAREGPT_ROLES];
    int n_known = 0;
    for (int i = 0; i < N_OURS; i++)
        known[n_known++] = ours[i];
    for (int i = 0; i < N_SHAREGPT_ROLES && is_sharegpt; i++)
        known[n_known++] = sharegpt_roles[i].theirs;
    for (int i = 0; i < N_OURS; i++)
        if (!strcmp(role, ours[i]))
            return SW_OK;
    const int theirs = is_sharegpt ? -1 : sharegpt_role(role);
    if (theirs >= 0)
        return sw_fail(err, SW_BAD_FILE,
                       "message %d of `%s`: the role `%s` is ShareGPT's; write %s, or call the "
                       "list `conversations` "
                       "(data.columns: {conversations: %s})",
                       number, key, role,
                       sharegpt_roles[theirs].ours ? sharegpt_roles[theirs].ours : "tool_calls",
                       key);
    const char *nearest = strlen(role) < 48 ? sw_text_nearest(role, known, n_known) : NULL;
    return nearest ? sw_fail(err, SW_BAD_FILE,
                             "message %d of `%s`: the role `%s` is unknown; did you mean %s?",
                             number, key, role, nearest)
                   : SW_OK;
}

bool sw_message_is_assistants(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && !strcmp(role, "assistant");
}

/* ---- one message ---- */

static sw_status no_memory(sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory for a conversation");
}

/* What the file calls `ours` is called so from now on. `theirs` NULL: it has no such key. */
static sw_status rename_key(json_t *message, const char *theirs, const char *ours, sw_error *err) {
    json_t *value = theirs ? json_object_get(message, theirs) : NULL;
    if (!value || !strcmp(theirs, ours))
        return SW_OK;
    if (json_object_set_nocheck(message, ours, value) != 0)
        return no_memory(err);
    json_object_del(message, theirs);
    return SW_OK;
}

/* The names that this list's messages use for role and content become those. */
static sw_status rename_keys(json_t *message, const sw_columns *columns, bool is_sharegpt,
                             sw_error *err) {
    sw_status status = rename_key(message, columns->role, "role", err);
    if (!status)
        status = rename_key(message, columns->content, "content", err);
    if (!status && is_sharegpt && !json_object_get(message, "role"))
        status = rename_key(message, "from", "role", err);
    if (!status && is_sharegpt && !json_object_get(message, "content"))
        status = rename_key(message, "value", "content", err);
    return status;
}

static void drop_nulls(json_t *message) {
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(message, next, key, value) if (json_is_null(value))
        json_object_del(message, key);
}

/* As transformers does: whoever wrote the template, it finds the thoughts under the name that it
 * looks for. A `thinking` that was not there stands first, as there: a template that writes the
 * whole message shows the order. */
static sw_status share_reasoning(json_t *message, sw_error *err) {
    json_t *content = json_object_get(message, "reasoning_content"),
           *thinking = json_object_get(message, "thinking"),
           *reasoning = json_object_get(message, "reasoning");
    json_t *of_content = thinking ? thinking : reasoning,
           *of_thinking = content ? content : reasoning;
    if (!thinking && of_thinking) {
        json_t *given = json_copy(message);
        const bool is_done = given && json_object_clear(message) == 0 &&
                             json_object_set_nocheck(message, "thinking", of_thinking) == 0 &&
                             json_object_update(message, given) == 0;
        json_decref(given);
        if (!is_done)
            return no_memory(err);
    }
    if (!content && of_content &&
        json_object_set_nocheck(message, "reasoning_content", of_content) != 0)
        return no_memory(err);
    return SW_OK;
}

/* {"name": ..., "arguments": ...}, or a list of such, spelled as text. */
static sw_status read_function_calls(json_t *message, int number, const char *key, sw_error *err) {
    json_t *content = json_object_get(message, "content");
    json_t *calls = json_loadb(json_string_value(content), json_string_length(content),
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    json_t *list = json_array();
    sw_status status = SW_OK;
    size_t n = json_is_array(calls) ? json_array_size(calls) : json_is_object(calls) ? 1 : 0;
    if (n == 0)
        status = sw_fail(
            err, SW_BAD_FILE,
            "message %d of `%s`: a function_call is {\"name\": ..., \"arguments\": ...} as text",
            number, key);
    for (size_t i = 0; !status && i < n; i++) {
        json_t *call = json_is_array(calls) ? json_array_get(calls, i) : calls;
        if (!json_is_string(json_object_get(call, "name")) || !json_object_get(call, "arguments"))
            status = sw_fail(err, SW_BAD_FILE,
                             "message %d of `%s`: a function_call lacks its `name` or `arguments`",
                             number, key);
        else if (json_array_append_new(
                     list, json_pack("{s:s, s:O}", "type", "function", "function", call)) != 0)
            status = no_memory(err);
    }
    if (!status && (json_object_set_new(message, "role", json_string("assistant")) != 0 ||
                    json_object_set_new(message, "content", json_string("")) != 0 ||
                    json_object_set(message, "tool_calls", list) != 0))
        status = no_memory(err);
    json_decref(list);
    json_decref(calls);
    return status;
}

/* Is this there and not empty? What is there and empty has no effect. */
static bool has(const json_t *message, const char *key) {
    const json_t *value = json_object_get(message, key);
    return value && !(json_is_string(value) && json_string_length(value) == 0) &&
           !((json_is_array(value) || json_is_object(value)) &&
             json_array_size(value) + json_object_size(value) == 0);
}

static sw_status check_content(const json_t *message, int number, const char *key, sw_error *err) {
    const json_t *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!content) {
        /* the nearest of the other keys is more likely what was meant */
        static const char *const wanted[] = {"content"};
        const char *other;
        json_t *value;
        if (has(message, "tool_calls") || has(message, "function_call") ||
            has(message, "reasoning_content"))
            return SW_OK;
        json_object_foreach(
            (json_t *)message, other,
            value) if (strlen(other) < 48 &&
                       sw_text_nearest(other, wanted,
                                       1)) return sw_fail(err, SW_BAD_FILE,
                                                          "message %d of `%s` has no `content`, "
                                                          "but it has `%s`; is that a misspelling?",
                                                          number, key, other);
        return sw_fail(err, SW_BAD_FILE, "message %d of `%s` has no `content`", number, key);
    }
    if (json_is_string(content) || json_is_array(content) ||
        (json_is_object(content) && strcmp(role, "user") && strcmp(role, "system")))
        return SW_OK;
    return sw_fail(err, SW_BAD_FILE,
                   "message %d of `%s`: `content` must be a string or a list of parts, is %s",
                   number, key, sw_json_type_words(content));
}

/* ---- what is learned ---- */

/* weight: 0 or 1; train: false or true. *says: what it says; unchanged where it says nothing. */
static sw_status read_weight(const json_t *message, int number, const char *key, bool *says,
                             bool *has_said, sw_error *err) {
    const json_t *weight = json_object_get(message, "weight"),
                 *train = json_object_get(message, "train");
    const double value = json_number_value(weight);
    *has_said = weight || train;
    if (weight && (!json_is_number(weight) || (value != 0 && value != 1)))
        return sw_fail(err, SW_BAD_FILE,
                       "message %d of `%s`: `weight` can be 0 (the message is not learned) or 1; "
                       "other weights are not supported",
                       number, key);
    if (train && !json_is_boolean(train))
        return sw_fail(err, SW_BAD_FILE, "message %d of `%s`: `train` must be true or false, is %s",
                       number, key, sw_json_type_words(train));
    if (weight && train && (value != 0) != json_is_true(train))
        return sw_fail(err, SW_BAD_FILE,
                       "message %d of `%s`: `weight` and `train` contradict each other", number,
                       key);
    *says = weight ? value != 0 : !json_is_false(train);
    return SW_OK;
}

static sw_status note_targets(sw_conversation *c, int i, int number, const char *key, bool gives,
                              sw_error *err) {
    const json_t *message = json_array_get(c->messages, (size_t)i);
    const bool is_assistants = sw_message_is_assistants(message);
    bool says = true, has_said = false;
    sw_status status = read_weight(message, number, key, &says, &has_said, err);
    if (status)
        return status;
    if (has_said && says && !is_assistants)
        return sw_fail(err, SW_BAD_FILE,
                       "message %d of `%s` asks to be learned (`%s`), but only messages of the "
                       "assistant can be; leave that out",
                       i + 1, key, json_object_get(message, "train") ? "train" : "weight");
    c->gives_targets[i] = gives && is_assistants && says;
    return SW_OK;
}

/* ---- lists ---- */

static sw_status make_room(sw_conversation *c, size_t n, sw_error *err) {
    if (!c->messages && !(c->messages = json_array()))
        return no_memory(err);
    if (n <= (size_t)c->capacity)
        return SW_OK;
    if (n > INT32_MAX / 2)
        return sw_fail(err, SW_BAD_FILE, "a conversation of %zu messages", n);
    bool *grown = realloc(c->gives_targets, 2 * n * sizeof *grown);
    if (!grown)
        return no_memory(err);
    c->gives_targets = grown;
    c->capacity = (int)(2 * n);
    return SW_OK;
}

static sw_status add_message(sw_conversation *c, json_t *message, int number, const char *key,
                             const sw_columns *columns, bool is_sharegpt, bool gives,
                             sw_error *err) {
    const int i = (int)json_array_size(c->messages);
    if (!json_is_object(message))
        return sw_fail(err, SW_BAD_FILE, "message %d of `%s` must be an object, is %s", number, key,
                       sw_json_type_words(message));
    sw_status status = rename_keys(message, columns, is_sharegpt, err);
    const bool says_nothing =
        json_is_null(json_object_get(message, "content")); /* which is more than to leave it out */
    if (status)
        return status;
    drop_nulls(message);
    const json_t *role = json_object_get(message, "role");
    if (!json_is_string(role))
        return role
                   ? sw_fail(err, SW_BAD_FILE, "message %d of `%s`: `role` must be a string, is %s",
                             number, key, sw_json_type_words(role))
                   : sw_fail(err, SW_BAD_FILE, "message %d of `%s` has no `role`", number, key);
    if (json_string_length(role) == 0)
        return sw_fail(err, SW_BAD_FILE, "message %d of `%s`: `role` is empty", number, key);
    if (strlen(json_string_value(role)) != json_string_length(role))
        return sw_fail(err, SW_BAD_FILE, "message %d of `%s`: `role` holds the character U+0000",
                       number, key);
    const int theirs = is_sharegpt ? sharegpt_role(json_string_value(role)) : -1;
    if (theirs >= 0 && sharegpt_roles[theirs].ours) {
        if (json_object_set_new(message, "role", json_string(sharegpt_roles[theirs].ours)) != 0)
            return no_memory(err);
    } else if (theirs >= 0) {
        status = read_function_calls(message, number, key, err);
    } else {
        status = check_role(json_string_value(role), number, key, is_sharegpt, err);
    }
    if (!status)
        status = share_reasoning(message, err);
    if (!status && !says_nothing)
        status = check_content(message, number, key, err);
    if (!status && json_array_append(c->messages, message) != 0)
        status = no_memory(err);
    return status ? status : note_targets(c, i, number, key, gives, err);
}

sw_status sw_conversation_add(sw_conversation *c, json_t *list, const char *key,
                              const sw_columns *columns, bool is_sharegpt, bool gives,
                              sw_error *err) {
    const size_t n_before = json_array_size(c->messages), n = json_array_size(list);
    if (!json_is_array(list))
        return sw_fail(err, SW_BAD_FILE, "`%s` must be a list, is %s", key,
                       sw_json_type_words(list));
    if (n == 0)
        return sw_fail(err, SW_BAD_FILE, "`%s` is empty; a conversation has at least one message",
                       key);
    sw_status status = make_room(c, n_before + n, err);
    for (size_t i = 0; !status && i < n; i++)
        status = add_message(c, json_array_get(list, i), (int)i + 1, key, columns, is_sharegpt,
                             gives, err);
    return status;
}

sw_status sw_conversation_add_system(sw_conversation *c, const char *text, size_t bytes,
                                     sw_error *err) {
    const json_t *role = json_object_get(json_array_get(c->messages, 0), "role");
    const size_t n = json_array_size(c->messages);
    if (role && !strcmp(json_string_value(role), "system"))
        return sw_fail(
            err, SW_BAD_FILE,
            "a system text is given both in the row and in the first message; keep one of them");
    sw_status status = make_room(c, n + 1, err);
    if (status)
        return status;
    json_t *message = json_object();
    if (!message || json_object_set_new(message, "role", json_string("system")) != 0 ||
        json_object_set_new(message, "content", json_stringn_nocheck(text, bytes)) != 0 ||
        json_array_insert(c->messages, 0, message) != 0)
        status = no_memory(err);
    json_decref(message);
    memmove(c->gives_targets + 1, c->gives_targets, n * sizeof *c->gives_targets);
    c->gives_targets[0] = false;
    return status;
}

void sw_conversation_clear(sw_conversation *c) {
    json_decref(c->messages);
    json_decref(c->tools);
    json_decref(c->documents);
    json_decref(c->variables);
    c->messages = c->tools = c->documents = c->variables = NULL;
    c->adds_prompt = false;
}

void sw_conversation_free(sw_conversation *c) {
    sw_conversation_clear(c);
    free(c->gives_targets);
    *c = (sw_conversation){.messages = NULL};
}
