/* comm.c: what is the same for every transport: who I am, what I do, how the run ends. */
#include "comm/comm.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/stop_signal.h"
#include "comm/control.h"

int sw_comm_rank(const sw_comm *comm) {
    return comm ? comm->rank : -1;
}

int sw_comm_size(const sw_comm *comm) {
    return comm ? comm->n_ranks : 0;
}

int sw_stop_requested(const sw_comm *comm) {
    if (!comm)
        return sw_stop_pending();
    int asked = atomic_load_explicit(&comm->control->stop, memory_order_relaxed);
    return asked ? asked : sw_stop_pending();
}

uint32_t sw_saves_requested(const sw_comm *comm) {
    return comm ? atomic_load_explicit(&comm->control->n_saves_asked, memory_order_relaxed) : 0;
}

sw_status sw_exchange(sw_comm *comm, const void *mine, void *all, size_t bytes, sw_error *err) {
    if (!comm || (bytes && (!mine || !all)))
        return sw_fail(err, SW_BAD_CONFIG, "sw_exchange: %s is NULL",
                       !comm   ? "comm"
                       : !mine ? "mine"
                               : "all");
    if (bytes > SW_EXCHANGE_BYTES)
        return sw_fail(err, SW_BAD_CONFIG, "sw_exchange: %zu bytes; each rank gives at most %d",
                       bytes, SW_EXCHANGE_BYTES);
    return comm->vtable->exchange(comm, mine, all, bytes, err);
}

sw_status sw_barrier(sw_comm *comm, sw_error *err) {
    if (!comm)
        return sw_fail(err, SW_BAD_CONFIG, "sw_barrier: comm is NULL");
    return comm->vtable->exchange(comm, NULL, NULL, 0, err);
}

void sw_comm_enter(sw_comm *comm, int lane, int64_t step, int slot, int instruction,
                   const char *label) {
    sw_lane_record record = {
        .step = step, .slot = slot, .instruction = instruction, .peer = -1, .has_entered = 1};
    memcpy(record.label, label, strnlen(label, SW_LABEL_BYTES - 1));
    sw_control_lane *control = &comm->control->rank[comm->rank].lane[lane];
    sw_lane_store(control, &record);
    if (comm->mode == SW_SHM_TRAP)
        atomic_store(&control->thread, (int32_t)gettid());
}

void sw_comm_abort(sw_comm *comm, const sw_error *error) {
    sw_control_abort(comm->control, error);
}

sw_status sw_comm_check(sw_comm *comm, sw_error *err) {
    return sw_control_check(comm->control, err);
}

sw_status sw_comm_check_stop(sw_comm *comm, const char *doing, sw_error *err) {
    sw_error error;
    int signal_number = sw_stop_requested(comm);
    if (!signal_number)
        return sw_comm_check(comm, err);
    sw_fail(&error, sw_stop_status(signal_number),
            "stopped by %s while %s; nothing new was there to be saved",
            sw_stop_words(signal_number), doing);
    sw_comm_abort(comm, &error);
    return sw_fail(err, error.status, "%s", error.message);
}

sw_status sw_comm_protect(sw_comm *comm, void *address, size_t bytes, sw_page_access access,
                          sw_error *err) {
    static const int protection[] = {[SW_PAGE_NONE] = PROT_NONE,
                                     [SW_PAGE_READ] = PROT_READ,
                                     [SW_PAGE_WRITE] = PROT_READ | PROT_WRITE};
    if (bytes == 0 || mprotect(address, bytes, protection[access]) == 0)
        return SW_OK;
    if (errno == ENOMEM)
        return sw_fail(err, SW_NO_MEMORY,
                       "rank %d: the kernel allows no more mappings for trap mode; raise "
                       "vm.max_map_count or take view mode",
                       comm->rank);
    return sw_fail(
        err, SW_BUG,
        "rank %d: protecting %zu bytes at %p: %s; both must be multiples of the page size",
        comm->rank, bytes, address, strerror(errno));
}
