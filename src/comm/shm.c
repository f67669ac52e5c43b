/* shm.c: opening the transport, and its windows.
 *
 * A window is a memory object without a name in any file system (memfd), made by rank 0 and passed
 * to the others over the bootstrap: it goes away with the last rank, however that ends. Its size is
 * sealed, so no rank can pull pages from under another. Pages exist once they are written.
 */
#include "comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/bridge.h"

static const sw_comm_vtable shm_vtable = {
    .name = "shm",
    .window_create = sw_shm_window_create,
    .channel_open = sw_shm_channel_open,
    .gather_publish = sw_shm_gather_publish,
    .gather = sw_shm_gather,
    .reduce_acquire = sw_shm_reduce_acquire,
    .reduce_post = sw_shm_reduce_post,
    .reduce_sum = sw_shm_reduce_sum,
    .share = sw_shm_share,
    .exchange = sw_shm_exchange,
    .close = sw_shm_close,
};

/* ---- windows ---- */

typedef struct window_request {
    int64_t bytes;
    char name[SW_LABEL_BYTES];
} window_request;

typedef struct window_made {
    int error; /* errno of the step that failed */
    char *base;
} window_made;

/* All ranks must ask for the same window; the first that differs from rank 0 is named. */
static sw_status agree_on_window(sw_comm *comm, const window_request *mine, sw_error *err) {
    window_request all[SW_MAX_RANKS];
    sw_status status = sw_exchange(comm, mine, all, sizeof *mine, err);
    for (int r = 1; r < comm->n_ranks && status == SW_OK; r++)
        if (memcmp(&all[0], &all[r], sizeof all[0]) != 0)
            status = sw_fail(
                err, SW_MISMATCH,
                "ranks 0 and %d disagree on their shared memory: rank 0 makes \"%s\" of %" PRId64
                " bytes, rank %d \"%s\" of %" PRId64 " bytes; do all ranks run the same program?",
                r, all[0].name, all[0].bytes, r, all[r].name, all[r].bytes);
    return status;
}

/* The first error of any rank becomes everybody's. */
static sw_status agree_on_success(sw_comm *comm, const window_request *request,
                                  const window_made *mine, window_made *all, sw_error *err) {
    sw_status status = sw_exchange(comm, mine, all, sizeof *mine, err);
    for (int r = 0; r < comm->n_ranks && status == SW_OK; r++)
        if (all[r].error)
            status =
                sw_fail(err, SW_NO_MEMORY,
                        "rank %d: shared memory for \"%s\" cannot be allocated: %" PRId64
                        " bytes (%.1f MiB): %s; %s or take a smaller model",
                        r, request->name, request->bytes, (double)request->bytes / (1 << 20),
                        strerror(all[r].error),
                        all[r].error == EFBIG ? "raise the limit on the size of files (ulimit -f)"
                                              : "free memory, raise the limit (ulimit -v, cgroup)");
    return status;
}

static int make_descriptor(const window_request *request, int *descriptor) {
    enum {
        NOEXEC_SEAL = 8
    }; /* MFD_NOEXEC_SEAL of newer headers: systems may insist on it, older kernels do not know it
        */
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    *descriptor = memfd_create(request->name, flags | NOEXEC_SEAL);
    if (*descriptor < 0 && errno == EINVAL)
        *descriptor = memfd_create(request->name, flags);
    if (*descriptor < 0 || ftruncate(*descriptor, request->bytes) != 0 ||
        fcntl(*descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return errno;
    return 0;
}

static int map_descriptor(int descriptor, int64_t bytes, char **base) {
    void *address = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    *base = address == MAP_FAILED ? NULL : address;
    return *base ? 0 : errno;
}

/* The first rank of the host makes the object, the others take it over; all report how it went
 * before anybody goes on. */
static sw_status make_window(sw_comm *comm, const window_request *request, int number, char **base,
                             sw_error *err) {
    sw_shm *shm = comm->transport;
    bool makes = shm->bootstrap->rank == 0, is_shared = shm->bootstrap->is_one_process;
    int descriptor = -1;
    window_made mine = {0}, all[SW_MAX_RANKS];
    if (makes) {
        mine.error = make_descriptor(request, &descriptor);
        if (!mine.error)
            mine.error = map_descriptor(descriptor, request->bytes, &mine.base);
    }
    if (makes && shm->bridge && !mine.error) {
        sw_status status =
            sw_bridge_give_window(shm->bridge, number, request->bytes, descriptor, err);
        if (status != SW_OK) {
            munmap(mine.base, (size_t)request->bytes);
            close(descriptor);
            return status;
        }
    }
    sw_status status = agree_on_success(comm, request, &mine, all, err);
    if (status == SW_OK && is_shared) {
        mine.base = all[0].base;
    } else if (status == SW_OK) {
        status = shm->bootstrap->exchange_descriptor(shm->bootstrap, &descriptor, err);
        if (status == SW_OK && !makes)
            mine.error = map_descriptor(descriptor, request->bytes, &mine.base);
        if (status == SW_OK)
            status = agree_on_success(comm, request, &mine, all, err);
    }
    if (status != SW_OK && mine.base && (makes || !is_shared))
        munmap(mine.base, (size_t)request->bytes);
    if (descriptor >= 0)
        close(descriptor);
    *base = status == SW_OK ? mine.base : NULL;
    return status;
}

sw_status sw_shm_window_create(sw_comm *comm, const char *name, int64_t bytes, sw_window *window,
                               sw_error *err) {
    sw_shm *shm = comm->transport;
    window_request request = {.bytes = bytes};
    memcpy(request.name, name, strnlen(name, sizeof request.name - 1));
    sw_status status = agree_on_window(comm, &request, err);
    if (status != SW_OK)
        return status;
    if (bytes < 0)
        return sw_fail(err, SW_BUG, "window \"%s\" of %" PRId64 " bytes", name, bytes);
    sw_shm_window *record = sw_arena_take(&shm->arena, sizeof *record);
    if (!record)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the books of shared memory \"%s\"", name);
    const int number = shm->windows ? shm->windows->number + 1 : 0;
    if (bytes > 0)
        status = make_window(comm, &request, number, &record->base, err);
    if (status != SW_OK)
        return status;
    record->bytes = bytes;
    record->number = number;
    memcpy(record->name, request.name, sizeof record->name);
    record->next = shm->windows;
    shm->windows = record;
    *window = (sw_window){.base = record->base, .bytes = bytes};
    return SW_OK;
}

/* ---- open and close ---- */

/* What must be equal for ranks to understand each other, whoever started them. */
typedef struct handshake {
    int32_t n_ranks, mode;
    uint64_t control_bytes;
} handshake;

static sw_status shake_hands(sw_bootstrap *bootstrap, sw_shm_mode mode, sw_error *err) {
    handshake mine = {bootstrap->n_ranks, (int32_t)mode, sizeof(sw_control_rank)},
              all[SW_MAX_RANKS];
    sw_status status = bootstrap->exchange_bytes(bootstrap, &mine, all, sizeof mine, err);
    for (int r = 0; r < bootstrap->size && status == SW_OK; r++)
        if (memcmp(&mine, &all[r], sizeof mine) != 0)
            status =
                sw_fail(err, SW_MISMATCH,
                        "ranks %d and %d were started with different settings or versions: %d and "
                        "%d ranks, mode %d and %d",
                        bootstrap->rank, r, mine.n_ranks, all[r].n_ranks, mine.mode, all[r].mode);
    return status;
}

static bool threads_have_cores(int n_ranks, int n_threads, sw_shm_mode mode) {
    cpu_set_t cores;
    int64_t n_of_rank =
        (n_threads > 1 ? n_threads : 1) + (mode == SW_SHM_COPY); /* the communication lane's */
    return sched_getaffinity(0, sizeof cores, &cores) == 0 &&
           n_ranks * n_of_rank <= CPU_COUNT(&cores);
}

sw_status sw_shm_open(sw_bootstrap *bootstrap, sw_control *control, sw_shm_mode mode, int n_threads,
                      sw_comm *comm, sw_error *err) {
    sw_shm *shm = calloc(1, sizeof *shm);
    if (!shm)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for the transport between ranks",
                       bootstrap->rank);
    *shm = (sw_shm){.bootstrap = bootstrap,
                    .mine = &control->rank[bootstrap->first + bootstrap->rank],
                    .may_spin = threads_have_cores(bootstrap->size, n_threads, mode)};
    *comm = (sw_comm){.vtable = &shm_vtable,
                      .rank = bootstrap->first + bootstrap->rank,
                      .n_ranks = bootstrap->n_ranks,
                      .first_here = bootstrap->first,
                      .n_here = bootstrap->size,
                      .mode = mode,
                      .control = control,
                      .transport = shm};
    sw_status status = shake_hands(bootstrap, mode, err);
    if (status == SW_OK && mode == SW_SHM_TRAP)
        status = sw_shm_trap_install(comm, err);
    if (status != SW_OK)
        sw_shm_close(comm);
    return status;
}

/* Threads share rank 0's mapping; the launcher closes its comm after all ranks have returned. */
void sw_shm_close(sw_comm *comm) {
    sw_shm *shm = comm->transport;
    for (sw_shm_window *window = shm->windows; window; window = window->next)
        if (window->base && (comm->rank == 0 || !shm->bootstrap->is_one_process))
            munmap(window->base, (size_t)window->bytes);
    sw_arena_free(&shm->arena);
    free(shm);
    comm->transport = NULL;
}
