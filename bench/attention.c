/* attention.c: how fast attention computes beside the roof of the core it runs on. Built and run by
 * bench/attention.
 *
 * One row of a table for each shape and kind of numbers: the kernels of the widest set, one thread,
 * q, k and v packed in one array, the median of some repetitions. The roof of fp32 multiply-adds is
 * sampled right before each. Time is the thread's own on the CPU, so that what else the machine
 * does counts little.
 *
 * Useful operations are 2 products forward and 4 backward over the visible pairs, 2 B H D T (T+1) /
 * 2 each. What backward computes again, the scores, does not count.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device/cpu/roof.h"
#include "device/device.h"

enum { REPETITIONS = 9 };

typedef struct shape {
    int64_t B, T, H, K, D;
} shape;

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double x[REPETITIONS]) {
    qsort(x, REPETITIONS, sizeof *x, by_size);
    return x[REPETITIONS / 2];
}

/* Operations per second of the thread's own time. */
static double sample_roof(void) {
    return sw_roof_measure(
        sw_roof_runs_here(SW_ROOF_FP32_512) ? SW_ROOF_FP32_512 : SW_ROOF_FP32_256, 0.005);
}

static double seconds_of_call(const sw_device *device, sw_number_kind numbers, sw_kernel kernel,
                              const sw_kernel_call *call) {
    const double begin = sw_seconds_of_thread();
    sw_device_kernel(device, numbers, kernel)(device, call);
    return sw_seconds_of_thread() - begin;
}

/* n numbers of -1 .. 1 */
static void *waves(int64_t n, sw_dtype type, double step) {
    char *array = aligned_alloc(64, (size_t)(n * sw_dtype_bytes(type) + 63) / 64 * 64);
    for (int64_t i = 0; i < n && array; i++) {
        const float x = (float)sin((double)i * step);
        if (type == SW_BF16)
            ((uint16_t *)(void *)array)[i] = sw_float_to_bf16(x);
        else
            ((float *)(void *)array)[i] = x;
    }
    return array;
}

/* Prints a row; returns false without memory. */
static bool measure(const sw_device *device, sw_number_kind numbers, const shape *s) {
    const sw_dtype type = sw_activation_type(numbers);
    const int64_t width = (s->H + 2 * s->K) * s->D, tokens = s->B * s->T,
                  bytes = sw_dtype_bytes(type);
    char *qkv = waves(tokens * width, type, 1.7), *dqkv = waves(tokens * width, type, 0),
         *out = waves(tokens * s->H * s->D, type, 0),
         *dout = waves(tokens * s->H * s->D, type, 1.3),
         *log_sum = waves(s->B * s->H * s->T, SW_F32, 0);
    const int64_t k = s->H * s->D * bytes, v = (s->H + s->K) * s->D * bytes;
    sw_kernel_call forward = {.operand = {qkv, qkv + k, qkv + v, out, log_sum},
                              .dim = {s->B, s->T, s->H, s->K, s->D, width, width},
                              .attribute = {1 / sqrt((double)s->D)}};
    sw_kernel_call backward = forward;
    void *const operands[] = {dout,    qkv,  qkv + k,  qkv + v,  out,
                              log_sum, dqkv, dqkv + k, dqkv + v, NULL};
    for (int i = 0; i < 10; i++)
        backward.operand[i] = operands[i];
    forward.scratch = aligned_alloc(
        64, (size_t)sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION, forward.dim, numbers, 1));
    backward.scratch = aligned_alloc(
        64, (size_t)sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION_GRAD, forward.dim, numbers, 1));
    const bool has_memory =
        qkv && dqkv && out && dout && log_sum && forward.scratch && backward.scratch;
    if (has_memory) {
        const double product = (double)(s->B * s->H * s->D) * (double)s->T * (double)(s->T + 1);
        double of_roof[3][REPETITIONS], seconds[REPETITIONS];
        for (int i = -1; i < REPETITIONS; i++) { /* the first touches memory */
            const double roof = sample_roof(),
                         a = seconds_of_call(device, numbers, SW_KERNEL_ATTENTION, &forward),
                         b = seconds_of_call(device, numbers, SW_KERNEL_ATTENTION_GRAD, &backward);
            if (i < 0)
                continue;
            of_roof[0][i] = 2 * product / a / roof, of_roof[1][i] = 4 * product / b / roof;
            of_roof[2][i] = 6 * product / (a + b) / roof, seconds[i] = a + b;
        }
        printf("| %s | %ld | %ld/%ld | %ld | %.2f | %.2f | %.2f | %.1f |\n",
               numbers == SW_NUMBERS_BF16 ? "bf16" : "fp32", (long)s->T, (long)s->H, (long)s->K,
               (long)s->D, median(of_roof[0]), median(of_roof[1]), median(of_roof[2]),
               median(seconds) * 1e6 / (double)tokens);
    }
    free(qkv), free(dqkv), free(out), free(dout), free(log_sum), free(forward.scratch),
        free(backward.scratch);
    return has_memory;
}

int main(void) {
    static const shape shapes[] = {
        {2, 512, 9, 3, 64},   {1, 1024, 9, 3, 64},   {1, 2048, 9, 3, 64},  {1, 4096, 9, 3, 64},
        {2, 512, 12, 12, 64}, {1, 1024, 12, 12, 64}, {1, 1024, 8, 2, 128}, {2, 512, 6, 6, 80}};
    const sw_kernel_set set = sw_kernel_set_best();
    sw_gemm_kind gemm = sw_gemm_runs_here(SW_GEMM_OWN_BF16, set) ? SW_GEMM_OWN_BF16 : SW_GEMM_OWN;
    sw_device *device;
    sw_error err;
    if (!sw_gemm_runs_here(gemm, set))
        gemm = SW_GEMM_PLAIN;
    if (sw_cpu_open(&(sw_cpu_options){.set = set, .gemm = gemm, .n_threads = 1}, &device, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is seen when it is measured, through a pipe too */
    printf("kernel set %s, products by %s\n\n", device->kernel_set, device->gemm);
    printf("| numbers | T | heads | size | forward ÷ roof | backward ÷ roof | together ÷ roof | us "
           "a token "
           "|\n|---|---|---|---|---|---|---|---|\n");
    bool has_memory = true;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes && has_memory; i++)
        has_memory = measure(device, SW_NUMBERS_F32, &shapes[i]) &&
                     measure(device, SW_NUMBERS_BF16, &shapes[i]);
    device->close(device);
    if (!has_memory)
        fprintf(stderr, "no memory for the operands\n");
    return has_memory ? 0 : 1;
}
