/* mpi.h: the transport for ranks on several hosts: that of one host, and a note to the others
 * whenever a counter has risen (bridge.h). */
#ifndef SW_COMM_MPI_H
#define SW_COMM_MPI_H

#include "comm/bridge.h"
#include "comm/shm.h"

/* As sw_shm_open; `bridge` has met, and must outlive `comm`. */
sw_status sw_mpi_open(sw_bootstrap *bootstrap, sw_control *control, sw_bridge *bridge,
                      sw_shm_mode mode, int n_threads, sw_comm *comm, sw_error *err);

#endif
