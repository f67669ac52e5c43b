/* Sharded parameters with each allocation failing in turn, from creation to the first step: an
 * error that says so, no crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <shardwise/sharded.h>

#include "execute/sharded_internal.h"
#include "support/comm_ranks.h"

/* Sanitizers bring an allocator of their own, so there the test only walks the way on which nothing
 * fails. */
#ifdef SW_SANITIZED
#define CAN_FAIL 0
#endif
#ifndef CAN_FAIL
#define CAN_FAIL 1
#endif

static int64_t n_left = -1; /* allocations until one fails; below 0: none does */

#if CAN_FAIL
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *malloc(size_t bytes);

static bool is_refused(void) {
    return n_left >= 0 && n_left-- == 0;
}

void *calloc(size_t n, size_t bytes) {
    return is_refused() ? NULL : __libc_calloc(n, bytes);
}

void *malloc(size_t bytes) {
    return is_refused() ? NULL : __libc_malloc(bytes);
}
#endif

static sw_status train(sw_sharded *s, sw_error *err) {
    sw_unit *unit[2];
    sw_parameter *parameter[2];
    float *gradient;
    sw_initial ones = {.initializer = SW_INIT_ONES};
    for (int u = 0; u < 2; u++) {
        RANK_TRY(sw_sharded_add_unit(s, u ? "second" : "first", &unit[u], err));
        RANK_TRY(sw_sharded_add_parameter(s, unit[u], u ? "w" : "v", 1, (int64_t[]){300}, ones,
                                          &parameter[u], err));
    }
    RANK_TRY(sw_sharded_commit(s, err));
    for (int u = 0; u < 2; u++) {
        RANK_TRY(sw_sharded_gather(s, unit[u], err));
        RANK_TRY(sw_sharded_release(s, unit[u], err));
        RANK_TRY(sw_sharded_gradient(s, parameter[u], &gradient, err));
        RANK_TRY(sw_sharded_reduce(s, unit[u], err));
    }
    RANK_TRY(sw_sharded_step(s, 1, NULL, err));
    return SW_OK;
}

/* n_failed: counts the commits that failed. */
static sw_status create_and_train(sw_comm *comm, int *n_failed, sw_error *err) {
    sw_sharded *s = NULL;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    sw_status status = sw_sharded_create(comm, &options, &s, err);
    const int n_channels = comm->n_channels;
    if (status == SW_OK)
        status = train(s, err);
    if (status != SW_OK && s && s->has_failed) { /* nothing is made a second time over the first */
        sw_error again = {0};
        RANK_CHECK(comm->n_channels == n_channels && !s->executor && !s->copies);
        RANK_CHECK(sw_sharded_commit(s, &again) == SW_BAD_CONFIG);
        RANK_CHECK(strstr(again.message, "failed before"));
        *n_failed += 1;
    }
    sw_sharded_free(s);
    return status;
}

static sw_status fail_each_allocation(sw_comm *comm, void *arg, sw_error *err) {
    sw_status status = SW_NO_MEMORY;
    int n = 0, n_failed = 0;
    (void)arg;
    for (; status != SW_OK && n < 200; n++) {
        sw_error own = {0};
        n_left = CAN_FAIL ? n : -1;
        status = create_and_train(comm, &n_failed, &own);
        bool did_fail = CAN_FAIL && n_left < 0;
        n_left = -1;
        if (status != (did_fail ? SW_NO_MEMORY : SW_OK) || (status != SW_OK && !own.message[0]))
            return sw_fail(err, SW_BUG, "allocation %d: %s: %s", n, sw_status_name(status),
                           own.message);
    }
    RANK_CHECK(status == SW_OK && (!CAN_FAIL || (n > 5 && n_failed > 5)));
    return SW_OK;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    sw_launch_options options = comm_options(1, false);
    sw_error err = {0};
    if (sw_launch(&options, fail_each_allocation, NULL, &err) != SW_OK)
        fail_msg("%s", err.message);
}

static sw_status count_in_a_step(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_sharded *s;
    sw_unit *unit;
    sw_parameter *parameter;
    float *gradient;
    sw_sharded_options options = SW_SHARDED_OPTIONS_INIT;
    RANK_TRY(sw_sharded_create(comm, &options, &s, err));
    RANK_TRY(sw_sharded_add_unit(s, "unit", &unit, err));
    RANK_TRY(sw_sharded_add_parameter(s, unit, "w", 1, (int64_t[]){300}, (sw_initial){0},
                                      &parameter, err));
    RANK_TRY(sw_sharded_commit(s, err));
    for (int step = 0; step < 4; step++) {
        n_left = INT64_MAX; /* counts down */
        RANK_TRY(sw_sharded_gather(s, unit, err));
        RANK_TRY(sw_sharded_release(s, unit, err));
        RANK_TRY(sw_sharded_gradient(s, parameter, &gradient, err));
        RANK_TRY(sw_sharded_reduce(s, unit, err));
        RANK_TRY(sw_sharded_step(s, 1, NULL, err));
        RANK_CHECK(n_left == INT64_MAX);
    }
    n_left = -1;
    sw_sharded_free(s);
    return SW_OK;
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        sw_launch_options options = comm_options(2, false);
        sw_error err = {0};
        options.mode = mode ? SW_SHM_COPY : SW_SHM_VIEW;
        if (sw_launch(&options, count_in_a_step, NULL, &err) != SW_OK)
            fail_msg("%s", err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
