/* resident.h: what a process occupies, and what the machine still has to give, as the kernel tells
 * it.
 *
 * The first is the independent check of planned memory; the second is what a run is refused by.
 * Both read small files of /proc and /sys into buffers on the stack: nothing is allocated.
 */
#ifndef SW_OBSERVE_RESIDENT_H
#define SW_OBSERVE_RESIDENT_H

#include <stdint.h>
#include <sys/types.h>

#include <shardwise/status.h>

typedef struct sw_resident {
    int64_t proportional; /* bytes; each page counted as 1 / (processes that map it). -1: this
                             kernel does not tell */
    int64_t resident;     /* bytes; each page counted in full */
    int64_t peak;         /* bytes; the largest that `resident` ever was */
} sw_resident;

/* Of process `pid`, 0 for the caller. Summed over the ranks of a run, `proportional` counts shared
 * windows once. Errors: SW_BAD_CONFIG when /proc does not tell (no such process, /proc not
 * mounted). */
sw_status sw_resident_read(pid_t pid, sw_resident *resident, sw_error *err);

#define SW_LIMIT_NAME_BYTES 512

typedef struct sw_available_memory {
    int64_t
        bytes; /* that processes started now could still take without swapping or being killed */
    char limit[SW_LIMIT_NAME_BYTES]; /* what binds: "MemAvailable of /proc/meminfo", or the path of
                                        a control group's limit */
} sw_available_memory;

/* The least of MemAvailable and what is left under the limit of every control group (version 1 or
 * 2) that the caller is in. Page cache that a group is charged for does not count as taken: it is
 * given back when memory is short. `root` stands before the names /proc and /sys; "" for this
 * machine, a folder in tests. Errors: SW_BAD_CONFIG when /proc does not tell. */
sw_status sw_available_memory_read(const char *root, sw_available_memory *available, sw_error *err);

#endif
