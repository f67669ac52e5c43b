/* prompts.c: see prompts.h. */
#include "cli/prompts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/reason.h"

static const int64_t most_bytes = INT64_C(1) << 30;
static const char where[] = "shardwise generate";

static sw_status cannot_read(int error, sw_error *err) {
    return sw_fail_call(err, SW_CALL_READ, error, "standard input cannot be read · %s", where);
}

/* All of standard input. Ownership: free(*text), also after an error. */
static sw_status read_input(char **text, int64_t *n_bytes, sw_error *err) {
    int64_t capacity = 0;
    int n_tries = 0;
    *n_bytes = 0;
    for (;;) {
        if (*n_bytes == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *grown = realloc(*text, (size_t)capacity);
            if (!grown)
                return sw_fail(err, SW_NO_MEMORY,
                               "no memory for %" PRId64 " bytes of standard input · %s", capacity,
                               where);
            *text = grown;
        }
        ssize_t n = read(STDIN_FILENO, *text + *n_bytes, (size_t)(capacity - *n_bytes));
        if (n < 0 && sw_is_interruption(errno, &n_tries))
            continue;
        if (n < 0)
            return cannot_read(errno, err);
        *n_bytes += n;
        if (*n_bytes > most_bytes)
            return sw_fail(err, SW_BAD_FILE,
                           "standard input has more than %" PRId64 " bytes; is it a prompt? · %s",
                           most_bytes, where);
        if (n == 0)
            return sw_file_expect("standard input", *text, *n_bytes, *n_bytes, SW_FILE_TEXT, err);
    }
}

static sw_status add(sw_prompts *p, const char *text, int64_t n_bytes, sw_error *err) {
    if (n_bytes == 0)
        return sw_fail(err, SW_BAD_CONFIG, "a prompt is empty · %s · write --prompt TEXT", where);
    p->item[p->n++] = (sw_prompt){.text = text, .n_bytes = (size_t)n_bytes};
    return SW_OK;
}

static sw_status add_input(sw_prompts *p, sw_error *err) {
    int64_t n_bytes;
    sw_status status = read_input(&p->input, &n_bytes, err);
    const char *text = p->input;
    if (status)
        return status;
    sw_text_skip_mark(&text, &n_bytes);
    n_bytes -= n_bytes > 0 && text[n_bytes - 1] == '\n';
    n_bytes -= n_bytes > 0 && text[n_bytes - 1] == '\r';
    if (n_bytes == 0)
        return sw_fail(err, SW_BAD_CONFIG,
                       "there is no text to continue: standard input is empty · %s · write "
                       "--prompt TEXT, or pipe a text into it",
                       where);
    return add(p, text, n_bytes, err);
}

static int64_t count_lines(const char *text, int64_t n_bytes) {
    int64_t n = 1;
    for (int64_t i = 0; i < n_bytes; i++)
        n += text[i] == '\n';
    return n;
}

static sw_status add_lines(sw_prompts *p, const char *text, int64_t n_bytes, sw_error *err) {
    sw_text_skip_mark(&text, &n_bytes);
    const char *end = text + n_bytes;
    sw_status status = SW_OK;
    for (const char *line = text, *stop; line < end && !status; line = stop + 1) {
        stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        int64_t n = stop - line;
        n -= n > 0 && line[n - 1] == '\r';
        if (n > 0)
            status = add(p, line, n, err);
    }
    return status;
}

/* The text of the file of prompts. */
static sw_status read_lines(sw_prompts *p, const char *path, int64_t *n_bytes, sw_error *err) {
    if (!strcmp(path, "-"))
        return read_input(&p->lines, n_bytes, err);
    sw_status status = sw_file_read(path, most_bytes, &p->lines, n_bytes, err);
    return status ? status : sw_file_expect(path, p->lines, *n_bytes, *n_bytes, SW_FILE_TEXT, err);
}

sw_status sw_prompts_collect(const sw_flag_texts *given, const char *path, sw_prompts *prompts,
                             sw_error *err) {
    const bool is_input_meant = !given->n && !path;
    int64_t n_bytes = 0;
    int n_inputs = path && !strcmp(path, "-");
    *prompts = (sw_prompts){.n = 0};
    if (is_input_meant && isatty(STDIN_FILENO))
        return sw_fail(
            err, SW_BAD_CONFIG,
            "there is no text to continue · %s · write --prompt TEXT, or pipe a text into it",
            where);
    for (int i = 0; i < given->n; i++)
        n_inputs += !strcmp(given->item[i], "-");
    if (n_inputs > 1)
        return sw_fail(err, SW_BAD_CONFIG,
                       "- (standard input) is given %d times · %s · it can be read only once",
                       n_inputs, where);
    sw_status status = path ? read_lines(prompts, path, &n_bytes, err) : SW_OK;
    if (status)
        return status;
    prompts->item = calloc((size_t)(given->n + 1 + count_lines(prompts->lines, n_bytes)),
                           sizeof *prompts->item);
    if (!prompts->item)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the prompts · %s", where);
    if (is_input_meant)
        return add_input(prompts, err);
    for (int i = 0; i < given->n && !status; i++)
        if (strcmp(given->item[i], "-") != 0)
            status = add(prompts, given->item[i], (int64_t)strlen(given->item[i]), err);
        else
            status = add_input(prompts, err);
    if (!status && path)
        status = add_lines(prompts, prompts->lines, n_bytes, err);
    if (!status && !prompts->n)
        status =
            sw_fail(err, SW_BAD_CONFIG, "%.200s: no line of it holds a prompt · %s", path, where);
    return status;
}

void sw_prompts_free(sw_prompts *prompts) {
    free(prompts->item);
    free(prompts->lines);
    free(prompts->input);
    *prompts = (sw_prompts){.n = 0};
}
