/* Whatever happens to a rank: one error names it and what it did, the run is over soon, and nothing
 * is left behind.
 *
 * Deadlines are 30 s here: a run that ends within BOUND seconds did not wait for one. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_ranks.h"

enum { BOUND = 15 };

static comm_roll *roll;

static int open_roll(void **state) {
    (void)state;
    roll = comm_roll_create();
    return 0;
}

static int close_roll(void **state) {
    (void)state;
    comm_roll_free(roll);
    return 0;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Launch, and expect one status, a message with all the texts, an end well before the deadline, and
 * nothing left. */
static void expect(const sw_launch_options *options, sw_rank_fn fn, void *arg, sw_status expected,
                   const char *const *texts) {
    bool has_memory_object;
    int n_before = comm_n_descriptors(&has_memory_object);
    double start = seconds();
    sw_error err = {0};
    sw_status status = sw_launch(options, fn, arg, &err);
    if (status != expected)
        fail_msg("%s: %s", sw_status_name(status), err.message);
    for (int i = 0; i < 2; i++) /* names of a run's settings, which a program of its own has not */
        if (strstr(err.message, (const char *[]){"shard.", "train."}[i]))
            fail_msg("settings of a run are named in: %s", err.message);
    for (const char *const *text = texts; *text; text++)
        if (!strstr(err.message, *text))
            fail_msg("'%s' is missing in: %s", *text, err.message);
    assert_true(seconds() - start < BOUND);
    for (int r = 0; r < SW_MAX_RANKS && !options->as_threads;
         r++) /* not even to be reaped: 0 is no child of ours */
        assert_true(roll->pid[r] == 0 || waitpid(roll->pid[r], NULL, WNOHANG) < 0);
    if (!options->as_threads)
        assert_false(comm_somebody_is_left(roll, options->n_ranks));
    assert_int_equal(comm_n_descriptors(&has_memory_object), n_before);
    assert_false(has_memory_object);
}

#define EXPECT(options, fn, arg, status, ...) \
    expect(options, fn, arg, status, (const char *const[]){__VA_ARGS__, NULL})

static sw_status succeed(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    return sw_barrier(comm, err);
}

static void expect_that_a_new_launch_works(void) {
    sw_launch_options options = comm_options(4, false);
    sw_error err = {0};
    if (sw_launch(&options, succeed, NULL, &err) != SW_OK)
        fail_msg("a launch after the failure: %s", err.message);
}

static sw_status be_busy(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    return comm_busy(comm, err);
}

static void a_killed_rank_is_named_with_what_it_did(void **state) {
    (void)state;
    sw_launch_options options = comm_options(4, false);
    pid_t killer = comm_send_later(roll, 4, 30, SIGKILL, 0, 2);
    EXPECT(&options, be_busy, NULL, SW_LOST_RANK, "rank 2 was killed by SIGKILL while in \"",
           "at step", "someone or a job manager ended it", "it held up to", "MiB", "others: rank");
    comm_reap(killer);
    expect_that_a_new_launch_works();
}

static void a_stopped_rank_is_named_at_once(void **state) {
    (void)state;
    sw_launch_options options = comm_options(4, false);
    pid_t stopper = comm_send_later(roll, 4, 30, SIGSTOP, 0, 1);
    EXPECT(&options, be_busy, NULL, SW_LOST_RANK, "rank 1 was stopped by SIGSTOP", "at step");
    comm_reap(stopper);
}

/* The supervisor's pause before it believes a stop: the rank that stopped goes on, and is over,
 * before the pause is. */
static _Atomic pid_t *goes_on; /* shared; 0: nobody */

int nanosleep(const struct timespec *pause, struct timespec *left) {
    pid_t pid = goes_on ? atomic_exchange(goes_on, 0) : 0;
    siginfo_t end;
    if (pid > 0 &&
        (kill(pid, SIGCONT) != 0 || waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT) != 0))
        abort();
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, pause, left);
    errno = error;
    return error ? -1 : 0;
}

static sw_status stop_and_return(sw_comm *comm, void *arg, sw_error *err) {
    (void)comm, (void)arg, (void)err;
    atomic_store(goes_on, getpid());
    raise(SIGSTOP);
    return SW_OK;
}

static void a_rank_that_is_continued_and_returns_is_not_lost(void **state) {
    (void)state;
    sw_launch_options options = comm_options(1, false);
    goes_on = &roll->pid[0];
    EXPECT(&options, stop_and_return, NULL, SW_OK, "");
    goes_on = NULL;
}

static sw_status abort_on_rank_1(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    sw_comm_enter(comm, 0, 5, 0, 9, "update");
    if (sw_comm_rank(comm) == 1)
        abort();
    return sw_barrier(comm, err);
}

static void a_rank_that_aborts_is_named(void **state) {
    (void)state;
    sw_launch_options options = comm_options(3, false);
    EXPECT(&options, abort_on_rank_1, NULL, SW_LOST_RANK,
           "rank 1 was killed by SIGABRT while in \"update\" at step 5, slot 0, instruction 9");
}

static sw_status exit_on_rank_0(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    sw_comm_enter(comm, 0, 5, 0, 9, "update");
    if (sw_comm_rank(comm) == 0)
        _exit(0);
    return sw_barrier(comm, err);
}

static void a_rank_that_exits_early_is_named_even_with_code_0(void **state) {
    (void)state;
    sw_launch_options options = comm_options(3, false);
    EXPECT(&options, exit_on_rank_0, NULL, SW_LOST_RANK,
           "rank 0 ended by itself with exit code 0 while in \"update\" at step 5");
}

/* The failing rank's peers are in a collective that needs it. */
static sw_status fail_on_rank(sw_comm *comm, void *arg, sw_error *err) {
    comm_sign_in(roll, comm);
    for (int step = 0; step < 6; step++) {
        sw_comm_enter(comm, 0, step, 0, 1, "forward layers.1");
        if (step == 3 && sw_comm_rank(comm) == *(int *)arg)
            return sw_fail(err, SW_NO_MEMORY,
                           "activations need 12 GiB, 8 GiB are free; halve the batch");
        sw_status status = sw_barrier(comm, err);
        if (status != SW_OK) {
            roll->value[sw_comm_rank(comm)] = (int)status;
            if (!strstr(err->message, "activations need 12 GiB"))
                roll->value[sw_comm_rank(comm)] = -1;
            return status;
        }
    }
    return SW_OK;
}

static void an_error_on_one_rank_reaches_all_as_that_error(void **state) {
    (void)state;
    for (int failing = 0; failing < 4; failing += 3) /* the first, and the last */
        for (int as_threads = 0; as_threads < 2; as_threads++) {
            sw_launch_options options = comm_options(4, as_threads);
            char where[64];
            snprintf(where, sizeof where,
                     "rank %d at step 3 in \"forward layers.1\": activations need 12 GiB", failing);
            EXPECT(&options, fail_on_rank, &failing, SW_NO_MEMORY, where, "halve the batch");
            for (int r = 0; r < 4; r++)
                if (r != failing)
                    assert_int_equal(roll->value[r], SW_ABORTED);
        }
    expect_that_a_new_launch_works();
}

/* Ranks that compute on, without looking at anything, do not hold up the end. */
static sw_status fail_while_others_compute(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    RANK_TRY(sw_barrier(comm, err));
    if (sw_comm_rank(comm) == 1)
        return sw_fail(err, SW_BAD_FILE, "data.bin: cut short");
    for (volatile int forever = 1; forever;)
        continue;
    return SW_OK;
}

static void ranks_that_do_not_look_up_are_killed(void **state) {
    (void)state;
    sw_launch_options options = comm_options(3, false);
    EXPECT(&options, fail_while_others_compute, NULL, SW_BAD_FILE, "rank 1: data.bin: cut short");
}

static sw_status sleep_forever_on_rank_1(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    sw_comm_enter(comm, 0, 17, 0, 4, "read data");
    while (sw_comm_rank(comm) == 1)
        pause();
    return sw_barrier(comm, err);
}

static void a_rank_without_progress_is_named_at_the_deadline(void **state) {
    (void)state;
    sw_launch_options options = comm_options(3, false);
    options.deadline_seconds = 1;
    EXPECT(
        &options, sleep_forever_on_rank_1, NULL, SW_TIMED_OUT,
        "rank 1 made no progress and used no CPU for 1 s", "in \"read data\" at step 17",
        "others: ranks 0, 2: in \"read data\" at step 17, slot 0, instruction 4; waits for rank 1");
}

static sw_status compute_long_on_rank_1(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    sw_comm_enter(comm, 0, 0, 0, 0, "forward");
    for (double end = seconds() + 2; sw_comm_rank(comm) == 1 && seconds() < end;)
        continue;
    return sw_barrier(comm, err);
}

static void a_rank_that_computes_beyond_the_deadline_is_left_alone(void **state) {
    (void)state;
    sw_launch_options options = comm_options(3, false);
    options.deadline_seconds = 1;
    EXPECT(&options, compute_long_on_rank_1, NULL, SW_OK, "");
}

/* The test stands in for the shell here: a child of it launches, and is killed. */
static void ranks_go_with_their_supervisor(void **state) {
    (void)state;
    pid_t supervisor = fork();
    if (supervisor == 0) {
        sw_launch_options options = comm_options(4, false);
        sw_launch(&options, be_busy, NULL, NULL);
        _exit(0);
    }
    pid_t killer = comm_send_later(roll, 4, 30, SIGKILL, supervisor, 0);
    comm_reap(killer);
    comm_reap(supervisor);
    assert_false(comm_somebody_is_left(roll, 4));
}

static sw_status many_ranks(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    for (int i = 0; i < 200; i++)
        RANK_TRY(sw_barrier(comm, err));
    return SW_OK;
}

static void more_ranks_than_cores_get_along(void **state) {
    (void)state;
    for (int as_threads = 0; as_threads < 2; as_threads++) {
        sw_launch_options options = comm_options(9, as_threads);
        EXPECT(&options, many_ranks, NULL, SW_OK, "");
    }
}

/* ---- wishes of the caller ---- */

static volatile sig_atomic_t stop_signal, report_request;

static void on_stop(int number) {
    stop_signal = number;
}
static void on_report(int number) {
    (void)number;
    report_request = 1;
}

static sw_status run_until_stopped(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    for (int step = 0;; step++) {
        int mine = sw_stop_requested(comm), all[SW_MAX_RANKS], wish = 0;
        sw_comm_enter(comm, 0, step, 0, 0, "agree");
        RANK_TRY(sw_exchange(comm, &mine, all, sizeof mine, err));
        for (int r = 0; r < sw_comm_size(comm); r++)
            wish = all[r] ? all[r] : wish;
        if (wish) {
            usleep(1000 *
                   (useconds_t)(700 * sw_comm_rank(comm))); /* saving may take longer than failed
                                                               ranks are given to leave */
            roll->value[sw_comm_rank(comm)] = wish;
            return sw_fail(err, SW_INTERRUPTED, "stopped after step %d", step);
        }
    }
}

/* Ctrl-C reaches the supervisor and all ranks; only the supervisor acts on it. */
static void a_stop_reaches_all_ranks_and_lets_them_end_in_order(void **state) {
    (void)state;
    stop_signal = 0;
    signal(SIGINT, on_stop);
    sw_launch_options options = comm_options(3, false);
    options.stop_signal = &stop_signal;
    for (int r = 0; r < 3; r++)
        roll->value[r] = 0;
    pid_t to_rank = comm_send_later(roll, 3, 20, SIGINT, 0, 1),
          to_supervisor = comm_send_later(roll, 3, 100, SIGINT, getpid(), 0);
    EXPECT(&options, run_until_stopped, NULL, SW_INTERRUPTED, "stopped after step");
    comm_reap(to_rank);
    comm_reap(to_supervisor);
    signal(SIGINT, SIG_DFL);
    for (int r = 0; r < 3; r++)
        assert_int_equal(roll->value[r], SIGINT);
}

static sw_status wait_to_be_killed(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    sw_comm_enter(comm, 0, 3, 1, 8, "forward layers.2");
    while (sw_comm_rank(comm) == 0 && !sw_stop_requested(comm))
        usleep(1000);
    return sw_barrier(comm, err);
}

static void note_line(void *to, const char *line) {
    char *lines = to;
    strcat(strcat(lines, line), "\n");
}

static void a_report_has_a_line_for_every_rank(void **state) {
    (void)state;
    char lines[4096] = "";
    stop_signal = report_request = 0;
    signal(SIGQUIT, on_report);
    signal(SIGTERM, on_stop);
    sw_launch_options options = comm_options(2, false);
    options.stop_signal = &stop_signal;
    options.report_request = &report_request;
    options.report = note_line;
    options.report_to = lines;
    pid_t asks = comm_send_later(roll, 2, 100, SIGQUIT, getpid(), 0),
          ends = comm_send_later(roll, 2, 600, SIGTERM, getpid(), 0);
    EXPECT(&options, wait_to_be_killed, NULL, SW_OK, "");
    comm_reap(asks);
    comm_reap(ends);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    assert_string_equal(lines, "rank 0: in \"forward layers.2\" at step 3, slot 1, instruction 8\n"
                               "rank 1: in \"forward layers.2\" at step 3, slot 1, instruction 8; "
                               "waits for rank 0 in barrier (sequence 1)\n");
}

/* ---- refusals ---- */

static void numbers_of_ranks_out_of_range_are_refused_by_name(void **state) {
    (void)state;
    static const int wrong[] = {-1, 0, SW_MAX_RANKS + 1, 100000};
    for (int i = 0; i < 4; i++) {
        sw_launch_options options = comm_options(wrong[i], false);
        EXPECT(&options, succeed, NULL, SW_BAD_CONFIG, "sw_launch_options.n_ranks");
    }
}

static void trap_mode_as_threads_is_refused_by_name(void **state) {
    (void)state;
    sw_launch_options options = comm_options(2, true);
    options.mode = SW_SHM_TRAP;
    EXPECT(&options, succeed, NULL, SW_BAD_CONFIG, "trap");
}

static sw_status create_a_large_window(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_window window;
    struct rlimit limit = {1u << 30, 1u << 30};
    if (sw_comm_rank(comm) == 1)
        setrlimit(RLIMIT_AS, &limit);
    return comm->vtable->window_create(comm, "parameters", INT64_C(8) << 30, &window, err);
}

static void a_window_that_cannot_be_had_is_refused_with_its_size(void **state) {
    (void)state;
#ifdef SW_SANITIZED
    skip(); /* limits on address space and shadow memory do not go together */
#endif
    sw_launch_options options = comm_options(3, false);
    EXPECT(&options, create_a_large_window, NULL, SW_NO_MEMORY,
           "shared memory for \"parameters\" cannot be allocated", "8589934592 bytes", "rank 1");
}

/* As another user, who may have no more processes. */
static void a_fork_that_fails_is_named_and_leaves_nobody(void **state) {
    (void)state;
    if (getuid() != 0)
        skip();
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {2, 2};
        sw_error err = {0};
        sw_launch_options options = comm_options(4, false);
        setrlimit(RLIMIT_NPROC, &limit);
        if (setuid(54321) != 0)
            _exit(2);
        sw_status status = sw_launch(&options, be_busy, NULL, &err);
        bool is_named = strstr(err.message, "fork") && strstr(err.message, "ulimit -u");
        _exit(status == SW_NO_MEMORY && is_named && waitpid(-1, NULL, 0) < 0 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A caller that ignores SIGCHLD has its children reaped by the kernel. */
static void a_death_is_seen_although_the_caller_ignores_its_children(void **state) {
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    sw_launch_options options = comm_options(3, false);
    EXPECT(&options, abort_on_rank_1, NULL, SW_LOST_RANK, "rank 1 died while in \"update\"");
    EXPECT(&options, succeed, NULL, SW_OK, "");
    signal(SIGCHLD, SIG_DFL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_roll, close_roll)
    const struct CMUnitTest tests[] = {
        TEST(a_killed_rank_is_named_with_what_it_did),
        TEST(a_stopped_rank_is_named_at_once),
        TEST(a_rank_that_is_continued_and_returns_is_not_lost),
        TEST(a_rank_that_aborts_is_named),
        TEST(a_rank_that_exits_early_is_named_even_with_code_0),
        TEST(an_error_on_one_rank_reaches_all_as_that_error),
        TEST(ranks_that_do_not_look_up_are_killed),
        TEST(a_rank_without_progress_is_named_at_the_deadline),
        TEST(a_rank_that_computes_beyond_the_deadline_is_left_alone),
        TEST(ranks_go_with_their_supervisor),
        TEST(more_ranks_than_cores_get_along),
        TEST(a_stop_reaches_all_ranks_and_lets_them_end_in_order),
        TEST(a_report_has_a_line_for_every_rank),
        TEST(numbers_of_ranks_out_of_range_are_refused_by_name),
        TEST(trap_mode_as_threads_is_refused_by_name),
        TEST(a_window_that_cannot_be_had_is_refused_with_its_size),
        TEST(a_fork_that_fails_is_named_and_leaves_nobody),
        TEST(a_death_is_seen_although_the_caller_ignores_its_children),
    };
    return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
