/* test_no_memory.c: layout, states and program, with each allocation failing in turn: an error,
 * never a crash or a half-made program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/program_case.h"
#include "support/small_models.h"

/* The library's lists allocate through calloc alone; this one stands before libc's. Sanitizers
 * bring their own, so there the test only walks the way on which nothing fails. */
#ifdef SW_SANITIZED
#define CAN_FAIL 0
#endif
#ifndef CAN_FAIL
#define CAN_FAIL 1
#endif

static int64_t n_left = -1; /* allocations until one fails; below 0: none does */

#if CAN_FAIL
void *__libc_calloc(size_t n, size_t bytes);
void *calloc(size_t n, size_t bytes);

void *calloc(size_t n, size_t bytes) {
    if (n_left >= 0 && n_left-- == 0)
        return NULL;
    return __libc_calloc(n, bytes);
}
#endif

static sw_status shard(const sw_graph *graph, const sw_sharding *sharding, sw_error *err) {
    sw_layout layout = {0};
    sw_states states = {0};
    sw_program program = {0};
    sw_status status =
        sw_layout_create(graph, &sharding->mesh, sharding->wrap, SW_BLOCK, &layout, err);
    if (!status)
        status = sw_states_create(&layout, sharding, true, &states, err);
    if (!status)
        status = sw_program_create(graph, &states, &program, err);
    sw_program_free(&program);
    sw_states_free(&states);
    sw_layout_free(&layout);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    /* long enough for several pieces of memory in every pass */
    static const stack abouts[] = {{STACK_NESTED, 300, 8, 13, false},
                                   {STACK_NESTED, 300, 8, 13, false},
                                   {STACK_SHARED, 100, 8, 13, false}};
    for (int i = 0; i < 3; i++) {
        program_case c = program_graph(N_SMALL_MODELS);
        c.about = &abouts[i];
        c.recompute = true;
        c.sharding.stage = i == 0 ? 1 : 3;
        c.sharding.wrap.min_parameters = 100;
        built_program built;
        program_build(&c, &built);
        sw_error err = {0};
        sw_status status = SW_NO_MEMORY;
        int64_t n = 0;
        for (; status && n < 2000; n++) {
            n_left = CAN_FAIL ? n : -1;
            err = (sw_error){0};
            status = shard(built.graph, &c.sharding, &err);
            bool did_fail = CAN_FAIL && n_left < 0;
            n_left = -1;
            assert_int_equal(status, did_fail ? SW_NO_MEMORY : SW_OK);
            assert_int_equal(status != SW_OK, err.message[0] != 0);
        }
        assert_int_equal(status, SW_OK);
        assert_true(!CAN_FAIL || n > 10);
        program_free(&built);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
