/* chat_template.c: which format a model's chat template is.
 *
 * Templates are programs; people copy, extend and reformat them. What stays are the control texts that they print and a few words
 * of what they do, so each format has marks that must be there and marks that must not: a template that also knows of thinking,
 * or of turns that end otherwise, is another format, and saying so is better than training on texts that the model never saw.
 */
#include "data/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

enum { MAX_TEMPLATE_BYTES = 1 << 20, MAX_CONFIG_BYTES = 64 << 20 };

static bool has(const char *chat_template, const char *mark) {
    return strstr(chat_template, mark) != NULL;
}

/* Is one of these printed, whichever quotes the template uses? The marks are written with single quotes. */
static bool prints(const char *chat_template, const char *mark) {
    char other[64];
    size_t n = strlen(mark);
    for (size_t i = 0; i <= n; i++)
        other[i] = mark[i] == '\'' ? '"' : mark[i];
    return has(chat_template, mark) || has(chat_template, other);
}

/* ---- what differs between models of one format ---- */

/* The text between `before` and `after` on its own, not put together from parts; line breaks may be spelled \n. */
static bool find_text(const char *chat_template, const char *before, const char *after, char *text, size_t text_bytes) {
    for (const char *at = chat_template; (at = strstr(at, before)) != NULL; at++) {
        const char *from = at + strlen(before), *end = strstr(from, after);
        size_t n = 0;
        bool is_plain = end != NULL;
        if (is_plain && from[0] == '\\' && from[1] == 'n')
            from += 2;
        else if (is_plain && from[0] == '\n')
            from++;
        else
            is_plain = false;
        for (; is_plain && from < end; from++) {
            if (strchr("'\"{}", *from) || n + 1 >= text_bytes) {
                is_plain = false;
            } else if (*from == '\\') {
                is_plain = from[1] == 'n';
                text[n++] = '\n';
                from++;
            } else {
                text[n++] = *from;
            }
        }
        if (is_plain) {
            text[n] = 0;
            return true;
        }
    }
    return false;
}

/* date_string = "26 Jul 2024": what the template says where the caller gives no date. */
static void find_date(const char *chat_template, sw_chat *chat) {
    snprintf(chat->date, sizeof chat->date, "26 Jul 2024");
    for (const char *at = chat_template; (at = strstr(at, "date_string = ")) != NULL; at++) {
        const char *from = at + strlen("date_string = ");
        const char *end = *from == '"' || *from == '\'' ? strchr(from + 1, *from) : NULL;
        if (end && end - from - 1 > 0 && (size_t)(end - from - 1) < sizeof chat->date) {
            snprintf(chat->date, sizeof chat->date, "%.*s", (int)(end - from - 1), from + 1);
            return;
        }
    }
}

/* ---- marks ---- */

static void recognise_chatml(const char *t, sw_chat *chat) {
    chat->family = SW_CHAT_CHATML;
    chat->has_default_system =
        find_text(t, "<|im_start|>system", "<|im_end|>", chat->default_system, sizeof chat->default_system);
}

static sw_chat_family family_of(const char *t) {
    if (has(t, "<|im_start|>") && has(t, "<|im_end|>"))
        return SW_CHAT_CHATML;
    if (has(t, "<|start_header_id|>") && has(t, "<|end_header_id|>") && has(t, "<|eot_id|>"))
        return SW_CHAT_LLAMA3;
    if (has(t, "<start_of_turn>") && has(t, "<end_of_turn>"))
        return has(t, "prefix") ? SW_CHAT_GEMMA3 : has(t, "raise_exception") ? SW_CHAT_GEMMA : SW_CHAT_NONE;
    if (has(t, "[INST]") && has(t, "[/INST]") && has(t, "eos_token")) {
        if (has(t, "<<SYS>>"))
            return SW_CHAT_LLAMA2;
        if (prints(t, "' [INST] '") && prints(t, "' [/INST]'"))
            return SW_CHAT_MISTRAL_V1;
        if (prints(t, "'[INST] '") && prints(t, "'[/INST]'"))
            return SW_CHAT_MISTRAL_V3;
        return prints(t, "'[INST]'") && prints(t, "'[/INST]'") ? SW_CHAT_MISTRAL_TEKKEN : SW_CHAT_NONE;
    }
    if (has(t, "<|assistant|>") && has(t, "eos_token") && !has(t, "<|end|>") &&
        (has(t, "<|user|>") || prints(t, "'<|' + message['role'] + '|>")))
        return SW_CHAT_ZEPHYR;
    return SW_CHAT_NONE;
}

void sw_chat_recognise(const char *chat_template, sw_chat *chat) {
    static const char *const foreign[] = {"think", "reasoning"};
    chat->has_default_system = false;
    chat->date[0] = chat->reason[0] = 0;
    chat->family = family_of(chat_template);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign && chat->family != SW_CHAT_NONE; i++)
        if (has(chat_template, foreign[i])) {
            chat->family = SW_CHAT_NONE;
            snprintf(chat->reason, sizeof chat->reason, "the model's chat template knows of \"%s\", which no format here does",
                     foreign[i]);
            return;
        }
    if (chat->family == SW_CHAT_CHATML)
        recognise_chatml(chat_template, chat);
    else if (chat->family == SW_CHAT_LLAMA3 && has(chat_template, "Cutting Knowledge Date: December 2023"))
        find_date(chat_template, chat);
    else if (chat->family == SW_CHAT_NONE)
        snprintf(chat->reason, sizeof chat->reason, "the model's chat template is not one that is known here");
}

/* ---- the model's files ---- */

/* bos_token and eos_token are a text, an object with the text as `content`, or null. */
static sw_status read_token(const sw_json_object *config, const char *key, char *token, sw_error *err) {
    const char *text = NULL;
    sw_json_object object;
    sw_status status;
    if (!sw_json_has(config, key))
        return SW_OK;
    if (sw_json_child(config, key, &object, NULL) == SW_OK)
        status = sw_json_text(&object, "content", SW_JSON_REQUIRED, &text, err);
    else
        status = sw_json_text(config, key, SW_JSON_REQUIRED, &text, err);
    if (status != SW_OK)
        return status;
    if (strlen(text) >= SW_CHAT_TEXT_BYTES)
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %zu bytes long, which no token is", sw_json_name(config), key, strlen(text));
    snprintf(token, SW_CHAT_TEXT_BYTES, "%s", text);
    return SW_OK;
}

static sw_status read_config(const char *path, sw_chat *chat, char **chat_template, sw_error *err) {
    sw_json *document = NULL;
    const char *text = NULL;
    sw_status status = sw_json_read_without_integers(path, MAX_CONFIG_BYTES, &document, err);
    if (status != SW_OK)
        return status;
    sw_json_object root = sw_json_root(document);
    status = read_token(&root, "bos_token", chat->bos, err);
    if (status == SW_OK)
        status = read_token(&root, "eos_token", chat->eos, err);
    if (status == SW_OK && sw_json_is_list(&root, "chat_template"))
        snprintf(chat->reason, sizeof chat->reason, "the model has several chat templates");
    else if (status == SW_OK)
        status = sw_json_text(&root, "chat_template", SW_JSON_OPTIONAL, &text, err);
    if (status == SW_OK && text && !(*chat_template = strdup(text)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for the chat template", path);
    sw_json_free(document);
    return status;
}

static sw_status read_files(const char *folder, sw_chat *chat, char **chat_template, sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_status status = sw_path_join(path, folder, "tokenizer_config.json", err);
    if (status == SW_OK && sw_file_exists(path))
        status = read_config(path, chat, chat_template, err);
    if (status == SW_OK)
        status = sw_path_join(path, folder, "chat_template.jinja", err);
    if (status != SW_OK || !sw_file_exists(path))
        return status;
    free(*chat_template); /* the newer place wins, as in transformers */
    *chat_template = NULL;
    return sw_file_read(path, MAX_TEMPLATE_BYTES, chat_template, NULL, err);
}

/* ---- names ---- */

typedef struct named_format {
    const char *name, *bos, *eos; /* where tokenizer_config.json does not say */
    sw_chat_family family;
} named_format;

static const named_format formats[] = {
    {"chatml", "", "<|im_end|>", SW_CHAT_CHATML},
    {"llama2", "<s>", "</s>", SW_CHAT_LLAMA2},
    {"llama3", "<|begin_of_text|>", "<|eot_id|>", SW_CHAT_LLAMA3},
    {"mistral", "<s>", "</s>", SW_CHAT_MISTRAL_V3},
    {"mistral-v3", "<s>", "</s>", SW_CHAT_MISTRAL_V3},
    {"mistral-v1", "<s>", "</s>", SW_CHAT_MISTRAL_V1},
    {"zephyr", "<s>", "</s>", SW_CHAT_ZEPHYR},
    {"gemma", "<bos>", "<eos>", SW_CHAT_GEMMA},
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

/* A model's own template of the same family says more than the short name: gemma3 is gemma, Llama 3.1 is llama3. */
static bool is_of_name(sw_chat_family found, sw_chat_family named) {
    return found == named || (found == SW_CHAT_GEMMA3 && named == SW_CHAT_GEMMA) ||
           (found == SW_CHAT_MISTRAL_TEKKEN && named == SW_CHAT_MISTRAL_V3);
}

sw_status sw_chat_open(const char *folder, const char *setting, sw_chat *chat, sw_error *err) {
    char *chat_template = NULL;
    const named_format *named = NULL;
    for (int i = 0; i < N_FORMATS; i++)
        if (strcmp(setting, formats[i].name) == 0)
            named = &formats[i];
    if (!named && strcmp(setting, "auto") != 0)
        return sw_fail(err, SW_BAD_CONFIG,
                       "the chat format \"%s\" is unknown (data.chat_format, --chat-format); known are auto, chatml, llama2, "
                       "llama3, mistral (= mistral-v3), mistral-v1, "
                       "zephyr and gemma",
                       setting);

    *chat = (sw_chat){.reason = ""};
    sw_status status = folder ? read_files(folder, chat, &chat_template, err) : SW_OK;
    if (status == SW_OK && chat_template)
        sw_chat_recognise(chat_template, chat);
    else if (status == SW_OK && !chat->reason[0])
        snprintf(chat->reason, sizeof chat->reason, "%s",
                 folder ? "the model's folder has no chat template" : "there is no model's chat template");
    free(chat_template);
    if (status == SW_OK && named) {
        if (!is_of_name(chat->family, named->family)) {
            chat->family = named->family;
            chat->has_default_system = false;
            chat->date[0] = 0;
        }
        chat->reason[0] = 0;
        if (!chat->bos[0])
            snprintf(chat->bos, sizeof chat->bos, "%s", named->bos);
        if (!chat->eos[0])
            snprintf(chat->eos, sizeof chat->eos, "%s", named->eos);
    }
    return status;
}
