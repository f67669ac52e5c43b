/* jsonl_row.c: which row the keys of an object make, and which keys must not be passed over in
 * silence. */
#include "data/jsonl_row.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "data/unread_keys.h"

enum { LONGEST_WORD = 48 };

/* The key as a word; false: it is too long or has a NUL, so it is none. */
static bool word_of(sw_slice key, char word[LONGEST_WORD]) {
    if (key.bytes >= LONGEST_WORD || memchr(key.text, 0, (size_t)key.bytes))
        return false;
    memcpy(word, key.text, (size_t)key.bytes);
    word[key.bytes] = 0;
    return true;
}

static bool is_text(sw_slice slice, const char *text) {
    return (size_t)slice.bytes == strlen(text) &&
           memcmp(slice.text, text, (size_t)slice.bytes) == 0;
}

/* ---- keys that are read ---- */

int sw_row_key(const sw_columns *columns, sw_slice key) {
    static const struct {
        const char *name;
        int key;
    } fixed[] = {{"chat_template_kwargs", SW_ROW_VARIABLES},
                 {"add_generation_prompt", SW_ROW_ADDS_PROMPT},
                 {"weight", SW_ROW_WEIGHT},
                 {"train", SW_ROW_TRAIN}};
    const char *const *names = (const char *const *)columns;
    int own = -1;
    for (int i = 0; i < SW_N_COLUMNS; i++) {
        if (!names[i] || sw_column_is_of_message(i) || !is_text(key, names[i]))
            continue;
        if (strcmp(names[i], sw_column_names[i]) != 0)
            return i; /* {completion: text}: what was said counts more than the name that `text` has
                         anyway */
        own = i;
    }
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed && own < 0; i++)
        if (is_text(key, fixed[i].name))
            return fixed[i].key;
    return own;
}

int sw_row_takes(int key) {
    switch (key) {
    case SW_COLUMN_prompt:
    case SW_COLUMN_completion:
    case SW_COLUMN_tools: /* or a list spelled as text */
        return SW_TAKES_TEXT | SW_TAKES_LIST;
    case SW_COLUMN_messages:
    case SW_COLUMN_conversations:
    case SW_COLUMN_documents:
        return SW_TAKES_LIST;
    case SW_ROW_VARIABLES:
        return SW_TAKES_OBJECT;
    case SW_ROW_ADDS_PROMPT:
        return SW_TAKES_BOOLEAN;
    case SW_ROW_WEIGHT:
    case SW_ROW_TRAIN:
        return SW_TAKES_BOOLEAN | SW_TAKES_NUMBER;
    default:
        return SW_TAKES_TEXT;
    }
}

/* ---- keys that are not read ---- */

/* Were the chosen ones of pairs of answers asked for? */
static bool takes_chosen(const sw_columns *columns) {
    const char *const *names = (const char *const *)columns;
    for (int i = 0; i < SW_N_COLUMNS; i++)
        if (names[i] && !strcmp(names[i], "chosen"))
            return true;
    return false;
}

/* Nothing, in whatever spelling. */
static bool is_empty_here(const sw_json_cursor *json) {
    const char *at = json->at;
    if (*at == 'n')
        return true;
    if (*at != '"' && *at != '[' && *at != '{')
        return false;
    const char closing = *at == '"' ? '"' : *at == '[' ? ']' : '}';
    for (at++; at < json->end && closing != '"' && (*at == ' ' || *at == '\t');)
        at++;
    return at < json->end && *at == closing;
}

sw_status sw_row_check_unread(const sw_row_reader *r, sw_slice key) {
    /* What stands there was meant to be said, seen or preferred. */
    static const struct {
        const char *key, *instead;
    } meaningful[] = {
        {"rejected", "preferences are not trained on; leave it out"},
        {"chosen", "preferences are not trained on; to learn the chosen answers alone write "
                   "data.columns: {completion: chosen}, or {messages: chosen} where they are whole "
                   "conversations"},
        {"history", "write the turns before as messages"},
        {"context", "write it into the prompt, or as a message"},
        {"system_prompt",
         "call it `system` (data.columns: {system: system_prompt}), or write it as a message"},
        {"system_message",
         "call it `system` (data.columns: {system: system_message}), or write it as a message"},
        {"functions", "write `tools`"},
        {"function_call", "write `tool_calls` in the message"},
        {"tool_calls", "it belongs into a message"},
        {"reasoning_content", "it belongs into a message"},
        {"reasoning", "it belongs into a message, as `reasoning_content`"},
        {"thinking", "it belongs into a message, as `reasoning_content`"},
        {"image", "only text is trained on"},
        {"images", "only text is trained on"},
        {"audio", "only text is trained on"},
        {"audios", "only text is trained on"},
        {"video", "only text is trained on"},
        {"videos", "only text is trained on"},
        {"loss_mask", "write `train: false` into the messages that are not to be learned"},
        {"loss_weight", "write `weight: 0` for a row that is not to be learned"},
        {"trainable", "write `train: false` for a row that is not to be learned"},
        {"training", "write `train: false` for a row that is not to be learned"},
    };
    static const char *const near[] = {
        "prompt", "completion", "messages",  "conversations", "instruction",         "output",
        "system", "tools",      "documents", "weight",        "chat_template_kwargs"};
    char word[LONGEST_WORD];
    if (!word_of(key, word) || is_empty_here(&r->json) ||
        (!strcmp(word, "rejected") && takes_chosen(&r->rows->columns)))
        return SW_OK;
    for (size_t i = 0; i < sizeof meaningful / sizeof *meaningful; i++)
        if (strcmp(word, meaningful[i].key) == 0)
            return sw_row_refuse(r, "`%s` would have no effect; %s", word, meaningful[i].instead);
    if (strcmp(word, "label") == 0 && *r->json.at == 'f')
        return sw_row_refuse(r, "`label` is false, which marks an unwanted answer; training would "
                                "learn it, so leave the row out");
    const char *nearest =
        strlen(word) > 3 ? sw_unread_key_meant(word, near, sizeof near / sizeof *near) : NULL;
    for (int i = 0; nearest && i < SW_N_COLUMNS;
         i++) /* data.columns: {text: null}: it is left aside on purpose */
        if (strcmp(word, sw_column_names[i]) == 0)
            nearest = NULL;
    if (nearest)
        return sw_row_refuse(r, "the key `%s` is unknown; did you mean `%s`?", word, nearest);
    return SW_OK;
}

static sw_status name_unknown_keys(sw_row_reader *r) {
    static const char *const names[] = {"text",          "prompt",      "completion", "messages",
                                        "conversations", "instruction", "output"};
    static const char forms[] = "a row has `text`, `prompt` and `completion`, `messages`, "
                                "`conversations`, or `instruction` and "
                                "`output`; data.columns names others";
    const sw_jsonl *rows = r->rows;
    for (int i = 0; i < rows->n_keys; i++) {
        char word[LONGEST_WORD];
        const char *nearest = word_of(rows->keys[i], word)
                                  ? sw_text_nearest(word, names, sizeof names / sizeof *names)
                                  : NULL;
        if (nearest)
            return sw_row_refuse(r, "the key `%s` is unknown; did you mean `%s`?", word, nearest);
    }
    return sw_row_refuse(r, "%s; %s", rows->n_keys ? "no known key" : "the object is empty", forms);
}

/* ---- parts of rows ---- */

static sw_status no_memory(const sw_row_reader *r) {
    return sw_fail(r->json.err, SW_NO_MEMORY, "%s: line %" PRId64 ": no memory for the row",
                   r->rows->name, r->rows->line);
}

static bool is_given(const sw_row_reader *r, int key) {
    return r->values[key].is_there && !r->values[key].is_null;
}

static bool is_empty(const sw_row_value *value) {
    return value->tree ? json_array_size(value->tree) + json_object_size(value->tree) == 0 &&
                             !json_is_boolean(value->tree)
                       : value->text.bytes == 0;
}

/* The row as a whole: weight 0 keeps it from being learned; other weights of rows have no effect,
 * which is told. */
static sw_status read_weight(sw_row_reader *r, sw_jsonl_row *row) {
    const json_t *weight = r->values[SW_ROW_WEIGHT].tree, *train = r->values[SW_ROW_TRAIN].tree;
    if (is_given(r, SW_ROW_TRAIN) && !json_is_boolean(train))
        return sw_row_refuse(r, "`train` must be true or false, is a number");
    if (is_given(r, SW_ROW_WEIGHT) && !json_is_number(weight))
        return sw_row_refuse(r, "`weight` must be a number, is a boolean");
    row->gives_targets = !(weight && json_number_value(weight) == 0) && !json_is_false(train);
    return SW_OK;
}

/* What goes with messages goes with nothing else. */
static sw_status refuse_companions(const sw_row_reader *r, const char *form) {
    static const int companions[] = {SW_COLUMN_system, SW_COLUMN_tools, SW_COLUMN_documents,
                                     SW_ROW_VARIABLES, SW_ROW_ADDS_PROMPT};
    for (size_t i = 0; i < sizeof companions / sizeof *companions; i++)
        if (is_given(r, companions[i]) && !is_empty(&r->values[companions[i]]))
            return sw_row_refuse(r, "`%s` has no effect beside %s; write the row as `messages`",
                                 r->values[companions[i]].key, form);
    return SW_OK;
}

/* A list of objects under a key, which may be spelled as text. *list is the row's. */
static sw_status read_objects(sw_row_reader *r, int key, json_t **list) {
    sw_row_value *value = &r->values[key];
    if (!is_given(r, key))
        return SW_OK;
    if (!value->tree && value->text.bytes == 0)
        return SW_OK;
    if (!value->tree)
        value->tree = json_loadb(value->text.text, (size_t)value->text.bytes,
                                 JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!json_is_array(value->tree))
        return sw_row_refuse(r, "`%s` must be a list of objects", value->key);
    for (size_t i = 0; i < json_array_size(value->tree); i++)
        if (!json_is_object(json_array_get(value->tree, i)))
            return sw_row_refuse(r, "`%s` must be a list of objects; its element %zu is none",
                                 value->key, i + 1);
    *list = json_incref(value->tree);
    return SW_OK;
}

static int64_t bytes_of_messages(const json_t *messages) {
    int64_t n = 0;
    size_t i, k;
    json_t *message, *part;
    json_array_foreach(messages, i, message) {
        const json_t *content = json_object_get(message, "content");
        n += (int64_t)json_string_length(content);
        json_array_foreach(content, k, part) n +=
            (int64_t)json_string_length(json_object_get(part, "text"));
    }
    return n;
}

/* Is every variable one that a row may set? */
static sw_status read_variables(sw_row_reader *r) {
    static const char *const others[] = {"messages", "tools", "documents"};
    sw_conversation *c = &r->rows->conversation;
    if (!is_given(r, SW_ROW_VARIABLES))
        return SW_OK;
    for (int i = 0; i < 3; i++)
        if (json_object_get(r->values[SW_ROW_VARIABLES].tree, others[i]))
            return sw_row_refuse(r, "`%s` stands in the row, not in `chat_template_kwargs`",
                                 others[i]);
    c->variables = json_incref(r->values[SW_ROW_VARIABLES].tree);
    const json_t *adds_prompt = json_object_get(c->variables, "add_generation_prompt");
    if (adds_prompt) {
        if (!json_is_boolean(adds_prompt))
            return sw_row_refuse(r, "`add_generation_prompt` must be true or false, is %s",
                                 sw_json_type_words(adds_prompt));
        c->adds_prompt = json_is_true(adds_prompt);
        json_object_del(c->variables, "add_generation_prompt");
    }
    return SW_OK;
}

static sw_status finish_conversation(sw_row_reader *r, sw_jsonl_row *row) {
    sw_conversation *c = &r->rows->conversation;
    sw_row_value *system = &r->values[SW_COLUMN_system];
    sw_status status = read_objects(r, SW_COLUMN_tools, &c->tools);
    if (!status)
        status = read_objects(r, SW_COLUMN_documents, &c->documents);
    if (!status)
        status = read_variables(r);
    if (status)
        return status;
    if (is_given(r, SW_ROW_ADDS_PROMPT))
        c->adds_prompt = json_is_true(r->values[SW_ROW_ADDS_PROMPT].tree);
    if (is_given(r, SW_COLUMN_system) && system->text.bytes > 0)
        status = sw_conversation_add_system(c, system->text.text, (size_t)system->text.bytes,
                                            r->json.err);
    row->form = SW_JSONL_MESSAGES;
    row->conversation = c;
    row->n_bytes = bytes_of_messages(c->messages);
    return status ? sw_fail_within(r->json.err, "%s: line %" PRId64, r->rows->name, r->rows->line)
                  : SW_OK;
}

static sw_status add_list(sw_row_reader *r, int key, bool gives) {
    sw_row_value *value = &r->values[key];
    sw_status status =
        sw_conversation_add(&r->rows->conversation, value->tree, value->key, &r->rows->columns,
                            key == SW_COLUMN_conversations, gives, r->json.err);
    return status == SW_BAD_FILE
               ? sw_fail_within(r->json.err, "%s: line %" PRId64, r->rows->name, r->rows->line)
               : status;
}

/* ---- forms ---- */

static sw_status make_text(sw_row_reader *r, sw_jsonl_row *row) {
    row->form = SW_JSONL_TEXT;
    row->text = r->values[SW_COLUMN_text].text;
    row->n_bytes = row->text.bytes;
    return refuse_companions(r, "`text`");
}

static sw_status make_completion(sw_row_reader *r, sw_jsonl_row *row) {
    const sw_row_value *prompt = &r->values[SW_COLUMN_prompt],
                       *completion = &r->values[SW_COLUMN_completion];
    if (!prompt->tree != !completion->tree)
        return sw_row_refuse(
            r,
            "of `%s` and `%s` one is a string and one a list of messages; write both the same way",
            prompt->key, completion->key);
    if (prompt->tree) {
        sw_status status = add_list(r, SW_COLUMN_prompt, false);
        if (!status)
            status = add_list(r, SW_COLUMN_completion, true);
        return status ? status : finish_conversation(r, row);
    }
    row->form = SW_JSONL_COMPLETION;
    row->prompt = prompt->text;
    row->completion = completion->text;
    row->n_bytes = row->prompt.bytes + row->completion.bytes;
    return refuse_companions(r, "a `prompt` that is text");
}

static sw_status make_messages(sw_row_reader *r, int key, sw_jsonl_row *row) {
    sw_status status = add_list(r, key, true);
    return status ? status : finish_conversation(r, row);
}

/* The prompt that Stanford's Alpaca was trained with, and most who took up its data. */
static sw_status make_alpaca(sw_row_reader *r, sw_jsonl_row *row) {
    static const char *const parts[2][3] = {
        {"Below is an instruction that describes a task. Write a response that appropriately "
         "completes the request.\n\n"
         "### Instruction:\n",
         "", "\n\n### Response:\n"},
        {"Below is an instruction that describes a task, paired with an input that provides "
         "further context. Write a response "
         "that "
         "appropriately completes the request.\n\n### Instruction:\n",
         "\n\n### Input:\n", "\n\n### Response:\n"}};
    sw_jsonl *rows = r->rows;
    const sw_slice instruction = r->values[SW_COLUMN_instruction].text,
                   input = r->values[SW_COLUMN_input].text;
    const bool has_input = input.bytes > 0;
    const sw_slice pieces[] = {sw_slice_of(parts[has_input][0]), instruction,
                               sw_slice_of(parts[has_input][1]), input,
                               sw_slice_of(parts[has_input][2])};
    int64_t n = 0;
    for (int i = 0; i < 5; i++)
        n += pieces[i].bytes;
    if (n > rows->prompt_capacity) {
        char *grown = realloc(rows->prompt, (size_t)(n + n / 2));
        if (!grown)
            return no_memory(r);
        rows->prompt = grown;
        rows->prompt_capacity = n + n / 2;
    }
    char *to = rows->prompt;
    for (int i = 0; i < 5; i++) {
        if (pieces[i].bytes)
            memcpy(to, pieces[i].text, (size_t)pieces[i].bytes);
        to += pieces[i].bytes;
    }
    row->form = SW_JSONL_COMPLETION;
    row->prompt = (sw_slice){rows->prompt, n};
    row->completion = r->values[SW_COLUMN_output].text;
    row->n_bytes = n + row->completion.bytes;
    return refuse_companions(r, "`instruction`, whose prompt has no place for it");
}

/* One of a pair is missing: because it is null, or altogether. */
static sw_status refuse_half(const sw_row_reader *r, int key, int missing) {
    const sw_row_value *other = &r->values[missing];
    const char *name = other->key ? other->key : sw_column_names[missing];
    if (other->is_null)
        return sw_row_refuse(r, "`%s` must be a string, is null", name);
    return sw_row_refuse(r, "`%s` without `%s`", r->values[key].key, name);
}

/* The forms that are there, by name. */
static sw_status refuse_two(const sw_row_reader *r) {
    static const int keys[] = {SW_COLUMN_text,     SW_COLUMN_prompt,        SW_COLUMN_completion,
                               SW_COLUMN_messages, SW_COLUMN_conversations, SW_COLUMN_instruction,
                               SW_COLUMN_input,    SW_COLUMN_output};
    char names[200] = "";
    const char *first = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (is_given(r, keys[i])) {
            size_t n = strlen(names);
            snprintf(names + n, sizeof names - n, "%s`%.40s`", n ? ", " : "",
                     r->values[keys[i]].key);
            first = first ? first : sw_column_names[keys[i]];
        }
    return sw_row_refuse(r,
                         "the row has two forms (%s), so it is not clear what to train on; "
                         "data.columns: {%s: null} ignores one",
                         names, first);
}

sw_status sw_row_make(sw_row_reader *r, sw_jsonl_row *row) {
    const bool text = is_given(r, SW_COLUMN_text), prompt = is_given(r, SW_COLUMN_prompt),
               completion = is_given(r, SW_COLUMN_completion),
               messages = is_given(r, SW_COLUMN_messages),
               conversations = is_given(r, SW_COLUMN_conversations),
               instruction = is_given(r, SW_COLUMN_instruction),
               input = is_given(r, SW_COLUMN_input), output = is_given(r, SW_COLUMN_output);
    const int n_forms =
        text + (prompt || completion) + messages + conversations + (instruction || output || input);
    sw_status status = read_weight(r, row);
    row->unread = r->rows->unread;
    row->n_unread = r->rows->n_unread;
    if (status)
        return status;
    if (n_forms > 1)
        return refuse_two(r);
    if (text)
        return make_text(r, row);
    if (messages || conversations)
        return make_messages(r, messages ? SW_COLUMN_messages : SW_COLUMN_conversations, row);
    if (prompt || completion)
        return prompt && completion ? make_completion(r, row)
               : prompt             ? refuse_half(r, SW_COLUMN_prompt, SW_COLUMN_completion)
                                    : refuse_half(r, SW_COLUMN_completion, SW_COLUMN_prompt);
    if (instruction || output)
        return instruction && output ? make_alpaca(r, row)
               : instruction         ? refuse_half(r, SW_COLUMN_instruction, SW_COLUMN_output)
                                     : refuse_half(r, SW_COLUMN_output, SW_COLUMN_instruction);
    for (int i = 0; i < SW_N_COLUMNS; i++)
        if (r->values[i].is_null && i != SW_COLUMN_input && i != SW_COLUMN_system &&
            i != SW_COLUMN_tools && i != SW_COLUMN_documents)
            return sw_row_refuse(r, "`%s` must be %s, is null", r->values[i].key,
                                 sw_row_takes(i) == SW_TAKES_LIST ? "a list" : "a string");
    return name_unknown_keys(r);
}
