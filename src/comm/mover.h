/* mover.h: the process that carries what the ranks of its host tell to the other hosts, and what
 * comes from there into this host's memory (bridge.h). It computes nothing, and it alone calls MPI:
 * whatever an MPI does with signals, threads and forks is no business of ranks. */
#ifndef SW_COMM_MOVER_H
#define SW_COMM_MOVER_H

#include "comm/bridge.h"
#include "comm/mpi_meet.h"

typedef struct sw_mover_options {
    sw_bridge *bridge;
    sw_control *control;
    const char *kind, *launcher; /* as above */
    int n_processes;
    sw_hello hello;
    double deadline; /* a host that is not heard of for so long is lost */
} sw_mover_options;

/* Meet, and carry until all ranks of all hosts have returned, or the run ends. What goes wrong ends
 * all ranks here (the abort word); the error is returned too. */
sw_status sw_mover_run(const sw_mover_options *options, sw_error *err);

#endif
