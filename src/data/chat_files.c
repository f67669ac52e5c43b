/* chat_files.c: the chat template and the special tokens in a tokenizer's folder.
 *
 * Templates in files of their own win over those of tokenizer_config.json. Of several with names
 * transformers takes `tool_use` for conversations with tools, where there is one, and `default` for
 * all others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/json.h"
#include "data/chat_internal.h"

enum { MAX_TEMPLATE_BYTES = 4 << 20, MAX_CONFIG_BYTES = 64 << 20 };

static sw_status no_memory(sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "no memory for a chat template");
}

sw_status sw_chat_take_template(const char *source, const char *text, int64_t bytes,
                                sw_chat_template *out, sw_error *err) {
    sw_error problem = {0};
    out->source = strdup(source);
    out->text = malloc((size_t)bytes + 1);
    if (!out->source || !out->text)
        return no_memory(err);
    memcpy(out->text, text, (size_t)bytes);
    out->text[bytes] = 0;
    out->bytes = bytes;
    /* One that cannot be read is told when a conversation comes. */
    if (sw_jinja_parse(source, text, bytes, &out->program, &problem) == SW_NO_MEMORY)
        return no_memory(err);
    snprintf(out->problem, sizeof out->problem, "%s", problem.message);
    return SW_OK;
}

sw_status sw_chat_read_template(const char *path, sw_chat_template *out, sw_error *err) {
    char *text;
    int64_t bytes;
    sw_status status = sw_file_read(path, MAX_TEMPLATE_BYTES, &text, &bytes, err);
    if (status)
        return status;
    status = sw_file_expect(path, text, bytes, bytes, SW_FILE_TEMPLATE, err);
    if (!status)
        status = sw_chat_take_template(path, text, bytes, out, err);
    free(text);
    return status;
}

/* ---- special tokens ---- */

static bool is_set_already(const sw_chat *chat, const char *name) {
    return json_object_get(chat->own, name) != NULL;
}

/* A token is a text, or an object with the text as `content`. */
static const json_t *text_of(const json_t *token) {
    const json_t *text = json_is_object(token) ? json_object_get(token, "content") : token;
    return json_is_string(text) ? text : NULL;
}

static sw_status take_token(sw_chat *chat, const char *name, const json_t *token, sw_error *err) {
    const json_t *text = text_of(token);
    if (!text || is_set_already(chat, name))
        return SW_OK;
    return json_object_set_nocheck(chat->own, name, (json_t *)(uintptr_t)text) == 0
               ? SW_OK
               : no_memory(err);
}

/* What a template sees of them: every `..._token`, the usual ones and the model's own, and what
 * extra_special_tokens names. */
static sw_status take_tokens(sw_chat *chat, const json_t *config, sw_error *err) {
    static const char *const lists[] = {"extra_special_tokens", "model_specific_special_tokens"};
    static const char ending[] = "_token";
    enum { N_ENDING = sizeof ending - 1 };
    sw_status status = SW_OK;
    const char *name;
    json_t *token;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        json_object_foreach(json_object_get(config, lists[i]), name, token) {
            if (!status)
                status = take_token(chat, name, token, err);
        }
    json_object_foreach((json_t *)(uintptr_t)config, name, token) {
        const size_t n = strlen(name);
        if (!status && n > N_ENDING && !strcmp(name + n - N_ENDING, ending))
            status = take_token(chat, name, token, err);
    }
    return status;
}

/* ---- templates ---- */

/* The place of a template by its name; NULL: no conversation is rendered with it. */
static sw_chat_template *place_of(sw_chat *chat, const char *name) {
    return !strcmp(name, "default")    ? &chat->usual
           : !strcmp(name, "tool_use") ? &chat->with_tools
                                       : NULL;
}

/* The files of the folder that are templates. *n_found counts them. */
static sw_status read_template_files(const char *folder, sw_chat *chat, int *n_found,
                                     sw_error *err) {
    char path[SW_PATH_BYTES], more[SW_PATH_BYTES];
    sw_status status = sw_path_join(path, folder, "chat_template.jinja", err);
    if (!status)
        status = sw_path_join(more, folder, "additional_chat_templates", err);
    *n_found = 0;
    if (!status && sw_file_exists(path)) {
        status = sw_chat_read_template(path, &chat->usual, err);
        ++*n_found;
    }
    static const char *const names[] = {"default", "tool_use"};
    for (int i = 0; i < 2 && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.jinja", names[i]);
        if ((status = sw_path_join(path, more, name, err)) == SW_OK && sw_file_exists(path) &&
            !place_of(chat, names[i])->text) {
            status = sw_chat_read_template(path, place_of(chat, names[i]), err);
            ++*n_found;
        }
    }
    return status;
}

/* chat_template: a text, or a list of {"name", "template"}. */
static sw_status take_configured(const char *path, const json_t *config, sw_chat *chat,
                                 sw_error *err) {
    const json_t *value = json_object_get(config, "chat_template");
    char source[SW_PATH_BYTES + 64];
    if (json_is_string(value)) {
        snprintf(source, sizeof source, "chat_template of %s", path);
        return sw_chat_take_template(source, json_string_value(value),
                                     (int64_t)json_string_length(value), &chat->usual, err);
    }
    if (value && !json_is_null(value) && !json_is_array(value))
        return sw_fail(err, SW_BAD_FILE,
                       "%s: chat_template must be a text or a list of templates, is %s", path,
                       json_is_real(value) ? "a number" /* integers are read as reals here */
                                           : sw_json_type_words(value));
    for (size_t i = json_array_size(value);
         i-- > 0;) { /* of two with one name the last one counts */
        const json_t *one = json_array_get(value, i);
        const json_t *name = json_object_get(one, "name"), *text = json_object_get(one, "template");
        if (!json_is_string(name) || !json_is_string(text))
            return sw_fail(err, SW_BAD_FILE,
                           "%s: chat_template[%zu] needs a `name` and a `template`", path, i);
        sw_chat_template *place = place_of(chat, json_string_value(name));
        if (!place || place->text)
            continue;
        snprintf(source, sizeof source, "chat_template \"%s\" of %s", json_string_value(name),
                 path);
        sw_status status = sw_chat_take_template(source, json_string_value(text),
                                                 (int64_t)json_string_length(text), place, err);
        if (status)
            return status;
    }
    return SW_OK;
}

static sw_status read_config(const char *folder, const char *file, char path[SW_PATH_BYTES],
                             sw_json **document, sw_error *err) {
    *document = NULL;
    sw_status status = sw_path_join(path, folder, file, err);
    return status || !sw_file_exists(path)
               ? status
               : sw_json_read_without_integers(path, MAX_CONFIG_BYTES, document, err);
}

static const json_t *root_of(const sw_json *document) {
    return document ? sw_json_root(document).value : NULL;
}

sw_status sw_chat_read_folder(const char *folder, bool wants_template, sw_chat *chat,
                              sw_error *err) {
    char config_path[SW_PATH_BYTES], tokens_path[SW_PATH_BYTES];
    sw_json *config = NULL, *tokens = NULL;
    int n_files = 0;
    sw_status status = read_config(folder, "tokenizer_config.json", config_path, &config, err);
    if (!status)
        status = read_config(folder, "special_tokens_map.json", tokens_path, &tokens, err);
    /* as transformers does: the file of its own wins, and counts for nothing where
     * tokenizer_config.json lists added tokens */
    if (!status && !json_object_get(root_of(config), "added_tokens_decoder"))
        status = take_tokens(chat, root_of(tokens), err);
    if (!status)
        status = take_tokens(chat, root_of(config), err);
    if (!status && wants_template)
        status = read_template_files(folder, chat, &n_files, err);
    if (!status && wants_template && !n_files)
        status = take_configured(config_path, root_of(config), chat, err);
    if (!status && wants_template && !chat->usual.text)
        snprintf(chat->reason, sizeof chat->reason, "%s",
                 chat->with_tools.text ||
                         json_array_size(json_object_get(root_of(config), "chat_template"))
                     ? "none of the chat templates of the model's folder is called `default`"
                     : "the model's folder has no chat template");
    sw_json_free(config);
    sw_json_free(tokens);
    return status;
}
