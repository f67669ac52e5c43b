/* mpi_load.h: finding and loading the plug-in for an MPI. */
#ifndef SW_COMM_MPI_LOAD_H
#define SW_COMM_MPI_LOAD_H

#include <shardwise/status.h>

#include "comm/mpi_table.h"

/* `kind`: "openmpi" or "mpich". Looked for beside the library or command, then where it is
 * installed with them; SHARDWISE_MPI_FOLDER names another place. It stays loaded. Errors:
 * SW_BAD_CONFIG: there is none, or it cannot be loaded; with what to install. */
sw_status sw_mpi_load(const char *kind, const sw_mpi_table **table, sw_error *err);

/* Where it is, without loading it; false: nowhere. */
#define SW_MPI_PATH_BYTES 4096
_Bool sw_mpi_find(const char *kind, char path[SW_MPI_PATH_BYTES]);

#endif
