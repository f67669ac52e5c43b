/* The executor when something fails before or within a step: what was taken is given back, both
 * lanes end, all ranks end with the cause. And what it counts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "execute/executor.h"
#include "execute/masters.h"
#include "plan/assembly.h"

enum { STEPS = 2, SLOTS = 3 };

typedef struct trial {
    sw_assembly assembly;
    int fails_in_slot;     /* of rank 1; -1: in none */
    bool fails_in_prepare; /* of rank 1 */
    bool fails_to_map;     /* the first creation of an executor */
    /* in a rank */
    sw_comm *comm;
    sw_executor *executor;
} trial;

static sw_status fill(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    trial *t = self;
    (void)scalars;
    return t->comm->rank == 1 && slot == t->fails_in_slot
               ? sw_fail(err, SW_BAD_FILE, "no rows for slot %d", slot)
               : SW_OK;
}

/* What the reductions of the last slot, and no other, have squared is what lies in this rank's
 * slices now. */
static sw_status check_squares(const trial *t, const sw_wide_sum *squares, sw_error *err) {
    const sw_states *states = &t->assembly.compiled->states;
    double expected = 0, given = sw_wide_sum_value(squares);
    for (int g = 0; g < states->layout->n_groups; g++) {
        const sw_group *group = &states->layout->groups[g];
        const float *own = sw_executor_address(t->executor, 0, states->gradient[g]);
        if (!own)
            own = (const float *)sw_executor_address(t->executor, 0, states->whole_gradient[g]) +
                  t->comm->rank * group->shard;
        for (int64_t i = 0; i < group->shard; i++)
            expected += (double)own[i] * (double)own[i];
    }
    return expected > 0 && fabs(given - expected) <= 1e-12 * expected
               ? SW_OK
               : sw_fail(err, SW_BUG, "squares of %.17g where the slices have %.17g", given,
                         expected);
}

/* In trials that fail in PREPARE this stands there too. */
static sw_status decide(void *self, const sw_wide_sum *squares, sw_scalars *scalars,
                        sw_error *err) {
    trial *t = self;
    scalars->proceed = 1;
    if (t->fails_in_prepare)
        return t->comm->rank == 1 ? sw_fail(err, SW_BAD_FILE, "no constants") : SW_OK;
    sw_status status = check_squares(t, squares, err);
    return status ? status : sw_barrier(t->comm, err);
}

static sw_status check_counts(const sw_executor *executor, sw_error *err) {
    const sw_executor_counts *c = sw_executor_count(executor);
    double work = 0, wait = 0;
    bool is_right =
        c->compute_seconds > 0 && c->moving_seconds > 0 && c->longest_work[0].seconds > 0;
    for (int i = 0; i < SW_N_LONGEST; i++) {
        is_right &= c->longest_work[i].instruction && c->longest_work[i].slot >= 0 &&
                    c->longest_work[i].slot < SLOTS;
        is_right &= i == 0 || (c->longest_work[i].seconds <= c->longest_work[i - 1].seconds &&
                               c->longest_wait[i].seconds <= c->longest_wait[i - 1].seconds);
    }
    for (int lane = 0; lane < SW_LANES; lane++) {
        work += c->lane[lane].work_seconds;
        for (int kind = 0; kind < SW_N_WAIT_KINDS; kind++) {
            is_right &= c->lane[lane].wait_seconds[kind] >= 0;
            wait += c->lane[lane].wait_seconds[kind];
        }
    }
    is_right &= c->longest_work[0].seconds <= work && c->longest_wait[0].seconds <= wait;
    is_right &= c->compute_seconds + c->moving_seconds <= work * (1 + 1e-9);
    return is_right ? SW_OK : sw_fail(err, SW_BUG, "the counts do not fit together");
}

static sw_status run_steps(sw_comm *comm, void *arg, sw_error *err) {
    trial *t = arg;
    sw_assembly *a = &t->assembly;
    sw_device *device = NULL;
    sw_executor *executor = NULL;
    static float values[SW_BLOCK * 16];
    t->comm = comm;
    sw_status status =
        sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE, .n_threads = 2}, &device, err);
    if (!status && t->fails_to_map) {
        int before = comm->n_channels;
        sw_buffer *buffer =
            &a->compiled->programs[0]->buffers.item[sw_program_buffer_of(a->program, SW_PORT_LOSS)];
        buffer->bytes += INT64_C(1) << 50;
        status = sw_executor_create(comm, device, &a->compiled->states, a->compiled->readable, 1,
                                    &executor, err);
        buffer->bytes -= INT64_C(1) << 50;
        status = status == SW_NO_MEMORY && comm->n_channels == before && !executor
                     ? SW_OK
                     : sw_fail(err, SW_BUG, "not given back");
    }
    if (!status)
        status = sw_executor_create(comm, device, &a->compiled->states, a->compiled->readable, 1,
                                    &executor, err);
    t->executor = executor;
    sw_masters masters = {executor, &a->compiled->states, comm->rank};
    if (!status)
        status = sw_masters_initialise(&masters, 1, false, values, SW_BLOCK * 16, err);
    if (!status)
        status = sw_executor_publish(executor, err);
    const sw_step_hooks hooks = {.self = t, .fill = fill, .decide = decide};
    for (int64_t step = 0; step < STEPS && !status; step++) {
        sw_scalars scalars = {.step = step,
                              .loss_scale = 1,
                              .learning_rate = 1e-3,
                              .clip_factor = 1,
                              .bias_correction1 = 0.1,
                              .bias_correction2 = 0.05};
        status = sw_executor_step(executor, 0, SLOTS * comm->n_ranks, &scalars, &hooks, err);
        if (!status)
            status = check_counts(executor, err);
    }
    if (status && sw_comm_check(comm, NULL) != SW_ABORTED)
        sw_fail(err, SW_BUG, "a step failed, and the other ranks were not told");
    sw_executor_free(executor);
    if (device)
        device->close(device);
    return status;
}

static sw_status run(trial *t, const char *shard, sw_error *err) {
    char text[512];
    sw_settings settings;
    sw_assembly_choice choice;
    snprintf(text, sizeof text,
             "model: {architecture: llama, layers: 4, hidden: 32, heads: 2, ffn: 48, vocab: 61, "
             "max_positions: 16}\n"
             "data: {train: [x.npy], sequence_length: 8}\n"
             "train: {steps: 1, batch_size: 6, micro_batch_size: 1, threads: 2}\n"
             "shard: {ranks: 2, %s}\n",
             shard);
    assert_int_equal(sw_settings_parse("executor", "/", text, NULL, 0, &settings, err), SW_OK);
    sw_assembly_choose(&settings, 1, &choice, NULL, 0);
    assert_int_equal(sw_assembly_create(&settings, NULL, &choice, &t->assembly, err), SW_OK);
    sw_program *program = t->assembly.compiled->programs[SW_PROGRAM_TRAIN];
    if (t->fails_in_prepare) {
        assert_true(program->segment_count[SW_SEGMENT_PREPARE] > 0);
        program->instructions.item[program->segment_first[SW_SEGMENT_PREPARE]].kind = SW_DO_DECIDE;
    }
    sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
    options.n_ranks = 2;
    options.mode = t->assembly.sharding.mode;
    sw_status status = sw_launch(&options, run_steps, t, err);
    sw_assembly_free(&t->assembly);
    sw_settings_free(&settings);
    return status;
}

static const char *const modes[] = {"mode: view", "mode: copy"};

static void steps_run_and_norm_and_counts_fit_together(void **state) {
    (void)state;
    static const char *const shardings[] = {"mode: view", "mode: copy", "mode: view, stage: 1",
                                            "mode: copy, stage: 0",
                                            "mode: copy, stage: 2, accumulate: unsharded"};
    for (size_t i = 0; i < sizeof shardings / sizeof *shardings; i++) {
        trial t = {.fails_in_slot = -1};
        sw_error err = {0};
        if (run(&t, shardings[i], &err))
            fail_msg("%s: %s", shardings[i], err.message);
    }
}

static void channels_are_given_back_when_memory_cannot_be_had(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        trial t = {.fails_in_slot = -1, .fails_to_map = true};
        sw_error err = {0};
        if (run(&t, modes[m], &err))
            fail_msg("%s: %s", modes[m], err.message);
    }
}

static void a_failure_among_the_constants_ends_all_ranks_and_lanes(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        trial t = {.fails_in_slot = -1, .fails_in_prepare = true};
        sw_error err = {0};
        assert_int_equal(run(&t, modes[m], &err), SW_BAD_FILE);
        assert_non_null(strstr(err.message, "rank 1"));
        assert_non_null(strstr(err.message, "no constants"));
    }
}

/* The communication lane has been given the slot already, and waits for a compute lane that never
 * comes there. */
static void a_failure_between_slots_ends_all_ranks_and_lanes(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++)
        for (int slot = 0; slot < SLOTS; slot++) {
            trial t = {.fails_in_slot = slot};
            sw_error err = {0};
            assert_int_equal(run(&t, modes[m], &err), SW_BAD_FILE);
            assert_non_null(strstr(err.message, "rank 1"));
            assert_non_null(strstr(err.message, "no rows for slot"));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_run_and_norm_and_counts_fit_together),
        cmocka_unit_test(channels_are_given_back_when_memory_cannot_be_had),
        cmocka_unit_test(a_failure_among_the_constants_ends_all_ranks_and_lanes),
        cmocka_unit_test(a_failure_between_slots_ends_all_ranks_and_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
