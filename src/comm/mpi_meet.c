/* mpi_meet.c: see mpi_meet.h. */
#include "comm/mpi_meet.h"

#include <stdlib.h>

#include "comm/mpi_load.h"

sw_status sw_mpi_meet(const char *kind, const char *launcher, int n, const sw_hello *mine,
                      const sw_mpi_table **table, int *number, const char **level, sw_hello **all,
                      sw_error *err) {
    int size = 0;
    sw_status status = sw_mpi_load(kind, table, err);
    if (status)
        return status;
    int error = (*table)->begin(number, &size, level);
    if (error)
        return sw_fail(err, SW_BAD_CONFIG, "MPI (%s) does not begin: error %d", kind, error);
    if (size != n)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s started %d processes, but %s sees %d: it is of another kind · set "
                       "SHARDWISE_MPI to openmpi or mpich, whichever the launcher belongs to",
                       launcher, n, (*table)->library(), size);
    *all = calloc((size_t)n, sizeof **all);
    if (!*all)
        return sw_fail(err, SW_NO_MEMORY, "no memory to meet %d processes", n);
    error = (*table)->all_gather(mine, *all, sizeof *mine);
    return error ? sw_fail(err, SW_LOST_RANK, "the processes of %s do not meet: MPI error %d",
                           launcher, error)
                 : SW_OK;
}
