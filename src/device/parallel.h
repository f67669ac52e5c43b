/* parallel.h: one call, many tasks, all threads of a device.
 *
 * Which worker runs a task is not fixed, so no result may depend on it: the cut into tasks follows
 * from shapes alone, never from the number of threads, and each element of a result is written by
 * one task. Then the bits are the same for any number.
 */
#ifndef SW_DEVICE_PARALLEL_H
#define SW_DEVICE_PARALLEL_H

#include "device/device.h"

/* `worker`, 0 .. device->n_threads - 1, picks part of the call's working space: no two tasks with
 * the same number run at once. */
typedef void (*sw_task_fn)(void *arg, int64_t task, int worker);

/* Run tasks 0 .. n_tasks - 1 and return when all are done; what they wrote is then seen by the
 * caller. The caller is one of the workers, and nothing is allocated. A call from within a task, or
 * while another thread's call runs on the same device, runs serially on its caller, as worker 0 of
 * its own working space. */
void sw_parallel(const sw_device *device, int64_t n_tasks, sw_task_fn fn, void *arg);

#endif
