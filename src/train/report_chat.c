/* report_chat.c: what conversations become, before the run: the template's source, and the first
 * conversation with what is learned of it between ⟦ and ⟧. A wrong template is seen here sooner
 * than in the loss.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "data/jsonl.h"
#include "train/train.h"

enum { LOOK_BYTES = 1 << 20, LOOK_ROWS = 1000, SHOWN_BYTES = 2000, SHOWN_LINES = 40 };

/* The beginning of a file; whole rows of it, if it is longer. */
static bool read_beginning(const char *path, char **text, int64_t *n) {
    int descriptor;
    int64_t bytes;
    *text = NULL;
    if (sw_file_open(path, &descriptor, &bytes, NULL))
        return false;
    *n = bytes < LOOK_BYTES ? bytes : LOOK_BYTES;
    *text = malloc((size_t)*n + 1);
    bool is_read = *text && !sw_file_read_at(descriptor, path, *text, *n, 0, NULL);
    close(descriptor);
    const char *last = is_read && bytes > *n ? memrchr(*text, '\n', (size_t)*n) : NULL;
    if (last)
        *n = last + 1 - *text;
    return is_read && (bytes <= LOOK_BYTES || last);
}

/* A line of the conversation, with the marks put in. */
typedef struct shown {
    const sw_run *run;
    char line[SW_MESSAGE_BYTES];
    size_t n;
    int n_lines;
} shown;

static void end_line(shown *s) {
    s->line[s->n] = 0;
    sw_report_line(s->run, "       | %s", s->line);
    s->n = 0;
    s->n_lines++;
}

static void put(shown *s, const char *bytes, size_t n) {
    if (s->n + n + 1 > sizeof s->line - 32)
        end_line(s);
    memcpy(s->line + s->n, bytes, n);
    s->n += n;
}

static void show_text(const sw_run *run, const sw_chat_text *text) {
    static const char begin[] = "⟦", end[] = "⟧";
    shown s = {.run = run};
    int64_t i = 0;
    int next = 0;
    for (; i < text->bytes && i < SHOWN_BYTES && s.n_lines < SHOWN_LINES; i++) {
        const char c = text->text[i];
        if (next < text->n_supervised && text->supervised[next].first == i &&
            text->supervised[next].end > i)
            put(&s, begin, sizeof begin - 1);
        if (c == '\n')
            end_line(&s);
        else
            put(&s, (unsigned char)c < 0x20 || c == 0x7F ? "?" : &c, 1);
        for (; next < text->n_supervised && text->supervised[next].end <= i + 1; next++)
            if (text->supervised[next].first < text->supervised[next].end)
                put(&s, end, sizeof end - 1);
    }
    while (i < text->bytes &&
           ((unsigned char)text->text[i] & 0xC0) == 0x80) /* not within a character */
        put(&s, &text->text[i++], 1);
    if (s.n)
        end_line(&s);
    if (i < text->bytes)
        sw_report_line(run, "       | ... and %" PRId64 " %s more", text->bytes - i,
                       sw_text_noun(text->bytes - i, "byte", "bytes"));
}

/* The first conversation among the first rows of the file. */
static void show_first(const sw_run *run, const char *path, const char *bytes, int64_t n) {
    sw_jsonl rows;
    sw_jsonl_row row;
    sw_chat_text text = {.text = NULL};
    bool is_end = false;
    sw_status status = sw_jsonl_begin(&rows, path, bytes, n, &run->settings->data.columns, NULL);
    for (int i = 0; i < LOOK_ROWS && !status &&
                    !(status = sw_jsonl_next(&rows, &row, &is_end, NULL)) && !is_end;
         i++) {
        if (row.form != SW_JSONL_MESSAGES)
            continue;
        if (sw_chat_render(run->chat, row.conversation, SW_SPANS_LEARNED, NULL, &text, NULL) ==
            SW_OK) {
            sw_report_line(run, "chat template: %s", sw_chat_source(run->chat));
            if (run->chat_now[0])
                sw_report_line(
                    run, "       it writes the date, which stays %s for this run (data.chat_now)",
                    run->chat_now);
            sw_report_line(run, "       line %" PRId64 " of %s; what is between ⟦ and ⟧ is learned",
                           row.line, path);
            show_text(run, &text);
        }
        break;
    }
    sw_chat_text_free(&text);
    sw_jsonl_end(&rows);
}

void sw_report_chat(const sw_run *run) {
    const char *path = sw_dataset_first_rows(run->data);
    char *bytes = NULL;
    int64_t n;
    if (path && run->chat && read_beginning(path, &bytes, &n))
        show_first(run, path, bytes, n);
    free(bytes);
}
