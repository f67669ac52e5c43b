/* launcher.h: was this process started by mpirun, mpiexec or srun, beside others like it? Each of
 * them says so in the environment, in its own words. docs/design/launchers.md says what is made of
 * it. */
#ifndef SW_LAUNCH_LAUNCHER_H
#define SW_LAUNCH_LAUNCHER_H

#include <stdbool.h>

#include <shardwise/status.h>

enum { SW_JOB_BYTES = 96, SW_LAUNCHER_HOST_BYTES = 64 };

typedef struct sw_launcher {
    const char *name;         /* "mpirun of Open MPI"; NULL: no launcher started this process */
    int rank, size;           /* of all processes that it started */
    int host_rank, host_size; /* of those on this host */
    char host[SW_LAUNCHER_HOST_BYTES];
    const char *mpi;        /* "openmpi" or "mpich": by which hosts talk */
    char job[SW_JOB_BYTES]; /* alike in all processes of one start on this host */
} sw_launcher;

static inline bool sw_launcher_has_hosts(const sw_launcher *launcher) {
    return launcher->host_size < launcher->size;
}

/* Read the environment. SHARDWISE_TEST_RANKS_PER_HOST, for tests: so many neighbouring processes
 * count as a host. Errors: SW_BAD_CONFIG: a variable of a launcher is missing, or is no number
 * that makes sense. */
sw_status sw_launcher_find(sw_launcher *launcher, sw_error *err);

#endif
