/* events.c: decisions as lines. */
#include "observe/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "observe/json_line.h"

struct sw_events {
    int descriptor;
    char *path;
    sw_json_line line;
};

/* Now, in UTC, to the millisecond: ISO 8601. */
static void format_now(char text[64]) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(text, 48, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, 64 - n, ".%03ldZ", now.tv_nsec / 1000000);
}

sw_status sw_events_open(const char *path, sw_events **events, sw_error *err) {
    *events = NULL;
    sw_events *opened = calloc(1, sizeof *opened);
    char *kept = strdup(path);
    sw_status status = opened && kept ? SW_OK : sw_fail(err, SW_NO_MEMORY, "%s: no memory for a line of events", path);
    if (status == SW_OK)
        status = sw_json_lines_open(path, &opened->descriptor, err);
    if (status != SW_OK) {
        free(opened);
        free(kept);
        return status;
    }
    char warm[64];
    format_now(warm); /* libc reads the time zone the first time it is asked, and allocates for it */
    opened->path = kept;
    *events = opened;
    return SW_OK;
}

void sw_events_close(sw_events *events) {
    if (!events)
        return;
    close(events->descriptor);
    free(events->path);
    free(events);
}

sw_status sw_events_write(sw_events *events, const char *event, int64_t step, const char *reason, const sw_detail *details,
                          int n_details, sw_error *err) {
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
    return sw_json_line_append(line, events->descriptor, events->path, err);
}

sw_status sw_events_sync(const sw_events *events, sw_error *err) {
    return sw_json_lines_sync(events->descriptor, events->path, err);
}
