/* chat_template.c: see chat_template.h. transformers takes chat_template.jinja and the files of
 * additional_chat_templates where there are some, and else what tokenizer_config.json says: a text,
 * or a list of templates with names. Older readers know the latter only. Its other keys stay as
 * they stand, to the byte: numbers there need not fit into 64 bits.
 */
#include "hf/chat_template.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/text.h"
#include "hf/companions.h"

enum { MAX_CONFIG_BYTES = 64 << 20 };
static const char config_name[] = "tokenizer_config.json", template_name[] = "chat_template.jinja",
                  ending[] = ".jinja";

bool sw_chat_template_is_in(const char *name) {
    return !strcmp(name, config_name) || !strcmp(name, template_name) ||
           !strcmp(name, "chat_template.json");
}

/* Names that transformers takes for conversations: those with tools, and all others. */
static bool is_taken(const char *name, size_t n) {
    return (n == 7 && !memcmp(name, "default", n)) || (n == 8 && !memcmp(name, "tool_use", n));
}

/* ---- tokenizer_config.json ---- */

/* Where the value of chat_template stands in an object, which is JSON. */
static bool find_value(const char *text, const char **first, const char **end) {
    static const char wanted[] = "\"chat_template\"";
    bool is_wanted = false, is_value = false;
    int64_t depth = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '"') {
            const char *begin = p++;
            while (*p && *p != '"')
                p += *p == '\\' && p[1] ? 2 : 1;
            if (!*p)
                return false;
            if (depth == 1 && !is_value)
                is_wanted = (size_t)(p + 1 - begin) == sizeof wanted - 1 &&
                            !memcmp(begin, wanted, sizeof wanted - 1);
        } else if (*p == ':' && depth == 1) {
            is_value = true;
            *first = p + 1;
        } else if ((*p == ',' || *p == '}') && depth == 1) {
            *end = p;
            if (is_wanted && is_value)
                return true;
            is_wanted = is_value = false;
        }
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
    }
    return false;
}

/* In place of a list with names: the same, in which `text` is the default. Else the text alone. */
static json_t *new_value(const json_t *old, const char *text) {
    if (!json_is_array(old))
        return json_string(text);
    json_t *list = json_pack("[{s:s, s:s}]", "name", "default", "template", text), *one;
    size_t i;
    bool is_whole = list;
    json_array_foreach(old, i, one) {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (is_whole && name && !is_taken(name, strlen(name)))
            is_whole = json_array_append(list, one) == 0;
    }
    if (is_whole)
        return list;
    json_decref(list);
    return NULL;
}

/* `source`, with the value in place of what stands from `first` to `end`, as a file. */
static sw_status splice(const char *source, const char *first, const char *end, const json_t *value,
                        const char *target, sw_error *err) {
    char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII), *all = NULL;
    size_t bytes;
    FILE *out = dump ? open_memstream(&all, &bytes) : NULL;
    if (out)
        fprintf(out, "%.*s %s%s", (int)(first - source), source, dump, end);
    sw_status status =
        out && sw_text_close(out, &all)
            ? sw_file_write(target, all, (int64_t)bytes, err)
            : sw_fail(err, SW_NO_MEMORY, "%s: no memory for the chat template", target);
    free(dump);
    free(all);
    return status;
}

/* *is_list: its templates have names, and one of them is `text` now. A file that is no JSON is
 * taken along as it is. */
static sw_status put_config(const char *source, const char *target, const char *text,
                            bool keeps_list, bool *is_list, sw_error *err) {
    sw_json *document = NULL;
    const char *first = NULL, *end = NULL;
    char *config = NULL;
    json_t *value = NULL;
    sw_status status = sw_file_read(source, MAX_CONFIG_BYTES, &config, NULL, err);
    if (status)
        return status;
    if (sw_json_read_without_integers(source, MAX_CONFIG_BYTES, &document, NULL) ||
        !find_value(config, &first, &end)) {
        status = sw_companion_copy_file(source, target, err);
    } else {
        const json_t *old = json_object_get(sw_json_root(document).value, "chat_template");
        *is_list = keeps_list && json_is_array(old);
        value = new_value(*is_list ? old : NULL, text);
        status = value ? splice(config, first, end, value, target, err)
                       : sw_fail(err, SW_BAD_FILE,
                                 "the chat template that goes into %s is not UTF-8; convert it, "
                                 "for example with iconv",
                                 target);
    }
    json_decref(value);
    sw_json_free(document);
    free(config);
    return status;
}

/* ---- the folder ---- */

sw_status sw_chat_template_put(const char *from, const char *to, const char *text, sw_error *err) {
    char source[SW_PATH_BYTES], target[SW_PATH_BYTES], file[SW_PATH_BYTES], more[SW_PATH_BYTES];
    bool is_list = false;
    sw_status status = sw_path_join(target, to, config_name, err);
    if (!status && from)
        status = sw_path_join(source, from, config_name, err);
    if (!status && from)
        status = sw_path_join(file, from, template_name, err);
    if (!status && from)
        status = sw_path_join(more, from, SW_MORE_TEMPLATES, err);
    if (!status && from && sw_file_exists(source))
        status = put_config(source, target, text, !sw_file_exists(file) && !sw_file_exists(more),
                            &is_list, err);
    if (!status && !is_list && !(status = sw_path_join(target, to, template_name, err)))
        status = sw_file_write(target, text, (int64_t)strlen(text), err);
    return status;
}

void sw_chat_template_of_adapter(const char *adapter, char path[SW_PATH_BYTES],
                                 sw_chat_options *chat) {
    const bool is_another =
        chat->template_path || (chat->format && strcmp(chat->format, "auto") != 0);
    if (adapter && !is_another && sw_path_join(path, adapter, template_name, NULL) == SW_OK &&
        sw_file_exists(path))
        chat->template_path = path;
}

bool sw_is_template_name(const char *name) {
    size_t n = strlen(name);
    return n > sizeof ending - 1 && name[0] != '.' &&
           !strcmp(name + n - (sizeof ending - 1), ending);
}

sw_status sw_chat_templates_copy(const char *from, const char *to, bool is_another, sw_error *err) {
    char folder[SW_PATH_BYTES], into[SW_PATH_BYTES], source[SW_PATH_BYTES], target[SW_PATH_BYTES];
    int error = 0;
    sw_status status = sw_path_join(folder, from, SW_MORE_TEMPLATES, err);
    if (!status)
        status = sw_path_join(into, to, SW_MORE_TEMPLATES, err);
    if (status || !sw_file_exists(folder))
        return status;
    DIR *entries = opendir(folder);
    if (!entries)
        return sw_cannot_read(folder, errno, err);
    for (struct dirent *entry; !status && (entry = sw_folder_next(entries, &error));) {
        const char *name = entry->d_name;
        if (!sw_is_template_name(name) ||
            (is_another && is_taken(name, strlen(name) - (sizeof ending - 1))))
            continue;
        if (mkdir(into, 0777) && errno != EEXIST)
            status = sw_cannot_write(into, errno, err);
        if (!status && !(status = sw_path_join(source, folder, name, err)) &&
            !(status = sw_path_join(target, into, name, err)))
            status = sw_companion_copy_file(source, target, err);
    }
    closedir(entries);
    return !status && error ? sw_cannot_read(folder, error, err) : status;
}
