/* saving.c: the thread that writes, and how ranks agree on what became of it.
 *
 * The thread does one job at a time: write this rank's part, or publish. The rank's own thread
 * looks at the stage under the lock. A disk makes no progress that a watcher of ranks could see, so
 * who waits for it says that it is alive, for as long as bytes move, and ten minutes more: a sync
 * of all that a machine has buffered may take minutes.
 */
#include "checkpoint/saving.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/reason.h"
#include "comm/control.h"
#include "observe/json_line.h"

static const double PATIENCE_SECONDS = 600; /* with a disk that does not move */
enum { LOOK_MS = 50 };

/* What a rank tells of its part. */
typedef struct sw_saving_part {
    int32_t has_failed;
    char message[SW_MESSAGE_BYTES];
} sw_saving_part;

struct sw_saving {
    sw_comm *comm;
    const sw_layout *layout;
    const sw_cores *cores;
    sw_fetch_state_fn fetch; /* the caller's */
    void *from;
    sw_save *save;
    sw_saving_records records;
    sw_save_facts facts;
    bool replaces_state; /* what is published is another state of a checkpoint that is there */
    sw_error remark, told_remark;
    int failed_rank;
    char state[SW_JSON_LINE_BYTES];
    sw_saving_part *parts; /* [n_ranks] as all ranks tell of theirs */

    _Atomic int64_t n_fetches; /* for whoever wants to see progress */
    atomic_bool gives_up;

    int64_t step; /* that is being saved; -1: none. Changes while there is no job */
    double began, waited_seconds, seconds; /* of this save */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    sw_saving_stage stage;
    int n_groups_read;   /* of this rank's part */
    bool has_job, stops; /* has_job: begun and not taken up yet */
    sw_error error;      /* why stage is SW_SAVING_FAILED */
};

/* ---- the thread ---- */

static sw_status fetch(void *from, sw_state_kind kind, int group, const sw_piece *piece,
                       int64_t first, int64_t n, float *values, sw_error *err) {
    sw_saving *s = from;
    atomic_fetch_add(&s->n_fetches, 1);
    if (atomic_load(&s->gives_up))
        return sw_fail(err, SW_ABORTED, "the run ends");
    return s->fetch(s->from, kind, group, piece, first, n, values, err);
}

static void set_stage(sw_saving *s, sw_saving_stage stage, int n_groups_read) {
    pthread_mutex_lock(&s->lock);
    s->stage = stage;
    s->n_groups_read = n_groups_read;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Groups in the order in which the update comes to them. */
static void write_part(sw_saving *s) {
    int n_groups = s->layout->n_groups;
    sw_error error = {SW_OK, ""};
    sw_status status = sw_save_begin(s->save, s->step, &error);
    for (int g = 0; g < n_groups && !status; g++) {
        status = sw_save_group(s->save, g, &error);
        if (!status)
            set_stage(s, SW_SAVING_WRITING, g + 1);
    }
    if (!status)
        status = sw_save_finish(s->save, &error);
    s->error = error;
    set_stage(s, status ? SW_SAVING_FAILED : SW_SAVING_WRITTEN, n_groups);
}

static void publish(sw_saving *s) {
    sw_error error = {SW_OK, ""};
    sw_status status = s->records.metrics ? sw_json_lines_sync(s->records.metrics, &error) : SW_OK;
    if (!status && s->records.events)
        status = sw_json_lines_sync(s->records.events, &error);
    if (!status)
        status = s->replaces_state ? sw_save_replace_state(s->save, s->step, s->facts.state, &error)
                                   : sw_save_publish(s->save, &s->facts, &s->remark, &error);
    s->error = error;
    set_stage(s, status ? SW_SAVING_FAILED : SW_SAVING_PUBLISHED, s->layout->n_groups);
}

/* The rank's own threads are pinned to cores that they fill; this one, which mostly waits, takes
 * what is free. */
static void let_run_anywhere(const sw_cores *cores) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int i = 0; i < cores->n_found; i++)
        CPU_SET((unsigned)cores->cpu[i], &all);
    (void)pthread_setaffinity_np(pthread_self(), sizeof all, &all); /* a wish */
}

static void *work(void *arg) {
    sw_saving *s = arg;
    let_run_anywhere(s->cores);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->has_job && !s->stops)
            pthread_cond_wait(&s->changed, &s->lock);
        if (!s->has_job)
            break;
        s->has_job = false;
        sw_saving_stage stage = s->stage;
        pthread_mutex_unlock(&s->lock);
        if (stage == SW_SAVING_PUBLISHING)
            publish(s);
        else
            write_part(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void give_job(sw_saving *s, sw_saving_stage stage) {
    pthread_mutex_lock(&s->lock);
    s->stage = stage;
    s->n_groups_read = stage == SW_SAVING_WRITING ? 0 : s->layout->n_groups;
    s->has_job = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ---- open and close ---- */

int64_t sw_saving_bytes(const sw_save_options *options, int n_ranks) {
    return (int64_t)sizeof(sw_saving) + n_ranks * (int64_t)sizeof(sw_saving_part) +
           sw_save_bytes(options);
}

sw_status sw_saving_open(const sw_saving_options *options, sw_comm *comm, sw_saving **saving,
                         sw_error *err) {
    sw_save_options save = options->save;
    sw_saving *s = calloc(1, sizeof *s);
    *saving = NULL;
    if (!s)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for saving checkpoints", comm->rank);
    s->comm = comm;
    s->layout = save.layout;
    s->cores = options->cores;
    s->fetch = save.fetch;
    s->from = save.from;
    s->step = -1;
    s->records = options->records;
    pthread_mutex_init(&s->lock, NULL);
    sw_condition_init(&s->changed);
    s->parts = calloc((size_t)comm->n_ranks, sizeof *s->parts);
    sw_status status =
        s->parts ? SW_OK
                 : sw_fail(err, SW_NO_MEMORY, "rank %d: no memory to hear of saves", comm->rank);
    save.fetch = fetch;
    save.from = s;
    if (!status)
        status = sw_save_open(&save, &s->save, err);
    if (!status) {
        int code = pthread_create(&s->thread, NULL, work, s);
        s->has_thread = code == 0;
        if (code)
            status =
                sw_fail_call(err, SW_CALL_PROCESS, code,
                             "rank %d: the thread that saves could not be started", comm->rank);
    }
    if (status)
        sw_saving_close(s);
    else
        *saving = s;
    return status;
}

void sw_saving_close(sw_saving *s) {
    if (!s)
        return;
    atomic_store(&s->gives_up, true);
    pthread_mutex_lock(&s->lock);
    s->stops = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    sw_save_close(s->save);
    free(s->parts);
    free(s);
}

/* ---- the rank's own thread ---- */

static void take_facts(sw_saving *s, int64_t step, const sw_save_facts *facts) {
    s->step = step;
    s->began = sw_seconds_now();
    s->waited_seconds = 0;
    s->facts = *facts;
    snprintf(s->state, sizeof s->state, "%s", facts->state);
    s->facts.state = s->state;
}

void sw_saving_begin(sw_saving *s, int64_t step, const sw_save_facts *facts) {
    take_facts(s, step, facts);
    give_job(s, SW_SAVING_WRITING);
}

int64_t sw_saving_step(const sw_saving *s) {
    return s->step;
}

typedef bool (*is_reached_fn)(const sw_saving *s, int group);

static bool has_read(const sw_saving *s, int group) {
    return s->n_groups_read > group;
}

static bool is_idle(const sw_saving *s, int group) {
    (void)group;
    return s->stage != SW_SAVING_WRITING && s->stage != SW_SAVING_PUBLISHING;
}

static sw_status wait_until(sw_saving *s, is_reached_fn is_reached, int group, sw_error *err) {
    int64_t seen = -1;
    double began = sw_seconds_now(), moved = began;
    sw_status status = SW_OK;
    sw_lane_record doing; /* in whose step it waits */
    sw_lane_load(&s->comm->control->rank[s->comm->rank].lane[SW_LANE_COMPUTE], &doing);
    pthread_mutex_lock(&s->lock);
    while (!is_reached(s, group) && !status) {
        sw_condition_wait_ms(&s->changed, &s->lock, LOOK_MS);
        int64_t now = atomic_load(&s->n_fetches);
        moved = now != seen ? sw_seconds_now() : moved;
        seen = now;
        char label[SW_LABEL_BYTES];
        snprintf(label, sizeof label, "waiting for the checkpoint of step %lld",
                 (long long)s->step);
        if (sw_seconds_now() - moved < PATIENCE_SECONDS)
            sw_comm_enter(s->comm, SW_LANE_COMPUTE, doing.step, doing.slot, doing.instruction,
                          label);
        status = sw_comm_check(s->comm, err);
    }
    pthread_mutex_unlock(&s->lock);
    s->waited_seconds += sw_seconds_now() - began;
    return status;
}

sw_status sw_saving_wait_for_group(sw_saving *s, int group, sw_error *err) {
    return s->step < 0 ? SW_OK : wait_until(s, has_read, group, err);
}

sw_saving_time sw_saving_took(const sw_saving *s) {
    return (sw_saving_time){s->seconds, s->waited_seconds};
}

void sw_saving_forget_after(sw_saving *s, int64_t step) {
    sw_save_forget_after(s->save, step);
}

sw_saving_stage sw_saving_look(sw_saving *s) {
    pthread_mutex_lock(&s->lock);
    sw_saving_stage stage = s->stage;
    pthread_mutex_unlock(&s->lock);
    return stage;
}

void sw_saving_publish(sw_saving *s) {
    give_job(s, SW_SAVING_PUBLISHING);
}

void sw_saving_end(sw_saving *s) {
    s->seconds = sw_seconds_now() - s->began;
    s->step = -1;
    set_stage(s, SW_SAVING_NOTHING, s->layout->n_groups);
}

sw_status sw_saving_replace_state(sw_saving *s, int64_t step, const char *state, sw_error *err) {
    take_facts(s, step, &(sw_save_facts){.state = state});
    s->replaces_state = true;
    give_job(s, SW_SAVING_PUBLISHING);
    sw_status status = wait_until(s, is_idle, 0, err);
    if (status) /* the thread may be at it still */
        return status;
    s->replaces_state = false;
    if (sw_saving_look(s) == SW_SAVING_FAILED)
        status = sw_fail(err, s->error.status, "%s", s->error.message);
    sw_saving_end(s);
    return status;
}

const char *sw_saving_remark(sw_saving *s) {
    bool is_new = !sw_is_same_cause(s->remark.message, s->told_remark.message);
    s->told_remark = s->remark;
    return is_new ? s->remark.message : "";
}

int sw_saving_failed_rank(const sw_saving *s) {
    return s->failed_rank;
}

/* *failed: did any rank's last job fail? Then `reason` is that of the first. */
static sw_status compare_parts(sw_saving *s, bool *failed, sw_error *reason, sw_error *err) {
    sw_saving_part mine = {.has_failed = sw_saving_look(s) == SW_SAVING_FAILED};
    if (mine.has_failed)
        snprintf(mine.message, sizeof mine.message, "%s", s->error.message);
    sw_status status = sw_exchange(s->comm, &mine, s->parts, sizeof mine, err);
    *failed = false;
    for (int r = 0; r < s->comm->n_ranks && !status && !*failed; r++)
        if (s->parts[r].has_failed) {
            *failed = true;
            s->failed_rank = r;
            sw_fail(reason, SW_NO_SPACE, "%s", s->parts[r].message);
        }
    return status;
}

sw_status sw_saving_settle(sw_saving *s, int64_t *step, sw_error *reason, sw_error *err) {
    int64_t wanted = s->step;
    bool failed = false;
    *step = -1;
    sw_fail(reason, SW_OK, "%s", "");
    if (wanted < 0)
        return SW_OK;
    sw_status status = wait_until(s, is_idle, 0, err);
    if (!status)
        status = compare_parts(s, &failed, reason, err);
    if (!status && !failed && s->comm->rank == 0 && sw_saving_look(s) == SW_SAVING_WRITTEN) {
        sw_saving_publish(s);
        status = wait_until(s, is_idle, 0, err);
    }
    if (!status && !failed)
        status = compare_parts(s, &failed, reason, err);
    if (!status && failed && s->comm->rank != 0)
        sw_save_abandon(s->save);
    if (!status && failed)
        status = sw_barrier(s->comm, err);
    if (!status && failed && s->comm->rank == 0)
        sw_save_abandon(s->save);
    if (!status && failed) /* nobody begins again before the folder is gone */
        status = sw_barrier(s->comm, err);
    if (status) /* the thread may be at it still */
        return status;
    sw_saving_end(s);
    *step = failed ? -1 : wanted;
    return SW_OK;
}
