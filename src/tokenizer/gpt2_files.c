/* gpt2_files.c: vocab.json and merges.txt, as GPT-2 came, written as the tokenizer.json that means
 * the same. */
#include <stdlib.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/json.h"
#include "tokenizer/internal.h"

enum { MAX_FILE_BYTES = 1 << 28 };

bool sw_gpt2_files_exist(const char *folder) {
    char vocabulary[SW_PATH_BYTES], merges[SW_PATH_BYTES];
    return !sw_path_join(vocabulary, folder, "vocab.json", NULL) &&
           !sw_path_join(merges, folder, "merges.txt", NULL) && sw_file_exists(vocabulary) &&
           sw_file_exists(merges);
}

/* The lines of merges.txt as a list; the first may be a comment with the version. */
static json_t *merges_of(const char *text) {
    json_t *merges = json_array();
    bool is_first = true;
    for (const char *line = text, *next; merges && line && *line; line = next, is_first = false) {
        next = strchr(line, '\n');
        size_t n = next ? (size_t)(next - line) : strlen(line);
        next = next ? next + 1 : NULL;
        n -= n && line[n - 1] == '\r';
        if (!n || (is_first && !strncmp(line, "#version", 8)))
            continue;
        if (json_array_append_new(merges, json_stringn(line, n))) {
            json_decref(merges);
            merges = NULL;
        }
    }
    return merges;
}

/* The end-of-text token is searched in the text, if there is one. */
static json_t *added_tokens_of(const json_t *vocabulary) {
    static const char name[] = "<|endoftext|>";
    json_t *id = json_object_get(vocabulary, name), *list = json_array();
    if (list && json_is_integer(id))
        json_array_append_new(list, json_pack("{s:I, s:s, s:b, s:b}", "id", json_integer_value(id),
                                              "content", name, "special", 1, "normalized", 0));
    return list;
}

sw_status sw_gpt2_files_read(const char *folder, char **text, int64_t *n_bytes, sw_error *err) {
    char path[SW_PATH_BYTES];
    char *bytes = NULL;
    int64_t n = 0;
    json_error_t error;
    json_t *vocabulary = NULL, *merges = NULL, *whole = NULL;
    sw_status status = sw_path_join(path, folder, "vocab.json", err);
    if (!status)
        status = sw_file_read(path, MAX_FILE_BYTES, &bytes, &n, err);
    if (status)
        return status;
    const char *begin = bytes;
    status = sw_json_begin(path, &begin, &n, err);
    if (!status)
        vocabulary = json_loadb(begin, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    free(bytes);
    bytes = NULL;
    if (status)
        return status;
    if (!json_is_object(vocabulary)) {
        status = sw_fail(err, SW_BAD_FILE, "%s: line %d, column %d: not a valid JSON object: %s",
                         path, error.line, error.column, error.text);
        goto done;
    }
    status = sw_path_join(path, folder, "merges.txt", err);
    if (!status)
        status = sw_file_read(path, MAX_FILE_BYTES, &bytes, &n, err);
    if (!status)
        status = sw_file_expect(path, bytes, n, n, SW_FILE_YAML, err);
    if (status)
        goto done;
    begin = bytes;
    sw_text_skip_mark(&begin, &n);
    merges = merges_of(begin);
    whole = json_pack("{s:o, s:{s:s, s:b}, s:{s:s}, s:{s:s, s:O, s:O}}", "added_tokens",
                      added_tokens_of(vocabulary), "pre_tokenizer", "type", "ByteLevel",
                      "add_prefix_space", 0, "decoder", "type", "ByteLevel", "model", "type", "BPE",
                      "vocab", vocabulary, "merges", merges);
    *text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    if (!*text)
        status = sw_fail(err, SW_BAD_FILE, "%s: is not UTF-8, or memory is short", path);
    else
        *n_bytes = (int64_t)strlen(*text);
done:
    free(bytes);
    json_decref(vocabulary);
    json_decref(merges);
    json_decref(whole);
    return status;
}
