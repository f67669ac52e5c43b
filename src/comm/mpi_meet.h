/* mpi_meet.h: all processes of a start meet by MPI. */
#ifndef SW_COMM_MPI_MEET_H
#define SW_COMM_MPI_MEET_H

#include <stdint.h>

#include <shardwise/status.h>

#include "comm/mpi_table.h"

enum { SW_HOST_NAME_BYTES = 64 };

/* A process of the launcher, as it introduces itself to all others. */
typedef struct sw_hello {
    int32_t host_rank, host_size; /* its number among those of its host, which has so many */
    int32_t n_threads;            /* of each rank */
    int32_t n_ranks, mode;        /* those that lead a host: of the run */
    int64_t control_bytes;        /* how they lay out what they send */
    char version[32], host[SW_HOST_NAME_BYTES], machine[16];
} sw_hello;

/* Take part in the meeting of all processes; all of them must. `kind`: which MPI; n: how many the
 * launcher says there are. Out: this process's number, and `all` [n], which the caller frees.
 * Errors: SW_BAD_CONFIG: no plug-in, or an MPI of another kind than the launcher's. */
sw_status sw_mpi_meet(const char *kind, const char *launcher, int n, const sw_hello *mine,
                      const sw_mpi_table **table, int *number, const char **level, sw_hello **all,
                      sw_error *err);

#endif
