/* roof.h: the most arithmetic that a core does: independent multiply-adds on registers and nothing
 * else.
 *
 * What kernels are held against. It moves with the clock and the neighbours, so it is measured in
 * the run that it judges.
 */
#ifndef SW_DEVICE_CPU_ROOF_H
#define SW_DEVICE_CPU_ROOF_H

#include "device/cpu/open.h"

typedef enum sw_roof {
    SW_ROOF_FP32_128, /* a product and a sum, 4 floats: the baseline set */
    SW_ROOF_FP32_256, /* fused, 8 floats (FMA) */
    SW_ROOF_FP32_512, /* fused, 16 floats (AVX-512) */
    SW_ROOF_BF16_512, /* vdpbf16ps: 32 products of bf16 added to 16 floats */
    SW_N_ROOFS
} sw_roof;

const char *sw_roof_name(sw_roof roof);    /* "fp32, 512 bits" */
sw_roof sw_roof_of_set(sw_kernel_set set); /* multiply-adds of fp32 as wide as the set's */
bool sw_roof_runs_here(sw_roof roof);

/* Operations per second (a product and a sum are two) of the calling thread, over about `seconds`
 * of its own time; 0 where it does not run. */
double sw_roof_measure(sw_roof roof, double seconds);

#endif
