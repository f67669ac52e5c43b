/* progress.h: a run's progress on the terminal, in a log or as JSON lines. */
#ifndef SW_CLI_PROGRESS_H
#define SW_CLI_PROGRESS_H

#include <stdio.h>

#include <shardwise/train.h>

typedef enum sw_show {
    SW_SHOW_LIVE,  /* one line that is written over, on a terminal */
    SW_SHOW_LINES, /* a line for each logged step */
    SW_SHOW_JSON,  /* the metrics objects, nothing else */
    SW_SHOW_NOTHING
} sw_show;

typedef struct sw_display {
    FILE *out;
    sw_show show;
    double last_drawn; /* seconds of the run */
} sw_display;

/* How to show a run on this stream. */
sw_show sw_show_for(FILE *out, bool is_quiet, bool is_json);

/* Callbacks that draw on the display. */
sw_listener sw_display_listener(sw_display *display);

/* Show what went wrong though the run goes on: among the lines, or on stderr. */
void sw_display_warn(sw_display *display, const char *text);

/* The run is over: clear a live line, whichever process drew it. */
void sw_display_end(const sw_display *display);

/* "step 10/100 · loss 2.3456 · ...". */
char *sw_progress_line(const sw_progress *progress, char *buffer, size_t bytes);

#endif
