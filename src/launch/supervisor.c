/* supervisor.c: the parent of all ranks.
 *
 * It computes nothing and owns no thread, so nothing can hang it but the kernel. A death wakes it
 * through a pidfd; stops are looked for at every tick, for no descriptor tells of them. When a rank
 * is lost: say what it and the others were doing, raise the abort word, give the others half a
 * second to leave by themselves, kill what is left, reap all. Should the supervisor itself die, the
 * kernel kills the ranks (PR_SET_PDEATHSIG).
 */
#include "launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop_signal.h"
#include "launch/deaths.h"
#include "launch/watch.h"

enum { TICK_MS = 50, STOP_IS_BELIEVED_MS = 20, MOST_WAITS = 100 };
static const double LEAVE_SECONDS = 0.5; /* for ranks to leave by themselves */

typedef struct rank_process {
    pid_t pid;
    int pidfd; /* -1: none to be had; ticks do */
    bool is_gone;
} rank_process;

typedef struct supervisor {
    const sw_launch_words *words;
    const sw_launch_options *options;
    sw_control *control;
    const sw_family *family;
    int first;     /* rank of the first here */
    int n_started; /* ranks */
    rank_process process[SW_MAX_RANKS];
    rank_process mover;   /* pid 0: none */
    bool has_told_team;   /* that MPI ends */
    double ranks_gone_at; /* 0: not yet */
    sw_watch watch;
    sw_memory_kills memory_kills;
} supervisor;

/* ---- children ---- */

/* A signal that the caller handles is the supervisor's business (it hands wishes on through control
 * memory), and Ctrl-C reaches the whole terminal group: ranks ignore both. But a job manager may
 * ask one rank alone to end: that stays pending, where sw_stop_requested sees it. A crash is a
 * crash: the caller's handlers for those do not run in ranks. */
static void set_signals_of_rank(void) {
    sigset_t asks_for_end;
    sigemptyset(&asks_for_end);
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};
    for (int number = 1; number < SIGRTMIN; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
            action.sa_handler == SIG_IGN || number == SIGCHLD)
            continue;
        const bool stays_pending = sw_stop_may_reach_a_rank(number);
        if (stays_pending)
            sigaddset(&asks_for_end, number);
        signal(number, stays_pending ? SIG_DFL : SIG_IGN);
    }
    sigprocmask(SIG_BLOCK, &asks_for_end, NULL); /* before the rank starts threads */
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGINT, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond ulimit -f then fails with a reason */
}

enum { MOVER = -1 };

/* here: of the ranks here, or MOVER. */
static void become_child(supervisor *s, int here, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(1);
    set_signals_of_rank();
    for (int r = 0; r < s->n_started; r++)
        if (s->process[r].pidfd >= 0)
            close(s->process[r].pidfd);
    if (here == MOVER)
        s->family->mover(s->family->context);
    else
        s->family->rank(s->family->context, s->first, here);
    fflush(NULL);
    _exit(0);
}

static sw_status start_child(supervisor *s, int here, rank_process *process, sw_error *err) {
    pid_t parent = getpid();
    fflush(NULL); /* else every rank would write again what the caller has buffered */
    pid_t pid = fork();
    if (pid < 0) {
        if (here == MOVER)
            return sw_fail(err, SW_NO_MEMORY,
                           "the process that talks to other hosts cannot be started: fork: %s",
                           strerror(errno));
        return sw_fail(err, SW_NO_MEMORY,
                       "rank %d of %d cannot be started: fork: %s; take fewer ranks, or raise "
                       "the limit on processes (ulimit -u, the "
                       "container's pids limit)",
                       s->first + here, s->options->n_ranks, strerror(errno));
    }
    if (pid == 0)
        become_child(s, here, parent);
    *process = (rank_process){.pid = pid, .pidfd = pidfd_open(pid, 0)};
    return SW_OK;
}

static sw_status start_ranks(supervisor *s, sw_error *err) {
    sw_status status = SW_OK;
    for (int r = 0; r < s->family->n && status == SW_OK; r++) {
        status = start_child(s, r, &s->process[r], err);
        s->n_started += status == SW_OK;
    }
    return status;
}

/* ---- what happened to a rank ---- */

static sw_status lose_rank(const supervisor *s, int rank, const char *what, const char *likely,
                           const char *advice, sw_error *err) {
    char doing[SW_MESSAGE_BYTES / 4], others[SW_MESSAGE_BYTES / 2];
    sw_describe_rank(s->control, rank, doing, sizeof doing);
    sw_describe_ranks(s->control, rank, others, sizeof others - 128);
    return sw_fail(err, SW_LOST_RANK, "rank %d %s %s (%s)%s%s · %s", rank, what, doing, likely,
                   s->control->n_ranks > 1 ? " · others: " : "", others, advice);
}

/* It has ended, and is reaped. */
static sw_status judge_end(supervisor *s, int rank, int status, const struct rusage *usage,
                           sw_error *err) {
    char what[64], name[SW_SIGNAL_NAME_BYTES];
    s->process[rank - s->first].is_gone = true;
    if (atomic_load(&s->control->rank[rank].has_returned))
        return SW_OK;
    if (WIFEXITED(status)) {
        snprintf(what, sizeof what, "ended by itself with exit code %d while", WEXITSTATUS(status));
        return lose_rank(s, rank, what, "it did not return",
                         "its code must return a status, not exit", err);
    }
    sw_death death = {.why = ""};
    sw_death_explain(&s->control->rank[rank], WTERMSIG(status), usage, &s->memory_kills, s->words,
                     &death);
    snprintf(what, sizeof what, "was killed by %s while", sw_signal_name(WTERMSIG(status), name));
    return lose_rank(s, rank, what, death.why, death.advice, err);
}

/* Has it ended, whether or not it can be waited for? */
static bool has_ended(const rank_process *process) {
    struct pollfd death = {.fd = process->pidfd, .events = POLLIN};
    if (process->pidfd >= 0)
        return poll(&death, 1, 0) > 0;
    return kill(process->pid, 0) != 0 && errno == ESRCH;
}

/* Reap a rank if it ended. SW_LOST_RANK if it ended before it returned, or was stopped. */
static sw_status look_at_process(supervisor *s, int rank, sw_error *err) {
    rank_process *process = &s->process[rank - s->first];
    struct rusage usage;
    int status;
    if (process->is_gone)
        return SW_OK;
    pid_t changed = wait4(process->pid, &status, WNOHANG | WUNTRACED, &usage);
    int error = changed < 0 ? errno : 0;
    if (error == ECHILD ||
        (error &&
         has_ended(process))) { /* ECHILD: the caller ignores SIGCHLD, so the kernel reaped it */
        char likely[128];
        process->is_gone = true;
        if (atomic_load(&s->control->rank[rank].has_returned))
            return SW_OK;
        snprintf(likely, sizeof likely, "how is not known: %s",
                 error == ECHILD ? "SIGCHLD is ignored here" : strerror(error));
        return lose_rank(s, rank, "died while", likely,
                         error == ECHILD ? "leave SIGCHLD at its default"
                                         : "is waiting for processes forbidden here?",
                         err);
    }
    if (changed != process->pid)
        return SW_OK;
    if (!WIFSTOPPED(status))
        return judge_end(s, rank, status, &usage, err);
    /* Ctrl-Z stops the whole terminal group and `fg` continues it: the stop may be over by now. */
    int stop = WSTOPSIG(status);
    nanosleep(&(struct timespec){.tv_nsec = STOP_IS_BELIEVED_MS * 1000000L}, NULL);
    if (wait4(process->pid, &status, WNOHANG | WCONTINUED, &usage) == process->pid)
        return WIFCONTINUED(status) ? SW_OK : judge_end(s, rank, status, &usage, err);
    char text[64], name[SW_SIGNAL_NAME_BYTES];
    sw_death death = {.why = ""};
    sw_death_explain(&s->control->rank[rank], stop, NULL, &s->memory_kills, s->words, &death);
    snprintf(text, sizeof text, "was stopped by %s while", sw_signal_name(stop, name));
    return lose_rank(s, rank, text, death.why, death.advice, err);
}

static bool ranks_are_gone(const supervisor *s) {
    for (int r = 0; r < s->n_started; r++)
        if (!s->process[r].is_gone)
            return false;
    return true;
}

static bool all_are_gone(const supervisor *s) {
    return ranks_are_gone(s) && (!s->mover.pid || s->mover.is_gone);
}

static void sleep_until_a_death(const supervisor *s, int milliseconds) {
    struct pollfd death[SW_MAX_RANKS];
    for (int r = 0; r < s->n_started; r++)
        death[r] = (struct pollfd){.fd = s->process[r].is_gone ? -1 : s->process[r].pidfd,
                                   .events = POLLIN};
    poll(death, (nfds_t)s->n_started, milliseconds); /* interrupted: as good as a tick */
}

/* ---- the run ---- */

void sw_serve_caller(const sw_launch_options *options, sw_control *control) {
    if (options->stop_signal && *options->stop_signal)
        atomic_store(&control->stop, (int32_t)*options->stop_signal);
    if (options->save_request && *options->save_request) {
        *options->save_request = 0;
        atomic_fetch_add(&control->n_saves_asked, 1);
    }
    if (!options->report_request || !*options->report_request)
        return;
    *options->report_request = 0;
    for (int r = 0; options->report && r < control->n_ranks; r++) {
        char doing[SW_MESSAGE_BYTES / 2], line[SW_MESSAGE_BYTES];
        sw_describe_rank(control, r, doing, sizeof doing);
        snprintf(line, sizeof line, "rank %d: %s", r, doing);
        options->report(options->report_to, line);
    }
}

static int64_t cpu_time_of(pid_t pid) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return -1;
    return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

/* How it ended matters no more. */
static void reap(rank_process *process, int flags) {
    if (process->is_gone)
        return;
    pid_t ended = waitpid(process->pid, NULL, flags);
    process->is_gone =
        ended == process->pid || (ended < 0 && (errno == ECHILD || has_ended(process)));
}

/* By its descriptor: where SIGCHLD is ignored the kernel reaps, and the number may be another
 * process's by now. */
static void send_end(const rank_process *process) {
    if (process->is_gone)
        return;
    if (process->pidfd < 0 || pidfd_send_signal(process->pidfd, SIGKILL, NULL, 0) != 0)
        kill(process->pid, SIGKILL);
}

/* ---- the process that talks to other hosts ---- */

static sw_status look_at_mover(supervisor *s, sw_error *err) {
    static const double MOST_SECONDS_TO_LEAVE = 10;
    char name[SW_SIGNAL_NAME_BYTES], how[64] = "";
    int ended = 0;
    bool is_done = atomic_load(&s->family->bridge->state) == SW_BRIDGE_DONE;
    if (is_done && !s->has_told_team)
        sw_team_part(s->family->hosts->team);
    s->has_told_team |= is_done;
    if (s->mover.is_gone)
        return SW_OK;
    if (ranks_are_gone(s) && s->n_started && !s->ranks_gone_at)
        s->ranks_gone_at = sw_seconds_now();
    /* An MPI that does not end is no reason not to: all that was to be done is done. */
    if (is_done && s->ranks_gone_at && sw_seconds_now() > s->ranks_gone_at + MOST_SECONDS_TO_LEAVE)
        send_end(&s->mover);
    if (waitpid(s->mover.pid, &ended, WNOHANG) != s->mover.pid)
        return SW_OK;
    s->mover.is_gone = true;
    if (atomic_load(&s->control->abort) == SW_HAS_ABORTED)
        return sw_control_check(s->control, err);
    if (is_done)
        return SW_OK;
    if (WIFSIGNALED(ended))
        snprintf(how, sizeof how, "was killed by %s", sw_signal_name(WTERMSIG(ended), name));
    else
        snprintf(how, sizeof how, "was ended by MPI (exit code %d)", WEXITSTATUS(ended));
    return sw_fail(err, SW_LOST_RANK,
                   "the process that talks to other hosts %s · see what MPI said before; "
                   "the same command goes on from the last checkpoint",
                   how);
}

/* Start it, and wait until all hosts are there; then it is known which ranks run here. */
static sw_status meet_hosts(supervisor *s, sw_error *err) {
    static const double MEETING_SECONDS = 120;
    const sw_launch_hosts *hosts = s->family->hosts;
    sw_bridge *bridge = s->family->bridge;
    sw_team_meet(hosts->team);
    sw_status status = start_child(s, MOVER, &s->mover, err);
    double give_up = sw_seconds_now() + MEETING_SECONDS;
    while (status == SW_OK && atomic_load(&bridge->state) == SW_BRIDGE_MEETING) {
        poll(NULL, 0, TICK_MS);
        const volatile sig_atomic_t *stop = s->options->stop_signal;
        status = look_at_mover(s, err);
        if (status == SW_OK && stop && *stop)
            status = sw_fail(err, sw_stop_status(*stop), "stopped by %s while hosts were meeting",
                             sw_stop_words(*stop));
        if (status == SW_OK && sw_seconds_now() > give_up)
            status = sw_fail(err, SW_TIMED_OUT,
                             "waited %g s for the other hosts on which %s started this"
                             " command · do all "
                             "start the same command, and did it fail on one? can they reach each "
                             "other's ports?",
                             MEETING_SECONDS, hosts->launcher->name);
    }
    if (status != SW_OK)
        return status;
    s->first = bridge->first[bridge->host];
    return hosts->met(hosts->to, bridge->library, err);
}

/* Until all have returned, or the first failure. */
static sw_status watch_over(supervisor *s, sw_error *err) {
    sw_watch_start(&s->watch, s->control, s->options->deadline_seconds, s->words);
    if (s->family->bridge)
        s->watch.n_moved = &s->family->bridge->n_moved;
    while (!all_are_gone(s)) {
        sw_status status = SW_OK;
        int64_t cpu_ns[SW_MAX_RANKS];
        sleep_until_a_death(s, TICK_MS);
        sw_serve_caller(s->options, s->control);
        sw_memory_kills_look(&s->memory_kills);
        for (int r = 0; r < s->n_started && status == SW_OK; r++)
            status = look_at_process(s, s->first + r, err);
        /* Who is about to write the first error may be killed at it: then its death is the cause,
         * and is seen above. */
        if (status == SW_OK && atomic_load(&s->control->abort) == SW_HAS_ABORTED)
            status = sw_control_check(s->control, err);
        if (status == SW_OK && s->mover.pid)
            status = look_at_mover(s, err);
        for (int r = 0; r < s->control->n_ranks; r++)
            cpu_ns[r] = -1; /* of other hosts' ranks, which their supervisors watch */
        for (int r = 0; r < s->n_started; r++)
            cpu_ns[s->first + r] = s->process[r].is_gone ? 0 : cpu_time_of(s->process[r].pid);
        if (status == SW_OK)
            status = sw_watch_look(&s->watch, cpu_ns, err);
        if (status != SW_OK)
            return status;
    }
    return SW_OK;
}

/* No rank survives this. */
static void end_all(supervisor *s) {
    double give_up = sw_seconds_now() + LEAVE_SECONDS;
    while (!all_are_gone(s) && sw_seconds_now() < give_up) {
        sleep_until_a_death(s, TICK_MS);
        for (int r = 0; r < s->n_started; r++)
            reap(&s->process[r], WNOHANG);
        if (s->mover.pid)
            reap(&s->mover, WNOHANG);
    }
    for (int r = 0; r < s->n_started; r++)
        send_end(&s->process[r]);
    if (s->mover.pid) {
        send_end(&s->mover);
        for (int i = 0; i < MOST_WAITS && !s->mover.is_gone; i++) {
            reap(&s->mover, 0);
            if (!s->mover.is_gone)
                nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
        }
        if (s->mover.pidfd >= 0)
            close(s->mover.pidfd);
    }
    for (int r = 0; r < s->n_started; r++) {
        for (int i = 0; i < MOST_WAITS && !s->process[r].is_gone;
             i++) { /* a wait may be interrupted */
            reap(&s->process[r], 0);
            if (!s->process[r].is_gone)
                nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
        }
        if (s->process[r].pidfd >= 0)
            close(s->process[r].pidfd);
    }
}

sw_status sw_outcome(const sw_control *control, sw_error *err) {
    const sw_error *first = NULL, *follows = NULL;
    if (atomic_load(&control->abort) == SW_HAS_ABORTED)
        first = &control->error;
    for (int r = 0; r < control->n_ranks && !first; r++) {
        const sw_control_rank *page = &control->rank[r];
        if (!atomic_load(&page->has_returned) || page->final.status == SW_OK)
            continue;
        if (page->final.status != SW_ABORTED) /* which says that another one is the cause */
            first = &page->final;
        else if (!follows)
            follows = &page->final;
    }
    first = first ? first : follows;
    return first ? sw_fail(err, first->status, "%s", first->message) : SW_OK;
}

sw_status sw_supervise(const sw_launch_words *words, const sw_launch_options *options,
                       sw_control *control, const sw_family *family, sw_error *err) {
    supervisor s = {.words = words, .options = options, .control = control, .family = family};
    sw_error own = {0};
    sw_memory_kills_start(&s.memory_kills);
    sw_status status = family->hosts ? meet_hosts(&s, &own) : SW_OK;
    if (status == SW_OK)
        status = start_ranks(&s, &own);
    if (status == SW_OK)
        status = watch_over(&s, &own);
    if (status != SW_OK && status != SW_ABORTED && family->hosts)
        (void)sw_fail_within(&own, "host %s", family->hosts->launcher->host);
    if (status != SW_OK && status != SW_ABORTED)
        sw_control_abort(control, &own);
    end_all(&s);
    sw_status outcome = sw_outcome(control, err);
    /* A rank that died while it wrote the first error leaves none: then what the supervisor saw is
     * the cause. */
    if (outcome == SW_OK && family->bridge && atomic_load(&family->bridge->state) == SW_BRIDGE_DONE)
        family->hosts->parted(family->hosts->to, atomic_load(&family->bridge->n_bytes),
                              family->bridge->cpu_seconds);
    bool is_cause =
        status != SW_OK && status != SW_ABORTED && (outcome == SW_OK || outcome == SW_ABORTED);
    return is_cause ? sw_fail(err, status, "%s", own.message) : outcome;
}
