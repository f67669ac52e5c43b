/* events.h: events.jsonl, one object per decision of a run, with its reason.
 *
 *   {"time": "2026-01-31T09:30:00.250Z", "event": "skip", "step": 17,
 *    "reason": "the gradient is not finite", "in_a_row": 1}
 */
#ifndef SW_OBSERVE_EVENTS_H
#define SW_OBSERVE_EVENTS_H

#include <stdint.h>

#include "observe/json_line.h"

/* What else there is to say about a decision: members after the four that every event has. */
typedef enum sw_detail_kind { SW_DETAIL_TEXT, SW_DETAIL_INTEGER, SW_DETAIL_REAL } sw_detail_kind;
typedef struct sw_detail {
    const char *key;
    sw_detail_kind kind;
    union {
        const char *text;
        int64_t integer;
        double real;
    };
} sw_detail;

static inline sw_detail sw_detail_text(const char *key, const char *text) {
    return (sw_detail){key, SW_DETAIL_TEXT, {.text = text}};
}
static inline sw_detail sw_detail_integer(const char *key, int64_t integer) {
    return (sw_detail){key, SW_DETAIL_INTEGER, {.integer = integer}};
}
static inline sw_detail sw_detail_real(const char *key, double real) {
    return (sw_detail){key, SW_DETAIL_REAL, {.real = real}};
}

/* Open for appending, ready to write without allocating. Ownership and errors: as of
 * sw_json_lines_open. */
sw_status sw_events_open(const char *path, sw_json_lines **events, sw_error *err);

/* Append one line by one write, with the time of now.
 *
 *   event    "start", "skip", "stop", "save" ...
 *   step     completed steps when it was decided
 *   reason   in words
 *   details  [n_details]; keys that are none of the four
 *
 * No allocation. Errors: SW_NO_SPACE. */
sw_status sw_events_write(sw_json_lines *events, const char *event, int64_t step,
                          const char *reason, const sw_detail *details, int n_details,
                          sw_error *err);

#endif
