/* attention_rate.c: how fast attention computes, forward and backward, beside the FMA roof of the same core sampled around it.
 *
 *     attention_rate [KIND [T H K D [B [TIMES]]]]       KIND: f32 or bf16
 *
 * Useful operations are 2 products forward and 4 backward over the visible pairs (B H D T (T+1) / 2 each, times 2): backward
 * computes the scores again, a fifth product, which does not count.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <immintrin.h>

#include "device/device.h"

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(int n, double *x) {
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

enum { ROOF_STEPS = 400000, SUMS = 16 };

#define ROOF(name, features, vector, floats, set1, fma)                        \
    __attribute__((target(features))) static double name(void) {               \
        vector sum[SUMS], x = set1(1.0f), y = set1(1e-9f);                      \
        for (int i = 0; i < SUMS; i++)                                         \
            sum[i] = set1((float)i);                                           \
        double begin = seconds_now();                                          \
        for (int k = 0; k < ROOF_STEPS; k++) {                                 \
            _Pragma("GCC unroll 16") for (int i = 0; i < SUMS; i++) sum[i] = fma(x, y, sum[i]); \
            __asm__ volatile("" : "+v"(x));                                    \
        }                                                                      \
        for (int i = 0; i < SUMS; i++)                                         \
            __asm__ volatile("" : : "v"(sum[i]));                              \
        return 2.0 * floats * SUMS * ROOF_STEPS / (seconds_now() - begin);     \
    }
ROOF(roof_512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps)
ROOF(roof_256, "avx2,fma,avx512f,avx512vl", __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps)

int main(int n, char **argument) {
    const sw_number_kind numbers = n > 1 && !strcmp(argument[1], "bf16") ? SW_NUMBERS_BF16 : SW_NUMBERS_F32;
    const int64_t T = n > 2 ? atoll(argument[2]) : 512, H = n > 3 ? atoll(argument[3]) : 9, K = n > 4 ? atoll(argument[4]) : 3,
                  D = n > 5 ? atoll(argument[5]) : 64, B = n > 6 ? atoll(argument[6]) : 2;
    const int times = n > 7 ? atoi(argument[7]) : 9;
    const int set = n > 8 ? atoi(argument[8]) : SW_SET_V4;
    const size_t real = numbers == SW_NUMBERS_BF16 ? 2 : 4;
    (void)real;
    sw_device *device;
    sw_error err;
    if (sw_cpu_open(&(sw_cpu_options){.set = set}, &device, &err))
        return 1;
    const int64_t width = (H + 2 * K) * D;
    const size_t packed = (size_t)(B * T * width), dense = (size_t)(B * T * H * D);
    float *qkv = malloc(4 * packed), *dqkv = malloc(4 * packed), *out = malloc(4 * dense), *dout = malloc(4 * dense),
          *log_sum = malloc(4 * (size_t)(B * H * T));
    for (size_t i = 0; i < packed; i++)
        qkv[i] = (float)sin((double)i * 1.7), dqkv[i] = 0;
    for (size_t i = 0; i < dense; i++)
        dout[i] = (float)cos((double)i * 1.3), out[i] = 0;
#ifdef BF16_ACTIVATIONS
    if (numbers == SW_NUMBERS_BF16) {
        for (size_t i = 0; i < packed; i++)
            ((uint16_t *)qkv)[i] = (uint16_t)(sw_float_bits((float)sin((double)i * 1.7)) >> 16);
        for (size_t i = 0; i < dense; i++)
            ((uint16_t *)dout)[i] = (uint16_t)(sw_float_bits((float)cos((double)i * 1.3)) >> 16);
    }
    #define AT(p, offset) ((char *)(p) + (offset) * (int64_t)real)
#else
    #define AT(p, offset) ((p) + (offset))
#endif
    sw_kernel_call forward = {.operand = {qkv, AT(qkv, H * D), AT(qkv, (H + K) * D), out, log_sum, NULL},
                              .dim = {B, T, H, K, D, width, width, 0},
                              .attribute = {1 / sqrt((double)D)}};
    sw_kernel_call backward = {.operand = {dout, qkv, AT(qkv, H * D), AT(qkv, (H + K) * D), out, log_sum, dqkv, AT(dqkv, H * D),
                                           AT(dqkv, (H + K) * D), NULL},
                               .dim = {B, T, H, K, D, width, width, 0},
                               .attribute = {1 / sqrt((double)D)}};
    forward.scratch = aligned_alloc(64, (size_t)sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION, forward.dim, numbers, 1));
    backward.scratch = aligned_alloc(64, (size_t)sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION_GRAD, forward.dim, numbers, 1));
    double roofs[64], f[64], b[64], all[64];
    sw_kernel_fn forward_fn = sw_device_kernel(device, numbers, SW_KERNEL_ATTENTION), backward_fn = sw_device_kernel(device, numbers, SW_KERNEL_ATTENTION_GRAD);
#ifdef DOT
    extern void sw_ATTENTION_bf16_v4_dot(const sw_device *, const sw_kernel_call *), sw_ATTENTION_GRAD_bf16_v4_dot(const sw_device *, const sw_kernel_call *);
    if (numbers == SW_NUMBERS_BF16) forward_fn = sw_ATTENTION_bf16_v4_dot, backward_fn = sw_ATTENTION_GRAD_bf16_v4_dot;
#endif
    double best_roof = 0, best_f = 0, best_b = 0;
    const double product = (double)(B * H * D) * (double)T * (double)(T + 1);
    for (int i = 0; i < times; i++) {
        double roof = set == SW_SET_V4 ? roof_512() : roof_256(), begin = seconds_now();
        forward_fn(device, &forward);
        double middle = seconds_now();
        backward_fn(device, &backward);
        double end = seconds_now();
        double after = set == SW_SET_V4 ? roof_512() : roof_256();
        roof = fmin(roof, after) ;
        roofs[i] = roof, f[i] = 2 * product / (middle - begin) / roof, b[i] = 4 * product / (end - middle) / roof,
        all[i] = 6 * product / (end - begin) / roof;
        best_roof = fmax(best_roof, fmax(roof, after)), best_f = fmax(best_f, 2 * product / (middle - begin)), best_b = fmax(best_b, 4 * product / (end - middle));
    }
    printf("%s T %ld H %ld K %ld D %ld: roof %.1f GFLOP/s, forward %.2f, backward %.2f, together %.2f of it; best: roof %.1f fwd %.1f bwd %.1f = %.2f %.2f\n",
           numbers == SW_NUMBERS_BF16 ? "bf16" : "f32", (long)T, (long)H, (long)K, (long)D, median(times, roofs) * 1e-9,
           median(times, f), median(times, b), median(times, all), best_roof*1e-9, best_f*1e-9, best_b*1e-9, best_f/best_roof, best_b/best_roof);
    return 0;
}
