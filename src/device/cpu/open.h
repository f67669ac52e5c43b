/* open.h: the CPU as a device: its kernel sets, what multiplies its matrices, and how it is
 * opened. */
#ifndef SW_DEVICE_CPU_OPEN_H
#define SW_DEVICE_CPU_OPEN_H

#include "device/device.h"

typedef enum sw_kernel_set {
    SW_SET_BASELINE,
    SW_SET_V3,
    SW_SET_V4,
    SW_N_KERNEL_SETS
} sw_kernel_set;

const char *sw_kernel_set_name(sw_kernel_set set);
bool sw_kernel_set_runs_here(sw_kernel_set set);
sw_kernel_set sw_kernel_set_best(void); /* the widest that runs here */

/* SW_BAD_CONFIG where it does not run here, with those that do. */
sw_status sw_kernel_set_check(sw_kernel_set set, sw_error *err);

/* What multiplies matrices. Names: "plain", "own", "own-bf16", "blas". */
typedef enum sw_gemm_kind {
    SW_GEMM_PLAIN,    /* the plain kernels */
    SW_GEMM_OWN,      /* the tuned kernels: fused multiply-adds in fp32, bf16 being widened */
    SW_GEMM_OWN_BF16, /* the same, and dot products of bf16 pairs where both operands are bf16; so
                         in attention */
    SW_GEMM_BLAS,     /* OpenBLAS, in fp32 */
    SW_N_GEMM_KINDS
} sw_gemm_kind;

const char *sw_gemm_kind_name(sw_gemm_kind gemm);

/* Has this CPU what `gemm` needs beside the kernel set? A BLAS may be wanted anywhere. */
bool sw_gemm_runs_here(sw_gemm_kind gemm, sw_kernel_set set);

typedef struct sw_cpu_options {
    sw_kernel_set set;
    sw_gemm_kind gemm; /* what multiplies matrices */
    int n_threads;     /* 1 .. SW_MAX_THREADS; 0 is 1 */
    bool may_spin; /* threads of all ranks together have cores of their own: wait by looking, for a
                      while */
    const int
        *cpus; /* [n_threads] hardware threads to pin to, the caller first; NULL: none is pinned */
} sw_cpu_options;

#define SW_MAX_THREADS 256

/* Open the CPU. What multiplies must be able to run here. With SW_GEMM_BLAS the BLAS is loaded now
 * (it starts no thread: one is asked for), with the core type derived from CPUID unless
 * OPENBLAS_CORETYPE is set; a few shapes are compared with the plain kernel, and on a difference,
 * or where no BLAS is found, the plain kernel does the work; `device->gemm` says which and
 * sw_cpu_gemm_note why. Call it in each rank, after ranks exist: n_threads - 1 threads are started.
 * Ownership: free with device->close, on the thread that opened: it is unpinned. Errors:
 * SW_BAD_CONFIG, SW_NO_MEMORY. */
sw_status sw_cpu_open(const sw_cpu_options *options, sw_device **device, sw_error *err);
const char *
sw_cpu_gemm_note(const sw_device *device); /* one line for `doctor`, "" when all is well */

#endif
