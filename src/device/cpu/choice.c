/* choice.c: see choice.h. */
#include "device/cpu/choice.h"

#include <stdio.h>

#include "device/cpu/roof.h"

enum { N_ROUNDS = 3 };
static const double seconds_of_round = 0.002;

static void choose(sw_gemm_choice *choice, sw_gemm_kind kind, const char *reason) {
    choice->kind = kind;
    snprintf(choice->reason, sizeof choice->reason, "%s", reason);
}

/* The better of a few short rounds, in turn, so that a neighbour's burst does not decide. */
static void choose_by_roofs(sw_gemm_choice *choice) {
    double fp32 = 0, bf16 = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        const double a = sw_roof_measure(SW_ROOF_FP32_512, seconds_of_round),
                     b = sw_roof_measure(SW_ROOF_BF16_512, seconds_of_round);
        fp32 = a > fp32 ? a : fp32;
        bf16 = b > bf16 ? b : bf16;
    }
    choice->kind = bf16 > fp32 ? SW_GEMM_OWN_BF16 : SW_GEMM_OWN;
    snprintf(choice->reason, sizeof choice->reason, "measured: a core does %.0f GFLOP/s in fp32, %.0f in bf16", fp32 / 1e9,
             bf16 / 1e9);
}

void sw_gemm_choose(sw_kernel_set set, sw_number_kind numbers, bool reproducible, sw_gemm_choice *choice) {
    if (!sw_gemm_runs_here(SW_GEMM_OWN, set))
        choose(choice, reproducible ? SW_GEMM_PLAIN : SW_GEMM_BLAS, "there are no tuned products for this kernel set");
    else if (reproducible)
        choose(choice, SW_GEMM_OWN, "reproducible: by the kernel set alone");
    else if (numbers != SW_NUMBERS_BF16)
        choose(choice, SW_GEMM_OWN, "tuned for this kernel set");
    else if (!sw_gemm_runs_here(SW_GEMM_OWN_BF16, set))
        choose(choice, SW_GEMM_OWN, "this CPU has no dot products of bf16");
    else
        choose_by_roofs(choice);
}
