/* control.c: the words that ranks and supervisor share, and how they are read and written without
 * locks. */
#include "comm/control.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/futex.h"

_Static_assert(sizeof(sw_fingerprint) % sizeof(uint64_t) == 0, "fingerprints are copied by words");
_Static_assert(sizeof(sw_lane_record) % sizeof(uint64_t) == 0, "records are copied by words");

int64_t sw_control_bytes(int n_ranks) {
    return (int64_t)sizeof(sw_control) + n_ranks * (int64_t)sizeof(sw_control_rank);
}

sw_status sw_control_create(int n_ranks, sw_control **out, sw_error *err) {
    size_t bytes = (size_t)sw_control_bytes(n_ranks);
    sw_control *control = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (control == MAP_FAILED)
        return sw_fail(
            err, SW_NO_MEMORY,
            "no address space for the control memory of %d ranks (%zu bytes): %s; raise ulimit -v",
            n_ranks, bytes, strerror(errno));
    control->n_ranks = n_ranks;
    for (int r = 0; r < n_ranks; r++)
        for (int l = 0; l < SW_LANES; l++)
            sw_lane_store(&control->rank[r].lane[l], &(sw_lane_record){.peer = -1});
    *out = control;
    return SW_OK;
}

void sw_control_free(sw_control *control) {
    if (control)
        munmap(control, (size_t)sw_control_bytes(control->n_ranks));
}

void sw_print_store(sw_control_print *print, const sw_fingerprint *value) {
    uint64_t word[SW_FINGERPRINT_WORDS];
    memcpy(word, value, sizeof word);
    for (size_t i = 0; i < SW_FINGERPRINT_WORDS; i++)
        atomic_store_explicit(&print->word[i], word[i], memory_order_relaxed);
}

void sw_print_load(const sw_control_print *print, sw_fingerprint *value) {
    uint64_t word[SW_FINGERPRINT_WORDS];
    for (size_t i = 0; i < SW_FINGERPRINT_WORDS; i++)
        word[i] = atomic_load_explicit(&print->word[i], memory_order_relaxed);
    memcpy(value, word, sizeof word);
    value->unit_name[SW_UNIT_BYTES - 1] = 0;
}

/* No fences: race checkers do not follow them. Words are loaded with acquire, so that the second
 * look at `turn` stays behind them. */
uint64_t sw_lane_load(const sw_control_lane *lane, sw_lane_record *record) {
    uint64_t word[SW_LANE_WORDS], before = 0, after = 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        before = atomic_load_explicit(&lane->turn, memory_order_acquire);
        for (size_t i = 0; i < SW_LANE_WORDS; i++)
            word[i] = atomic_load_explicit(&lane->word[i], memory_order_acquire);
        after = atomic_load_explicit(&lane->turn, memory_order_relaxed);
        if (before == after && before % 2 == 0)
            break;
    }
    memcpy(record, word, sizeof word);
    record->label[SW_LABEL_BYTES - 1] = 0;
    record->unit_name[SW_UNIT_BYTES - 1] = 0;
    return after;
}

void sw_lane_store(sw_control_lane *lane, const sw_lane_record *record) {
    uint64_t word[SW_LANE_WORDS];
    memcpy(word, record, sizeof word);
    atomic_fetch_add_explicit(&lane->turn, 1, memory_order_acq_rel);
    for (size_t i = 0; i < SW_LANE_WORDS; i++)
        atomic_store_explicit(&lane->word[i], word[i], memory_order_release);
    atomic_fetch_add_explicit(&lane->turn, 1, memory_order_release);
}

void sw_lane_wait_begins(sw_control_lane *lane, const sw_lane_wait *wait) {
    sw_lane_record record;
    sw_lane_load(lane, &record);
    record.operation = (int32_t)wait->operation;
    record.peer = wait->peer;
    record.channel = wait->channel;
    record.sequence = wait->sequence;
    record.wait_offset = (uint64_t)((const char *)wait->counter - (const char *)wait->control);
    record.wait_target = wait->target;
    memset(record.unit_name, 0, sizeof record.unit_name);
    if (wait->unit_name)
        memcpy(record.unit_name, wait->unit_name, sizeof record.unit_name);
    sw_lane_store(lane, &record);
}

/* A collective goes on after a wait for one peer; a wait for the other lane belongs to none. */
void sw_lane_wait_ends(sw_control_lane *lane) {
    sw_lane_record record;
    sw_lane_load(lane, &record);
    record.peer = -1;
    if (record.operation == SW_OTHER_LANE)
        record.operation = SW_IDLE;
    sw_lane_store(lane, &record);
}

bool sw_lane_is_blocked(const sw_control *control, const sw_lane_record *record) {
    if (record->peer < 0)
        return false;
    size_t bytes = (size_t)sw_control_bytes(control->n_ranks);
    if (record->wait_offset % sizeof(uint64_t) || record->wait_offset > bytes - sizeof(uint64_t))
        return false; /* a torn record of a lane that died while writing it */
    const _Atomic uint64_t *counter =
        (const _Atomic uint64_t *)((const char *)control + record->wait_offset);
    return atomic_load(counter) < record->wait_target;
}

bool sw_control_abort(sw_control *control, const sw_error *error) {
    uint32_t running = SW_RUNNING;
    bool is_first = atomic_compare_exchange_strong(&control->abort, &running, SW_ABORTING);
    if (is_first) {
        memcpy(&control->error, error, sizeof *error);
        control->error.message[SW_MESSAGE_BYTES - 1] = 0;
        atomic_store(&control->abort, SW_HAS_ABORTED);
    }
    for (int r = 0; r < control->n_ranks; r++) {
        atomic_fetch_add(&control->rank[r].bell, 1);
        sw_futex_wake(&control->rank[r].bell, INT_MAX, true);
    }
    return is_first;
}

sw_status sw_control_check(const sw_control *control, sw_error *err) {
    uint32_t abort = atomic_load_explicit(&control->abort, memory_order_acquire);
    if (abort == SW_RUNNING)
        return SW_OK;
    /* The message is on its way, unless its writer was killed just now. */
    for (int i = 0; abort == SW_ABORTING && i < 1000; i++) {
        sched_yield();
        abort = atomic_load_explicit(&control->abort, memory_order_acquire);
    }
    return sw_fail(err, SW_ABORTED, "the run was ended: %s",
                   abort == SW_HAS_ABORTED ? control->error.message : "another rank failed");
}

/* The waiter counts itself, then looks at the counter; the owner raises the counter, then looks at
 * the waiters: all sequentially consistent, so one of the two sees the other. */
void sw_control_ring(sw_control_rank *rank) {
    if (!atomic_load(&rank->waiters))
        return;
    atomic_fetch_add(&rank->bell, 1);
    sw_futex_wake(&rank->bell, INT_MAX, true);
}

void sw_control_announce(sw_control_rank *rank, int signal_number, double seconds) {
    _Atomic int64_t *word =
        signal_number == SIGKILL ? &rank->kills_itself_ns : &rank->stops_itself_ns;
    int64_t when = (int64_t)((sw_seconds_now() + seconds) * 1e9), before = atomic_load(word);
    if (!before || when < before)
        atomic_store(word, when);
}

bool sw_control_is_announced(const sw_control_rank *rank, int signal_number, double now) {
    int64_t when = signal_number == SIGKILL   ? atomic_load(&rank->kills_itself_ns)
                   : signal_number == SIGSTOP ? atomic_load(&rank->stops_itself_ns)
                                              : 0;
    return when && when <= (int64_t)(now * 1e9);
}

const char *sw_operation_name(sw_comm_operation operation) {
    static const char *const names[] = {
        "idle",     "gather",  "reduce", "reduce (buffer still read)",
        "exchange", "barrier", "share",  "the other lane"};
    return (unsigned)operation <= SW_OTHER_LANE ? names[operation] : "?";
}

const char *sw_channel_kind_name(uint32_t kind) {
    return kind == SW_CHANNEL_GATHERS   ? "gathers"
           : kind == SW_CHANNEL_REDUCES ? "reduces"
                                        : "nothing";
}
