/* features.c: which kernel sets this CPU and this system can run, by CPUID. CPUs other than x86-64
 * run the baseline, which has nothing to ask for. */
#include <stdio.h>
#include <string.h>

#include "device/cpu/open.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

const char *sw_kernel_set_name(sw_kernel_set set) {
    static const char *const names[] = {
        [SW_SET_BASELINE] = "baseline", [SW_SET_V3] = "x86-64-v3", [SW_SET_V4] = "x86-64-v4"};
    return (unsigned)set < SW_N_KERNEL_SETS ? names[set] : "?";
}

const char *sw_gemm_kind_name(sw_gemm_kind gemm) {
    static const char *const names[] = {[SW_GEMM_PLAIN] = "plain",
                                        [SW_GEMM_OWN] = "own",
                                        [SW_GEMM_OWN_BF16] = "own-bf16",
                                        [SW_GEMM_BLAS] = "blas"};
    return (unsigned)gemm < SW_N_GEMM_KINDS ? names[gemm] : "?";
}

#if defined(__x86_64__)
static bool has(uint32_t bits, uint32_t wanted) {
    return (bits & wanted) == wanted;
}

/* The registers that the system saves on a switch of tasks (XCR0); without them the instructions
 * fault. */
static uint32_t saved_registers(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Of the sets above the baseline. */
static bool has_set(sw_kernel_set set) {
    uint32_t a, b, c1, d, b7, c7, d7, c_extended, b_extended;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) ||
        !__get_cpuid(0x80000001u, &a, &b_extended, &c_extended, &d))
        return false;
    const uint32_t v3_1 = bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C;
    const uint32_t v3_7 = bit_AVX2 | bit_BMI | bit_BMI2;
    const bool v3 = has(c1, v3_1) && has(b7, v3_7) && has(c_extended, 1u << 5 /* LZCNT */) &&
                    has(saved_registers(), 0x06);
    if (set == SW_SET_V3)
        return v3;
    const uint32_t v4_7 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    return set == SW_SET_V4 && v3 && has(b7, v4_7) && has(saved_registers(), 0xe6);
}

static bool has_bf16_dot(void) {
    uint32_t a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && has(a, 1u << 5 /* AVX512_BF16 */);
}
#else
static bool has_set(sw_kernel_set set) {
    (void)set;
    return false;
}

static bool has_bf16_dot(void) {
    return false;
}
#endif

bool sw_kernel_set_runs_here(sw_kernel_set set) {
    return set == SW_SET_BASELINE || has_set(set);
}

sw_kernel_set sw_kernel_set_best(void) {
    sw_kernel_set best = SW_SET_BASELINE;
    for (int set = SW_SET_V3; set < SW_N_KERNEL_SETS; set++)
        if (sw_kernel_set_runs_here((sw_kernel_set)set))
            best = (sw_kernel_set)set;
    return best;
}

sw_status sw_kernel_set_check(sw_kernel_set set, sw_error *err) {
    if ((unsigned)set < SW_N_KERNEL_SETS && sw_kernel_set_runs_here(set))
        return SW_OK;
    char here[64] = "";
    for (sw_kernel_set s = 0; s < SW_N_KERNEL_SETS; s++)
        if (sw_kernel_set_runs_here(s)) {
            size_t n = strlen(here);
            snprintf(here + n, sizeof here - n, "%s%s", n ? ", " : "", sw_kernel_set_name(s));
        }
    return sw_fail(err, SW_BAD_CONFIG, "this CPU cannot run the kernel set %s · it runs %s",
                   sw_kernel_set_name(set), here);
}

bool sw_gemm_runs_here(sw_gemm_kind gemm, sw_kernel_set set) {
    if (!sw_kernel_set_runs_here(set))
        return false;
    switch (gemm) {
    case SW_GEMM_PLAIN:
    case SW_GEMM_BLAS:
        return true;
    case SW_GEMM_OWN:
        return set == SW_SET_V3 || set == SW_SET_V4;
    case SW_GEMM_OWN_BF16:
        return set == SW_SET_V4 && has_bf16_dot();
    default:
        return false;
    }
}
