/* json_line.c: members put one behind the other, and the single write. */
#include "observe/json_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "base/text.h"

enum { RESERVED = 2 + 8 }; /* newline and NUL, and braces to close what is open */

static void put(sw_json_line *line, const char *text, size_t n) {
    if (line->is_too_long || n > SW_JSON_LINE_BYTES - RESERVED - line->n) {
        line->is_too_long = true;
        return;
    }
    memcpy(line->text + line->n, text, n);
    line->n += n;
}

static void put_key(sw_json_line *line, const char *key) {
    if (line->n > 0 && line->text[line->n - 1] != '{')
        put(line, ", ", 2);
    put(line, "\"", 1);
    put(line, key, strlen(key));
    put(line, "\": ", 3);
}

/* What stands for a character of one byte inside a string. */
static size_t escape(unsigned char c, char out[8]) {
    if (c == '"' || c == '\\')
        return (size_t)snprintf(out, 8, "\\%c", c);
    return (size_t)snprintf(out, 8, c < 0x20 ? "\\u%04x" : "%c", c);
}

/* Bytes of the character that text begins with, 0 if it does not begin with one. */
static size_t utf8_length(const char *text) {
    for (size_t n = 1; n <= 4; n++) {
        if (sw_text_is_utf8(text, n))
            return n;
        if (!text[n])
            break;
    }
    return 0;
}

void sw_json_line_begin(sw_json_line *line) {
    line->n = 0;
    line->is_too_long = false;
    put(line, "{", 1);
}

void sw_json_line_end(sw_json_line *line) {
    memcpy(line->text + line->n, "}\n", 3), line->n += 2;
}

void sw_json_line_open(sw_json_line *line, const char *key) {
    put_key(line, key);
    put(line, "{", 1);
}

void sw_json_line_close(sw_json_line *line) {
    put(line, "}", 1);
}

void sw_json_line_integer(sw_json_line *line, const char *key, int64_t value) {
    char text[32];
    put_key(line, key);
    put(line, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

static void put_real(sw_json_line *line, double value) {
    char text[SW_TEXT_NUMBER_BYTES];
    if (isfinite(value))
        sw_text_exact_real(value, text, sizeof text);
    else
        snprintf(text, sizeof text, "null");
    put(line, text, strlen(text));
}

void sw_json_line_real(sw_json_line *line, const char *key, double value) {
    put_key(line, key);
    put_real(line, value);
}

void sw_json_line_reals(sw_json_line *line, const char *key, const double *values, int n) {
    put_key(line, key);
    put(line, "[", 1);
    for (int i = 0; i < n; i++) {
        put(line, ", ", i ? 2 : 0);
        put_real(line, values[i]);
    }
    put(line, "]", 1);
}

void sw_json_line_text(sw_json_line *line, const char *key, const char *value) {
    put_key(line, key);
    if (!value) {
        put(line, "null", 4);
        return;
    }
    put(line, "\"", 1);
    while (*value) {
        char escaped[8];
        size_t n = utf8_length(value);
        if (n == 1)
            put(line, escaped, escape((unsigned char)*value, escaped));
        else if (n > 1)
            put(line, value, n);
        else
            put(line, "\\ufffd", 6);
        value += n > 0 ? n : 1;
    }
    put(line, "\"", 1);
}

/* A line that a power cut has left without its end would spoil the next. */
static int cut_torn_line(int descriptor) {
    struct stat stat;
    if (fstat(descriptor, &stat))
        return -1;
    if (!S_ISREG(stat.st_mode))
        return 0;
    off_t end = stat.st_size;
    for (char last = 0; end > 0; end--) {
        errno = EIO; /* where nothing is read though it is there */
        if (pread(descriptor, &last, 1, end - 1) != 1)
            return -1;
        if (last == '\n')
            break;
    }
    return end < stat.st_size ? ftruncate(descriptor, end) : 0;
}

sw_status sw_json_lines_open(const char *path, sw_json_lines **lines, sw_error *err) {
    *lines = NULL;
    sw_status status = sw_file_check_name(path, err);
    if (status)
        return status;
    sw_json_lines *opened = calloc(1, sizeof *opened);
    if (!opened || !(opened->path = strdup(path))) {
        free(opened);
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for a line", path);
    }
    opened->descriptor = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (opened->descriptor < 0 || cut_torn_line(opened->descriptor)) {
        status = sw_cannot_write(path, errno, err);
        sw_json_lines_close(opened);
        return status;
    }
    *lines = opened;
    return SW_OK;
}

void sw_json_lines_close(sw_json_lines *lines) {
    if (!lines)
        return;
    if (lines->is_torn)
        (void)!cut_torn_line(lines->descriptor); /* else the next opening does it */
    if (lines->descriptor >= 0)
        close(lines->descriptor);
    free(lines->path);
    free(lines);
}

sw_status sw_json_lines_append(sw_json_lines *lines, sw_error *err) {
    const sw_json_line *line = &lines->line;
    if (line->is_too_long)
        return sw_fail(err, SW_BUG, "%s: a line is longer than %d bytes", lines->path,
                       SW_JSON_LINE_BYTES);
    if (lines->is_torn && cut_torn_line(lines->descriptor))
        return sw_cannot_write(lines->path, errno, err);
    lines->is_torn = false;
    size_t n_written = 0;
    ssize_t n;
    int n_tries = 0;
    do { /* in one go; what a full disk has not taken is tried once more, to learn why */
        n = write(lines->descriptor, line->text + n_written, line->n - n_written);
        n_written += n > 0 ? (size_t)n : 0;
    } while ((n > 0 && n_written < line->n) || (n < 0 && sw_is_interruption(errno, &n_tries)));
    if (n_written == line->n)
        return SW_OK;

    /* This process alone appends, so what was written of the line is at the end. */
    const int why = n == 0 ? ENOSPC : errno;
    lines->is_torn = n_written > 0 && cut_torn_line(lines->descriptor);
    return sw_cannot_write(lines->path, why, err);
}

sw_status sw_json_lines_sync(const sw_json_lines *lines, sw_error *err) {
    return sw_file_sync(lines->descriptor, lines->path, err);
}
