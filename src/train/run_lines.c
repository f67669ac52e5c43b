/* run_lines.c: lines of metrics.jsonl and events.jsonl, without which a run goes on.
 *
 * A disk that is full for an hour costs the lines of that hour, not the training: a line that
 * cannot be written is counted, each cause is told once, and the next line is tried again. The end
 * of the run says how many are missing.
 */
#include "train/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/reason.h"

static bool is_told(const sw_unwritten *u, const char *reason) {
    for (int i = 0; i < u->n_told; i++)
        if (sw_is_same_cause(u->told[i], reason))
            return true;
    return false;
}

/* `status`: of a line that was tried. */
static void take_note(sw_training *t, sw_line_count *count, sw_status status,
                      const sw_error *reason) {
    sw_unwritten *u = &t->unwritten;
    count->n_tried++;
    count->n_lost += status != SW_OK;
    count->is_last_lost = status != SW_OK;
    if (!status)
        return;
    u->last = *reason;
    if (is_told(u, reason->message))
        return;
    if (u->n_told < SW_MOST_CAUSES)
        snprintf(u->told[u->n_told++], SW_MESSAGE_BYTES, "%s", reason->message);
    sw_report_warning(t->run,
                      "%s (the run goes on, without the lines of metrics.jsonl and events.jsonl "
                      "that cannot be written; each later line is tried again)",
                      reason->message);
}

void sw_training_event(sw_training *t, const char *name, int64_t step, const char *why,
                       const sw_detail *details, int n_details) {
    sw_error reason = {.status = SW_OK};
    if (t->events)
        take_note(t, &t->unwritten.events,
                  sw_events_write(t->events, name, step, why, details, n_details, &reason),
                  &reason);
}

void sw_training_log(sw_training *t, const sw_step_metrics *step) {
    sw_error reason = {.status = SW_OK};
    if (t->metrics)
        take_note(t, &t->unwritten.metrics, sw_metrics_write(t->metrics, step, &reason), &reason);
}

void sw_training_cut_log(sw_training *t) {
    char path[SW_PATH_BYTES];
    sw_error reason;
    if (!t->metrics)
        return;
    sw_status status =
        sw_path_join(path, t->run->settings->checkpoint.path, "metrics.jsonl", &reason);
    if (!status)
        status = sw_metrics_cut(path, t->step, &reason);
    if (status)
        sw_report_warning(t->run,
                          "%s (the run goes on; until its next start the file also has the lines "
                          "of the steps that were rolled back)",
                          reason.message);
}

static void tell(const sw_training *t, const char *name, const sw_line_count *count) {
    if (count->n_lost)
        sw_report_warning(
            t->run, "%s/%s is incomplete: %" PRId64 " of %" PRId64 " lines could not be written",
            t->run->settings->checkpoint.path, name, count->n_lost, count->n_tried);
}

void sw_training_tell_unwritten(const sw_training *t) {
    tell(t, "metrics.jsonl", &t->unwritten.metrics);
    tell(t, "events.jsonl", &t->unwritten.events);
}

sw_status sw_training_check_lines(const sw_training *t, sw_error *err) {
    const sw_unwritten *u = &t->unwritten;
    if (!u->metrics.is_last_lost && !u->events.is_last_lost)
        return SW_OK;
    return sw_fail(err, u->last.status,
                   "the training is done, but the last line about it is missing: %s",
                   u->last.message);
}
