/* watch.c: the judgement on progress.
 *
 * A rank advances when the turn of a lane changes (it entered something, began or ended a wait). A
 * lane is blocked while it stands in a wait whose counter is too low. A rank whose lanes are all
 * blocked is not to blame; one with a lane that is not, that stands still and uses no CPU, is lost.
 * When all lanes of all ranks are blocked, nobody is left to raise any counter: ranks disagree, and
 * there is no need to wait for the deadline. One look is not enough for that, as lanes are looked
 * at one after the other; what none has left between two looks, all were in at the same time.
 */
#include "launch/watch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static const double STEADY_SECONDS = 1; /* of a standstill before it is believed */
static const double IDLE_SHARE =
    1. / 2000; /* CPU use below this is the tick of some thread, not work */
static const double SUSPENDED_SECONDS =
    1; /* a look this late means that the watcher itself was stopped: start again */

/* ---- words ---- */

typedef struct text_buffer {
    char *text;
    size_t length, capacity;
} text_buffer;

static void append(text_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(text_buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(buffer->text + buffer->length, buffer->capacity - buffer->length, format,
                      arguments);
    va_end(arguments);
    buffer->length += n > 0 ? (size_t)n : 0;
    if (buffer->length >= buffer->capacity) { /* cut, visibly */
        buffer->length = buffer->capacity - 1;
        memcpy(buffer->text + buffer->length - 3, "...", 3);
    }
}

static void describe_wait(text_buffer *buffer, const sw_control *control,
                          const sw_lane_record *record) {
    if (record->operation == SW_OTHER_LANE) {
        append(buffer, "; waits for another of its lanes");
        return;
    }
    const char *name = sw_operation_name((sw_comm_operation)record->operation);
    append(buffer, "; %s for rank %d in %s",
           sw_lane_is_blocked(control, record) ? "waits" : "was just waiting", record->peer, name);
    if (record->channel >= 0)
        append(buffer, " of \"%s\"", record->unit_name);
    append(buffer, " (sequence %" PRIu64 ")", record->sequence);
}

void sw_describe_rank(const sw_control *control, int rank, char *text, size_t bytes) {
    text_buffer buffer = {text, 0, bytes};
    const sw_control_rank *page = &control->rank[rank];
    text[0] = 0;
    if (atomic_load(&page->has_returned)) {
        append(&buffer, "has returned");
        return;
    }
    for (int l = 0; l < SW_LANES; l++) {
        sw_lane_record record;
        sw_lane_load(&page->lane[l], &record);
        if (l > 0 && !record.has_entered && (record.peer < 0 || record.operation == SW_OTHER_LANE))
            continue; /* it is not there, or rests */
        append(&buffer, "%s", l > 0 ? "; beside it " : "");
        if (record.has_entered)
            append(&buffer, "in \"%s\"", record.label);
        else
            append(&buffer, "starting up");
        if (record.has_entered && record.step)
            append(&buffer, " at step %" PRId64 ", slot %d, instruction %d", record.step,
                   record.slot, record.instruction);
        if (record.peer >= 0)
            describe_wait(&buffer, control, &record);
    }
}

void sw_say_where(const sw_control *control, int rank, int lane, sw_error *error) {
    sw_lane_record doing;
    sw_lane_load(&control->rank[rank].lane[lane], &doing);
    if (error->message[0] == 0)
        sw_fail(error, error->status, "ended with %s", sw_status_name(error->status));
    char rank_text[24] = "", step_text[40] = "";
    if (control->n_ranks > 1)
        snprintf(rank_text, sizeof rank_text, "rank %d%s", rank, doing.has_entered ? " " : "");
    if (doing.step)
        snprintf(step_text, sizeof step_text, "at step %" PRId64 " ", doing.step);
    if (doing.has_entered)
        sw_fail_within(error, "%s%sin \"%s\"", rank_text, step_text, doing.label);
    else if (control->n_ranks > 1)
        sw_fail_within(error, "%s", rank_text);
}

void sw_describe_ranks(const sw_control *control, int except, char *text, size_t bytes) {
    enum { MAX_NAMED = 8, DESCRIPTION_BYTES = 384 };
    text_buffer buffer = {text, 0, bytes};
    bool is_told[SW_MAX_RANKS] = {false};
    text[0] = 0;
    if (except >= 0)
        is_told[except] = true;
    for (int r = 0; r < control->n_ranks; r++) {
        if (is_told[r])
            continue;
        char mine[DESCRIPTION_BYTES], other[DESCRIPTION_BYTES], names[16 * MAX_NAMED] = "";
        text_buffer list = {names, 0, sizeof names};
        int n = 0;
        sw_describe_rank(control, r, mine, sizeof mine);
        for (int s = r; s < control->n_ranks; s++) {
            if (is_told[s])
                continue;
            sw_describe_rank(control, s, other, sizeof other);
            if (s > r && strcmp(mine, other) != 0)
                continue;
            is_told[s] = true;
            if (n++ < MAX_NAMED)
                append(&list, "%s%d", n > 1 ? ", " : "", s);
        }
        if (n > MAX_NAMED)
            append(&list, " and %d more", n - MAX_NAMED);
        append(&buffer, "%s%s %s: %s", buffer.length ? "; " : "", n > 1 ? "ranks" : "rank", names,
               mine);
    }
}

/* ---- judgement ---- */

void sw_watch_start(sw_watch *watch, const sw_control *control, double deadline,
                    const sw_launch_words *words) {
    memset(watch, 0, sizeof *watch);
    watch->control = control;
    watch->deadline = deadline;
    watch->words = words;
    watch->last_look = sw_seconds_now();
    for (int r = 0; r < control->n_ranks; r++)
        watch->rank[r] = (sw_watched){.turn_since = watch->last_look,
                                      .active_since = watch->last_look,
                                      .cpu_at = watch->last_look};
}

/* Update what is known of a rank; false: a lane of it can do something. */
static bool look_at_rank(sw_watch *watch, int rank, int64_t cpu_ns, double now) {
    sw_watched *known = &watch->rank[rank];
    bool is_blocked = true;
    uint64_t turn = 0;
    for (int l = 0; l < SW_LANES; l++) {
        sw_lane_record record;
        uint64_t of_lane = sw_lane_load(&watch->control->rank[rank].lane[l], &record);
        bool is_there = l == 0 || record.has_entered || record.operation != SW_IDLE;
        bool is_writing = of_lane % 2 == 1; /* its record, at this moment */
        is_blocked &= !is_there || (!is_writing && sw_lane_is_blocked(watch->control, &record));
        turn += of_lane;
    }
    if (turn != known->turn)
        known->turn_since = now;
    if (turn != known->turn || is_blocked) /* the time of waiting for a peer is the peer's */
        known->active_since = now;
    known->turn = turn;
    double interval = now - known->cpu_at;
    if (interval >= watch->deadline / 8) {
        if (cpu_ns < 0 || (double)(cpu_ns - known->cpu_ns) > IDLE_SHARE * 1e9 * interval)
            known->active_since = now;
        known->cpu_ns = cpu_ns;
        known->cpu_at = now;
    }
    return is_blocked;
}

sw_status sw_watch_look(sw_watch *watch, const int64_t *cpu_ns, sw_error *err) {
    const sw_control *control = watch->control;
    double now = sw_seconds_now();
    bool was_suspended = now - watch->last_look > SUSPENDED_SECONDS;
    watch->last_look = now;
    bool all_blocked = true;
    double steady = 1e300; /* seconds since any rank moved */
    /* What ranks wait for may be on its way from another host, for as long as it takes. */
    double is_believed =
        watch->n_moved || watch->deadline < STEADY_SECONDS ? watch->deadline : STEADY_SECONDS;
    if (watch->n_moved) {
        uint64_t n_moved = atomic_load_explicit(watch->n_moved, memory_order_relaxed);
        if (n_moved != watch->n_moved_before)
            watch->moved_since = now;
        watch->n_moved_before = n_moved;
        steady = now - watch->moved_since;
    }
    int n_running = 0, lost = -1;
    for (int r = 0; r < control->n_ranks; r++) {
        sw_watched *known = &watch->rank[r];
        bool returns = !known->has_returned &&
                       atomic_load(&control->rank[r].has_returned); /* since the last look */
        known->has_returned |= returns;
        bool is_blocked = known->has_returned || look_at_rank(watch, r, cpu_ns[r], now);
        if (returns || was_suspended) /* what it did last may be what others wait for */
            known->turn_since = known->active_since = now;
        n_running += !known->has_returned;
        all_blocked &= is_blocked;
        if (now - known->turn_since < steady)
            steady = now - known->turn_since;
        if (lost < 0 && !is_blocked && now - known->active_since >= watch->deadline)
            lost = r;
    }
    char text[SW_MESSAGE_BYTES];
    if (lost >= 0) {
        char others[SW_MESSAGE_BYTES / 2];
        sw_describe_rank(control, lost, text, sizeof text / 4);
        sw_describe_ranks(control, lost, others, sizeof others);
        const char *name = watch->words->deadline;
        return sw_fail(err, SW_TIMED_OUT,
                       "rank %d made no progress and used no CPU for %g s, %s%s%s · is a disk or "
                       "network file system stuck?%s%s",
                       lost, watch->deadline, text, control->n_ranks > 1 ? " · others: " : "",
                       others, name ? " else raise " : "", name ? name : "");
    }
    if (n_running > 0 && all_blocked && steady >= is_believed) {
        sw_describe_ranks(control, -1, text, sizeof text);
        return sw_fail(err, SW_MISMATCH,
                       "all ranks wait for each other; do all run the same program? · %s", text);
    }
    return SW_OK;
}
