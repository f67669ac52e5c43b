/* json_line.h: one JSON object on one line, written into a fixed buffer and then to a file of such
 * lines by one write(2).
 *
 * The run's records (metrics.jsonl, events.jsonl) are appended to while a run lasts and read by
 * others at the same time: a line is there whole or not at all. Nothing is allocated, so that
 * records can be written in a step.
 */
#ifndef SW_OBSERVE_JSON_LINE_H
#define SW_OBSERVE_JSON_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

#define SW_JSON_LINE_BYTES 16384

typedef struct sw_json_line {
    size_t n;         /* bytes of text so far; text is not NUL-terminated until sw_json_line_end */
    bool is_too_long; /* a piece did not fit; nothing is added after it */
    char text[SW_JSON_LINE_BYTES];
} sw_json_line;

/* Begin an object; then members; then end it, which adds the newline and a NUL. */
void sw_json_line_begin(sw_json_line *line);
void sw_json_line_end(sw_json_line *line);

/* Members. Keys are our own words and need no escapes. A real reads back as the same double; one
 * that is not finite is null. Text that is not UTF-8 has U+FFFD in place of each byte that does not
 * belong; NULL text is null. */
void sw_json_line_integer(sw_json_line *line, const char *key, int64_t value);
void sw_json_line_real(sw_json_line *line, const char *key, double value);
void sw_json_line_text(sw_json_line *line, const char *key, const char *value);
void sw_json_line_reals(sw_json_line *line, const char *key, const double *values,
                        int n);                              /* a list */
void sw_json_line_open(sw_json_line *line, const char *key); /* an object as a member, until ... */
void sw_json_line_close(sw_json_line *line);

/* A file of such lines, and the line that is put together for it. */
typedef struct sw_json_lines {
    int descriptor;
    bool is_torn; /* a line was written in part, and that could not be cut off yet */
    char *path;
    sw_json_line line;
} sw_json_lines;

/* Open for appending; the file is made if it is not there, and a last line without an end is cut
 * off. Ownership: sw_json_lines_close, which takes NULL too. Errors: SW_BAD_CONFIG (the name),
 * SW_NO_SPACE, SW_NO_MEMORY. */
sw_status sw_json_lines_open(const char *path, sw_json_lines **lines, sw_error *err);
void sw_json_lines_close(sw_json_lines *lines);

/* Append lines->line, which has ended. No allocation. It is there whole or not at all: on a full
 * disk nothing of it stays, and where that much cannot be cut off, nothing is appended before it
 * is. Errors: SW_NO_SPACE; SW_BUG for a line that is too long. */
sw_status sw_json_lines_append(sw_json_lines *lines, sw_error *err);

/* What was appended is on the disk when it returns. May run beside appends. Errors: SW_NO_SPACE. */
sw_status sw_json_lines_sync(const sw_json_lines *lines, sw_error *err);

#endif
