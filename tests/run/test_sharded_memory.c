/* What each stage of sharded parameters holds in a rank: the plan is the arithmetic of
 * docs/embedding.md, and a step touches what is planned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "execute/sharded_internal.h"
#include "support/comm_ranks.h"

enum { N_RANKS = 4, UNITS = 3, ELEMENTS = 64 * 256 * N_RANKS, ALL = UNITS * ELEMENTS };

static sw_sharded_options options;

static sw_status take_a_step(sw_comm *comm, void *arg, sw_error *err) {
    sw_sharded *s;
    sw_unit *unit[UNITS];
    sw_parameter *parameter;
    float *gradient;
    int64_t planned[SW_N_MEMORY_CLASSES];
    (void)arg;
    RANK_TRY(sw_sharded_create(comm, &options, &s, err));
    for (int u = 0; u < UNITS; u++) {
        char name[16];
        snprintf(name, sizeof name, "unit %d", u);
        RANK_TRY(sw_sharded_add_unit(s, name, &unit[u], err));
        RANK_TRY(sw_sharded_add_parameter(s, unit[u], name, 1, (int64_t[]){ELEMENTS},
                                          (sw_initial){SW_INIT_ONES}, &parameter, err));
    }
    RANK_TRY(sw_sharded_commit(s, err));
    for (int u = 0; u < UNITS; u++) {
        RANK_TRY(sw_sharded_gradient(s, s->graph->parameters.item[u], &gradient, err));
        RANK_TRY(sw_sharded_reduce(s, unit[u], err));
    }
    RANK_TRY(sw_sharded_step(s, 0.1, NULL, err));
    sw_compiled_bytes(s->compiled, planned);
    const int64_t *peak = sw_executor_count(s->executor)->peak, own = ALL / N_RANKS;
    const int64_t held = options.stage < 3 ? ALL : own, updated = options.stage ? own : ALL;
    const bool is_bf16 = options.parameter_dtype == SW_SHARDED_BF16;
    RANK_CHECK(planned[SW_MEMORY_PARAMETERS] == (is_bf16 ? 2 : 4) * held);
    RANK_CHECK(planned[SW_MEMORY_OPTIMIZER] == (is_bf16 ? 10 : 8) * updated);
    RANK_CHECK(planned[SW_MEMORY_GRADIENTS] == 4 * own + (options.stage ? 0 : 4 * ALL));
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        RANK_CHECK(peak[c] <= planned[c] && (c != SW_MEMORY_PARAMETERS || peak[c] == planned[c]));
    RANK_CHECK(peak[SW_MEMORY_OPTIMIZER] == planned[SW_MEMORY_OPTIMIZER]);
    sw_sharded_free(s);
    return SW_OK;
}

static void each_stage_holds_what_is_planned(void **state) {
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        sw_launch_options launch = comm_options(N_RANKS, false);
        sw_error err = {0};
        options = (sw_sharded_options)SW_SHARDED_OPTIONS_INIT;
        options.stage = kind / 2;
        options.parameter_dtype = kind % 2 ? SW_SHARDED_BF16 : SW_SHARDED_FP32;
        if (sw_launch(&launch, take_a_step, NULL, &err))
            fail_msg("stage %d, %s: %s", options.stage, kind % 2 ? "bf16" : "fp32", err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_stage_holds_what_is_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
