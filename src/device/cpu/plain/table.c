/* table.c: the one symbol that a compiled set exports to the device. */
#include "device/cpu/plain/real.h"

#define ENTRY(NAME, text) [SW_KERNEL_##NAME] = SW_LOCAL(NAME),
const sw_kernel_set_table SW_LOCAL(table) = {
    .kernel = {SW_KERNELS(ENTRY)},
#ifdef SW_KIND_f64
    .plain_dgemm = SW_LOCAL(gemm_plain),
#else
    .plain_sgemm = SW_LOCAL(gemm_plain),
#endif
};
