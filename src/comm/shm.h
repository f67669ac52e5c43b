/* shm.h: the transport for ranks on one host. Windows are memory objects that all ranks map; epochs
 * and fingerprints lie in control memory. docs/design/shared-memory-transport.md has the
 * protocol. */
#ifndef SW_COMM_SHM_H
#define SW_COMM_SHM_H

#include "base/arena.h"
#include "comm/bootstrap.h"

typedef struct sw_bridge sw_bridge; /* bridge.h */

typedef struct sw_shm_window {
    struct sw_shm_window *next; /* created before */
    int number;                 /* windows before it */
    char *base;
    int64_t bytes;
    char name[SW_LABEL_BYTES];
} sw_shm_window;

typedef struct sw_shm {
    sw_bootstrap *bootstrap;
    sw_control_rank *mine;
    sw_bridge *bridge; /* to the other hosts; NULL: there is one host */
    bool may_spin;     /* every thread of every rank that computes or moves can have a core */
    sw_arena arena;
    sw_shm_window *windows; /* newest first */
} sw_shm;

/* Collective. Fill in `comm` for one rank, whose computing lane has n_threads threads. `control`
 * and `bootstrap` must outlive it. Ownership: end with comm->vtable->close. */
sw_status sw_shm_open(sw_bootstrap *bootstrap, sw_control *control, sw_shm_mode mode, int n_threads,
                      sw_comm *comm, sw_error *err);

/* ---- between the transport's files ---- */

/* One wait of one lane: until `counter` of rank `peer` is at least `target`. */
typedef struct sw_shm_wait {
    const _Atomic uint64_t *counter;
    uint64_t target;
    int peer, lane, channel; /* channel -1: none */
    sw_comm_operation operation;
    const sw_fingerprint *mine; /* what this rank is about to do */
} sw_shm_wait;

/* SW_OK; SW_ABORTED; SW_MISMATCH when the peer can never get there: it returned, or it does
 * something else on the channel. */
sw_status sw_shm_wait_for(sw_comm *comm, const sw_shm_wait *wait, sw_error *err);

/* End all ranks because this one and `peer` disagree. */
sw_status sw_shm_mismatch(sw_comm *comm, int peer, int channel, const sw_fingerprint *mine,
                          const sw_fingerprint *theirs, sw_error *err);

sw_status sw_shm_window_create(sw_comm *comm, const char *name, int64_t bytes, sw_window *window,
                               sw_error *err);
void sw_shm_close(sw_comm *comm);
sw_status sw_shm_channel_open(sw_comm *comm, int channel, sw_channel_kind kind, sw_error *err);
sw_status sw_shm_gather_publish(sw_comm *comm, const sw_collective *c, sw_error *err);
sw_status sw_shm_gather(sw_comm *comm, const sw_collective *c, sw_error *err);
sw_status sw_shm_reduce_acquire(sw_comm *comm, const sw_collective *c, sw_error *err);
sw_status sw_shm_reduce_post(sw_comm *comm, const sw_collective *c, sw_error *err);
sw_status sw_shm_reduce_sum(sw_comm *comm, const sw_collective *c, const sw_device *device,
                            sw_number_kind numbers, sw_error *err);
sw_status sw_shm_share(sw_comm *comm, const sw_collective *c, const sw_device *device,
                       sw_number_kind numbers, sw_error *err);
sw_status sw_shm_exchange(sw_comm *comm, const void *mine, void *all, size_t bytes, sw_error *err);

/* The line that a collective goes along, and this rank's place on it. */
static inline sw_line sw_shm_line(const sw_comm *comm, const sw_collective *c) {
    return c->line.n ? c->line : (sw_line){comm->n_ranks, 0, 1};
}
static inline int sw_shm_place(const sw_comm *comm, sw_line line) {
    return (comm->rank - line.first) / line.step;
}

/* A use of a buffer is there: all contributors have posted it, and it is what they say. Then it is
 * read, and this rank is done with it. */
sw_status sw_shm_use_begin(sw_comm *comm, const sw_collective *c, uint64_t *use, sw_error *err);
void sw_shm_use_end(sw_comm *comm, const sw_collective *c, uint64_t use);

/* Trap mode: turn a fault in a window into an error that names it. For this process, until it
 * ends. */
sw_status sw_shm_trap_install(sw_comm *comm, sw_error *err);

#endif
