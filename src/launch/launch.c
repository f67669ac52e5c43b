/* launch.c: from options to ranks: as forked processes, or as threads for race checkers. Both run
 * the same protocol. */
#include "launch/launch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/condition.h"
#include "base/options.h"
#include "base/stop_signal.h"
#include "comm/bootstrap.h"
#include "comm/mover.h"
#include "comm/mpi.h"
#include "launch/supervisor.h"
#include "launch/watch.h"

typedef struct launch {
    const sw_launch_words *words;
    sw_launch_options options;
    const sw_launch_hosts *hosts; /* NULL: one */
    sw_bridge *bridge;            /* between them; NULL: there is one */
    sw_control *control;
    sw_rank_fn fn;
    void *arg;
} launch;

/* ---- one rank, whatever carries it ---- */

/* A failure ends all ranks. The statuses of a run that was asked to stop are no failure: the others
 * return the same. */
static void finish_rank(const launch *l, int rank, sw_status status, sw_error *error) {
    sw_control_rank *page = &l->control->rank[rank];
    bool is_orderly = status == SW_OK || sw_status_is_stop(status);
    bool follows = status == SW_ABORTED && sw_control_check(l->control, NULL) != SW_OK;
    error->status = status;
    if (status == SW_OK)
        error->message[0] = 0;
    if (!is_orderly && !follows) {
        if (status != SW_GUARD) /* which all ranks decide together, wherever they are */
            sw_say_where(l->control, rank, 0, error);
        if (l->hosts)
            (void)sw_fail_within(error, "host %s", l->hosts->launcher->host);
        sw_control_abort(l->control, error);
    }
    page->final = *error;
    atomic_store(&page->has_returned, 1);
    sw_control_ring(page);
}

static void run_rank(const launch *l, sw_bootstrap *bootstrap, sw_comm *comm) {
    sw_error error = {0};
    sw_status status = l->bridge ? sw_mpi_open(bootstrap, l->control, l->bridge, l->options.mode,
                                               l->options.n_threads, comm, &error)
                                 : sw_shm_open(bootstrap, l->control, l->options.mode,
                                               l->options.n_threads, comm, &error);
    if (status == SW_OK)
        status = l->fn(comm, l->arg, &error);
    if ((unsigned)status >= SW_N_STATUSES)
        status = sw_fail(&error, SW_BAD_CONFIG,
                         "the function of the ranks returned %d, which is not an sw_status",
                         (int)status);
    finish_rank(l, bootstrap->first + bootstrap->rank, status, &error);
}

static void close_comm(sw_comm *comm) {
    if (comm->transport)
        comm->vtable->close(comm);
}

/* ---- processes ---- */

typedef struct process_launch {
    launch *launch;
    sw_fork_bootstrap bootstrap;
} process_launch;

static void run_in_child(void *context, int first, int here) {
    process_launch *p = context;
    sw_comm comm = {0};
    sw_fork_bootstrap_take(&p->bootstrap, first, here);
    run_rank(p->launch, &p->bootstrap.base, &comm);
    close_comm(&comm);
}

/* The process that talks to other hosts. What it returns with is in control memory. */
static void run_mover(void *context) {
    const launch *l = ((process_launch *)context)->launch;
    const sw_launcher *launcher = l->hosts->launcher;
    struct utsname machine;
    sw_error error;
    sw_mover_options options = {.bridge = l->bridge,
                                .control = l->control,
                                .kind = launcher->mpi,
                                .launcher = launcher->name,
                                .n_processes = launcher->size,
                                .hello = {.host_size = launcher->host_size,
                                          .n_threads = l->options.n_threads,
                                          .n_ranks = l->options.n_ranks,
                                          .mode = (int32_t)l->options.mode,
                                          .control_bytes = sw_control_bytes(l->options.n_ranks)},
                                .deadline = l->options.deadline_seconds};
    sw_hello *hello = &options.hello;
    snprintf(hello->version, sizeof hello->version, "%s", SW_VERSION);
    snprintf(hello->host, sizeof hello->host, "%s", launcher->host);
    if (!uname(&machine))
        snprintf(hello->machine, sizeof hello->machine, "%.15s", machine.machine);
    (void)sw_mover_run(&options, &error);
}

static sw_status launch_processes(launch *l, sw_error *err) {
    process_launch p = {.launch = l};
    int n_here = l->hosts ? l->hosts->launcher->host_size : l->options.n_ranks;
    sw_status status = sw_fork_bootstrap_create(l->control, n_here, &p.bootstrap, err);
    if (status != SW_OK)
        return status;
    if (l->hosts)
        status = sw_bridge_create(n_here, &l->bridge, err);
    sw_family family = {.n = n_here,
                        .rank = run_in_child,
                        .context = &p,
                        .hosts = l->hosts,
                        .mover = run_mover,
                        .bridge = l->bridge};
    if (status == SW_OK)
        status = sw_supervise(l->words, &l->options, l->control, &family, err);
    sw_bridge_free(l->bridge);
    sw_fork_bootstrap_close(&p.bootstrap);
    return status;
}

/* ---- threads ---- */

typedef struct thread_launch thread_launch;

typedef struct rank_thread {
    thread_launch *all;
    pthread_t thread;
    sw_bootstrap bootstrap;
    sw_comm comm;
} rank_thread;

struct thread_launch {
    launch *launch;
    sw_thread_meeting meeting;
    pthread_mutex_t lock;
    pthread_cond_t returned; /* signalled under the lock after each return */
    int n_returned;
    rank_thread rank[SW_MAX_RANKS];
};

static void *run_in_thread(void *arg) {
    rank_thread *rank = arg;
    thread_launch *all = rank->all;
    run_rank(all->launch, &rank->bootstrap, &rank->comm);
    pthread_mutex_lock(&all->lock);
    all->n_returned++;
    pthread_cond_signal(&all->returned);
    pthread_mutex_unlock(&all->lock);
    return NULL;
}

/* Progress is watched as in processes; but a thread cannot be killed, so a lost one is only named,
 * and waited for. */
static void watch_threads(thread_launch *all, int n_started) {
    launch *l = all->launch;
    sw_watch watch;
    sw_watch_start(&watch, l->control, l->options.deadline_seconds, l->words);
    pthread_mutex_lock(&all->lock);
    while (all->n_returned < n_started) {
        int64_t cpu_ns[SW_MAX_RANKS];
        sw_error error = {0};
        sw_condition_wait_ms(&all->returned, &all->lock, 50);
        sw_serve_caller(&l->options, l->control);
        for (int r = 0; r < n_started; r++) {
            clockid_t clock;
            struct timespec used = {0};
            bool is_known = pthread_getcpuclockid(all->rank[r].thread, &clock) == 0 &&
                            clock_gettime(clock, &used) == 0;
            cpu_ns[r] = is_known ? used.tv_sec * INT64_C(1000000000) + used.tv_nsec : -1;
        }
        if (sw_control_check(l->control, NULL) == SW_OK &&
            sw_watch_look(&watch, cpu_ns, &error) != SW_OK)
            sw_control_abort(l->control, &error);
    }
    pthread_mutex_unlock(&all->lock);
}

static sw_status launch_threads(launch *l, sw_error *err) {
    thread_launch all = {.launch = l, .lock = PTHREAD_MUTEX_INITIALIZER};
    sw_status status = sw_thread_meeting_create(l->control, &all.meeting, err);
    if (status != SW_OK)
        return status;
    sw_condition_init(&all.returned);
    int n_started = 0;
    for (; n_started < l->options.n_ranks; n_started++) {
        rank_thread *rank = &all.rank[n_started];
        rank->all = &all;
        sw_thread_bootstrap_take(&all.meeting, n_started, &rank->bootstrap);
        int error = pthread_create(&rank->thread, NULL, run_in_thread, rank);
        if (error) {
            sw_error own;
            sw_fail(&own, SW_NO_MEMORY,
                    "rank %d of %d cannot be started as a thread: %s; take fewer ranks or raise "
                    "ulimit -u",
                    n_started, l->options.n_ranks, strerror(error));
            sw_control_abort(l->control, &own);
            break;
        }
    }
    watch_threads(&all, n_started);
    for (int r = 0; r < n_started; r++)
        pthread_join(all.rank[r].thread, NULL);
    for (int r = 0; r < n_started; r++)
        close_comm(&all.rank[r].comm);
    pthread_cond_destroy(&all.returned);
    sw_thread_meeting_free(&all.meeting);
    return sw_outcome(l->control, err);
}

/* ---- the public function ---- */

enum { MOST_THREADS = 1 << 16 };

static const sw_launch_words own_words = {
    .n_ranks = "sw_launch_options.n_ranks",
    .mode = "sw_launch_options.mode",
    .deadline = "sw_launch_options.deadline_seconds",
    .less_memory = "take fewer ranks, less memory in each",
    .fault =
        "look at the function that ranks run first, in a debugger or with a sanitizer (as_threads)",
    .lower_kernels = "",
};

const sw_launch_words sw_launch_plain_words = {
    .n_ranks = "the number of ranks",
    .mode = "the mode",
    .less_memory = "take fewer ranks",
    .fault = "please report it with the command",
    .lower_kernels = "",
};

static sw_status check_options(const sw_launch_words *words, const sw_launch_options *options,
                               sw_error *err) {
    if (options->n_ranks < 1 || options->n_ranks > SW_MAX_RANKS)
        return sw_fail(err, SW_BAD_CONFIG, "%s is %d; 1 to %d ranks run on one host",
                       words->n_ranks, options->n_ranks, SW_MAX_RANKS);
    if (options->mode != SW_SHM_VIEW && options->mode != SW_SHM_COPY &&
        options->mode != SW_SHM_TRAP)
        return sw_fail(err, SW_BAD_CONFIG, "%s %d is none of view, copy, trap", words->mode,
                       (int)options->mode);
    if (options->as_threads && options->mode == SW_SHM_TRAP)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s: trap needs ranks as processes: threads share what is protected; take "
                       "view mode or processes",
                       words->mode);
    if (!(options->deadline_seconds > 0))
        return sw_fail(err, SW_BAD_CONFIG, "%s is %g; seconds above 0 are needed",
                       words->deadline ? words->deadline : "the deadline",
                       options->deadline_seconds);
    if (options->n_threads < 0 || options->n_threads > MOST_THREADS)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "sw_launch_options: n_threads is %d; 1 to %d threads compute in a rank, 0 counts as 1",
            options->n_threads, MOST_THREADS);
    return SW_OK;
}

sw_status sw_launch(const sw_launch_options *options, sw_rank_fn fn, void *arg, sw_error *err) {
    return sw_launch_as(&own_words, options, NULL, fn, arg, err);
}

sw_status sw_launch_as(const sw_launch_words *words, const sw_launch_options *options,
                       const sw_launch_hosts *hosts, sw_rank_fn fn, void *arg, sw_error *err) {
    launch l = {
        .words = words, .options = SW_LAUNCH_OPTIONS_INIT, .hosts = hosts, .fn = fn, .arg = arg};
    if (!options || !fn)
        return sw_fail(err, SW_BAD_CONFIG, "sw_launch: %s is NULL",
                       !options ? "options" : "fn, what a rank runs,");
    sw_status status = sw_options_take(options, &l.options, sizeof l.options, "sw_launch_options",
                                       "SW_LAUNCH_OPTIONS_INIT", err);
    if (status == SW_OK)
        status = check_options(words, &l.options, err);
    if (status == SW_OK && hosts && l.options.as_threads)
        status = sw_fail(err, SW_BAD_CONFIG, "ranks as threads run on one host");
    if (status == SW_OK)
        status = sw_control_create(l.options.n_ranks, &l.control, err);
    if (status != SW_OK)
        return status;
    sw_serve_caller(&l.options,
                    l.control); /* what was asked for before ranks were there, they see at once */
    status = l.options.as_threads ? launch_threads(&l, err) : launch_processes(&l, err);
    sw_control_free(l.control);
    return status;
}
