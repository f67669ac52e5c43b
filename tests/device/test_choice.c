/* Who multiplies matrices: by the kernel set, by a machine file, by what runs here; and the machine
 * file itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cpu/choice.h"
#include "device/cpu/open.h"
#include "support/folder.h"

static char folder[FOLDER_BYTES];
static char path[SW_PATH_BYTES];

/* The machine file of these tests, not the user's. */
static int make_cache(void **state) {
    (void)state;
    sw_error err = {0};
    return !folder_make(folder) || setenv("XDG_CACHE_HOME", folder, 1) ||
           sw_machine_path(path, &err);
}

static int remove_cache(void **state) {
    (void)state;
    return folder_remove(folder);
}

static sw_machine this_machine(void) {
    sw_machine machine = {.set = sw_kernel_set_best(), .version = SW_VERSION};
    sw_cpu_name(machine.cpu);
    return machine;
}

static void write_machine(const sw_machine *machine) {
    sw_error err = {0};
    assert_int_equal(sw_machine_write(path, machine, &err), SW_OK);
}

static void reproducible_runs_choose_by_the_kernel_set_alone(void **state) {
    (void)state;
    sw_machine machine = this_machine();
    machine.fp32[SW_GEMM_BLAS] = machine.bf16[SW_GEMM_BLAS] = 1e12;
    write_machine(&machine);
    for (int set = 0; set < SW_N_KERNEL_SETS; set++)
        for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++) {
            sw_gemm_choice choice;
            if (!sw_kernel_set_runs_here((sw_kernel_set)set))
                continue;
            sw_gemm_choose((sw_kernel_set)set, (sw_number_kind)numbers, true, &choice);
            assert_int_equal(choice.kind, set == SW_SET_BASELINE ? SW_GEMM_PLAIN : SW_GEMM_OWN);
        }
}

/* Of what was measured and runs here, the fastest, for each type of operands. */
static void the_machine_file_decides(void **state) {
    (void)state;
    sw_machine machine = this_machine();
    sw_gemm_choice choice;
    machine.fp32[SW_GEMM_PLAIN] = 2e10, machine.fp32[SW_GEMM_BLAS] = 9e10;
    machine.bf16[SW_GEMM_PLAIN] = 3e10, machine.bf16[SW_GEMM_BLAS] = 1e10;
    write_machine(&machine);
    sw_gemm_choose(machine.set, SW_NUMBERS_F32, false, &choice);
    assert_int_equal(choice.kind, SW_GEMM_BLAS);
    assert_non_null(strstr(choice.reason, "90 GFLOP/s"));
    sw_gemm_choose(machine.set, SW_NUMBERS_BF16, false, &choice);
    assert_int_equal(choice.kind, SW_GEMM_PLAIN);
    machine.set = SW_SET_BASELINE; /* which has no tuned products, whatever a file claims */
    machine.fp32[SW_GEMM_OWN] = machine.fp32[SW_GEMM_OWN_BF16] = 1e15;
    assert_true(sw_gemm_choose_by(&machine, SW_NUMBERS_F32, &choice));
    assert_int_equal(choice.kind, SW_GEMM_BLAS);
}

static void a_file_of_another_machine_or_version_is_not_believed(void **state) {
    (void)state;
    for (int other = 0; other < 4; other++) {
        sw_machine machine = this_machine();
        sw_gemm_choice choice;
        machine.fp32[SW_GEMM_PLAIN] = 1e12;
        if (other == 1)
            machine.cpu[0] = '_';
        if (other == 2)
            machine.version[0] = '_';
        if (other == 3)
            machine.set = machine.set == SW_SET_BASELINE ? SW_SET_V4 : SW_SET_BASELINE;
        write_machine(&machine);
        sw_gemm_choose(sw_kernel_set_best(), SW_NUMBERS_F32, false, &choice);
        assert_int_equal(choice.kind == SW_GEMM_PLAIN, other == 0);
        assert_true(sw_gemm_runs_here(choice.kind, sw_kernel_set_best()));
    }
}

/* Without a file the choice can run, and is the same for fp32 each time; a broken one is as
 * none. */
static void without_a_usable_file_the_cpu_decides(void **state) {
    (void)state;
    for (int broken = 0; broken < 2; broken++) {
        unlink(path);
        FILE *file = broken ? fopen(path, "w") : NULL;
        if (file) {
            fputs("{\"format\": 1", file);
            fclose(file);
        }
        for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++) {
            sw_gemm_choice choice;
            sw_gemm_choose(sw_kernel_set_best(), (sw_number_kind)numbers, false, &choice);
            assert_true(sw_gemm_runs_here(choice.kind, sw_kernel_set_best()));
            assert_true(choice.reason[0]);
            if (numbers == SW_NUMBERS_F32 && sw_kernel_set_best() != SW_SET_BASELINE)
                assert_int_equal(choice.kind, SW_GEMM_OWN);
        }
    }
}

static void what_is_written_is_read(void **state) {
    (void)state;
    sw_machine machine = this_machine(), got;
    sw_error err = {0};
    for (int i = 0; i < SW_N_ROOFS; i++)
        machine.roof[i] = 1e9 * (i + 1);
    for (int i = 0; i < SW_N_GEMM_KINDS; i++)
        machine.fp32[i] = 2e9 * i, machine.bf16[i] = i == 1 ? 0 : 3e9;
    write_machine(&machine);
    assert_int_equal(sw_machine_read(path, &got, &err), SW_OK);
    assert_true(sw_machine_is_this(&got, machine.set));
    assert_memory_equal(got.roof, machine.roof, sizeof got.roof);
    assert_memory_equal(got.fp32, machine.fp32, sizeof got.fp32);
    assert_memory_equal(got.bf16, machine.bf16, sizeof got.bf16);
}

static void bad_files_are_named(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"{\"format\": 2, \"cpu\": \"x\"}", "format 2"},
        {"{\"format\": 1, \"cpu\": 3}", "cpu"},
        {"{\"format\": 1, \"cpu\": \"x\", \"version\": \"1\", \"kernel_set\": \"x86-64-v9\"}",
         "x86-64-v9"},
        {"{\"format\": 1, \"cpu\": \"x\", \"version\": \"1\", \"kernel_set\": \"baseline\", "
         "\"roofs\": {\"fp32, 128 bits\": -1}}",
         "fp32, 128 bits"},
        {"{\"format\": 1, \"cpu\": \"x\", \"version\": \"1\", \"kernel_set\": \"baseline\", "
         "\"roofs\": {}, \"products_of_fp32\": "
         "{\"own\": "
         "1e20}}",
         "products_of_fp32.own"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sw_machine machine;
        sw_error err = {0};
        assert_int_equal(
            sw_machine_parse("some.json", bad[i][0], (int64_t)strlen(bad[i][0]), &machine, &err),
            SW_BAD_FILE);
        assert_non_null(strstr(err.message, "some.json"));
        if (!strstr(err.message, bad[i][1]))
            fail_msg("no %s in: %s", bad[i][1], err.message);
    }
}

static void the_cpu_has_a_name_that_json_can_hold(void **state) {
    (void)state;
    char name[SW_CPU_NAME_BYTES], again[SW_CPU_NAME_BYTES];
    sw_cpu_name(name);
    sw_cpu_name(again);
    assert_string_equal(name, again);
#if defined(__x86_64__)
    assert_non_null(strstr(name, " family "));
#else
    assert_true(*name);
#endif
    assert_null(strpbrk(name, "\"\\\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reproducible_runs_choose_by_the_kernel_set_alone),
        cmocka_unit_test(the_machine_file_decides),
        cmocka_unit_test(a_file_of_another_machine_or_version_is_not_believed),
        cmocka_unit_test(without_a_usable_file_the_cpu_decides),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(the_cpu_has_a_name_that_json_can_hold),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
