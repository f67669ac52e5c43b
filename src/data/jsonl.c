/* jsonl.c: from the words of a line (json_line.h) to a row.
 *
 * Objects that are read keep a list of their keys, sorted at the end to find one that came twice.
 */
#include "data/jsonl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/text.h"
#include "data/json_document.h"
#include "data/json_line.h"

typedef struct line_reader {
    sw_json_line json;
    sw_jsonl *rows;
} line_reader;

static sw_status refuse_line(const line_reader *r, const char *reason) {
    return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": %s", r->rows->name, r->rows->line, reason);
}

static sw_status no_memory(const sw_jsonl *rows, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "%s: line %" PRId64 ": no memory for the row", rows->name, rows->line);
}

static sw_status wrong_type(const line_reader *r, const char *key, const char *needed) {
    return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": `%s` must be %s, is %s", r->rows->name, r->rows->line, key,
                   needed, sw_json_line_value(&r->json));
}

/* ---- keys ---- */

static bool is_text(sw_slice slice, const char *text) {
    return (size_t)slice.bytes == strlen(text) && memcmp(slice.text, text, (size_t)slice.bytes) == 0;
}

static int by_bytes(const void *a, const void *b) {
    const sw_slice *x = a, *y = b;
    int order = memcmp(x->text, y->text, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Note a key of the object being read, after `first_key` others. */
static sw_status read_key(line_reader *r, sw_slice *key) {
    sw_jsonl *rows = r->rows;
    sw_status status = sw_json_line_string(&r->json, key);
    if (status != SW_OK)
        return status;
    if (rows->n_keys == rows->key_capacity) {
        int capacity = rows->key_capacity ? 2 * rows->key_capacity : 16;
        sw_slice *keys = realloc(rows->keys, (size_t)capacity * sizeof *keys);
        if (!keys)
            return no_memory(rows, r->json.err);
        rows->keys = keys;
        rows->key_capacity = capacity;
    }
    rows->keys[rows->n_keys++] = *key;
    return sw_json_line_pass(&r->json, ':') ? (sw_json_line_blanks(&r->json), SW_OK)
                                            : sw_json_line_refuse(&r->json, "not JSON: a colon is needed after a key");
}

static sw_status check_keys(line_reader *r, int first_key) {
    sw_slice *keys = r->rows->keys;
    int n = r->rows->n_keys - first_key;
    if (n > 1) {
        qsort(keys + first_key, (size_t)n, sizeof *keys, by_bytes);
        for (int i = first_key + 1; i < r->rows->n_keys; i++)
            if (by_bytes(&keys[i - 1], &keys[i]) == 0)
                return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": the key `%.*s` comes twice; which is meant?",
                               r->rows->name, r->rows->line, keys[i].bytes > 40 ? 40 : (int)keys[i].bytes, keys[i].text);
    }
    return SW_OK;
}

static sw_status read_text_value(line_reader *r, const char *key, sw_slice *value) {
    if (r->json.at < r->json.end && *r->json.at != '"')
        return strchr("{[tfn-0123456789", *r->json.at) ? wrong_type(r, key, "a string") : sw_json_line_scalar(&r->json);
    return sw_json_line_string(&r->json, value);
}

/* ---- messages of a conversation ---- */

static const char *const role_names[SW_N_ROLES] = {"system", "user", "assistant"};

static sw_status role_of(line_reader *r, sw_slice name, sw_role *role) {
    for (int i = 0; i < SW_N_ROLES; i++)
        if (is_text(name, role_names[i])) {
            *role = (sw_role)i;
            return SW_OK;
        }
    char word[48];
    int n = name.bytes < (int64_t)sizeof word ? (int)name.bytes : (int)sizeof word - 1;
    memcpy(word, name.text, (size_t)n);
    word[n] = 0;
    const char *nearest = sw_text_nearest(word, role_names, SW_N_ROLES);
    return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": the role `%s` is unknown; %s%s", r->rows->name, r->rows->line,
                   word, nearest ? "did you mean " : "known are system, user and assistant", nearest ? nearest : "");
}

static sw_status read_message(line_reader *r, int number, sw_message *message) {
    int first_key = r->rows->n_keys;
    bool has_role = false, has_content = false;
    sw_json_line_blanks(&r->json);
    if (r->json.at < r->json.end && *r->json.at != '{')
        return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": message %d of `messages` must be an object, is %s",
                       r->rows->name, r->rows->line, number, sw_json_line_value(&r->json));
    if (!sw_json_line_pass(&r->json, '{'))
        return sw_json_line_refuse(&r->json, "not JSON: a message is needed here");
    if (!sw_json_line_pass(&r->json, '}')) {
        do {
            sw_slice key, role;
            sw_status status = read_key(r, &key);
            if (status != SW_OK)
                return status;
            if (is_text(key, "role")) {
                has_role = true;
                if ((status = read_text_value(r, "role", &role)) == SW_OK)
                    status = role_of(r, role, &message->role);
            } else if (is_text(key, "content")) {
                has_content = true;
                status = read_text_value(r, "content", &message->content);
            } else {
                status = sw_json_line_skip(&r->json);
            }
            if (status != SW_OK)
                return status;
        } while (sw_json_line_pass(&r->json, ','));
        if (!sw_json_line_pass(&r->json, '}'))
            return sw_json_line_refuse(&r->json, "not JSON: a comma or } is needed here");
    }
    sw_status status = check_keys(r, first_key);
    if (status == SW_OK && (!has_role || !has_content))
        status = sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": message %d has no `%s`", r->rows->name, r->rows->line,
                         number, has_role ? "content" : "role");
    r->rows->n_keys = first_key;
    return status;
}

static sw_status read_messages(line_reader *r, sw_jsonl_row *row) {
    sw_jsonl *rows = r->rows;
    if (r->json.at < r->json.end && *r->json.at != '[')
        return strchr("{\"tfn-0123456789", *r->json.at) ? wrong_type(r, "messages", "a list") : sw_json_line_scalar(&r->json);
    if (!sw_json_line_pass(&r->json, '['))
        return sw_json_line_refuse(&r->json, "not JSON: a list is needed here");
    if (sw_json_line_pass(&r->json, ']'))
        return refuse_line(r, "`messages` is empty; a conversation has at least one message");
    row->n_messages = 0;
    do {
        if (row->n_messages == rows->message_capacity) {
            int capacity = rows->message_capacity ? 2 * rows->message_capacity : 16;
            sw_message *messages = realloc(rows->messages, (size_t)capacity * sizeof *messages);
            if (!messages)
                return no_memory(rows, r->json.err);
            rows->messages = messages;
            rows->message_capacity = capacity;
        }
        sw_status status = read_message(r, row->n_messages + 1, &rows->messages[row->n_messages]);
        if (status != SW_OK)
            return status;
        row->n_messages++;
    } while (sw_json_line_pass(&r->json, ','));
    row->messages = rows->messages;
    return sw_json_line_pass(&r->json, ']') ? SW_OK : sw_json_line_refuse(&r->json, "not JSON: a comma or ] is needed here");
}

/* ---- a row ---- */

enum { HAS_TEXT = 1, HAS_PROMPT = 2, HAS_COMPLETION = 4, HAS_MESSAGES = 8 };

static sw_status name_unknown_keys(line_reader *r) {
    static const char *const names[] = {"text", "prompt", "completion", "messages"};
    sw_jsonl *rows = r->rows;
    for (int i = 0; i < rows->n_keys; i++) {
        char word[48];
        if (rows->keys[i].bytes >= (int64_t)sizeof word || memchr(rows->keys[i].text, 0, (size_t)rows->keys[i].bytes))
            continue;
        memcpy(word, rows->keys[i].text, (size_t)rows->keys[i].bytes);
        word[rows->keys[i].bytes] = 0;
        const char *nearest = sw_text_nearest(word, names, 4);
        if (nearest)
            return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": the key `%s` is unknown; did you mean `%s`?",
                           rows->name, rows->line, word, nearest);
    }
    return refuse_line(r, rows->n_keys ? "no known key; a row has `text`, or `prompt` and `completion`, or `messages`"
                                       : "the object is empty; a row has `text`, or `prompt` and `completion`, or `messages`");
}

static sw_status form_of(line_reader *r, int has, sw_jsonl_row *row) {
    switch (has) {
    case HAS_TEXT:
        row->form = SW_JSONL_TEXT;
        return SW_OK;
    case HAS_PROMPT | HAS_COMPLETION:
        row->form = SW_JSONL_COMPLETION;
        return SW_OK;
    case HAS_MESSAGES:
        row->form = SW_JSONL_MESSAGES;
        return SW_OK;
    case HAS_PROMPT:
        return refuse_line(r, "`prompt` without `completion`");
    case HAS_COMPLETION:
        return refuse_line(r, "`completion` without `prompt`");
    case 0:
        return name_unknown_keys(r);
    default:
        return sw_fail(r->json.err, SW_BAD_FILE,
                       "%s: line %" PRId64 ": two forms in one row (%s%s%s%s); it is not clear what to train on", r->rows->name,
                       r->rows->line, has & HAS_TEXT ? "`text` " : "", has & HAS_PROMPT ? "`prompt` " : "",
                       has & HAS_COMPLETION ? "`completion` " : "", has & HAS_MESSAGES ? "`messages` " : "");
    }
}

static sw_status read_member(line_reader *r, sw_jsonl_row *row, int *has) {
    sw_slice key;
    sw_status status = read_key(r, &key);
    if (status != SW_OK)
        return status;
    if (is_text(key, "text")) {
        *has |= HAS_TEXT;
        return read_text_value(r, "text", &row->text);
    }
    if (is_text(key, "prompt")) {
        *has |= HAS_PROMPT;
        return read_text_value(r, "prompt", &row->prompt);
    }
    if (is_text(key, "completion")) {
        *has |= HAS_COMPLETION;
        return read_text_value(r, "completion", &row->completion);
    }
    /* A second list of messages is passed over like any value: check_keys refuses it, and the first stays whole. */
    if (is_text(key, "messages") && !(*has & HAS_MESSAGES)) {
        *has |= HAS_MESSAGES;
        return read_messages(r, row);
    }
    return sw_json_line_skip(&r->json);
}

static sw_status begin_object(line_reader *r) {
    sw_json_line_blanks(&r->json);
    if (*r->json.at == '{') {
        r->json.at++;
        return SW_OK;
    }
    if (*r->json.at == '<')
        return sw_json_line_refuse(&r->json, "not JSON; it looks like a web page: is it an error page saved as data?");
    if (r->json.end - r->json.at >= 3 && memcmp(r->json.at, "\xEF\xBB\xBF", 3) == 0)
        return sw_json_line_refuse(&r->json, "a byte order mark where a row should begin; were two files joined?");
    if (strchr("\"[tfn-0123456789", *r->json.at)) {
        const char *kind = sw_json_line_value(&r->json);
        return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": a row must be an object ({...}), this is %s",
                       r->rows->name, r->rows->line, kind);
    }
    return sw_json_line_refuse(&r->json, "not JSON: a row is an object ({...})");
}

static sw_status read_row(line_reader *r, sw_jsonl_row *row) {
    int has = 0;
    sw_status status = sw_json_line_check(&r->json);
    if (status == SW_OK)
        status = begin_object(r);
    if (status != SW_OK)
        return status;
    if (!sw_json_line_pass(&r->json, '}')) {
        do
            if ((status = read_member(r, row, &has)) != SW_OK)
                return status;
        while (sw_json_line_pass(&r->json, ','));
        if (!sw_json_line_pass(&r->json, '}'))
            return sw_json_line_refuse(&r->json, r->json.at == r->json.end
                                                     ? "not JSON: the line ends before the object does; a row is one line"
                                                     : "not JSON: a comma or } is needed here");
    }
    sw_json_line_blanks(&r->json);
    if (r->json.at < r->json.end)
        return sw_json_line_refuse(&r->json, "something stands after the object; a line holds one row and nothing else");
    if ((status = check_keys(r, 0)) != SW_OK)
        return status;
    return form_of(r, has, row);
}

/* ---- the file ---- */

void sw_jsonl_begin_part(sw_jsonl *rows, const char *name, const char *text, int64_t bytes, int64_t n_lines_before,
                         int64_t n_bytes_before) {
    *rows =
        (sw_jsonl){.name = name, .text = text, .at = text, .end = text + bytes, .line = n_lines_before, .offset = n_bytes_before};
}

sw_status sw_jsonl_begin(sw_jsonl *rows, const char *name, const char *text, int64_t bytes, sw_error *err) {
    sw_jsonl_begin_part(rows, name, text, bytes, 0, 0);
    if (bytes == 0)
        return sw_fail(err, SW_BAD_FILE, "%s: is empty; it has no rows", name);
    char place[SW_PATH_BYTES + 16];
    snprintf(place, sizeof place, "%s: line 1", name);
    sw_status status = sw_file_expect(place, text, bytes, bytes, SW_FILE_JSON_LINES, err);
    if (status != SW_OK)
        return status;
    sw_text_skip_mark(&rows->at, &bytes);
    return sw_is_json_list(rows->at, bytes) ? sw_json_document_refuse(name, text, rows->end - text, err) : SW_OK;
}

sw_status sw_jsonl_next(sw_jsonl *rows, sw_jsonl_row *row, bool *is_end, sw_error *err) {
    *is_end = false;
    for (;;) {
        if (rows->at == rows->end) {
            *is_end = true;
            return SW_OK;
        }
        const char *end = memchr(rows->at, '\n', (size_t)(rows->end - rows->at));
        line_reader r = {{.name = rows->name,
                          .line = rows->line + 1,
                          .offset = rows->offset + (rows->at - rows->text),
                          .first = rows->at,
                          .at = rows->at,
                          .end = end ? end : rows->end,
                          .err = err},
                         rows};
        rows->at = end ? end + 1 : rows->end;
        rows->line++;
        sw_json_line_blanks(&r.json);
        if (r.json.at == r.json.end)
            continue;

        int64_t needed = r.json.end - r.json.first;
        if (needed > rows->decoded_capacity) {
            char *decoded = realloc(rows->decoded, (size_t)needed + (size_t)needed / 2);
            if (!decoded)
                return no_memory(rows, err);
            rows->decoded = decoded;
            rows->decoded_capacity = needed + needed / 2;
        }
        r.json.decoded = rows->decoded;
        rows->n_keys = 0;
        *row = (sw_jsonl_row){.line = rows->line};
        sw_status status = read_row(&r, row);
        rows->n_rows += status == SW_OK;
        return status;
    }
}

sw_status sw_jsonl_check_rows(const sw_jsonl *rows, sw_error *err) {
    return rows->n_rows > 0 ? SW_OK : sw_fail(err, SW_BAD_FILE, "%s: has no rows (every line is blank)", rows->name);
}

void sw_jsonl_end(sw_jsonl *rows) {
    free(rows->decoded);
    free(rows->messages);
    free(rows->keys);
    *rows = (sw_jsonl){0};
}
