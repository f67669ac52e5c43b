/* Opening the CPU: kernel sets, the choice of the matrix product, and what is known of kernels
 * without running them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cpu/cpu.h"
#include "device/cpu/open.h"

static void every_set_that_runs_here_has_every_kernel(void **state) {
    (void)state;
    assert_true(sw_kernel_set_runs_here(SW_SET_BASELINE));
    assert_true(sw_kernel_set_runs_here(sw_kernel_set_best()));
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        sw_device *device;
        sw_error err;
        const sw_status status =
            sw_cpu_open(&(sw_cpu_options){.set = (sw_kernel_set)set}, &device, &err);
        if (!sw_kernel_set_runs_here((sw_kernel_set)set)) {
            assert_int_equal(status, SW_BAD_CONFIG);
            assert_non_null(strstr(err.message, sw_kernel_set_name((sw_kernel_set)set)));
            assert_null(device);
            continue;
        }
        assert_int_equal(status, SW_OK);
        assert_string_equal(device->name, "cpu");
        assert_string_equal(device->kernel_set, sw_kernel_set_name((sw_kernel_set)set));
        assert_string_equal(device->gemm, "plain");
        assert_string_equal(sw_cpu_gemm_note(device), "");
        for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++)
            for (int kernel = 0; kernel < SW_N_KERNELS; kernel++)
                assert_non_null(
                    sw_device_kernel(device, (sw_number_kind)numbers, (sw_kernel)kernel));
        device->close(device);
    }
    sw_device *device;
    sw_error err;
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.set = SW_N_KERNEL_SETS}, &device, &err),
                     SW_BAD_CONFIG);
}

static int count_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        n += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return n;
}

/* In a child, for the library stays loaded as it was loaded first: 0 as wanted, 77 no BLAS here,
 * else what is wrong. */
static int open_in_child(sw_kernel_set set, const char *core, const char *expected) {
    const pid_t child = fork();
    if (child == 0) {
        sw_device *device;
        unsetenv("OPENBLAS_NUM_THREADS");
        if (core)
            setenv("OPENBLAS_CORETYPE", core, 1);
        else
            unsetenv("OPENBLAS_CORETYPE");
        const char *before = getenv("OPENBLAS_CORETYPE");
        if (sw_cpu_open(&(sw_cpu_options){.set = set, .gemm = SW_GEMM_BLAS}, &device, NULL) !=
            SW_OK)
            _exit(1);
        const char *after = getenv("OPENBLAS_CORETYPE");
        if (getenv("OPENBLAS_NUM_THREADS") || (before == NULL) != (after == NULL) ||
            (before && strcmp(before, after) != 0))
            _exit(2);
        if (count_threads() != 1)
            _exit(3);
        if (strcmp(device->gemm, "plain") == 0)
            _exit(strlen(sw_cpu_gemm_note(device)) ? 77 : 4);
        if (strncmp(device->gemm, "openblas ", 9) != 0 ||
            (expected && !strstr(device->gemm, expected)))
            _exit(5);
        device->close(device);
        _exit(0);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* One thread, the core type of the kernel set, and the environment as it was. */
static void the_blas_is_loaded_with_one_thread_and_the_right_core(void **state) {
    (void)state;
    static const char *const expected[] = {[SW_SET_V3] = "Haswell", [SW_SET_V4] = "SkylakeX"};
    for (sw_kernel_set set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here(set))
            continue;
        const int result = open_in_child(set, NULL, expected[set]);
        if (result == 77)
            skip();
        assert_int_equal(result, 0);
    }
}

static void the_user_s_core_type_is_kept(void **state) {
    (void)state;
    if (sw_kernel_set_best() < SW_SET_V3)
        skip();
    const int result = open_in_child(sw_kernel_set_best(), "Haswell", "Haswell");
    if (result == 77)
        skip();
    assert_int_equal(result, 0);
}

/* A cblas_sgemm that is right but for one thing. */
static int wrong_in;
_Alignas(64) static char workspace[SW_PRODUCT_WORKSPACE];
static void faulty(int order, int a_turned, int b_turned, int m, int n, int k, float alpha,
                   const float *a, int a_stride, const float *b, int b_stride, float beta, float *c,
                   int c_stride) {
    (void)order;
    const sw_product product = {.m = m,
                                .n = n,
                                .k = k,
                                .alpha = (double)alpha,
                                .a = {a, a_stride, a_turned == SW_CBLAS_TURNED, SW_F32},
                                .b = {b, b_stride, b_turned == SW_CBLAS_TURNED, SW_F32},
                                .c = c,
                                .c_stride = c_stride,
                                .c_type = SW_F32,
                                .addend = beta == 0 ? NULL : c,
                                .addend_stride = c_stride,
                                .workspace = workspace};
    sw_kernel_set_table_of(SW_NUMBERS_F32, SW_SET_BASELINE)->multiply_plain(NULL, &product);
    if (wrong_in == 1 && m == 65 && b_turned == SW_CBLAS_TURNED) /* one element of one shape */
        c[(m - 1) * c_stride + n - 1] += 1e-2f;
    if (wrong_in == 2 && beta == 1) /* adds twice */
        for (int i = 0; i < m * n; i++)
            c[i] += c[i] / 1024;
}

static void a_wrong_product_is_named(void **state) {
    (void)state;
    _Alignas(64) static char space[SW_BLAS_CHECK_BYTES];
    const sw_blas blas = {.sgemm = faulty, .name = "openblas 9.9 Faulty"};
    const sw_product_fn plain =
        sw_kernel_set_table_of(SW_NUMBERS_F32, SW_SET_BASELINE)->multiply_plain;
    for (wrong_in = 0; wrong_in < 3; wrong_in++) {
        char note[SW_NOTE_BYTES] = "";
        assert_int_equal(sw_blas_is_right(&blas, plain, space, note), wrong_in == 0);
        assert_int_equal(strlen(note) > 0, wrong_in != 0);
        assert_true(wrong_in == 0 || strstr(note, "openblas 9.9 Faulty"));
    }
}

static void kernels_have_names(void **state) {
    (void)state;
    for (int kernel = 0; kernel < SW_N_KERNELS; kernel++)
        for (int other = 0; other < kernel; other++)
            assert_string_not_equal(sw_kernel_name((sw_kernel)kernel),
                                    sw_kernel_name((sw_kernel)other));
    assert_string_equal(sw_kernel_name(SW_KERNEL_ATTENTION_GRAD), "attention_grad");
}

/* Working space is small beside what the kernels work on: a product's, for each thread, and the
 * kernel's own. */
static void scratch_is_modest(void **state) {
    (void)state;
    const int64_t linear[SW_MAX_DIMENSIONS] = {1024, 576, 0, 1536, 1536},
                  head[SW_MAX_DIMENSIONS] = {1024, 49152, 576, 256};
    const int64_t attention[SW_MAX_DIMENSIONS] = {2, 512, 9, 3, 64, 960, 960};
    const int64_t product = SW_PRODUCT_WORKSPACE;
    assert_in_range(product, 1, 3 << 20);
    assert_int_equal(sw_kernel_scratch_bytes(SW_KERNEL_LINEAR, linear, SW_NUMBERS_F32, 1),
                     product + 3072 * 4);
    assert_int_equal(sw_kernel_scratch_bytes(SW_KERNEL_LINEAR, linear, SW_NUMBERS_BF16, 3),
                     3 * product + 3072 * 4);
    assert_int_equal(
        sw_kernel_scratch_bytes(SW_KERNEL_CROSS_ENTROPY_GRAD, head, SW_NUMBERS_BF16, 1),
        product + 256 * 4);
    assert_in_range(sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION, attention, SW_NUMBERS_F32, 1),
                    product, product + (1 << 20));
    assert_in_range(sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION_GRAD, attention, SW_NUMBERS_F64, 1),
                    product, product + (3 << 20));
    assert_int_equal(sw_kernel_scratch_bytes(SW_KERNEL_ADAMW, linear, SW_NUMBERS_BF16, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_blas_is_loaded_with_one_thread_and_the_right_core),
        cmocka_unit_test(the_user_s_core_type_is_kept),
        cmocka_unit_test(every_set_that_runs_here_has_every_kernel),
        cmocka_unit_test(a_wrong_product_is_named),
        cmocka_unit_test(kernels_have_names),
        cmocka_unit_test(scratch_is_modest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
