/* Kills and stops at random instants of a busy run: each is named, nobody and nothing is left. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/comm_ranks.h"

enum { N_INSTANTS = 20, N_RANKS = 4, BOUND = 15 };

static comm_roll *roll;

static sw_status be_busy(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    comm_sign_in(roll, comm);
    return comm_busy(comm, err);
}

static void signal_at_random_instants(int number, const char *what, uint64_t seed) {
    bool has_memory_object;
    int n_descriptors = comm_n_descriptors(&has_memory_object);
    for (int i = 0; i < N_INSTANTS; i++) {
        sw_launch_options options = comm_options(N_RANKS, false);
        options.mode = i % 2 ? SW_SHM_COPY : SW_SHM_VIEW;
        sw_error err = {0};
        char text[64];
        int rank = (int)(comm_random(&seed) % N_RANKS);
        roll = comm_roll_create();
        pid_t sender =
            comm_send_later(roll, N_RANKS, (int)(comm_random(&seed) % 100), number, 0, rank);
        time_t start = time(NULL);
        sw_status status = sw_launch(&options, be_busy, NULL, &err);
        assert_true(time(NULL) - start < BOUND); /* it did not wait for the deadline */
        comm_reap(sender);
        snprintf(text, sizeof text, "rank %d was %s while", rank, what);
        if (status != SW_LOST_RANK || !strstr(err.message, text))
            fail_msg("instant %d: %s, '%s' expected: %s", i, sw_status_name(status), text,
                     err.message);
        assert_false(comm_somebody_is_left(roll, N_RANKS));
        comm_roll_free(roll);
    }
    assert_int_equal(comm_n_descriptors(&has_memory_object), n_descriptors);
    assert_false(has_memory_object);
}

static void a_kill_is_named_whenever_it_comes(void **state) {
    (void)state;
    signal_at_random_instants(SIGKILL, "killed by SIGKILL", 11);
}

static void a_stop_is_named_whenever_it_comes(void **state) {
    (void)state;
    signal_at_random_instants(SIGSTOP, "stopped by SIGSTOP", 12);
}

/* All ranks at once, as when a container is short of memory: one error, naming one of them. */
static void all_ranks_killed_at_once_give_one_error(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        sw_launch_options options = comm_options(N_RANKS, false);
        sw_error err = {0};
        pid_t sender[N_RANKS];
        roll = comm_roll_create();
        for (int r = 0; r < N_RANKS; r++)
            sender[r] = comm_send_later(roll, N_RANKS, 20, SIGKILL, 0, r);
        assert_int_equal(sw_launch(&options, be_busy, NULL, &err), SW_LOST_RANK);
        assert_non_null(strstr(err.message, "was killed by SIGKILL while"));
        for (int r = 0; r < N_RANKS; r++)
            comm_reap(sender[r]);
        assert_false(comm_somebody_is_left(roll, N_RANKS));
        comm_roll_free(roll);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_is_named_whenever_it_comes),
        cmocka_unit_test(a_stop_is_named_whenever_it_comes),
        cmocka_unit_test(all_ranks_killed_at_once_give_one_error),
    };
    return cmocka_run_group_tests_name("failure at random instants", tests, NULL, NULL);
}
