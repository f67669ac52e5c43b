/* jsonl.c: from the words of a line (json_cursor.h) to the values under its keys; jsonl_row.c makes
 * a row of them.
 *
 * The keys of the line are kept and sorted at the end, to find one that came twice.
 */
#include "data/jsonl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/text.h"
#include "data/json_document.h"
#include "data/jsonl_row.h"

sw_status sw_row_refuse(const sw_row_reader *r, const char *format, ...) {
    va_list arguments;
    char reason[SW_MESSAGE_BYTES];
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return sw_fail(r->json.err, SW_BAD_FILE, "%s: line %" PRId64 ": %s", r->rows->name,
                   r->rows->line, reason);
}

static sw_status no_memory(const sw_jsonl *rows, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "%s: line %" PRId64 ": no memory for the row", rows->name,
                   rows->line);
}

/* ---- keys ---- */

static int by_bytes(const void *a, const void *b) {
    const sw_slice *x = a, *y = b;
    int order = memcmp(x->text, y->text, (size_t)(x->bytes < y->bytes ? x->bytes : y->bytes));
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static bool put_slice(sw_slice **list, int *n, int *capacity, sw_slice slice) {
    if (*n == *capacity) {
        int wider = *capacity ? 2 * *capacity : 16;
        sw_slice *grown = realloc(*list, (size_t)wider * sizeof *grown);
        if (!grown)
            return false;
        *list = grown;
        *capacity = wider;
    }
    (*list)[(*n)++] = slice;
    return true;
}

static sw_status read_key(sw_row_reader *r, sw_slice *key) {
    sw_jsonl *rows = r->rows;
    sw_status status = sw_json_cursor_string(&r->json, key);
    if (status != SW_OK)
        return status;
    if (!put_slice(&rows->keys, &rows->n_keys, &rows->key_capacity, *key))
        return no_memory(rows, r->json.err);
    if (!sw_json_cursor_pass(&r->json, ':'))
        return sw_json_cursor_refuse(&r->json, "not JSON: a colon is needed after a key");
    sw_json_cursor_blanks(&r->json);
    return SW_OK;
}

static sw_status check_keys(sw_row_reader *r) {
    sw_slice *keys = r->rows->keys;
    const int n = r->rows->n_keys;
    if (n > 1) {
        qsort(keys, (size_t)n, sizeof *keys, by_bytes);
        for (int i = 1; i < n; i++)
            if (by_bytes(&keys[i - 1], &keys[i]) == 0)
                return sw_row_refuse(r, "the key `%.*s` comes twice; which is meant?",
                                     keys[i].bytes > 40 ? 40 : (int)keys[i].bytes, keys[i].text);
    }
    return SW_OK;
}

/* ---- values ---- */

static sw_status wrong_kind(const sw_row_reader *r, int key, int takes) {
    const bool is_single = !(takes & (takes - 1));
    return sw_row_refuse(r, "`%s` must be %s, is %s", r->values[key].key,
                         is_single                 ? takes == SW_TAKES_TEXT      ? "a string"
                                                     : takes == SW_TAKES_LIST    ? "a list"
                                                     : takes == SW_TAKES_OBJECT  ? "an object"
                                                     : takes == SW_TAKES_BOOLEAN ? "true or false"
                                                                                 : "a number"
                         : takes & SW_TAKES_NUMBER ? "a number or a boolean"
                         : key == SW_COLUMN_tools  ? "a list of objects"
                                                   : "a string or a list of messages",
                         sw_json_cursor_value(&r->json));
}

static int kind_here(const sw_json_cursor *json) {
    switch (*json->at) {
    case '"':
        return SW_TAKES_TEXT;
    case '[':
        return SW_TAKES_LIST;
    case '{':
        return SW_TAKES_OBJECT;
    case 't':
    case 'f':
        return SW_TAKES_BOOLEAN;
    default:
        return strchr("-0123456789", *json->at) ? SW_TAKES_NUMBER : 0;
    }
}

static sw_status read_value(sw_row_reader *r, int key) {
    sw_row_value *value = &r->values[key];
    const int takes = sw_row_takes(key), kind = r->json.at < r->json.end ? kind_here(&r->json) : 0;
    value->is_there = true;
    if (kind == 0) { /* null, or no JSON */
        value->is_null = true;
        return r->json.at < r->json.end
                   ? sw_json_cursor_scalar(&r->json)
                   : sw_json_cursor_refuse(&r->json,
                                           "not JSON: the line ends before the object does");
    }
    if (!(kind & takes))
        return wrong_kind(r, key, takes);
    if (kind == SW_TAKES_TEXT)
        return sw_json_cursor_string(&r->json, &value->text);
    return sw_json_cursor_tree(&r->json, &value->tree);
}

static sw_status read_member(sw_row_reader *r) {
    sw_jsonl *rows = r->rows;
    sw_slice key;
    sw_status status = read_key(r, &key);
    if (status != SW_OK)
        return status;
    const int known = sw_row_key(&rows->columns, key);
    /* One that comes a second time is passed over like any value: check_keys refuses it, and the
     * first stays whole. */
    if (known >= 0 && !r->values[known].is_there)
        return read_value(r, known);
    if (known < 0) {
        if (r->json.at < r->json.end && (status = sw_row_check_unread(r, key)) != SW_OK)
            return status;
        if (!put_slice(&rows->unread, &rows->n_unread, &rows->unread_capacity, key))
            return no_memory(rows, r->json.err);
    }
    return sw_json_cursor_skip(&r->json);
}

/* ---- a row ---- */

static sw_status begin_object(sw_row_reader *r) {
    sw_json_cursor_blanks(&r->json);
    if (*r->json.at == '{') {
        r->json.at++;
        return SW_OK;
    }
    if (*r->json.at == '<')
        return sw_json_cursor_refuse(
            &r->json, "not JSON; it looks like a web page: is it an error page saved as data?");
    if (r->json.end - r->json.at >= 3 && memcmp(r->json.at, "\xEF\xBB\xBF", 3) == 0)
        return sw_json_cursor_refuse(
            &r->json, "a byte order mark where a row should begin; were two files joined?");
    sw_json_cursor value = r->json; /* a value of another kind, and nothing behind it? */
    value.err = NULL;
    if (sw_json_cursor_skip(&value) == SW_OK &&
        (sw_json_cursor_blanks(&value), value.at == value.end))
        return sw_row_refuse(r, "a row must be an object ({...}), this is %s",
                             sw_json_cursor_value(&r->json));
    return sw_json_cursor_refuse(&r->json, "not JSON: a row is an object ({...})");
}

static sw_status read_row(sw_row_reader *r, sw_jsonl_row *row) {
    sw_status status = sw_json_cursor_check(&r->json);
    if (status == SW_OK)
        status = begin_object(r);
    if (status != SW_OK)
        return status;
    if (!sw_json_cursor_pass(&r->json, '}')) {
        do
            if ((status = read_member(r)) != SW_OK)
                return status;
        while (sw_json_cursor_pass(&r->json, ','));
        if (!sw_json_cursor_pass(&r->json, '}'))
            return sw_json_cursor_refuse(
                &r->json, r->json.at == r->json.end
                              ? "not JSON: the line ends before the object does; a row is one line"
                              : "not JSON: a comma or } is needed here");
    }
    sw_json_cursor_blanks(&r->json);
    if (r->json.at < r->json.end)
        return sw_json_cursor_refuse(
            &r->json,
            "there is something after the object; a line must hold one row and nothing else");
    if ((status = check_keys(r)) != SW_OK)
        return status;
    const json_t *weight = r->values[SW_ROW_WEIGHT].tree;
    const bool is_graded =
        json_is_number(weight) && json_number_value(weight) != 0 && json_number_value(weight) != 1;
    if (is_graded && !put_slice(&r->rows->unread, &r->rows->n_unread, &r->rows->unread_capacity,
                                sw_slice_of("weight")))
        return no_memory(r->rows, r->json.err);
    return sw_row_make(r, row);
}

static sw_status read_line(sw_row_reader *r, sw_jsonl_row *row) {
    static const char *const fixed[] = {"chat_template_kwargs", "add_generation_prompt", "weight",
                                        "train"};
    sw_jsonl *rows = r->rows;
    const int64_t needed = r->json.end - r->json.first;
    if (needed > rows->decoded_capacity) {
        char *decoded = realloc(rows->decoded, (size_t)needed + (size_t)needed / 2);
        if (!decoded)
            return no_memory(rows, r->json.err);
        rows->decoded = decoded;
        rows->decoded_capacity = needed + needed / 2;
    }
    r->json.decoded = rows->decoded;
    rows->n_keys = rows->n_unread = 0;
    sw_conversation_clear(&rows->conversation);
    *row = (sw_jsonl_row){.line = rows->line, .gives_targets = true};
    const char *const *columns = (const char *const *)&rows->columns;
    for (int i = 0; i < SW_N_ROW_KEYS; i++)
        r->values[i].key = i < SW_N_COLUMNS ? columns[i] : fixed[i - SW_N_COLUMNS];
    sw_status status = read_row(r, row);
    for (int i = 0; i < SW_N_ROW_KEYS; i++)
        json_decref(r->values[i].tree);
    return status;
}

/* ---- the file ---- */

void sw_jsonl_begin_part(sw_jsonl *rows, const char *name, const char *text, int64_t bytes,
                         int64_t n_lines_before, int64_t n_bytes_before,
                         const sw_columns *columns) {
    *rows = (sw_jsonl){.name = name,
                       .columns = columns ? *columns : SW_USUAL_COLUMNS,
                       .text = text,
                       .at = text,
                       .end = text + bytes,
                       .line = n_lines_before,
                       .offset = n_bytes_before};
}

sw_status sw_jsonl_begin(sw_jsonl *rows, const char *name, const char *text, int64_t bytes,
                         const sw_columns *columns, sw_error *err) {
    sw_jsonl_begin_part(rows, name, text, bytes, 0, 0, columns);
    if (bytes == 0)
        return sw_fail(err, SW_BAD_FILE, "%s: is empty; it has no rows", name);
    char place[SW_PATH_BYTES + 16];
    snprintf(place, sizeof place, "%s: line 1", name);
    sw_status status = sw_file_expect(place, text, bytes, bytes, SW_FILE_JSON_LINES, err);
    if (status != SW_OK)
        return status;
    sw_text_skip_mark(&rows->at, &bytes);
    return sw_is_json_list(rows->at, bytes)
               ? sw_json_document_refuse(name, text, rows->end - text, err)
               : SW_OK;
}

bool sw_jsonl_next_line(sw_jsonl *rows, sw_slice *line) {
    while (rows->at < rows->end) {
        const char *end = memchr(rows->at, '\n', (size_t)(rows->end - rows->at));
        sw_json_cursor from = {.at = rows->at, .end = end ? end : rows->end};
        *line = (sw_slice){from.at, from.end - from.at};
        rows->at = end ? end + 1 : rows->end;
        rows->line++;
        sw_json_cursor_blanks(&from);
        if (from.at < from.end)
            return true;
    }
    return false;
}

sw_status sw_jsonl_next(sw_jsonl *rows, sw_jsonl_row *row, bool *is_end, sw_error *err) {
    sw_slice line;
    *is_end = !sw_jsonl_next_line(rows, &line);
    if (*is_end)
        return SW_OK;
    const char *end = line.text + line.bytes;
    sw_row_reader r = {{.name = rows->name,
                        .line = rows->line,
                        .offset = rows->offset + (line.text - rows->text),
                        .first = line.text,
                        .at = line.text,
                        .end = end,
                        .err = err},
                       .rows = rows};
    sw_status status = read_line(&r, row);
    rows->n_rows += status == SW_OK;
    return status;
}

sw_status sw_jsonl_check_rows(const sw_jsonl *rows, sw_error *err) {
    return rows->n_rows > 0
               ? SW_OK
               : sw_fail(err, SW_BAD_FILE, "%s: has no rows (every line is blank)", rows->name);
}

void sw_jsonl_end(sw_jsonl *rows) {
    free(rows->decoded);
    free(rows->keys);
    free(rows->unread);
    free(rows->prompt);
    sw_conversation_free(&rows->conversation);
    *rows = (sw_jsonl){0};
}
