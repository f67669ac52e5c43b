/* threads.h: the workers of one CPU device, which sleep between calls of sw_parallel. */
#ifndef SW_DEVICE_CPU_THREADS_H
#define SW_DEVICE_CPU_THREADS_H

#include <stdbool.h>

#include <shardwise/status.h>

typedef struct sw_threads sw_threads;

enum {
    SW_THREAD_STACK_BYTES = 256 << 10
}; /* of each worker: kernels keep what is large in their working space */

/* Start n_threads - 1 workers beside the caller, named shardwise-1 and so on. `may_spin`: every
 * thread has a core, so a worker looks for the next call for a while before it sleeps. cpus
 * [n_threads]: hardware threads to pin to, the caller's first, who pins itself; NULL: none. Errors:
 * SW_NO_MEMORY, when the system allows no more threads. */
sw_status sw_threads_start(int n_threads, bool may_spin, const int *cpus, sw_threads **threads,
                           sw_error *err);
void sw_threads_stop(sw_threads *threads); /* NULL: nothing */

#endif
