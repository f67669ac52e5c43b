/* kernel.c: names of kernels. */
#include "device/kernel.h"

const char *sw_kernel_name(sw_kernel kernel) {
    static const char *const names[] = {
#define NAME(name, text, ...) text,
        SW_KERNELS(NAME, NAME)
#undef NAME
    };
    return (unsigned)kernel < SW_N_KERNELS ? names[kernel] : "?";
}
