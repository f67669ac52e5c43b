/* roof.c: loops of independent multiply-adds. 14 accumulators cover the latency of two units of 4
 * to 6 cycles and leave, of 16 registers, one for the constant and one for a product. Values stay
 * finite and normal (x = x/2 + 1/2, from 1; in bf16 sums of ones) and are looked at in the end, so
 * that the loop is wanted.
 */
#include "device/cpu/roof.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/clock.h"

enum { N_ACCUMULATORS = 14, N_ROUNDS = 4096 };

/* The compiler may not see that the constant is one: else it would compute the loop. */
#if defined(__x86_64__)
#define KEEP(x) __asm__ volatile("" : "+x"(x))
#define KEEP_WIDE(x) __asm__ volatile("" : "+v"(x))
#else
#define KEEP(x) __asm__ volatile("" : "+m"(x))
#endif

typedef float four_floats __attribute__((vector_size(16)));

static float run_fp32_128(void) {
    four_floats x[N_ACCUMULATORS], half = {0.5f, 0.5f, 0.5f, 0.5f}, sum = {0};
    for (int i = 0; i < N_ACCUMULATORS; i++)
        x[i] = (four_floats){1, 1, 1, 1};
    KEEP(half);
    for (int round = 0; round < N_ROUNDS; round++)
#pragma GCC unroll 14
        for (int i = 0; i < N_ACCUMULATORS; i++)
            x[i] = x[i] * half + half;
    for (int i = 0; i < N_ACCUMULATORS; i++)
        sum += x[i];
    return sum[0];
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) static float run_fp32_256(void) {
    __m256 x[N_ACCUMULATORS], half = _mm256_set1_ps(0.5f), sum = _mm256_setzero_ps();
    for (int i = 0; i < N_ACCUMULATORS; i++)
        x[i] = _mm256_set1_ps(1);
    KEEP(half);
    for (int round = 0; round < N_ROUNDS; round++)
#pragma GCC unroll 14
        for (int i = 0; i < N_ACCUMULATORS; i++)
            x[i] = _mm256_fmadd_ps(x[i], half, half);
    for (int i = 0; i < N_ACCUMULATORS; i++)
        sum = _mm256_add_ps(sum, x[i]);
    return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) static float run_fp32_512(void) {
    __m512 x[N_ACCUMULATORS], half = _mm512_set1_ps(0.5f), sum = _mm512_setzero_ps();
    for (int i = 0; i < N_ACCUMULATORS; i++)
        x[i] = _mm512_set1_ps(1);
    KEEP_WIDE(half);
    for (int round = 0; round < N_ROUNDS; round++)
#pragma GCC unroll 14
        for (int i = 0; i < N_ACCUMULATORS; i++)
            x[i] = _mm512_fmadd_ps(x[i], half, half);
    for (int i = 0; i < N_ACCUMULATORS; i++)
        sum = _mm512_add_ps(sum, x[i]);
    return _mm512_cvtss_f32(sum);
}

__attribute__((target("avx512f,avx512bf16"))) static float run_bf16_512(void) {
    __m512 x[N_ACCUMULATORS], sum = _mm512_setzero_ps();
    __m512i ones = _mm512_set1_epi16(0x3F80); /* 1 in bf16 */
    for (int i = 0; i < N_ACCUMULATORS; i++)
        x[i] = _mm512_set1_ps(1);
    KEEP_WIDE(ones);
    for (int round = 0; round < N_ROUNDS; round++)
#pragma GCC unroll 14
        for (int i = 0; i < N_ACCUMULATORS; i++)
            x[i] = _mm512_dpbf16_ps(x[i], (__m512bh)ones, (__m512bh)ones);
    for (int i = 0; i < N_ACCUMULATORS; i++)
        sum = _mm512_add_ps(sum, x[i]);
    return _mm512_cvtss_f32(sum);
}

#define ON_X86_64(run) run
#else
#define ON_X86_64(run) NULL
#endif

static const struct {
    const char *name;
    float (*run)(void);
    int n_operations; /* of one call, per round */
    sw_kernel_set set;
} roofs[SW_N_ROOFS] = {
    [SW_ROOF_FP32_128] = {"fp32, 128 bits", run_fp32_128, N_ACCUMULATORS * 4 * 2, SW_SET_BASELINE},
    [SW_ROOF_FP32_256] = {"fp32, 256 bits", ON_X86_64(run_fp32_256), N_ACCUMULATORS * 8 * 2,
                          SW_SET_V3},
    [SW_ROOF_FP32_512] = {"fp32, 512 bits", ON_X86_64(run_fp32_512), N_ACCUMULATORS * 16 * 2,
                          SW_SET_V4},
    [SW_ROOF_BF16_512] = {"bf16, 512 bits", ON_X86_64(run_bf16_512), N_ACCUMULATORS * 32 * 2,
                          SW_SET_V4},
};

const char *sw_roof_name(sw_roof roof) {
    return roofs[roof].name;
}

sw_roof sw_roof_of_set(sw_kernel_set set) {
    sw_roof roof = SW_ROOF_FP32_128;
    while (roofs[roof].set != set)
        roof++;
    return roof;
}

bool sw_roof_runs_here(sw_roof roof) {
    return roof == SW_ROOF_BF16_512 ? sw_gemm_runs_here(SW_GEMM_OWN_BF16, SW_SET_V4)
                                    : sw_kernel_set_runs_here(roofs[roof].set);
}

double sw_roof_measure(sw_roof roof, double seconds) {
    if (!sw_roof_runs_here(roof))
        return 0;
    volatile float looked_at = roofs[roof].run(); /* wakes the unit up */
    double begin = sw_seconds_of_thread(), now = begin, n_calls = 0;
    while (now - begin < seconds || n_calls < 1) {
        looked_at = roofs[roof].run();
        n_calls++;
        now = sw_seconds_of_thread();
    }
    (void)looked_at;
    return n_calls * N_ROUNDS * roofs[roof].n_operations / (now - begin);
}
