/* events.c: decisions as lines. */
#include "observe/events.h"

#include <stdio.h>
#include <time.h>

/* Now, in UTC, to the millisecond: ISO 8601. */
static void format_now(char text[64]) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(text, 48, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, 64 - n, ".%03ldZ", now.tv_nsec / 1000000);
}

sw_status sw_events_open(const char *path, sw_json_lines **events, sw_error *err) {
    char warm[64];
    format_now(
        warm); /* libc reads the time zone the first time it is asked, and allocates for it */
    return sw_json_lines_open(path, events, err);
}

sw_status sw_events_write(sw_json_lines *events, const char *event, int64_t step,
                          const char *reason, const sw_detail *details, int n_details,
                          sw_error *err) {
    char now[64];
    sw_json_line *line = &events->line;
    format_now(now);
    sw_json_line_begin(line);
    sw_json_line_text(line, "time", now);
    sw_json_line_text(line, "event", event);
    sw_json_line_integer(line, "step", step);
    sw_json_line_text(line, "reason", reason);
    for (int i = 0; i < n_details; i++)
        switch (details[i].kind) {
        case SW_DETAIL_TEXT:
            sw_json_line_text(line, details[i].key, details[i].text);
            break;
        case SW_DETAIL_INTEGER:
            sw_json_line_integer(line, details[i].key, details[i].integer);
            break;
        case SW_DETAIL_REAL:
            sw_json_line_real(line, details[i].key, details[i].real);
            break;
        }
    sw_json_line_end(line);
    return sw_json_lines_append(events, err);
}
