/* choice.h: who multiplies matrices in a run. One choice for all ranks, made before they exist; it is recorded, and ranks compare
 * it before the first step.
 */
#ifndef SW_DEVICE_CPU_CHOICE_H
#define SW_DEVICE_CPU_CHOICE_H

#include "device/device.h"

typedef struct sw_gemm_choice {
    sw_gemm_kind kind;
    char reason[160]; /* one line */
} sw_gemm_choice;

/* By the kernel set alone where the run has to be reproducible on another machine; else by what is fast here for `numbers`:
 * fused multiply-adds and dot products of bf16 differ from CPU to CPU in which is faster. The two are measured, for some ten
 * milliseconds. */
void sw_gemm_choose(sw_kernel_set set, sw_number_kind numbers, bool reproducible, sw_gemm_choice *choice);

#endif
