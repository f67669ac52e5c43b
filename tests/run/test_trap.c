/* Trap mode on a real step: parameters that are read after their unit was given back fault at that
 * instruction; it is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "execute/masters.h"
#include "plan/assembly.h"

static const char settings_text[] = "model: {architecture: llama, layers: 3, hidden: 32, heads: 2, "
                                    "ffn: 48, vocab: 61, max_positions: 16}\n"
                                    "data: {train: [x.npy], sequence_length: 8}\n"
                                    "train: {steps: 1, batch_size: 2, micro_batch_size: 1}\n"
                                    "shard: {ranks: 2, mode: trap, param_dtype: fp32}\n";

static sw_status no_rows(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    (void)self, (void)slot, (void)scalars, (void)err;
    return SW_OK;
}

static sw_status accept_step(void *self, const sw_wide_sum *squares, sw_scalars *scalars,
                             sw_error *err) {
    sw_comm *comm = self;
    (void)squares;
    scalars->proceed = 1;
    return sw_barrier(comm, err);
}

static sw_status run_step(sw_comm *comm, void *arg, sw_error *err) {
    sw_assembly *a = arg;
    sw_device *device = NULL;
    sw_executor *executor = NULL;
    static float values[SW_BLOCK * 16];
    sw_status status = sw_cpu_open(&(sw_cpu_options){.set = SW_SET_BASELINE}, &device, err);
    if (!status)
        status = sw_executor_create(comm, device, &a->compiled->states, a->compiled->readable, 1,
                                    &executor, err);
    sw_masters masters = {executor, &a->compiled->states, comm->rank};
    if (!status)
        status = sw_masters_initialise(&masters, 1, false, values, SW_BLOCK * 16, err);
    if (!status)
        status = sw_executor_publish(executor, err);
    const sw_step_hooks hooks = {comm, no_rows, NULL, accept_step};
    sw_scalars scalars = {.loss_scale = 1,
                          .learning_rate = 1e-3,
                          .clip_factor = 1,
                          .bias_correction1 = 0.1,
                          .bias_correction2 = 0.05};
    if (!status)
        status = sw_executor_step(executor, 0, 2, &scalars, &hooks, err);
    sw_executor_free(executor);
    if (device)
        device->close(device);
    return status;
}

static sw_status run(bool is_broken, sw_error *err) {
    sw_settings settings;
    sw_assembly assembly;
    sw_assembly_choice choice;
    assert_int_equal(sw_settings_parse("trap", "/", settings_text, NULL, 0, &settings, err), SW_OK);
    sw_assembly_choose(&settings, 1, &choice, NULL, 0);
    assert_int_equal(sw_assembly_create(&settings, NULL, &choice, &assembly, err), SW_OK);
    sw_program *program = assembly.compiled->programs[SW_PROGRAM_TRAIN];
    for (int i = 1; is_broken && i < program->instructions.n;
         i++) { /* give layers.0 back one kernel too early */
        sw_instruction *reshard = &program->instructions.item[i];
        if (reshard->kind == SW_DO_RESHARD &&
            !strcmp(assembly.compiled->layout.units[reshard->unit].name, "layers.0")) {
            sw_instruction kernel = reshard[-1];
            assert_int_equal(kernel.kind, SW_DO_KERNEL);
            reshard[-1] = *reshard;
            *reshard = kernel;
            break;
        }
    }
    sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
    options.n_ranks = 2;
    options.mode = SW_SHM_TRAP;
    sw_status status = sw_launch(&options, run_step, &assembly, err);
    sw_assembly_free(&assembly);
    sw_settings_free(&settings);
    return status;
}

static void a_correct_program_runs(void **state) {
    (void)state;
    sw_error err = {0};
    if (run(false, &err))
        fail_msg("%s", err.message);
}

static void a_use_after_reshard_is_named_by_unit_and_operation(void **state) {
    (void)state;
    sw_error err = {0};
    assert_int_equal(run(true, &err), SW_BUG);
    assert_non_null(strstr(err.message, "layers.0"));
    assert_non_null(strstr(err.message, "linear"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_correct_program_runs),
        cmocka_unit_test(a_use_after_reshard_is_named_by_unit_and_operation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
