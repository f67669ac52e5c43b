/* device.h: one small table of slots that a device fills. device/cpu/ is the first; others fill the same slots. */
#ifndef SW_DEVICE_DEVICE_H
#define SW_DEVICE_DEVICE_H

#include <stddef.h>

#include <shardwise/status.h>

#include "device/kernel.h"

/* Which type parameters are gathered in beside which reals: the three columns of the kernel table. */
typedef enum sw_number_kind { SW_NUMBERS_F32, SW_NUMBERS_BF16, SW_NUMBERS_F64, SW_N_NUMBER_KINDS } sw_number_kind;

struct sw_device {
    const char *name;                            /* "cpu" */
    const char *kernel_set;                      /* "baseline", "x86-64-v3", "x86-64-v4": recorded in the run, hashed */
    const char *gemm;                            /* "openblas 0.3.21 SkylakeX" or "plain": recorded in the run, hashed */
    const sw_kernel_fn (*kernels)[SW_N_KERNELS]; /* [SW_N_NUMBER_KINDS][SW_N_KERNELS] */
    int n_threads;                               /* that share the work of a kernel; 1: the caller alone */
    void (*close)(sw_device *device);
};

static inline sw_kernel_fn sw_device_kernel(const sw_device *device, sw_number_kind numbers, sw_kernel kernel) {
    return device->kernels[numbers][kernel];
}

/* ---- device/cpu ---- */

typedef enum sw_kernel_set { SW_SET_BASELINE, SW_SET_V3, SW_SET_V4, SW_N_KERNEL_SETS } sw_kernel_set;

const char *sw_kernel_set_name(sw_kernel_set set);
bool sw_kernel_set_runs_here(sw_kernel_set set);
sw_kernel_set sw_kernel_set_best(void); /* the widest that runs here */

/* Open the CPU with one kernel set. With `use_blas` the BLAS is loaded now (it starts no thread: one is asked for), with the core
 * type derived from CPUID unless OPENBLAS_CORETYPE is set; a few shapes are compared with the plain kernel, and on a difference,
 * or where no BLAS is found, the plain kernel does the work; `device->gemm` says which and sw_cpu_gemm_note why. Call it in each
 * rank, after ranks exist. Ownership: free with device->close. */
sw_status sw_cpu_open(sw_kernel_set set, bool use_blas, sw_device **device, sw_error *err);
const char *sw_cpu_gemm_note(const sw_device *device); /* one line for `doctor`, "" when all is well */

#endif
