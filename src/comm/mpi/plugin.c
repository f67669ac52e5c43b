/* plugin.c: the table of mpi_table.h, by the MPI that this file is compiled with. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "comm/mpi_table.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request's handle fits");

enum { TAG = 1 };

static int begin(int *rank, int *size, const char **level) {
    int given;
    int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    if (!error)
        error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!error)
        error = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    if (!error)
        error = MPI_Comm_size(MPI_COMM_WORLD, size);
    *level = given == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED";
    return error;
}

static int end(void) {
    return MPI_Finalize();
}

static int all_gather(const void *mine, void *all, int bytes) {
    return MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static int keep(int error, MPI_Request request, sw_mpi_request *to) {
    to->handle = 0;
    memcpy(&to->handle, &request, sizeof request);
    return error;
}

static int send_bytes(const void *from, int bytes, int to, sw_mpi_request *request) {
    MPI_Request started = MPI_REQUEST_NULL;
    int error = MPI_Isend(from, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &started);
    return keep(error, started, request); // NOLINT(clang-analyzer-optin.mpi.MPI-Checker): see test
}

static int receive_bytes(void *to, int bytes, int from, sw_mpi_request *request) {
    MPI_Request started = MPI_REQUEST_NULL;
    int error = MPI_Irecv(to, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &started);
    return keep(error, started, request); // NOLINT(clang-analyzer-optin.mpi.MPI-Checker): see test
}

static int test(sw_mpi_request *request, int *is_done) {
    MPI_Request started;
    memcpy(&started, &request->handle, sizeof started);
    int error = MPI_Test(&started, is_done, MPI_STATUS_IGNORE);
    return keep(error, started, request);
}

static void explain(int error, char *text, size_t bytes) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (MPI_Error_string(error, words, &n))
        snprintf(words, sizeof words, "MPI error %d", error);
    snprintf(text, bytes, "%s", words);
}

static const char *library(void) {
    static char words[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    if (MPI_Get_library_version(words, &n))
        return "MPI";
    words[strcspn(words, ",\n")] = 0; /* the name and the version */
    for (char *tab = words; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    return words;
}

extern const sw_mpi_table sw_mpi_table_of_plugin;
__attribute__((visibility("default"))) const sw_mpi_table sw_mpi_table_of_plugin = {
    .version = SW_MPI_TABLE_VERSION,
    .begin = begin,
    .end = end,
    .all_gather = all_gather,
    .send = send_bytes,
    .receive = receive_bytes,
    .test = test,
    .explain = explain,
    .library = library,
};
