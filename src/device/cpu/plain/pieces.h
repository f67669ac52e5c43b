/* pieces.h: how the elements and rows of a call are cut into tasks for the threads of a device
 * (device/parallel.h).
 *
 * Cuts are at multiples of a fixed number, so they follow from shapes alone.
 */
#ifndef SW_DEVICE_CPU_PLAIN_PIECES_H
#define SW_DEVICE_CPU_PLAIN_PIECES_H

#include "device/cpu/plain/real.h"
#include "device/parallel.h"

enum {
    PIECE =
        16 *
        1024, /* elements of a task that is one loop: a few microseconds; a multiple of SW_BLOCK */
    PIECE_ROWS = 8,    /* rows of a task that goes row by row */
    PIECE_COLUMNS = 64 /* columns of a task that goes down all rows: whole lines of the cache */
};

typedef struct piece {
    int64_t first, n, end; /* end = first + n */
} piece;

static inline int64_t n_pieces(int64_t n, int64_t size) {
    return (n + size - 1) / size;
}

/* Of n things, those of task `task`, `size` at a time. */
static inline piece piece_of(int64_t task, int64_t size, int64_t n) {
    const int64_t first = task * size, here = smaller(size, n - first);
    return (piece){first, here, first + here};
}

/* fn for every task; it gets the call. */
static inline void run_pieces(const sw_device *device, const sw_kernel_call *call, int64_t n_tasks,
                              sw_task_fn fn) {
    sw_parallel(device, n_tasks, fn, (void *)(uintptr_t)call);
}

#endif
