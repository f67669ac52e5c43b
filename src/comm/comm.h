/* comm.h: what the rest of the library asks of a transport.
 *
 * Ranks meet over *windows* (memory that all ranks can reach) and *channels* (an epoch counter per
 * rank). The data path of sharded training needs four collectives; each is split where computation
 * can go on in between.
 *
 *   gather    owner: gather_publish(channel, epoch) once its slice holds that epoch's values
 *             everyone: gather(spec): wait for all owners, then view or copy
 *   reduce    everyone: reduce_acquire(spec): the buffer may be filled again (all readers of its
 *             last use are done) contributor: reduce_post(spec) when it is filled; others skip
 *             acquire and post alike everyone: reduce_sum(spec): own slice = [own slice +]
 *             contributions of ranks 0 .. n_contributors-1, in rank order; and, if asked, the
 *             squares of what it then holds, taken while it is in cache
 *   share     of values inside a model: acquire and post as for a reduction, then everyone:
 *             share(spec): the contributions side by side, or their sum, or a slice of it
 *   exchange  small payloads, all to all (launch.h); by lane 0
 *
 * A collective goes along a line of ranks, those of an axis of the mesh; ranks and contributors are
 * counted on it. Channels of one number belong to one line.
 *
 * A channel serves gathers, or reduces and shares: lane 0 opens it (channel_open) before any lane
 * uses it, so that nothing has to be found out at the first use, by two lanes at once.
 *
 * Epochs of a gather channel rise; nobody publishes the next before all have gathered the last (the
 * exchange that decides the update lies in between). A reduce channel belongs to a buffer and
 * counts its own uses, so `epoch` means nothing there: a rank posts a use only after its own
 * reduce_sum of the use before, and every rank calls reduce_sum once per use, whether it
 * contributed or not.
 *
 * Before data moves, fingerprints (sequence on the channel, operation, unit, bytes, dtype) are
 * compared between the two sides; a difference is SW_MISMATCH naming both. Every wait ends when a
 * rank aborts: SW_ABORTED, whose cause is the aborter's error.
 */
#ifndef SW_COMM_COMM_H
#define SW_COMM_COMM_H

#include <shardwise/launch.h>

#include "base/dtype.h"
#include "base/wide_sum.h"
#include "comm/lane.h"
#include "comm/mesh.h"
#include "device/device.h"

/* Where the parts of a collective lie. Rank r's part starts at window + offset + r * rank_stride;
 * at most SW_MAX_CHANNELS channels, numbered by the program. */
typedef struct sw_collective {
    int channel;
    int lane;       /* who calls, for messages and for the watch on progress */
    uint64_t epoch; /* gather */
    int unit;       /* for fingerprints and messages */
    const char *unit_name;
    sw_dtype dtype;
    int64_t shard_bytes; /* one rank's slice */
    char *window;        /* base of the window as mapped here */
    int64_t offset;      /* gather: of rank 0's slice. reduce: of rank 0's full buffer */
    int64_t rank_stride; /* gather: between slices of neighbours. reduce: between full buffers of
                            neighbours */
    void *destination;   /* gather: [n * shard_bytes] private copy, NULL for a view. reduce:
                            [shard_bytes] own slice. share: [n * shard_bytes] of a gather, else
                            [shard_bytes]; NULL: this rank takes part and wants nothing */
    sw_line line;        /* n 0: all ranks */
    sw_share share;     /* of a value; shard_bytes: SUM_SLICE: a slice, else a whole contribution */
    int n_contributors; /* reduce: alike in acquire, post and sum, as is accumulate */
    bool accumulate; /* reduce: add to what destination holds; else the first contribution is copied
                      */
    sw_wide_sum *squares; /* reduce_sum: the squares of the sums are added to it; NULL: not wanted.
                             Slices are whole blocks */
} sw_collective;

typedef struct sw_window {
    char *base;
    int64_t bytes;
} sw_window;

typedef enum sw_channel_kind {
    SW_CHANNEL_CLOSED,
    SW_CHANNEL_GATHERS,
    SW_CHANNEL_REDUCES
} sw_channel_kind;

typedef enum sw_page_access { SW_PAGE_NONE, SW_PAGE_READ, SW_PAGE_WRITE } sw_page_access;

typedef struct sw_control sw_control; /* control.h */

typedef struct sw_comm_vtable {
    const char *name; /* "shm" */
    /* Collective. One zeroed memory object of `bytes`, mapped by every rank; pages exist once they
     * are written. By lane 0, any number of times. SW_NO_MEMORY with the size needed; SW_MISMATCH
     * if ranks ask for different windows. */
    sw_status (*window_create)(sw_comm *comm, const char *name, int64_t bytes, sw_window *window,
                               sw_error *err);
    /* By lane 0, before any lane uses the channel; other ranks need not be there. It serves one
     * kind from then on. */
    sw_status (*channel_open)(sw_comm *comm, int channel, sw_channel_kind kind, sw_error *err);
    sw_status (*gather_publish)(sw_comm *comm, const sw_collective *c, sw_error *err);
    sw_status (*gather)(sw_comm *comm, const sw_collective *c, sw_error *err);
    sw_status (*reduce_acquire)(sw_comm *comm, const sw_collective *c, sw_error *err);
    sw_status (*reduce_post)(sw_comm *comm, const sw_collective *c, sw_error *err);
    sw_status (*reduce_sum)(sw_comm *comm, const sw_collective *c, const sw_device *device,
                            sw_number_kind numbers, sw_error *err);
    /* Sums are folded in R and rounded once, to the type of activations, which dtype is. */
    sw_status (*share)(sw_comm *comm, const sw_collective *c, const sw_device *device,
                       sw_number_kind numbers, sw_error *err);
    sw_status (*exchange)(sw_comm *comm, const void *mine, void *all, size_t bytes, sw_error *err);
    void (*close)(sw_comm *comm);
} sw_comm_vtable;

#define SW_MAX_CHANNELS 4096
#define SW_LABEL_BYTES 64

struct sw_comm {
    const sw_comm_vtable *vtable;
    int rank, n_ranks;
    int first_here, n_here; /* ranks of this host */
    int n_channels;         /* given out so far: who opens channels takes its numbers from here */
    sw_shm_mode mode;
    sw_control *control;             /* what ranks and supervisor know of each other */
    void *transport;                 /* the transport's own */
    double waited_seconds[SW_LANES]; /* for peers, since the start, each written by its lane's
                                        thread */
};

/* Tell supervisor and peers what this lane of this rank is about to do: "gather layers.3". Counts
 * as progress. `step`: the number of the step in the metrics, which counts from 1; 0 outside of
 * steps. */
void sw_comm_enter(sw_comm *comm, int lane, int64_t step, int slot, int instruction,
                   const char *label);

/* End every rank: their waits return SW_ABORTED. The first abort's error wins. */
void sw_comm_abort(sw_comm *comm, const sw_error *error);

/* SW_ABORTED if some rank aborted. For long local work between collectives. */
sw_status sw_comm_check(sw_comm *comm, sw_error *err);

/* The same for work of which nothing is lost when it is broken off, so that nobody has to agree on
 * it: where an end is asked for (sw_stop_requested) it comes for all ranks, with that signal's
 * status. `doing`: "loading the model". */
sw_status sw_comm_check_stop(sw_comm *comm, const char *doing, sw_error *err);

/* Trap mode: allow or forbid this rank the pages [address, address + bytes) of a window; both
 * multiples of the page size. A use of what is forbidden ends the run with SW_BUG, naming what the
 * lane had entered, the window and the offset. */
sw_status sw_comm_protect(sw_comm *comm, void *address, size_t bytes, sw_page_access access,
                          sw_error *err);

#endif
