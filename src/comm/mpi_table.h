/* mpi_table.h: what is asked of an MPI, as a table that a plug-in fills: src/comm/mpi/plugin.c,
 * compiled once for each MPI and loaded when hosts have to talk. Nothing else here knows of MPI's
 * types, which differ between libraries.
 *
 * One thread of a process calls, so no more than MPI_THREAD_FUNNELED is asked for. All functions
 * return 0 or MPI's error. */
#ifndef SW_COMM_MPI_TABLE_H
#define SW_COMM_MPI_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define SW_MPI_TABLE_VERSION 1
#define SW_MPI_TABLE_NAME "sw_mpi_table_of_plugin"

/* A message on its way. */
typedef struct sw_mpi_request {
    uint64_t handle; /* MPI's own */
} sw_mpi_request;

typedef struct sw_mpi_table {
    uint32_t version; /* SW_MPI_TABLE_VERSION */
    /* Collective over all processes of the start. `level`: "MPI_THREAD_FUNNELED" or what the
     * library gave. */
    int (*begin)(int *rank, int *size, const char **level);
    int (*end)(void); /* collective */
    /* Collective. Bytes of every process, in the order of ranks: all [size * bytes]. */
    int (*all_gather)(const void *mine, void *all, int bytes);
    /* Between two processes messages arrive in the order in which they were sent. */
    int (*send)(const void *from, int bytes, int to, sw_mpi_request *request);
    int (*receive)(void *to, int bytes, int from, sw_mpi_request *request);
    int (*test)(sw_mpi_request *request, int *is_done);
    void (*explain)(int error, char *text, size_t bytes); /* MPI's words for an error */
    const char *(*library)(void);                         /* "Open MPI v4.1.4, ..." */
} sw_mpi_table;

#endif
