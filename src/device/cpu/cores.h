/* cores.h: the physical cores that this process may use, and which of them a rank's threads take. */
#ifndef SW_DEVICE_CPU_CORES_H
#define SW_DEVICE_CPU_CORES_H

#include <stdbool.h>

enum { SW_MAX_CORES = 1024 };

/* In the machine's order, so that neighbours in the list share caches and memory. */
typedef struct sw_cores {
    int n;                 /* at least 1 */
    int cpu[SW_MAX_CORES]; /* one hardware thread of each core; hardware threads that share a core count once */
} sw_cores;

/* What the affinity mask and the cpuset of this process allow, asked of hwloc. Starts no thread. Where the machine cannot be
 * read, every allowed hardware thread counts as a core. */
void sw_cores_find(sw_cores *cores);

/* How many those are: threads for work that any number of them may share. At least 1. */
int sw_cores_count(void);

/* Share the cores out among n_ranks ranks of n_threads threads. False when they are too few: then nothing should be pinned. Else
 * out: cpus [n_threads], the hardware threads of rank `rank`: each rank has neighbours, and ranks lie as far apart as they can.
 */
bool sw_cores_of_rank(const sw_cores *cores, int n_ranks, int n_threads, int rank, int *cpus);

#endif
