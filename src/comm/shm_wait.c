/* shm_wait.c: waiting for a peer's counter.
 *
 * A short spin where every lane has a core; then the peer's bell (a futex), which it rings only
 * when somebody listens. The wait is on the lane's record while it lasts, so that the supervisor
 * can say who waits for whom. Every 50 ms the waiter looks up: did a rank abort, did the peer
 * leave, is it doing something else on this channel?
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/futex.h"
#include "comm/shm.h"

enum { SPINS = 2000, LOOK_UP_NS = 50 * 1000 * 1000 };

static void describe(const sw_fingerprint *print, char *text, size_t bytes) {
    if (print->operation == SW_BARRIER)
        snprintf(text, bytes, "barrier (sequence %" PRIu64 ")", print->sequence);
    else if (print->operation == SW_EXCHANGE)
        snprintf(text, bytes, "exchange of %" PRId64 " bytes (sequence %" PRIu64 ")", print->bytes,
                 print->sequence);
    else if (print->operation == SW_GATHER)
        snprintf(text, bytes,
                 "gather of unit %" PRId64 " \"%s\" (sequence %" PRIu64 ", %" PRId64
                 " bytes of %s a rank)",
                 print->unit, print->unit_name, print->sequence, print->bytes,
                 sw_dtype_name((sw_dtype)print->dtype));
    else if (print->operation == SW_SHARING)
        snprintf(
            text, bytes,
            "%s of a value of unit %" PRId64 " \"%s\" (sequence %" PRIu64 ", %" PRId64
            " bytes of %s a rank, %" PRIu32 " contributors)",
            sw_share_name(print->share < SW_N_SHARES ? (sw_share)print->share : SW_SHARE_NOTHING),
            print->unit, print->unit_name, print->sequence, print->bytes,
            sw_dtype_name((sw_dtype)print->dtype), print->n_contributors);
    else
        snprintf(text, bytes,
                 "reduce of unit %" PRId64 " \"%s\" (sequence %" PRIu64 ", %" PRId64
                 " bytes of %s a rank, %" PRIu32 " contributors%s)",
                 print->unit, print->unit_name, print->sequence, print->bytes,
                 sw_dtype_name((sw_dtype)print->dtype), print->n_contributors,
                 print->accumulate ? ", accumulating" : "");
}

/* `theirs`: what the peer is in, or has. */
static sw_status disagree(sw_comm *comm, int peer, int channel, const sw_fingerprint *mine,
                          const char *theirs, sw_error *err) {
    char here[256], where[32] = "";
    describe(mine, here, sizeof here);
    if (channel >= 0)
        snprintf(where, sizeof where, " on channel %d", channel);
    sw_error own;
    sw_fail(&own, SW_MISMATCH,
            "ranks %d and %d disagree%s: rank %d is in %s; rank %d %s; do all ranks run the same "
            "program?",
            comm->rank, peer, where, comm->rank, here, peer, theirs);
    sw_comm_abort(comm, &own);
    return sw_fail(err, own.status, "%s", own.message);
}

sw_status sw_shm_mismatch(sw_comm *comm, int peer, int channel, const sw_fingerprint *mine,
                          const sw_fingerprint *theirs, sw_error *err) {
    char there[256], is_in[sizeof there + 8];
    describe(theirs, there, sizeof there);
    snprintf(is_in, sizeof is_in, "is in %s", there);
    return disagree(comm, peer, channel, mine, is_in, err);
}

/* Can the peer still get there? */
static sw_status look_at_peer(sw_comm *comm, const sw_shm_wait *wait, sw_error *err) {
    sw_control_rank *peer = &comm->control->rank[wait->peer];
    if (wait->channel >= 0) {
        uint32_t wanted =
            wait->mine->operation == SW_GATHER ? SW_CHANNEL_GATHERS : SW_CHANNEL_REDUCES;
        uint32_t kind = atomic_load_explicit(&peer->cell[wait->channel].kind, memory_order_acquire);
        if (kind != SW_CHANNEL_CLOSED && kind != wanted) {
            char has[64];
            snprintf(has, sizeof has, "has opened it for %s", sw_channel_kind_name(kind));
            return disagree(comm, wait->peer, wait->channel, wait->mine, has, err);
        }
    }
    if (atomic_load(&peer->has_returned) && atomic_load(wait->counter) < wait->target) {
        char here[256];
        describe(wait->mine, here, sizeof here);
        sw_error own;
        sw_fail(&own, SW_MISMATCH,
                "rank %d waits for rank %d in %s, but rank %d has returned; do all ranks run the "
                "same number of steps?",
                comm->rank, wait->peer, here, wait->peer);
        sw_comm_abort(comm, &own);
        return sw_fail(err, own.status, "%s", own.message);
    }
    return SW_OK;
}

sw_status sw_shm_wait_for(sw_comm *comm, const sw_shm_wait *wait, sw_error *err) {
    if (atomic_load_explicit(wait->counter, memory_order_acquire) >= wait->target)
        return SW_OK;
    const double begin = sw_seconds_now();
    const sw_shm *shm = comm->transport;
    for (int i = 0; shm->may_spin && i < SPINS; i++) {
        sw_pause();
        if (atomic_load_explicit(wait->counter, memory_order_acquire) >= wait->target) {
            comm->waited_seconds[wait->lane] += sw_seconds_now() - begin;
            return SW_OK;
        }
    }
    sw_control_rank *peer = &comm->control->rank[wait->peer];
    sw_control_lane *lane = &comm->control->rank[comm->rank].lane[wait->lane];
    sw_status status = SW_OK;
    sw_lane_wait_begins(lane, &(sw_lane_wait){comm->control, wait->counter, wait->target,
                                              wait->operation, wait->peer, wait->channel,
                                              wait->mine->sequence, wait->mine->unit_name});
    atomic_fetch_add(&peer->waiters, 1);
    for (;;) {
        uint32_t bell = atomic_load(&peer->bell);
        if (atomic_load(wait->counter) >= wait->target)
            break;
        status = sw_control_check(comm->control, err);
        if (status == SW_OK)
            status = look_at_peer(comm, wait, err);
        if (status != SW_OK)
            break;
        /* Woken, timed out or interrupted: look again. */
        sw_futex_wait(&peer->bell, bell, &(struct timespec){.tv_nsec = LOOK_UP_NS}, true);
    }
    atomic_fetch_sub(&peer->waiters, 1);
    sw_lane_wait_ends(lane);
    comm->waited_seconds[wait->lane] += sw_seconds_now() - begin;
    return status;
}
