/* bootstrap_thread.c: ranks that are threads of one process meet in its memory. Used once, at the
 * start, so a yielding wait will do. */
#include "comm/bootstrap.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static sw_status meet(sw_thread_meeting *meeting, sw_error *err) {
    uint32_t round = atomic_load(&meeting->round);
    if (atomic_fetch_add(&meeting->n_arrived, 1) + 1 == (uint32_t)meeting->n_ranks) {
        atomic_store(&meeting->n_arrived, 0);
        atomic_fetch_add(&meeting->round, 1);
        return SW_OK;
    }
    while (atomic_load(&meeting->round) == round) {
        sw_status status = sw_control_check(meeting->control, err);
        if (status != SW_OK)
            return status;
        sched_yield();
    }
    return SW_OK;
}

static sw_status exchange_bytes(sw_bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
                                sw_error *err) {
    sw_thread_meeting *meeting = bootstrap->state;
    if (bytes > SW_EXCHANGE_BYTES)
        return sw_fail(err, SW_BUG, "%zu bytes in a meeting of ranks, %d are provided for", bytes,
                       SW_EXCHANGE_BYTES);
    memcpy(meeting->bytes + (size_t)bootstrap->rank * SW_EXCHANGE_BYTES, mine, bytes);
    sw_status status = meet(meeting, err);
    if (status != SW_OK)
        return status;
    for (int r = 0; r < bootstrap->size; r++)
        memcpy((char *)all + (size_t)r * bytes, meeting->bytes + (size_t)r * SW_EXCHANGE_BYTES,
               bytes);
    return meet(meeting, err); /* all have read before the next exchange is written */
}

sw_status sw_thread_meeting_create(const sw_control *control, sw_thread_meeting *meeting,
                                   sw_error *err) {
    *meeting = (sw_thread_meeting){.n_ranks = control->n_ranks, .control = control};
    meeting->bytes = calloc((size_t)control->n_ranks, SW_EXCHANGE_BYTES);
    if (!meeting->bytes)
        return sw_fail(err, SW_NO_MEMORY, "no memory to start %d ranks", control->n_ranks);
    return SW_OK;
}

void sw_thread_meeting_free(sw_thread_meeting *meeting) {
    free(meeting->bytes);
}

void sw_thread_bootstrap_take(sw_thread_meeting *meeting, int rank, sw_bootstrap *bootstrap) {
    *bootstrap = (sw_bootstrap){.rank = rank,
                                .size = meeting->n_ranks,
                                .n_ranks = meeting->n_ranks,
                                .is_one_process = true,
                                .exchange_bytes = exchange_bytes,
                                .state = meeting};
}
