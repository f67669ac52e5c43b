/* Control memory: records are read whole while they are written, the first error wins, and the
 * watch judges by what it reads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/watch.h"
#include "support/comm_ranks.h"

static sw_control *create(int n_ranks) {
    sw_control *control = NULL;
    assert_int_equal(sw_control_create(n_ranks, &control, NULL), SW_OK);
    return control;
}

static void no_two_ranks_share_a_cache_line(void **state) {
    (void)state;
    assert_int_equal(sizeof(sw_control_rank) % 4096, 0);
    assert_int_equal(sizeof(sw_control) % 64, 0);
    assert_int_equal(sizeof(sw_control_cell) % 64, 0);
}

/* ---- records ---- */

static void *write_records(void *arg) {
    sw_control_lane *lane = arg;
    for (int64_t k = 1; k <= 20000; k++) {
        sw_lane_record record = {
            .step = k, .sequence = (uint64_t)k, .wait_target = (uint64_t)k, .has_entered = 1};
        snprintf(record.label, sizeof record.label, "%063d", (int)k);
        sw_lane_store(lane, &record);
    }
    return NULL;
}

static void a_record_is_read_whole_while_it_is_written(void **state) {
    (void)state;
    sw_control *control = create(1);
    pthread_t writer;
    sw_lane_record record = {0};
    uint64_t turn = 0;
    pthread_create(&writer, NULL, write_records, &control->rank[0].lane[0]);
    while (record.step < 20000) {
        uint64_t later = sw_lane_load(&control->rank[0].lane[0], &record);
        char label[SW_LABEL_BYTES] = "";
        assert_true(later >= turn);
        turn = later;
        if (later % 2) /* the reader gave up on a writer that was always in the middle */
            continue;
        if (record.has_entered)
            snprintf(label, sizeof label, "%063d", (int)record.step);
        assert_int_equal(record.sequence, record.step);
        assert_int_equal(record.wait_target, record.step);
        assert_memory_equal(record.label, label, SW_LABEL_BYTES - 1);
    }
    pthread_join(writer, NULL);
    sw_control_free(control);
}

static void a_long_label_is_cut_and_ended(void **state) {
    (void)state;
    sw_control *control = create(1);
    sw_comm comm = {.n_ranks = 1, .control = control};
    char label[200], text[512];
    memset(label, 'x', sizeof label - 1);
    label[sizeof label - 1] = 0;
    sw_comm_enter(&comm, 0, 3, 1, 2, label);
    sw_describe_rank(control, 0, text, sizeof text);
    label[SW_LABEL_BYTES - 1] = 0;
    char expected[512];
    snprintf(expected, sizeof expected, "in \"%s\" at step 3, slot 1, instruction 2", label);
    assert_string_equal(text, expected);
    sw_control_free(control);
}

/* ---- the first error ---- */

typedef struct aborter {
    sw_control *control;
    int number, n_first;
} aborter;

static void *raise_abort(void *arg) {
    aborter *a = arg;
    sw_error error;
    sw_fail(&error, SW_BAD_FILE, "error of thread %d", a->number);
    a->n_first = sw_control_abort(a->control, &error);
    return NULL;
}

static void of_many_aborts_the_first_alone_is_the_cause(void **state) {
    (void)state;
    enum { N = 8 };
    for (int round = 0; round < 50; round++) {
        sw_control *control = create(2);
        pthread_t thread[N];
        aborter a[N];
        sw_error err = {0};
        int first = -1, n_first = 0;
        for (int i = 0; i < N; i++) {
            a[i] = (aborter){control, i, 0};
            pthread_create(&thread[i], NULL, raise_abort, &a[i]);
        }
        for (int i = 0; i < N; i++) {
            pthread_join(thread[i], NULL);
            n_first += a[i].n_first;
            first = a[i].n_first ? i : first;
        }
        char expected[128];
        snprintf(expected, sizeof expected, "the run was ended: error of thread %d", first);
        assert_int_equal(n_first, 1);
        assert_int_equal(sw_control_check(control, &err), SW_ABORTED);
        assert_string_equal(err.message, expected);
        sw_control_free(control);
    }
}

/* A rank that is killed while it writes the error must not hang those who want to read it. */
static void an_error_that_was_never_finished_still_ends_the_run(void **state) {
    (void)state;
    sw_control *control = create(2);
    sw_error err = {0};
    atomic_store(&control->abort, SW_ABORTING);
    assert_int_equal(sw_control_check(control, &err), SW_ABORTED);
    sw_control_free(control);
}

/* ---- the watch ---- */

static void set_lane(sw_control *control, int rank, int lane, sw_comm_operation operation,
                     int peer) {
    sw_lane_record record = {.step = 4,
                             .operation = operation,
                             .peer = peer,
                             .channel = -1,
                             .has_entered = 1,
                             .sequence = 1,
                             .wait_target = 1};
    strcpy(record.label, lane ? "gather layers.1" : "forward layers.1");
    if (peer >= 0)
        record.wait_offset = (uint64_t)((char *)&control->rank[peer].arrived - (char *)control);
    sw_lane_store(&control->rank[rank].lane[lane], &record);
}

/* Look until the watch has an opinion, at most two seconds. */
static sw_status watch(const sw_control *control, double deadline, bool uses_cpu, sw_error *err) {
    sw_watch w;
    sw_status status = SW_OK;
    int64_t cpu_ns[SW_MAX_RANKS] = {0};
    sw_watch_start(&w, control, deadline, &sw_launch_plain_words);
    for (int i = 0; i < 100 && status == SW_OK; i++) {
        usleep(20000);
        for (int r = 0; r < control->n_ranks; r++)
            cpu_ns[r] += uses_cpu ? 10000000 : 0;
        status = sw_watch_look(&w, cpu_ns, err);
    }
    return status;
}

static void expect_text(const char *message, const char *text) {
    if (!strstr(message, text))
        fail_msg("'%s' is missing in: %s", text, message);
}

static void ranks_in_waits_that_cannot_end_disagree(void **state) {
    (void)state;
    sw_control *control = create(2);
    sw_error err = {0};
    set_lane(control, 0, 0, SW_BARRIER, 1);
    set_lane(control, 1, 0, SW_EXCHANGE, 0);
    assert_int_equal(watch(control, 30, true, &err), SW_MISMATCH);
    expect_text(err.message, "rank 0: in \"forward layers.1\" at step 4, slot 0, instruction 0; "
                             "waits for rank 1 in barrier (sequence 1)");
    expect_text(err.message, "waits for rank 0 in exchange (sequence 1)");
    sw_control_free(control);
}

/* The counter of one wait has risen: its rank is about to go on, however long that takes. */
static void a_wait_that_is_over_is_no_disagreement(void **state) {
    (void)state;
    sw_control *control = create(2);
    set_lane(control, 0, 0, SW_BARRIER, 1);
    set_lane(control, 1, 0, SW_EXCHANGE, 0);
    atomic_store(&control->rank[1].arrived, 1);
    assert_int_equal(watch(control, 30, true, NULL), SW_OK);
    sw_control_free(control);
}

/* All first lanes wait for sums that second lanes are still computing. */
static void a_lane_at_work_is_no_disagreement(void **state) {
    (void)state;
    sw_control *control = create(2);
    for (int r = 0; r < 2; r++) {
        set_lane(control, r, 0, SW_ACQUIRE, 1 - r);
        set_lane(control, r, 1, SW_REDUCE, -1);
    }
    assert_int_equal(watch(control, 30, true, NULL), SW_OK);
    sw_control_free(control);
}

/* The lane waits until the one beside it has come to `position`. */
static void set_wait_for_other_lane(sw_control *control, int rank, int lane, uint64_t position) {
    sw_lane_wait_begins(&control->rank[rank].lane[lane],
                        &(sw_lane_wait){.control = control,
                                        .counter = &control->rank[rank].lane[!lane].position,
                                        .target = position,
                                        .operation = SW_OTHER_LANE,
                                        .peer = rank,
                                        .channel = -1});
}

/* First lanes wait inside their ranks for second lanes, which wait for each other. */
static void lanes_that_wait_in_a_circle_disagree(void **state) {
    (void)state;
    sw_control *control = create(2);
    sw_error err = {0};
    for (int r = 0; r < 2; r++) {
        set_lane(control, r, 0, SW_IDLE, -1);
        set_wait_for_other_lane(control, r, 0, 7);
        set_lane(control, r, 1, SW_GATHER, 1 - r);
    }
    assert_int_equal(watch(control, 30, true, &err), SW_MISMATCH);
    expect_text(err.message,
                "instruction 0; waits for another of its lanes; beside it in \"gather layers.1\"");
    sw_control_free(control);
}

/* The second lanes wait for what the first ones compute, for longer than the deadline. */
static void a_long_kernel_beside_a_lane_that_waits_is_no_failure(void **state) {
    (void)state;
    sw_control *control = create(2);
    for (int r = 0; r < 2; r++) {
        set_lane(control, r, 0, SW_IDLE, -1);
        set_lane(control, r, 1, SW_REDUCE, 1 - r);
    }
    assert_int_equal(watch(control, 0.2, true, NULL), SW_OK);
    sw_control_free(control);
}

/* First lanes wait for peers; the second lane of rank 1 has been given its next piece of work and
 * did not get to it yet. */
static void a_lane_that_is_about_to_work_is_no_disagreement(void **state) {
    (void)state;
    sw_control *control = create(2);
    sw_error err = {0};
    for (int r = 0; r < 2; r++) {
        set_lane(control, r, 0, SW_ACQUIRE, 1 - r);
        set_wait_for_other_lane(control, r, 1, 7);
    }
    atomic_store(&control->rank[1].lane[0].position, 7);
    assert_int_equal(watch(control, 30, false, NULL), SW_OK);
    assert_int_equal(watch(control, 0.2, false, &err), SW_TIMED_OUT);
    expect_text(err.message, "rank 1 made no progress and used no CPU for 0.2 s");
    atomic_store(&control->rank[1].lane[0].position, 6);
    assert_int_equal(watch(control, 30, false, &err), SW_MISMATCH);
    sw_control_free(control);
}

/* Rank 0 was looked at, and then rank 1 raised what rank 0 waits for, and returned, before it was
 * looked at. */
static void a_rank_that_has_just_returned_has_moved(void **state) {
    (void)state;
    sw_control *control = create(2);
    sw_watch w;
    const int64_t cpu_ns[2] = {0};
    set_lane(control, 0, 0, SW_BARRIER, 1);
    set_lane(control, 1, 0, SW_IDLE, -1);
    sw_watch_start(&w, control, 30, &sw_launch_plain_words);
    for (int i = 0; i < 60; i++, usleep(20000))
        assert_int_equal(sw_watch_look(&w, cpu_ns, NULL), SW_OK);
    atomic_store(&control->rank[1].has_returned, 1);
    assert_int_equal(sw_watch_look(&w, cpu_ns, NULL), SW_OK);
    for (int i = 0; i < 500; i++, usleep(20000))
        if (sw_watch_look(&w, cpu_ns, NULL) != SW_OK) {
            assert_true(i >= 40);
            sw_control_free(control);
            return;
        }
    fail_msg("nobody is left to raise what rank 0 waits for");
}

static void who_waits_is_not_to_blame_and_who_computes_is_not_lost(void **state) {
    (void)state;
    sw_control *control = create(3);
    sw_error err = {0};
    set_lane(control, 0, 0, SW_BARRIER, 1);
    set_lane(control, 1, 0, SW_IDLE, -1);
    set_lane(control, 2, 0, SW_BARRIER, 1);
    assert_int_equal(watch(control, 0.2, true, NULL), SW_OK);
    assert_int_equal(watch(control, 0.2, false, &err), SW_TIMED_OUT);
    expect_text(err.message, "rank 1 made no progress and used no CPU for 0.2 s");
    expect_text(err.message, "others: ranks 0, 2: in");
    sw_control_free(control);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_ranks_share_a_cache_line),
        cmocka_unit_test(a_record_is_read_whole_while_it_is_written),
        cmocka_unit_test(a_long_label_is_cut_and_ended),
        cmocka_unit_test(of_many_aborts_the_first_alone_is_the_cause),
        cmocka_unit_test(an_error_that_was_never_finished_still_ends_the_run),
        cmocka_unit_test(ranks_in_waits_that_cannot_end_disagree),
        cmocka_unit_test(a_wait_that_is_over_is_no_disagreement),
        cmocka_unit_test(a_lane_at_work_is_no_disagreement),
        cmocka_unit_test(lanes_that_wait_in_a_circle_disagree),
        cmocka_unit_test(a_long_kernel_beside_a_lane_that_waits_is_no_failure),
        cmocka_unit_test(a_lane_that_is_about_to_work_is_no_disagreement),
        cmocka_unit_test(a_rank_that_has_just_returned_has_moved),
        cmocka_unit_test(who_waits_is_not_to_blame_and_who_computes_is_not_lost),
    };
    return cmocka_run_group_tests_name("control memory", tests, NULL, NULL);
}
