/* choice.h: who multiplies matrices in a run. One choice for all ranks, made before they exist; it
 * is recorded, and ranks compare it before the first step.
 */
#ifndef SW_DEVICE_CPU_CHOICE_H
#define SW_DEVICE_CPU_CHOICE_H

#include "device/cpu/machine.h"
#include "device/cpu/open.h"

typedef struct sw_gemm_choice {
    sw_gemm_kind kind;
    char reason[200]; /* one line */
} sw_gemm_choice;

/* What is fast here for operands of `numbers`: what the machine file says; without one that is of
 * this machine, what follows from the arithmetic, of which fused multiply-adds and dot products of
 * bf16 are measured for some ten milliseconds, for CPUs differ in which of the two is faster. A
 * BLAS is chosen only by a machine file, or where there are no tuned products. With `reproducible`
 * nothing is measured: the kernel set alone decides, and so any machine that has it decides the
 * same. */
void sw_gemm_choose(sw_kernel_set set, sw_number_kind numbers, bool reproducible,
                    sw_gemm_choice *choice);

/* The same by a machine file that is of this machine. False: it does not say. */
bool sw_gemm_choose_by(const sw_machine *machine, sw_number_kind numbers, sw_gemm_choice *choice);

#endif
