/* json_document.c: see json_document.h. */
#include "data/json_document.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/text.h"

static void skip_blanks(const char **text, int64_t *bytes) {
    while (*bytes > 0 && **text && strchr(" \t\r\n", **text))
        ++*text, --*bytes;
}

bool sw_is_json_list(const char *text, int64_t bytes) {
    skip_blanks(&text, &bytes);
    return bytes > 0 && *text == '[';
}

/* Does the first line hold a whole object, as far as its ends tell? */
static bool is_object_line(const char *text, int64_t bytes) {
    const char *end = bytes > 0 ? memchr(text, '\n', (size_t)bytes) : NULL;
    end = end ? end : text + bytes;
    while (end > text && strchr(" \t\r", end[-1]) && end[-1])
        end--;
    return end - text >= 2 && *text == '{' && end[-1] == '}';
}

sw_status sw_json_document_refuse(const char *path, const char *text, int64_t bytes,
                                  sw_error *err) {
    sw_text_skip_mark(&text, &bytes);
    skip_blanks(&text, &bytes);
    if (is_object_line(text, bytes))
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: holds rows of JSON, one on each line; give it a name that ends in .jsonl", path);
    bool is_list = sw_is_json_list(text, bytes);
    char word[SW_MESSAGE_BYTES / 2];
    return sw_fail(err, SW_BAD_FILE,
                   "%s: line 1: is one JSON %s, and rows are read one on each line (.jsonl); this "
                   "writes them so: python3 -c "
                   "\"import json, sys; [print(json.dumps(r)) for r in "
                   "%sjson.loads(sys.stdin.buffer.read())%s]\" <%s >rows.jsonl",
                   path, is_list ? "list" : "object", is_list ? "" : "[", is_list ? "" : "]",
                   sw_text_shell_word(path, word, sizeof word));
}

sw_status sw_json_document_refuse_file(const char *path, sw_error *err) {
    char head[SW_FILE_HEAD_BYTES];
    int descriptor;
    int64_t bytes, n;
    sw_status status = sw_file_open(path, &descriptor, &bytes, err);
    if (status != SW_OK)
        return status;
    n = bytes < SW_FILE_HEAD_BYTES ? bytes : SW_FILE_HEAD_BYTES;
    status = sw_file_read_at(descriptor, path, head, n, 0, err);
    if (status == SW_OK)
        status = sw_file_expect(path, head, n, bytes, SW_FILE_JSON_LINES, err);
    close(descriptor);
    return status == SW_OK ? sw_json_document_refuse(path, head, n, err) : status;
}
