/* bridge.h: what the ranks of one host, their supervisor and their mover share when a run has
 * several hosts. The mover (mover.h) is a process of its own that talks to those of the other
 * hosts.
 *
 *   host A                                             host B
 *   control memory: pages of all ranks                 control memory: pages of all ranks
 *     of ranks 0, 1: theirs                              of ranks 0, 1: a mirror, written by
 *     of ranks 2, 3: a mirror                              B's mover
 *   windows: whole; slices of ranks 2, 3               windows: the same
 *     are written by A's mover
 *   ranks 0, 1 ── outboxes ──> mover A ── MPI ──> mover B ──> mirror, windows, bells
 *
 * A rank's counters and what they stand for are all that others ever wait for and read. So after a
 * counter has risen the rank puts a note into its outbox, and its mover sends the note, and the
 * bytes that it speaks of, to every other host, once. There they are put where they lie here, and
 * the mirror's counter rises after them: to the ranks there all ranks are neighbours.
 *
 * What is sent stays as it is until it has arrived, by the protocol itself
 * (docs/design/many-hosts.md), so nothing is copied on the way.
 */
#ifndef SW_COMM_BRIDGE_H
#define SW_COMM_BRIDGE_H

#include "comm/control.h"
#include "comm/mpi_meet.h"

typedef enum sw_note_kind {
    SW_NOTE_CHANNEL, /* opened: value is its kind */
    SW_NOTE_PUBLISH, /* value: what `published` rose to; bytes: of the slice */
    SW_NOTE_POST,    /* value: what `posted` rose to; bytes: of what is posted, or of one slice */
    SW_NOTE_SUMMED,
    SW_NOTE_EXCHANGE, /* value: what `arrived` rose to; bytes: of the payload */
    /* From the movers themselves: */
    SW_NOTE_LANES,    /* what the lanes of a rank do */
    SW_NOTE_RETURNED, /* the last of a rank: its final error */
    SW_NOTE_ABORT     /* the error that ended the ranks of the host */
} sw_note_kind;

/* Sent as it is: hosts of one run have one kind of CPU, which movers compare. */
typedef struct sw_note {
    int32_t kind, rank, channel;
    int32_t is_cut; /* each rank of the line reads its slice alone; else all of it */
    sw_line line;   /* whose ranks read the bytes; n 0: nobody's, all are told */
    int32_t window; /* number of the window that the bytes lie in, counted from 0 */
    uint64_t value;
    int64_t offset; /* in the window */
    int64_t bytes;  /* that follow; in an outbox: before it is known what goes to which host */
    sw_fingerprint print;
} sw_note;

/* Notes of one lane of one rank, in their order. One writer, one reader. */
enum { SW_OUTBOX_NOTES = 512 };
typedef struct sw_outbox {
    _Alignas(64) _Atomic uint64_t n_put;
    _Alignas(64) _Atomic uint64_t n_taken;
    sw_note note[SW_OUTBOX_NOTES];
} sw_outbox;

typedef enum sw_bridge_state { SW_BRIDGE_MEETING, SW_BRIDGE_MET, SW_BRIDGE_DONE } sw_bridge_state;

typedef struct sw_bridge {
    /* Written by the mover before `state` is MET. */
    _Atomic uint32_t state;
    int n_hosts, host;           /* how many, and which this is */
    int first[SW_MAX_RANKS + 1]; /* rank of each host; [n_hosts]: all ranks */
    char name[SW_MAX_RANKS][SW_HOST_NAME_BYTES];
    char library[96];         /* the MPI, and the threads that it allows */
    _Atomic uint64_t n_moved; /* messages that came or went */
    _Atomic uint64_t n_bytes; /* that left this host */
    double cpu_seconds;       /* of the mover, once `state` is DONE */
    int window_socket[2];     /* [0] the mover's end, [1] that of the host's first rank */
    int n_here;               /* ranks of this host, known from the beginning */
    sw_outbox outbox[];       /* [n_here * SW_LANES] */
} sw_bridge;

/* Shared with children forked later. Ownership: free with sw_bridge_free; children never do. */
sw_status sw_bridge_create(int n_here, sw_bridge **bridge, sw_error *err);
void sw_bridge_free(sw_bridge *bridge);

/* The host of a rank. */
int sw_bridge_host_of(const sw_bridge *bridge, int rank);

/* Put a note of this rank's lane. Waits while the outbox is full: SW_ABORTED when the run ends. */
sw_status sw_bridge_put(sw_bridge *bridge, const sw_control *control, int rank, int lane,
                        const sw_note *note, sw_error *err);

/* The mover: the oldest note, NULL if there is none; it stays until it is dropped. */
const sw_note *sw_outbox_look(const sw_outbox *outbox);
void sw_outbox_drop(sw_outbox *outbox);

/* A window for the mover, with its number; by the first rank of the host. */
sw_status sw_bridge_give_window(const sw_bridge *bridge, int number, int64_t bytes, int descriptor,
                                sw_error *err);
/* The mover: one that was given; false: none now. */
bool sw_bridge_take_window(const sw_bridge *bridge, int *number, int64_t *bytes, int *descriptor);

#endif
