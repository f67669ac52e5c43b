/* Ranks that disagree are told so, both sides named, instead of hanging or computing with wrong
 * bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_device.h"
#include "support/comm_ranks.h"

/* Launch 2 ranks (processes, then threads), expect SW_MISMATCH and every text in the message. */
static void expect_mismatch(sw_rank_fn fn, int n_ranks, const char *const *texts) {
    for (int as_threads = 0; as_threads < 2; as_threads++) {
        sw_launch_options options = comm_options(n_ranks, as_threads);
        sw_error err = {0};
        sw_status status = sw_launch(&options, fn, NULL, &err);
        if (status != SW_MISMATCH)
            fail_msg("%s: %s", sw_status_name(status), err.message);
        for (const char *const *text = texts; *text; text++)
            if (!strstr(err.message, *text))
                fail_msg("'%s' is missing in: %s", *text, err.message);
    }
}

#define EXPECT_MISMATCH(fn, n_ranks, ...) \
    expect_mismatch(fn, n_ranks, (const char *const[]){__VA_ARGS__, NULL})

static sw_status open_collective(sw_comm *comm, sw_collective *c, sw_error *err) {
    static _Thread_local float own[1024];
    sw_window window;
    RANK_TRY(comm->vtable->window_create(comm, "window", 1 << 20, &window, err));
    *c = (sw_collective){.channel = 2,
                         .unit = 3,
                         .unit_name = "layers.3",
                         .dtype = SW_F32,
                         .shard_bytes = 1024,
                         .window = window.base,
                         .rank_stride = 8192,
                         .destination = own,
                         .n_contributors = sw_comm_size(comm)};
    return SW_OK;
}

static sw_status gather_once(sw_comm *comm, const sw_collective *c, sw_error *err) {
    RANK_TRY(comm->vtable->channel_open(comm, c->channel, SW_CHANNEL_GATHERS, err));
    RANK_TRY(comm->vtable->gather_publish(comm, c, err));
    return comm->vtable->gather(comm, c, err);
}

static sw_status reduce_once(sw_comm *comm, const sw_collective *c, sw_error *err) {
    RANK_TRY(comm->vtable->channel_open(comm, c->channel, SW_CHANNEL_REDUCES, err));
    if (sw_comm_rank(comm) < c->n_contributors) {
        RANK_TRY(comm->vtable->reduce_acquire(comm, c, err));
        RANK_TRY(comm->vtable->reduce_post(comm, c, err));
    }
    return comm->vtable->reduce_sum(comm, c, comm_test_device(), SW_NUMBERS_F32, err);
}

static sw_status gathers_of_other_sizes(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    c.shard_bytes = sw_comm_rank(comm) ? 2048 : 1024;
    return gather_once(comm, &c, err);
}

static void another_size_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(gathers_of_other_sizes, 2, "rank 0 is in gather of unit 3 \"layers.3\"",
                    "rank 1 is in gather", "1024 bytes", "2048 bytes");
}

static sw_status gathers_of_other_types(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    c.dtype = sw_comm_rank(comm) ? SW_BF16 : SW_F32;
    return gather_once(comm, &c, err);
}

static void another_dtype_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(gathers_of_other_types, 2, "ranks", "1024 bytes of fp32", "1024 bytes of bf16");
}

static sw_status reduces_of_other_units(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    RANK_TRY(reduce_once(comm, &c, err));
    if (sw_comm_rank(comm) == 1)
        c.unit = 4, c.unit_name = "layers.4";
    return reduce_once(comm, &c, err);
}

static void another_unit_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(reduces_of_other_units, 2,
                    "rank 0 is in reduce of unit 3 \"layers.3\" (sequence 2",
                    "rank 1 is in reduce of unit 4 \"layers.4\" (sequence 2");
}

static sw_status reduces_of_other_contributors(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    c.n_contributors = sw_comm_rank(comm) == 2 ? 1 : 3;
    return reduce_once(comm, &c, err);
}

static void another_count_of_contributors_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(reduces_of_other_contributors, 3, "1 contributors", "3 contributors", "rank 2");
}

static sw_status other_operations(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    return sw_comm_rank(comm) ? reduce_once(comm, &c, err) : gather_once(comm, &c, err);
}

static void another_operation_on_the_channel_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(other_operations, 2, "disagree on channel 2", "of unit 3 \"layers.3\"",
                    "has opened it for");
}

static sw_status uses_without_opening(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    RANK_CHECK(comm->vtable->gather_publish(comm, &c, NULL) == SW_BUG);
    RANK_CHECK(comm->vtable->reduce_sum(comm, &c, comm_test_device(), SW_NUMBERS_F32, NULL) ==
               SW_BUG);
    RANK_TRY(comm->vtable->channel_open(comm, c.channel, SW_CHANNEL_GATHERS, err));
    RANK_CHECK(comm->vtable->reduce_acquire(comm, &c, NULL) == SW_BUG);
    RANK_CHECK(comm->vtable->channel_open(comm, SW_MAX_CHANNELS, SW_CHANNEL_GATHERS, NULL) ==
               SW_BUG);
    return SW_OK;
}

static void a_channel_serves_what_it_was_opened_for(void **state) {
    (void)state;
    sw_launch_options options = comm_options(1, false);
    sw_error err = {0};
    if (sw_launch(&options, uses_without_opening, NULL, &err) != SW_OK)
        fail_msg("%s", err.message);
}

static sw_status barrier_against_exchange(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    int64_t mine = 1, all[2];
    return sw_comm_rank(comm) ? sw_exchange(comm, &mine, all, sizeof mine, err)
                              : sw_barrier(comm, err);
}

static void a_barrier_is_not_an_exchange(void **state) {
    (void)state;
    EXPECT_MISMATCH(barrier_against_exchange, 2, "rank 0 is in barrier (sequence 1)",
                    "rank 1 is in exchange of 8 bytes (sequence 1)");
}

static sw_status exchanges_of_other_sizes(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    char mine[404] = {0}, all[2 * 404];
    RANK_TRY(sw_barrier(comm, err));
    return sw_exchange(comm, mine, all, sw_comm_rank(comm) ? 404 : 400, err);
}

static void another_size_of_exchange_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(exchanges_of_other_sizes, 2, "exchange of 400 bytes (sequence 2)",
                    "exchange of 404 bytes (sequence 2)");
}

/* No counter is shared by the two: only the watch on all ranks can know. */
static sw_status gather_against_exchange(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    sw_comm_enter(comm, 0, 7, 0, 0, sw_comm_rank(comm) ? "decide" : "forward layers.3");
    return sw_comm_rank(comm) ? sw_barrier(comm, err) : gather_once(comm, &c, err);
}

static void ranks_that_wait_for_each_other_are_named_before_the_deadline(void **state) {
    (void)state;
    EXPECT_MISMATCH(gather_against_exchange, 2, "all ranks wait for each other",
                    "rank 0: in \"forward layers.3\" at step 7, slot 0, instruction 0; waits for "
                    "rank 1 in gather of \"layers.3\"",
                    "rank 1: in \"decide\" at step 7, slot 0, instruction 0; waits for rank 0 in "
                    "barrier (sequence");
}

/* A rank that leaves one gather out does no harm in that step; its next publish tells. */
static sw_status rank_1_skips_a_gather(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    RANK_TRY(comm->vtable->channel_open(comm, c.channel, SW_CHANNEL_GATHERS, err));
    for (int step = 0; step < 2; step++) {
        c.epoch = (uint64_t)step;
        RANK_TRY(comm->vtable->gather_publish(comm, &c, err));
        if (step > 0 || sw_comm_rank(comm) != 1)
            RANK_TRY(comm->vtable->gather(comm, &c, err));
        RANK_TRY(sw_barrier(comm, err));
    }
    return SW_OK;
}

static void a_skipped_gather_is_named_with_both_sequence_numbers(void **state) {
    (void)state;
    EXPECT_MISMATCH(rank_1_skips_a_gather, 4, "gather of unit 3 \"layers.3\" (sequence 0",
                    "gather of unit 3 \"layers.3\" (sequence 1", "rank 1 is in");
}

/* Ranks with unequal numbers of batches (rank 1 has one step less). */
static sw_status rank_1_has_fewer_steps(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    for (int step = 0; step < (sw_comm_rank(comm) == 1 ? 3 : 4); step++)
        RANK_TRY(reduce_once(comm, &c, err));
    return SW_OK;
}

static void a_rank_that_returned_early_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(rank_1_has_fewer_steps, 3,
                    "waits for rank 1 in reduce of unit 3 \"layers.3\" (sequence 4",
                    "rank 1 has returned");
}

/* Two layers in another order on rank 1. */
static sw_status rank_1_swaps_two_units(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    for (int i = 0; i < 2; i++) {
        c.unit = sw_comm_rank(comm) == 1 ? 1 - i : i;
        c.unit_name = c.unit ? "layers.1" : "layers.0";
        RANK_TRY(reduce_once(comm, &c, err));
    }
    return SW_OK;
}

static void another_order_of_units_is_named_at_the_first_difference(void **state) {
    (void)state;
    EXPECT_MISMATCH(rank_1_swaps_two_units, 2,
                    "rank 0 is in reduce of unit 0 \"layers.0\" (sequence 1",
                    "rank 1 is in reduce of unit 1 \"layers.1\" (sequence 1");
}

static sw_status windows_of_other_sizes(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_window window;
    return comm->vtable->window_create(comm, "parameters", sw_comm_rank(comm) == 2 ? 8192 : 4096,
                                       &window, err);
}

static void another_size_of_window_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(windows_of_other_sizes, 3, "rank 0 makes \"parameters\" of 4096 bytes",
                    "rank 2 \"parameters\" of 8192 bytes");
}

/* Publishing the next epoch while a peer still gathers would tear its values. */
static sw_status publish_too_early(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_collective c;
    RANK_TRY(open_collective(comm, &c, err));
    RANK_TRY(comm->vtable->channel_open(comm, c.channel, SW_CHANNEL_GATHERS, err));
    RANK_TRY(comm->vtable->gather_publish(comm, &c, err));
    c.epoch = 1;
    if (sw_comm_rank(comm) == 1)
        RANK_TRY(comm->vtable->gather_publish(comm, &c, err));
    RANK_TRY(sw_barrier(comm, err));
    c.epoch = 0;
    return sw_comm_rank(comm) == 1 ? sw_barrier(comm, err) : comm->vtable->gather(comm, &c, err);
}

static void an_epoch_published_too_early_is_named(void **state) {
    (void)state;
    EXPECT_MISMATCH(publish_too_early, 2, "rank 0 gathers epoch 0 of unit \"layers.3\"",
                    "rank 1 has already published epoch 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_size_is_named),
        cmocka_unit_test(another_dtype_is_named),
        cmocka_unit_test(another_unit_is_named),
        cmocka_unit_test(another_count_of_contributors_is_named),
        cmocka_unit_test(another_operation_on_the_channel_is_named),
        cmocka_unit_test(a_channel_serves_what_it_was_opened_for),
        cmocka_unit_test(a_barrier_is_not_an_exchange),
        cmocka_unit_test(another_size_of_exchange_is_named),
        cmocka_unit_test(ranks_that_wait_for_each_other_are_named_before_the_deadline),
        cmocka_unit_test(a_skipped_gather_is_named_with_both_sequence_numbers),
        cmocka_unit_test(a_rank_that_returned_early_is_named),
        cmocka_unit_test(another_order_of_units_is_named_at_the_first_difference),
        cmocka_unit_test(another_size_of_window_is_named),
        cmocka_unit_test(an_epoch_published_too_early_is_named),
    };
    return cmocka_run_group_tests_name("mismatch", tests, NULL, NULL);
}
