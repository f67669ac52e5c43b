/* device.h: one small table of slots that a device fills. device/cpu/ is the first; others fill the
 * same slots. */
#ifndef SW_DEVICE_DEVICE_H
#define SW_DEVICE_DEVICE_H

#include <stddef.h>

#include <shardwise/status.h>

#include "device/kernel.h"

struct sw_device {
    const char *name;       /* "cpu" */
    const char *kernel_set; /* "baseline", "x86-64-v3", "x86-64-v4": recorded in the run, hashed */
    const char *gemm;       /* "openblas 0.3.21 SkylakeX" or "plain": recorded in the run, hashed */
    const sw_kernel_fn (*kernels)[SW_N_KERNELS]; /* [SW_N_NUMBER_KINDS][SW_N_KERNELS] */
    int n_threads;              /* that work on one call, its caller included (device/parallel.h) */
    struct sw_threads *threads; /* NULL: the caller alone */
    const sw_device
        *alone; /* the same device with one thread: for a lane beside the computing one */

    /* Memory. Addresses are told apart by nobody: arithmetic on them is the executor's, what lies
     * there is read and written by kernels and by these alone, unless is_host. A transport's
     * windows are the host's, and what each device reaches. */
    bool is_host; /* its memory is the host's own: whoever has an address may use it, and nothing
                     need be copied */
    /* Bytes that are zero, at a multiple of a page. is_filled: all of them will be used. NULL, with
     * errno: there is none. */
    void *(*take)(const sw_device *device, int64_t bytes, bool is_filled);
    void (*give)(const sw_device *device, void *memory, int64_t bytes);
    void (*copy)(const sw_device *device, void *to, const void *from,
                 int64_t bytes); /* either may be the host's */

    void (*unpin)(const sw_device *device); /* let the calling thread run wherever the process could
                                               before it was pinned */
    void (*close)(sw_device *device);
};

static inline sw_kernel_fn sw_device_kernel(const sw_device *device, sw_number_kind numbers,
                                            sw_kernel kernel) {
    return device->kernels[numbers][kernel];
}

#endif
