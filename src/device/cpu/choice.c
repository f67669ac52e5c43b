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
        const double of_fp32 = sw_roof_measure(SW_ROOF_FP32_512, seconds_of_round);
        const double of_bf16 = sw_roof_measure(SW_ROOF_BF16_512, seconds_of_round);
        fp32 = of_fp32 > fp32 ? of_fp32 : fp32;
        bf16 = of_bf16 > bf16 ? of_bf16 : bf16;
    }
    choice->kind = bf16 > fp32 ? SW_GEMM_OWN_BF16 : SW_GEMM_OWN;
    snprintf(choice->reason, sizeof choice->reason,
             "measured: a core does %.0f GFLOP/s in fp32, %.0f in dot products of bf16", fp32 / 1e9,
             bf16 / 1e9);
}

bool sw_gemm_choose_by(const sw_machine *machine, sw_number_kind numbers, sw_gemm_choice *choice) {
    const double *rates = numbers == SW_NUMBERS_BF16 ? machine->bf16 : machine->fp32;
    int best = -1;
    for (int kind = 0; kind < SW_N_GEMM_KINDS; kind++)
        if (rates[kind] > 0 && sw_gemm_runs_here((sw_gemm_kind)kind, machine->set) &&
            (best < 0 || rates[kind] > rates[best]))
            best = kind;
    if (best < 0)
        return false;
    choice->kind = (sw_gemm_kind)best;
    snprintf(choice->reason, sizeof choice->reason,
             "machine file: the fastest of what was measured, %.0f GFLOP/s a core",
             rates[best] / 1e9);
    return true;
}

static bool choose_by_machine_file(sw_kernel_set set, sw_number_kind numbers,
                                   sw_gemm_choice *choice) {
    char path[SW_PATH_BYTES];
    sw_machine machine;
    return !sw_machine_path(path, NULL) && sw_file_exists(path) &&
           !sw_machine_read(path, &machine, NULL) && sw_machine_is_this(&machine, set) &&
           sw_gemm_choose_by(&machine, numbers, choice);
}

void sw_gemm_choose(sw_kernel_set set, sw_number_kind numbers, bool reproducible,
                    sw_gemm_choice *choice) {
    const bool is_tuned = sw_gemm_runs_here(SW_GEMM_OWN, set);
    if (reproducible)
        choose(choice, is_tuned ? SW_GEMM_OWN : SW_GEMM_PLAIN,
               "reproducible: by the kernel set alone");
    else if (choose_by_machine_file(set, numbers, choice))
        return;
    else if (!is_tuned)
        choose(choice, SW_GEMM_BLAS, "there are no tuned products for this kernel set");
    else if (numbers != SW_NUMBERS_BF16)
        choose(choice, SW_GEMM_OWN, "tuned for this kernel set");
    else if (!sw_gemm_runs_here(SW_GEMM_OWN_BF16, set))
        choose(choice, SW_GEMM_OWN,
               "tuned for this kernel set; this CPU has no dot products of bf16");
    else
        choose_by_roofs(choice);
}
