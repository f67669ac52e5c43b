/* test_no_memory.c: recording and every pass, with each allocation failing in turn: an error, no
 * crash or half-made graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "support/small_models.h"

/* The library's graphs allocate through calloc alone; this one stands before libc's. Sanitizers
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

static sw_status whole_step(const sw_model_config *config, sw_error *err) {
    sw_graph *graph = NULL;
    sw_status status = sw_graph_create(SMALL_MODEL_ROWS, SMALL_MODEL_TOKENS, &graph, err);
    if (!status)
        status = sw_model_trace(config, SW_ENDS_IN_LOSS, graph, err);
    if (!status)
        status = sw_graph_join_products(graph, err);
    if (!status)
        status = sw_graph_differentiate(graph, err);
    if (!status)
        status = sw_graph_recompute_blocks(graph, err);
    if (!status)
        status = sw_graph_reuse_in_place(graph, err);
    sw_graph_free(graph);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    for (int model = 0; model < N_SMALL_MODELS; model++) {
        sw_model_config config = SMALL_MODELS[model];
        config.layers = 60; /* many enough for several pieces of memory in every pass */
        sw_error err = {0};
        sw_status status = SW_NO_MEMORY;
        int64_t n_failures = 0;
        for (; status == SW_NO_MEMORY && n_failures < 1000; n_failures++) {
            n_left = CAN_FAIL ? n_failures : -1;
            err = (sw_error){0};
            status = whole_step(&config, &err);
            n_left = -1;
            assert_int_equal(status, err.status);
            assert_int_equal(status != SW_OK, err.message[0] != 0);
        }
        assert_int_equal(status, SW_OK);
        assert_true(!CAN_FAIL || n_failures > 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
