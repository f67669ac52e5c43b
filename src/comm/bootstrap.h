/* bootstrap.h: how ranks that were just started find each other, before a transport exists.
 *
 * A launcher fills it in: forked ranks use socket pairs, ranks that are threads use the memory they
 * have in common; others (MPI) come later. A transport needs nothing else to open. All calls are
 * collective, in the same order on all ranks.
 */
#ifndef SW_COMM_BOOTSTRAP_H
#define SW_COMM_BOOTSTRAP_H

#include "comm/control.h"

typedef struct sw_bootstrap sw_bootstrap;

struct sw_bootstrap {
    int rank, size;
    int first, n_ranks;  /* of the run: these are its ranks first .. first + size - 1 */
    bool is_one_process; /* an address of rank 0 is valid in all ranks */
    /* Give `bytes`, get those of all ranks in rank order: all [size * bytes]. */
    sw_status (*exchange_bytes)(sw_bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
                                sw_error *err);
    /* Rank 0 gives an open file; the others get a descriptor of their own for it. Not called when
     * is_one_process. */
    sw_status (*exchange_descriptor)(sw_bootstrap *bootstrap, int *descriptor, sw_error *err);
    void *state; /* the launcher's */
};

/* Socket pairs for n forked ranks, made before the fork. Then each child takes its place, and the
 * parent closes its ends. */
typedef struct sw_fork_bootstrap {
    sw_bootstrap base;
    const sw_control *control; /* its abort word ends every wait */
    int size;
    int socket[SW_MAX_RANKS][2]; /* of rank r: [0] is rank 0's end, [1] rank r's; -1 closed; rank 0
                                    has none of its own */
} sw_fork_bootstrap;

sw_status sw_fork_bootstrap_create(const sw_control *control, int size,
                                   sw_fork_bootstrap *bootstrap, sw_error *err);
/* In the child. `first`: rank in the run of this host's first. */
void sw_fork_bootstrap_take(sw_fork_bootstrap *bootstrap, int first, int rank);
void sw_fork_bootstrap_close(sw_fork_bootstrap *bootstrap);

/* Ranks that are threads of one process: the meeting place that all share. */
typedef struct sw_thread_meeting {
    int n_ranks;
    const sw_control *control;
    _Atomic uint32_t n_arrived, round;
    char *bytes; /* [n_ranks * SW_EXCHANGE_BYTES] */
} sw_thread_meeting;

sw_status sw_thread_meeting_create(const sw_control *control, sw_thread_meeting *meeting,
                                   sw_error *err);
void sw_thread_meeting_free(sw_thread_meeting *meeting);
void sw_thread_bootstrap_take(sw_thread_meeting *meeting, int rank, sw_bootstrap *bootstrap);

#endif
