/* links.h: what leads from a mover to those of the other hosts, for the mover's own files.
 *
 * Out goes a queue of pieces, in their order. In comes one message at a time: first its note, then
 * the bytes that the note speaks of, straight to where they belong. Between two hosts messages keep
 * their order, and ranks wait for nothing that would need more.
 */
#ifndef SW_COMM_LINKS_H
#define SW_COMM_LINKS_H

#include "comm/bridge.h"
#include "comm/mpi_table.h"

enum {
    SW_MAX_PIECES = 4096,
    SW_MAX_WINDOWS = 256,
    SW_PIECE_BYTES = 8 << 20 /* of a long message */
};

/* Bytes that go out. */
typedef struct sw_piece {
    sw_note note; /* a message begins with one */
    const void *from;
    int bytes;
    bool is_news; /* of ranks, not a sign of life */
    sw_mpi_request request;
} sw_piece;

typedef struct sw_link {
    int host, process; /* MPI's number of that host's mover */
    sw_piece *piece;   /* [SW_MAX_PIECES] a ring */
    uint64_t n_queued, n_posted, n_sent;
    uint64_t n_heartbeats; /* pieces of the last one were queued up to here */
    sw_note note;          /* that is coming, or whose bytes are */
    char *to;              /* where they go; NULL: the note itself is coming */
    int64_t left;          /* of them, with the piece that is on its way */
    int64_t coming;        /* in that piece */
    sw_mpi_request request;
    sw_error error; /* of a note that brings one */
    sw_lane_record lane[SW_LANES];
    double heard;
    int n_returned;
} sw_link;

typedef struct sw_mover {
    sw_bridge *bridge;
    sw_control *control;
    const sw_mpi_table *table;
    double deadline; /* a host that is not heard of for so long is lost */
    int n_links;
    sw_link *link; /* [n_links] */
    struct {
        char *base;
        int64_t bytes;
    } window[SW_MAX_WINDOWS];
    sw_lane_record (*lanes)[SW_LANES]; /* [n_here] as the last heartbeat tells */
    bool *has_told_return;             /* [n_here] */
    int n_told;
    double last_look, last_heartbeat;
} sw_mover;

/* SW_LOST_RANK: MPI said `error`. */
sw_status sw_link_fail(const sw_mover *m, const sw_link *l, const char *doing, int error,
                       sw_error *err);

/* Queue a note and its bytes, which must stay until they are sent; there must be room for them. */
bool sw_link_has_room(const sw_link *l, int64_t bytes);
void sw_link_queue(sw_link *l, const sw_note *note, const char *from);

/* Send what can be sent; *moved is set if something was. */
sw_status sw_link_send(sw_mover *m, sw_link *l, bool *moved, sw_error *err);

/* Have all ranks there returned? Nothing comes after that. */
bool sw_link_is_over(const sw_mover *m, const sw_link *l);

/* Begin to receive; then take what has come, and let ranks know. Errors: SW_LOST_RANK. */
sw_status sw_link_await(sw_mover *m, sw_link *l, sw_error *err);
sw_status sw_link_receive(sw_mover *m, sw_link *l, double now, bool *moved, sw_error *err);

/* Map a window; its host's first rank shows it before any rank of any host can use it. */
sw_status sw_mover_find_window(sw_mover *m, int number, sw_error *err);

#endif
