/* cores.h: the physical cores that this process may use, and which of them a rank's threads
 * take. */
#ifndef SW_DEVICE_CPU_CORES_H
#define SW_DEVICE_CPU_CORES_H

#include <stdbool.h>

enum { SW_MAX_CORES = 1024 };

/* In the machine's order, so that neighbours in the list share caches and memory. */
typedef struct sw_cores {
    int n;       /* that can be kept busy, at least 1 */
    int n_found; /* that the process may run on: more than n where control groups limit how long it
                    may run */
    int cpu[SW_MAX_CORES]; /* [n_found] one hardware thread of each core; hardware threads that
                              share a core count once */
} sw_cores;

/* What the affinity mask and the cpuset of this process allow, asked of hwloc, and as many of them
 * as its control groups let run at a time, part of one counted as one. Starts no thread. Where the
 * machine cannot be read, every allowed hardware thread counts as a core. */
void sw_cores_find(sw_cores *cores);

/* How many processors' time the control groups of this process allow (cpu.max, cpu.cfs_quota_us):
 * 1.5, say. INFINITY without a limit. `root` stands before the names /proc and /sys; "" for this
 * machine, a folder in tests. */
double sw_cores_quota(const char *root);

/* How many those are: threads for work that any number of them may share. At least 1. */
int sw_cores_count(void);

/* Share the cores out among n_ranks ranks of n_threads threads. False when they are too few, or
 * when control groups let fewer run than there are, so that others have the same ones in mind: then
 * nothing should be pinned. Else out: cpus [n_threads], the hardware threads of rank `rank`: each
 * rank has neighbours, and ranks lie as far apart as they can.
 */
bool sw_cores_of_rank(const sw_cores *cores, int n_ranks, int n_threads, int rank, int *cpus);

#endif
