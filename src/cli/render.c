/* render.c: rows as the text that a model would see, for whoever tries a chat template. */
#include "cli/render.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/jsonl.h"

static json_t *list_of(const sw_span *spans, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("[I, I]", (json_int_t)spans[i].first, (json_int_t)spans[i].end));
    return list;
}

static sw_status print_object(sw_slice text, json_t *spans, const char *uncertain, sw_error *err) {
    json_t *object = json_object();
    int failed =
        !object ||
        json_object_set_new(object, "text", json_stringn(text.text, (size_t)text.bytes)) != 0 ||
        json_object_set_new(object, "assistant_spans_bytes", spans) != 0 ||
        (uncertain && json_object_set_new(object, "uncertain", json_string(uncertain)) != 0);
    sw_status status = failed ? sw_fail(err, SW_NO_MEMORY, "no memory for a row") : SW_OK;
    if (!status && (json_dumpf(object, stdout, 0) != 0 || putchar('\n') == EOF))
        status = sw_fail(err, SW_NO_SPACE, "standard output: a row cannot be written");
    json_decref(object);
    return status;
}

/* Of a prompt and its completion the latter is learned, of other text all. */
static sw_status print_text(const sw_jsonl_row *row, sw_error *err) {
    const bool is_text = row->form == SW_JSONL_TEXT;
    const sw_slice parts[] = {is_text ? row->text : row->prompt,
                              is_text ? (sw_slice){"", 0} : row->completion};
    const sw_span learned = {is_text ? 0 : parts[0].bytes, parts[0].bytes + parts[1].bytes};
    char *joined = malloc((size_t)learned.end + 1);
    if (!joined)
        return sw_fail(err, SW_NO_MEMORY, "no memory for a row");
    for (int64_t i = 0, at = 0; i < 2; at += parts[i++].bytes)
        if (parts[i].bytes)
            memcpy(joined + at, parts[i].text, (size_t)parts[i].bytes);
    sw_status status = print_object(
        (sw_slice){joined, learned.end},
        list_of(&learned, row->gives_targets && learned.end > learned.first), NULL, err);
    free(joined);
    return status;
}

static sw_status print_conversation(const sw_chat *chat, const sw_jsonl_row *row,
                                    sw_chat_text *text, sw_error *err) {
    bool is_certain;
    sw_error doubt = {0};
    sw_status status =
        sw_chat_render(chat, row->conversation, SW_SPANS_LEARNED, &is_certain, text, &doubt);
    if (status) {
        *err = doubt;
        return status;
    }
    const sw_slice all = {text->text, text->bytes};
    return print_object(all,
                        is_certain
                            ? list_of(text->supervised, row->gives_targets ? text->n_supervised : 0)
                            : json_null(),
                        is_certain ? NULL : doubt.message, err);
}

sw_status sw_render_rows(const char *path, const sw_chat *chat, const sw_columns *columns,
                         sw_error *err) {
    char *bytes = NULL;
    int64_t n_bytes = 0;
    sw_jsonl rows = {.name = path};
    sw_jsonl_row row;
    sw_chat_text text = {.text = NULL};
    bool is_end = false;
    sw_status status = sw_file_read(path, INT64_MAX - 1, &bytes, &n_bytes, err);
    if (!status)
        status = sw_jsonl_begin(&rows, path, bytes, n_bytes, columns, err);
    while (!status && !(status = sw_jsonl_next(&rows, &row, &is_end, err)) && !is_end) {
        status = row.form == SW_JSONL_MESSAGES ? print_conversation(chat, &row, &text, err)
                                               : print_text(&row, err);
        if (status)
            sw_fail_within(err, "%s: line %" PRId64, path, row.line);
    }
    if (!status)
        status = sw_jsonl_check_rows(&rows, err);
    if (!status && fflush(stdout) != 0)
        status = sw_fail(err, SW_NO_SPACE, "standard output: the rows cannot be written");
    sw_chat_text_free(&text);
    sw_jsonl_end(&rows);
    free(bytes);
    return status;
}
