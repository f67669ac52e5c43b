/* cpu.c: opening the CPU: three tables of kernels, and a matrix product that has been tried. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const sw_kernel_set_table *sw_kernel_set_table_of(sw_number_kind numbers, sw_kernel_set set) {
    static const sw_kernel_set_table *const tables[SW_N_NUMBER_KINDS][SW_N_KERNEL_SETS] = {
        {&sw_table_f32_baseline, &sw_table_f32_v3, &sw_table_f32_v4},
        {&sw_table_bf16_baseline, &sw_table_bf16_v3, &sw_table_bf16_v4},
        {&sw_table_f64_baseline, &sw_table_f64_v3, &sw_table_f64_v4},
    };
    return tables[numbers][set];
}

/* Small numbers with few bits whose products and sums are exact in float in any order: equal must mean equal. */
static void fill(int64_t n, uint32_t seed, float *x) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int)(seed >> 28) - 8) * 0.25f;
    }
}

/* Does the BLAS give what the plain kernel gives for one shape? The shapes end inside tiles of any size. */
static bool agrees(sw_cblas_sgemm_fn sgemm, sw_sgemm_fn plain, bool a_turned, bool b_turned, int m, int n, int k, float beta,
                   float *space) {
    float *a = space, *b = a + m * k, *expected = b + k * n, *got = expected + m * n;
    const int a_stride = a_turned ? m : k, b_stride = b_turned ? k : n;
    fill((int64_t)m * k, 1, a);
    fill((int64_t)k * n, 2, b);
    fill((int64_t)m * n, 3, expected);
    memcpy(got, expected, sizeof(float) * (size_t)m * (size_t)n);
    plain(a_turned, b_turned, m, n, k, 0.5f, a, a_stride, b, b_stride, beta, expected, n);
    sgemm(SW_CBLAS_ROW_MAJOR, a_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES, b_turned ? SW_CBLAS_TURNED : SW_CBLAS_AS_IT_LIES,
          m, n, k, 0.5f, a, a_stride, b, b_stride, beta, got, n);
    for (int i = 0; i < m * n; i++)
        if (!(fabsf(got[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i]))))
            return false;
    return true;
}

/* Compare the BLAS with the plain kernel on shapes that are odd in every direction; false leaves the first difference in `note`.
 */
static bool blas_is_right(const sw_blas *blas, sw_sgemm_fn plain, float *space, size_t note_bytes, char *note) {
    static const int shapes[][3] = {{1, 1, 1}, {7, 33, 5}, {65, 17, 130}, {64, 96, 64}, {130, 131, 67}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int way = 0; way < 8; way++) {
            const bool a_turned = way & 1, b_turned = way & 2;
            const int m = shapes[i][0], n = shapes[i][1], k = shapes[i][2], beta = way >> 2;
            if (!agrees(blas->sgemm, plain, a_turned, b_turned, m, n, k, (float)beta, space)) {
                snprintf(note, note_bytes,
                         "%s gives a wrong product [%d,%d]%s x [%d,%d]%s, beta %d: the plain kernel multiplies, several times "
                         "slower; another "
                         "OPENBLAS_CORETYPE may be right",
                         blas->name, m, k, a_turned ? " turned" : "", k, n, b_turned ? " turned" : "", beta);
                return false;
            }
        }
    return true;
}

static sw_status choose_gemm(sw_cpu_device *cpu, sw_sgemm_fn plain, sw_error *err) {
    enum { MOST = 131 };
    sw_blas blas;
    sw_blas_load(&blas);
    memcpy(cpu->note, blas.note, sizeof cpu->note);
    if (!blas.sgemm)
        return SW_OK;
    float *space = malloc(sizeof *space * 4 * MOST * MOST);
    if (!space)
        return sw_fail(err, SW_NO_MEMORY, "opening the CPU: no memory to try the BLAS (%zu bytes)",
                       sizeof *space * 4 * MOST * MOST);
    if (blas_is_right(&blas, plain, space, sizeof cpu->note, cpu->note)) {
        cpu->sgemm = blas.sgemm;
        memcpy(cpu->gemm, blas.name, sizeof cpu->gemm);
    }
    free(space);
    return SW_OK;
}

static void close_cpu(sw_device *device) {
    free(device);
}

sw_status sw_cpu_open(sw_kernel_set set, bool use_blas, sw_device **device, sw_error *err) {
    *device = NULL;
    if ((unsigned)set >= SW_N_KERNEL_SETS || !sw_kernel_set_runs_here(set))
        return sw_fail(err, SW_BAD_CONFIG, "this CPU cannot run the kernel set %s; the widest it runs is %s",
                       sw_kernel_set_name(set), sw_kernel_set_name(sw_kernel_set_best()));
    sw_cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return sw_fail(err, SW_NO_MEMORY, "opening the CPU: no memory (%zu bytes)", sizeof *cpu);
    for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++)
        memcpy(cpu->kernels[numbers], sw_kernel_set_table_of((sw_number_kind)numbers, set)->kernel, sizeof cpu->kernels[numbers]);
    snprintf(cpu->gemm, sizeof cpu->gemm, "plain");
    cpu->base = (sw_device){
        .name = "cpu",
        .kernel_set = sw_kernel_set_name(set),
        .gemm = cpu->gemm,
        .kernels = (const sw_kernel_fn(*)[SW_N_KERNELS])cpu->kernels,
        .close = close_cpu,
    };
    if (use_blas) {
        sw_status status = choose_gemm(cpu, sw_kernel_set_table_of(SW_NUMBERS_F32, set)->plain_sgemm, err);
        if (status != SW_OK) {
            close_cpu(&cpu->base);
            return status;
        }
    }
    *device = &cpu->base;
    return SW_OK;
}

const char *sw_cpu_gemm_note(const sw_device *device) {
    return ((const sw_cpu_device *)device)->note;
}
