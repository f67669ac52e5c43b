/* faults.c: faults strike: those of the supervisor and of each rank.
 *
 * A fault with an instant is a timer of the kernel's that sends the signal, so that it strikes
 * whatever the process does then. All others wait for the boundary before an instruction of their
 * step and label; a flip in an activation for the one after. What strikes is written into
 * events.jsonl first, as the process may not live to do it later.
 */
#include "faults/faults.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "comm/control.h"
#include "faults/fault_calls.h"
#include "observe/events.h"

struct sw_rank_faults {
    sw_faults *faults;
    const char *folder; /* of the run */
    sw_comm *comm;
    sw_executor *executor;
    sw_executor_observer observer;
    _Atomic int64_t step; /* that the executor was in last; both lanes tell */
    double began[SW_LANES], waited_before[SW_LANES];
    atomic_bool is_armed[SW_MAX_FAULTS];
    sw_call_teller teller[SW_MAX_FAULTS];
    pthread_mutex_t
        lock; /* lanes come by at the same time: of `events`, of arming, and of what is announced */
    sw_json_lines *events;
};

/* ---- before ranks exist ---- */

sw_status sw_faults_open(const char *const *texts, int n, sw_faults **faults, sw_error *err) {
    *faults = NULL;
    if (n == 0)
        return SW_OK;
    if (n > SW_MAX_FAULTS)
        return sw_fail(err, SW_BAD_CONFIG, "--inject is given %d times; %d faults are the most", n,
                       SW_MAX_FAULTS);
    sw_faults *opened = calloc(1, sizeof *opened);
    void *shared = mmap(NULL, SW_MAX_FAULTS * sizeof *opened->n_struck, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sw_status status = SW_OK;
    if (!opened || shared == MAP_FAILED)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the faults to inject");
    if (opened)
        opened->n_struck = shared == MAP_FAILED ? NULL : shared;
    for (int i = 0; i < n && !status; i++)
        status = sw_fault_parse(texts[i], &opened->item[opened->n++], err);
    if (!opened && shared != MAP_FAILED)
        munmap(shared, SW_MAX_FAULTS * sizeof *opened->n_struck);
    if (status)
        sw_faults_close(opened);
    else
        *faults = opened;
    return status;
}

/* The library of faults, if it is loaded. */
static sw_fault_calls_arm_fn find_calls(void) {
    sw_fault_calls_arm_fn arm_calls;
    *(void **)&arm_calls = dlsym(RTLD_DEFAULT, SW_FAULT_CALLS_ARM);
    return arm_calls;
}

static void disarm(void) {
    sw_fault_calls_arm_fn arm_calls = find_calls();
    if (arm_calls)
        arm_calls(NULL);
}

void sw_faults_close(sw_faults *faults) {
    if (!faults)
        return;
    disarm();
    for (int i = 0; i < faults->n_timers; i++)
        timer_delete(faults->timer[i]);
    if (faults->n_struck)
        munmap(faults->n_struck, SW_MAX_FAULTS * sizeof *faults->n_struck);
    free(faults);
}

static bool is_call(const sw_fault *fault) {
    return fault->kind == SW_FAULT_ALLOCATION || fault->kind == SW_FAULT_WRITE;
}

bool sw_faults_need_calls(const sw_faults *faults) {
    for (int i = 0; faults && i < faults->n; i++)
        if (is_call(&faults->item[i]))
            return true;
    return false;
}

bool sw_fault_calls_are_loaded(void) {
    return find_calls() != NULL;
}

static int signal_of(const sw_fault *fault) {
    return fault->kind == SW_FAULT_KILL ? SIGKILL : SIGSTOP;
}

/* Send this process the signal in so many seconds. */
static sw_status set_timer(const sw_fault *fault, timer_t *timer, sw_error *err) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal_of(fault)};
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)fault->at}};
    when.it_value.tv_nsec = (long)((fault->at - (double)when.it_value.tv_sec) * 1e9);
    if (when.it_value.tv_sec == 0 && when.it_value.tv_nsec == 0)
        when.it_value.tv_nsec = 1; /* zero would be never */
    if (timer_create(CLOCK_MONOTONIC, &event, timer) || timer_settime(*timer, 0, &when, NULL))
        return sw_fail(err, SW_NO_MEMORY, "--inject %s: no timer is available", fault->text);
    return SW_OK;
}

static void tell(sw_rank_faults *mine, int fault, const char *where) {
    sw_detail details[] = {sw_detail_integer("rank", mine->comm->rank),
                           sw_detail_text("at", where)};
    sw_fault_calls_pass_fn pass;
    *(void **)&pass = dlsym(RTLD_DEFAULT, SW_FAULT_CALLS_PASS);
    bool passed =
        pass && pass(true); /* a fault that struck in here would wait for the lock that is held */
    pthread_mutex_lock(&mine->lock);
    (void)sw_events_write(mine->events, "inject", atomic_load(&mine->step),
                          mine->faults->item[fault].text, details, 2, NULL);
    pthread_mutex_unlock(&mine->lock);
    if (pass)
        pass(passed);
}

static void call_failed(void *self, const char *call) {
    const sw_call_teller *teller = self;
    atomic_fetch_add(&teller->faults->n_struck[teller->fault], 1);
    if (teller->rank)
        tell(teller->rank, teller->fault, call);
}

static sw_status arm(sw_call_teller *teller, sw_error *err) {
    const sw_fault *fault = &teller->faults->item[teller->fault];
    sw_fault_calls_arm_fn arm_calls = find_calls();
    sw_call_fault call = {.is_write = fault->kind == SW_FAULT_WRITE,
                          .k = fault->k,
                          .n = fault->n,
                          .error = (int)fault->error,
                          .file = fault->file,
                          .told = call_failed,
                          .self = teller};
    if (teller->rank)
        pthread_mutex_lock(&teller->rank->lock);
    bool is_armed = arm_calls && arm_calls(&call);
    if (teller->rank)
        pthread_mutex_unlock(&teller->rank->lock);
    if (is_armed)
        return SW_OK;
    return sw_fail(err, SW_BAD_CONFIG,
                   "--inject %s: %s must be loaded before all other libraries, as the command does",
                   fault->text, SW_FAULT_CALLS_FILE);
}

sw_status sw_faults_begin(sw_faults *faults, sw_error *err) {
    sw_status status = SW_OK;
    for (int i = 0; faults && i < faults->n && !status; i++) {
        const sw_fault *fault = &faults->item[i];
        if (fault->rank != SW_FAULT_SUPERVISOR)
            continue;
        faults->teller[i] = (sw_call_teller){NULL, faults, i};
        if (is_call(fault))
            status = arm(&faults->teller[i], err);
        else if (!(status = set_timer(fault, &faults->timer[faults->n_timers], err)))
            faults->n_timers++;
    }
    return status;
}

sw_status sw_faults_check(const sw_faults *faults, int n_ranks, sw_error *err) {
    for (int i = 0; faults && i < faults->n; i++)
        if (faults->item[i].rank >= n_ranks)
            return sw_fail(err, SW_BAD_CONFIG, "--inject %s: the run has %d %s, counted from 0",
                           faults->item[i].text, n_ranks, sw_text_noun(n_ranks, "rank", "ranks"));
    return SW_OK;
}

bool sw_fault_has_struck(const sw_faults *faults, int i) {
    return atomic_load(&faults->n_struck[i]);
}

/* ---- in a rank ---- */

/* The first to come strikes; a fault that has struck is over, also for ranks that are started
 * again. */
static bool claim(sw_rank_faults *mine, int fault) {
    _Atomic int32_t *n_struck = &mine->faults->n_struck[fault];
    return !atomic_load(n_struck) && atomic_fetch_add(n_struck, 1) == 0;
}

/* The supervisor, which will see a rank that was killed or stopped, shall know by what. */
static void announce(sw_rank_faults *mine, const sw_fault *fault, double seconds) {
    pthread_mutex_lock(&mine->lock);
    sw_control_announce(&mine->comm->control->rank[mine->comm->rank], signal_of(fault), seconds);
    pthread_mutex_unlock(&mine->lock);
}

static void pause_for(double seconds) {
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    nanosleep(&left, NULL);
}

static bool is_mine(const sw_rank_faults *mine, const sw_fault *fault) {
    return fault->rank == mine->comm->rank || fault->rank == SW_FAULT_EVERY_RANK;
}

/* Does the fault wait for a boundary, and is this one? `slow` goes on after its step. */
static bool is_here(const sw_rank_faults *mine, const sw_fault *fault,
                    const sw_boundary *boundary) {
    bool is_time = !fault->step || (fault->kind == SW_FAULT_SLOW ? boundary->step >= fault->step
                                                                 : boundary->step == fault->step);
    return is_mine(mine, fault) && fault->at < 0 && is_time &&
           (!*fault->instruction || !fnmatch(fault->instruction, boundary->instruction->label, 0));
}

/* Claimed when the place is the right one, and before the bit is turned: two who came by at once
 * would turn it back. */
static sw_status flip(sw_rank_faults *mine, int i, const sw_boundary *boundary, bool is_after,
                      sw_error *err) {
    const sw_fault *fault = &mine->faults->item[i];
    bool is_due = fault->buffer ? sw_fault_flip_is_due(mine->executor, fault, boundary, is_after)
                                : !is_after && sw_fault_flip_file_is_due(mine->folder, fault);
    if (!is_due || !claim(mine, i))
        return SW_OK;
    tell(mine, i, boundary->instruction->label);
    return fault->buffer ? sw_fault_flip(mine->executor, fault, boundary, err)
                         : sw_fault_flip_file(mine->folder, fault, err);
}

static sw_status before(void *self, const sw_boundary *boundary, sw_error *err) {
    sw_rank_faults *mine = self;
    sw_status status = SW_OK;
    atomic_store(&mine->step, boundary->step);
    for (int i = 0; i < mine->faults->n && !status; i++) {
        const sw_fault *fault = &mine->faults->item[i];
        if (!is_here(mine, fault, boundary))
            continue;
        switch (fault->kind) {
        case SW_FAULT_KILL:
        case SW_FAULT_STOP:
            if (!claim(mine, i))
                break;
            tell(mine, i, boundary->instruction->label);
            announce(mine, fault, 0);
            raise(signal_of(fault));
            break;
        case SW_FAULT_SLOW:
            break; /* afterwards */
        case SW_FAULT_DELAY:
            if (claim(mine, i))
                tell(mine, i, boundary->instruction->label);
            pause_for(fault->seconds);
            break;
        case SW_FAULT_FLIP:
            status = flip(mine, i, boundary, false, err);
            break;
        case SW_FAULT_ALLOCATION:
        case SW_FAULT_WRITE:
            if (!atomic_load(&mine->faults->n_struck[i]) &&
                !atomic_exchange(&mine->is_armed[i], true))
                status = arm(&mine->teller[i], err);
            break;
        }
    }
    mine->began[boundary->lane] = sw_seconds_now();
    mine->waited_before[boundary->lane] = mine->comm->waited_seconds[boundary->lane];
    return status;
}

static sw_status after(void *self, const sw_boundary *boundary, sw_error *err) {
    sw_rank_faults *mine = self;
    int lane = boundary->lane;
    double waited = mine->comm->waited_seconds[lane] - mine->waited_before[lane];
    double worked = sw_seconds_now() - mine->began[lane] - waited;
    sw_status status = SW_OK;
    for (int i = 0; i < mine->faults->n && !status; i++) {
        const sw_fault *fault = &mine->faults->item[i];
        if (!is_here(mine, fault, boundary))
            continue;
        if (fault->kind == SW_FAULT_SLOW) {
            if (claim(mine, i))
                tell(mine, i, boundary->instruction->label);
            pause_for(worked * (fault->factor - 1));
        } else if (fault->kind == SW_FAULT_FLIP) {
            status = flip(mine, i, boundary, true, err);
        }
    }
    return status;
}

/* What does not wait for an instruction of a step. */
static sw_status begin_at_once(sw_rank_faults *mine, sw_error *err) {
    sw_status status = SW_OK;
    for (int i = 0; i < mine->faults->n && !status; i++) {
        const sw_fault *fault = &mine->faults->item[i];
        if (!is_mine(mine, fault) || fault->step || atomic_load(&mine->faults->n_struck[i]))
            continue;
        if (is_call(fault)) {
            atomic_store(&mine->is_armed[i], true);
            status = arm(&mine->teller[i], err);
        } else if (fault->at >= 0) {
            char when[64];
            timer_t timer; /* which ends with the rank's process */
            snprintf(when, sizeof when, "%g s from now", fault->at);
            if (claim(mine, i)) /* told first: the instant may be now */
                tell(mine, i, when);
            announce(mine, fault, fault->at);
            status = set_timer(fault, &timer, err);
        }
    }
    return status;
}

sw_status sw_rank_faults_open(sw_faults *faults, const char *folder, sw_comm *comm,
                              sw_rank_faults **mine, sw_error *err) {
    char path[SW_PATH_BYTES];
    *mine = NULL;
    bool concerns = false;
    for (int i = 0; faults && i < faults->n; i++)
        concerns = concerns || faults->item[i].rank == comm->rank ||
                   faults->item[i].rank == SW_FAULT_EVERY_RANK;
    if (!concerns)
        return SW_OK;
    sw_rank_faults *opened = calloc(1, sizeof *opened);
    if (!opened)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for the faults to inject",
                       comm->rank);
    *opened = (sw_rank_faults){.faults = faults, .folder = folder, .comm = comm};
    opened->observer = (sw_executor_observer){opened, before, after};
    for (int i = 0; i < faults->n; i++)
        opened->teller[i] = (sw_call_teller){opened, faults, i};
    pthread_mutex_init(&opened->lock, NULL);
    sw_status status = sw_path_join(path, folder, "events.jsonl", err);
    if (!status)
        status = sw_events_open(path, &opened->events, err);
    if (!status)
        status = begin_at_once(opened, err);
    if (status)
        sw_rank_faults_close(opened);
    else
        *mine = opened;
    return status;
}

void sw_rank_faults_close(sw_rank_faults *mine) {
    if (!mine)
        return;
    disarm();
    sw_json_lines_close(mine->events);
    pthread_mutex_destroy(&mine->lock);
    free(mine);
}

sw_status sw_rank_faults_watch(sw_rank_faults *mine, sw_executor *executor, sw_error *err) {
    if (!mine)
        return SW_OK;
    mine->executor = executor;
    return sw_executor_observe(executor, &mine->observer, err);
}
