/* mpi.c: see mpi.h. */
#include "comm/mpi.h"

#include <inttypes.h>

static const sw_shm *shm_of(const sw_comm *comm) {
    return comm->transport;
}

static sw_status tell(sw_comm *comm, int lane, const sw_note *note, sw_error *err) {
    return sw_bridge_put(shm_of(comm)->bridge, comm->control, comm->rank, lane, note, err);
}

/* Where `address` lies, for a process that has mapped the windows elsewhere. */
static sw_status locate(const sw_comm *comm, const char *address, sw_note *note, sw_error *err) {
    for (const sw_shm_window *window = shm_of(comm)->windows; window; window = window->next)
        if (window->base && address >= window->base && address < window->base + window->bytes) {
            note->window = window->number;
            note->offset = address - window->base;
            return SW_OK;
        }
    return sw_fail(err, SW_BUG, "rank %d sends what lies in no window", comm->rank);
}

static sw_status channel_open(sw_comm *comm, int channel, sw_channel_kind kind, sw_error *err) {
    sw_status status = sw_shm_channel_open(comm, channel, kind, err);
    sw_note note = {.kind = SW_NOTE_CHANNEL, .channel = channel, .value = kind};
    return status ? status : tell(comm, SW_LANE_COMPUTE, &note, err);
}

/* A note of what this rank has for others, at its place on the line. */
static sw_status note_of(const sw_comm *comm, sw_note_kind kind, const sw_collective *c,
                         sw_note *note, sw_error *err) {
    const sw_line line = sw_shm_line(comm, c);
    *note = (sw_note){.kind = kind, .channel = c->channel, .line = line, .bytes = c->shard_bytes};
    sw_print_load(&comm->control->rank[comm->rank].cell[c->channel].print, &note->print);
    return c->shard_bytes > 0
               ? locate(comm, c->window + c->offset + sw_shm_place(comm, line) * c->rank_stride,
                        note, err)
               : SW_OK;
}

static sw_status gather_publish(sw_comm *comm, const sw_collective *c, sw_error *err) {
    sw_note note;
    sw_status status = sw_shm_gather_publish(comm, c, err);
    if (!status)
        status = note_of(comm, SW_NOTE_PUBLISH, c, &note, err);
    if (status)
        return status;
    note.value = c->epoch + 1;
    return tell(comm, c->lane, &note, err);
}

static sw_status reduce_post(sw_comm *comm, const sw_collective *c, sw_error *err) {
    sw_note note;
    sw_status status = sw_shm_reduce_post(comm, c, err);
    if (!status)
        status = note_of(comm, SW_NOTE_POST, c, &note, err);
    if (status)
        return status;
    note.value = atomic_load_explicit(&comm->control->rank[comm->rank].cell[c->channel].posted,
                                      memory_order_relaxed);
    note.is_cut = c->share == SW_SHARE_NOTHING || c->share == SW_SHARE_SUM_SLICE;
    return tell(comm, c->lane, &note, err);
}

/* The contributions of others to the use that is over may go. */
static sw_status tell_of_use(sw_comm *comm, const sw_collective *c, sw_error *err) {
    sw_note note = {.kind = SW_NOTE_SUMMED, .channel = c->channel};
    note.value = atomic_load_explicit(&comm->control->rank[comm->rank].cell[c->channel].summed,
                                      memory_order_relaxed);
    return tell(comm, c->lane, &note, err);
}

static sw_status reduce_sum(sw_comm *comm, const sw_collective *c, const sw_device *device,
                            sw_number_kind numbers, sw_error *err) {
    sw_status status = sw_shm_reduce_sum(comm, c, device, numbers, err);
    return status ? status : tell_of_use(comm, c, err);
}

static sw_status share(sw_comm *comm, const sw_collective *c, const sw_device *device,
                       sw_number_kind numbers, sw_error *err) {
    sw_status status = sw_shm_share(comm, c, device, numbers, err);
    return status ? status : tell_of_use(comm, c, err);
}

static const sw_comm_vtable mpi_vtable = {
    .name = "mpi",
    .window_create = sw_shm_window_create,
    .channel_open = channel_open,
    .gather_publish = gather_publish,
    .gather = sw_shm_gather,
    .reduce_acquire = sw_shm_reduce_acquire,
    .reduce_post = reduce_post,
    .reduce_sum = reduce_sum,
    .share = share,
    .exchange = sw_shm_exchange,
    .close = sw_shm_close,
};

sw_status sw_mpi_open(sw_bootstrap *bootstrap, sw_control *control, sw_bridge *bridge,
                      sw_shm_mode mode, int n_threads, sw_comm *comm, sw_error *err) {
    sw_status status = sw_shm_open(bootstrap, control, mode, n_threads, comm, err);
    if (status)
        return status;
    sw_shm *shm = comm->transport;
    shm->bridge = bridge;
    comm->vtable = &mpi_vtable;
    return SW_OK;
}
