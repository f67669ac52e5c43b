/* table.c: the one symbol that a compiled set exports to the device. */
#include "device/cpu/open.h"
#include "device/cpu/plain/real.h"

#define ENTRY(NAME, ...) [SW_KERNEL_##NAME] = SW_LOCAL(NAME),
const sw_kernel_set_table SW_LOCAL(table) = {
    .kernel = {SW_KERNELS(ENTRY, ENTRY)},
#ifndef SW_KIND_bf16
    .multiply_plain = SW_LOCAL(multiply_plain),
#endif
};
