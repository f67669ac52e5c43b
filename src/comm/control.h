/* control.h: the memory through which ranks and their supervisor know of each other.
 *
 *   | head: abort word, first error, stop word | rank 0: pages | rank 1: pages | ...
 *
 *   a rank's pages:  bell, waiters | what each lane does and waits for | exchange slots | one cell
 *                    per channel | final status
 *
 * Every word has one writer (but the abort word and the counts of waiters), and what different
 * ranks write is pages apart, so no two ranks share a cache line. All of it is C11 atomics, or
 * bytes handed over by a release store and an acquire load. The memory is mapped by the supervisor
 * before ranks exist; untouched pages cost nothing, which is why there may be 4096 channels.
 *
 * What a lane does is kept under a sequence lock: `turn` is odd while its thread writes, so that a
 * reader in another process gets a whole record without ever making the writer wait. It is also the
 * lane's count of progress.
 */
#ifndef SW_COMM_CONTROL_H
#define SW_COMM_CONTROL_H

#include <stdatomic.h>

#include "comm/comm.h"

/* SW_OTHER_LANE is no collective: the lane waits for another one of its own rank. */
typedef enum sw_comm_operation {
    SW_IDLE,
    SW_GATHER,
    SW_REDUCE,
    SW_ACQUIRE,
    SW_EXCHANGE,
    SW_BARRIER,
    SW_SHARING,
    SW_OTHER_LANE
} sw_comm_operation;

#define SW_UNIT_BYTES 32 /* of a unit's name, in fingerprints */

/* What two ranks must agree on before data moves. In control memory its words are atomics: a rank
 * that is out of step may be writing what another compares. */
typedef struct sw_fingerprint {
    uint64_t sequence; /* gather: earlier gathers on the channel. reduce: use of the channel.
                          exchange: count */
    uint32_t operation, dtype;
    uint32_t n_contributors, accumulate;
    uint64_t share; /* sw_share */
    int64_t unit;
    int64_t bytes;
    char unit_name[SW_UNIT_BYTES];
} sw_fingerprint;

#define SW_FINGERPRINT_WORDS (sizeof(sw_fingerprint) / sizeof(uint64_t))

typedef struct sw_control_print {
    _Atomic uint64_t word[SW_FINGERPRINT_WORDS];
} sw_control_print;

/* One rank's side of one channel; written by that rank alone, and each word by one of its lanes at
 * a time: `kind` by lane 0 before another lane knows of the channel, `published`, `posted` and
 * `print` by who publishes and posts, `gathered` and `summed` by who gathers and sums. Counters
 * only rise. */
typedef struct sw_control_cell {
    _Alignas(
        64) _Atomic uint64_t published; /* gather: epoch + 1 of the slice, 0 before the first */
    _Atomic uint64_t gathered;          /* gather: gathers completed */
    _Atomic uint64_t
        posted; /* reduce: number (from 1) of the last use that this rank contributed to */
    _Atomic uint64_t summed; /* reduce: uses that this rank has read to the end */
    _Atomic uint32_t kind;   /* sw_channel_kind; written once, when the channel is opened */
    sw_control_print
        print; /* of the last publish or post, written before `published` or `posted` rises */
} sw_control_cell;

/* What a lane does, and what it waits for. */
typedef struct sw_lane_record {
    int64_t step;
    int32_t slot, instruction;
    char label[SW_LABEL_BYTES];
    int32_t
        operation; /* of the collective that the lane is in, or SW_OTHER_LANE; SW_IDLE outside */
    int32_t peer;  /* whom it waits for, its own rank for SW_OTHER_LANE; -1 when it does not wait */
    int32_t channel;
    int32_t has_entered;  /* sw_comm_enter was called at least once */
    uint64_t sequence;    /* as in the fingerprint */
    uint64_t wait_offset; /* of the counter waited for, from the start of control memory */
    uint64_t wait_target; /* the wait ends when the counter is at least this */
    char unit_name[SW_UNIT_BYTES];
} sw_lane_record;

#define SW_LANE_WORDS (sizeof(sw_lane_record) / sizeof(uint64_t))

typedef struct sw_control_lane {
    _Alignas(64) _Atomic uint64_t turn;
    _Atomic uint64_t word[SW_LANE_WORDS];
    /* What the other lanes of the rank may wait for. Told by this lane; the lanes themselves go by
     * what they keep under their lock. */
    _Atomic uint64_t position; /* of the instructions that it has done */
    _Atomic uint64_t
        handed; /* pieces of work: the first lane has given so many, another is done with so many */
    _Atomic int32_t thread; /* trap mode: which entered something last, as gettid() has it */
} sw_control_lane;

typedef struct sw_control_rank {
    _Alignas(4096) _Atomic uint32_t
        bell; /* rung (futex) after a counter of this rank rose while somebody waited for it */
    _Alignas(64) _Atomic uint32_t waiters; /* who asks to hear the bell */
    sw_control_lane lane[SW_LANES];
    _Alignas(64) _Atomic uint64_t arrived; /* exchanges entered */
    /* By parity of the exchange's count: a slot is filled again only after the exchange in between,
     * which all enter after reading this one. */
    sw_control_print exchange_print[2];
    char exchange_slot[2][SW_EXCHANGE_BYTES];
    _Alignas(64) _Atomic uint32_t has_returned; /* fn returned; `final` is valid */
    /* Faults on purpose: from when on this rank's own SIGKILL, SIGSTOP may strike it, in
     * nanoseconds of the clock that only goes forward; 0: not at all. So that nobody looks for
     * another cause. */
    _Atomic int64_t kills_itself_ns, stops_itself_ns;
    sw_error final;
    sw_control_cell cell[SW_MAX_CHANNELS];
} sw_control_rank;

enum {
    SW_RUNNING,
    SW_ABORTING,
    SW_HAS_ABORTED
}; /* abort: ABORTING while the winner writes `error` */

struct sw_control {
    _Alignas(64) _Atomic uint32_t abort;
    _Atomic int32_t stop; /* the signal that asked the run to end; the supervisor writes it */
    _Atomic uint32_t
        n_saves_asked; /* how often the run was asked to save now; the supervisor writes it */
    int32_t n_ranks;
    sw_error error; /* the first one; valid once abort is SW_HAS_ABORTED */
    sw_control_rank rank[];
};

/* Its size. Ranks share it; pages exist once they are touched. */
int64_t sw_control_bytes(int n_ranks);

/* Zeroed control memory, shared with children forked later. Ownership: free with sw_control_free;
 * ranks never do. */
sw_status sw_control_create(int n_ranks, sw_control **control, sw_error *err);
void sw_control_free(sw_control *control);

void sw_print_store(sw_control_print *print, const sw_fingerprint *value);
void sw_print_load(const sw_control_print *print, sw_fingerprint *value);

/* A lane's record. Load gives a whole one and returns its turn; a lane that died while writing
 * gives what can be read. */
uint64_t sw_lane_load(const sw_control_lane *lane, sw_lane_record *record);
void sw_lane_store(sw_control_lane *lane, const sw_lane_record *record);

/* The lane begins to wait, for as long as *counter of `peer` is below the target; it waits no
 * more. */
typedef struct sw_lane_wait {
    const sw_control *control; /* that the counter lies in */
    const _Atomic uint64_t *counter;
    uint64_t target;
    sw_comm_operation operation;
    int peer, channel;
    uint64_t sequence;
    const char *unit_name; /* [SW_UNIT_BYTES], NULL: none */
} sw_lane_wait;
void sw_lane_wait_begins(sw_control_lane *lane, const sw_lane_wait *wait);
void sw_lane_wait_ends(sw_control_lane *lane);

/* Is what the lane waits for still to come? False when it does not wait. */
bool sw_lane_is_blocked(const sw_control *control, const sw_lane_record *record);

/* Raise the abort word with `error` as its cause. Async-signal-safe. True if this call was the
 * first. */
bool sw_control_abort(sw_control *control, const sw_error *error);

/* SW_ABORTED with the cause in the message if some rank aborted. */
sw_status sw_control_check(const sw_control *control, sw_error *err);

/* Wake whoever waits for a counter of this rank, after it rose. A system call only if somebody
 * waits. */
void sw_control_ring(sw_control_rank *rank);

/* A fault of this rank's will send it the signal in so many seconds; called before. Was it
 * announced for this time? */
void sw_control_announce(sw_control_rank *rank, int signal_number, double seconds);
bool sw_control_is_announced(const sw_control_rank *rank, int signal_number, double now);

const char *sw_operation_name(sw_comm_operation operation); /* "gather" */
const char *sw_channel_kind_name(uint32_t kind); /* "gathers"; "nothing" while it is closed */

#endif
