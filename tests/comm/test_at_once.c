/* What all ranks do at once, in worlds that are over at once: one error wins and stays whole, and
 * threads meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/control.h"
#include "support/comm_ranks.h"

/* Who waits and yields does not sleep, and no deadline ends it: an alarm does. */
enum { N_RANKS = 3, N_WORLDS = 8, HANG_SECONDS = 60 };

/* Messages of different lengths: one that is written over another shows. */
static void own_error(int rank, sw_error *error) {
    char letters[400];
    memset(letters, 'a' + rank, sizeof letters);
    sw_fail(error, SW_BUG, "rank %d: %.*s", rank, 100 + 100 * rank, letters);
}

static sw_status fail_with_all_others(sw_comm *comm, void *arg, sw_error *err) {
    comm_roll *roll = arg;
    sw_error own;
    own_error(sw_comm_rank(comm), &own);
    RANK_TRY(sw_barrier(comm, err));
    roll->value[sw_comm_rank(comm)] = sw_control_abort(comm->control, &own);
    return sw_fail(err, own.status, "%s", own.message);
}

static void one_error_wins(bool as_threads) {
    for (int world = 0; world < N_WORLDS; world++) {
        alarm(HANG_SECONDS);
        comm_roll *roll = comm_roll_create();
        sw_launch_options options = comm_options(N_RANKS, as_threads);
        sw_error error, winners = {0};
        int n_winners = 0;
        assert_int_equal(sw_launch(&options, fail_with_all_others, roll, &error), SW_BUG);
        for (int r = 0; r < N_RANKS; r++)
            if (roll->value[r]) {
                n_winners++;
                own_error(r, &winners);
            }
        assert_int_equal(n_winners, 1);
        assert_string_equal(error.message, winners.message);
        comm_roll_free(roll);
    }
    alarm(0);
}

static void one_error_of_processes_wins(void **state) {
    (void)state;
    one_error_wins(false);
}

static void one_error_of_threads_wins(void **state) {
    (void)state;
    one_error_wins(true);
}

static sw_status meet(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_window window;
    for (int i = 0; i < 4; i++) {
        RANK_TRY(comm->vtable->window_create(comm, "window", 4096, &window, err));
        window.base[sw_comm_rank(comm)] = 1;
        RANK_TRY(sw_barrier(comm, err));
        for (int r = 0; r < N_RANKS; r++)
            RANK_CHECK(window.base[r] == 1);
    }
    return SW_OK;
}

static void all_meet(void **state) {
    (void)state;
    for (int world = 0; world < 2 * N_WORLDS; world++) {
        sw_launch_options options = comm_options(N_RANKS, world % 2);
        sw_error error = {0};
        alarm(HANG_SECONDS);
        if (sw_launch(&options, meet, NULL, &error) != SW_OK)
            fail_msg("world %d: %s", world, error.message);
    }
    alarm(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_error_of_processes_wins),
        cmocka_unit_test(one_error_of_threads_wins),
        cmocka_unit_test(all_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
