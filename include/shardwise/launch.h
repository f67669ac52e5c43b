/* launch.h: ranks, and a way to start them on one host.
 *
 * sw_launch forks n ranks, runs `fn` in each, and supervises them: a rank that dies or is stopped
 * is named at once, one without progress at the deadline; then all ranks are ended, and one error
 * says what happened. Nothing is left behind.
 */
#ifndef SHARDWISE_LAUNCH_H
#define SHARDWISE_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sw_comm sw_comm;

#define SW_MAX_RANKS 256 /* on one host; more is refused by name */

typedef enum sw_shm_mode {
    SW_SHM_VIEW, /* gathered parameters are read where they lie, in the peers' windows */
    SW_SHM_COPY, /* gathered into private memory by a lane of its own, as networks and GPUs do */
    SW_SHM_TRAP  /* view, and memory outside the gathered window faults at the exact instruction */
} sw_shm_mode;

typedef struct sw_launch_options {
    size_t size; /* sizeof(sw_launch_options) */
    int n_ranks;
    sw_shm_mode mode;
    double deadline_seconds; /* a rank that neither advances nor uses CPU for so long is lost */
    bool as_threads;         /* ranks as threads of this process, for race checkers; faults are not
                                supervised, no trap mode */
    /* Set by the caller's signal handler: the number of the signal. Ranks see it through
     * sw_stop_requested. May be NULL. */
    const volatile sig_atomic_t *stop_signal;
    /* Set by the caller's signal handler (and cleared by sw_launch) to ask for a report of what the
     * ranks do. May be NULL. */
    volatile sig_atomic_t *report_request;
    void (*report)(
        void *to, const char *line); /* takes that report, line by line; called in the supervisor */
    void *report_to;
    /* Set by the caller's signal handler (and cleared by sw_launch) to ask the ranks to save what
     * they have: they see it through sw_saves_requested. May be NULL. */
    volatile sig_atomic_t *save_request;
    /* Threads that compute in each rank; 0 counts as 1. Where every thread of every rank has a
     * core, a rank that waits looks for a while before it sleeps. */
    int n_threads;
} sw_launch_options;

#define SW_LAUNCH_OPTIONS_INIT \
    { .size = sizeof(sw_launch_options), .n_ranks = 1, .mode = SW_SHM_VIEW, .deadline_seconds = 60 }

/* What a rank runs. Collective calls on `comm` must be made by all ranks in the same order. A
 * status other than SW_OK ends the other ranks too; sw_launch returns the first one with its
 * message. */
typedef sw_status (*sw_rank_fn)(sw_comm *comm, void *arg, sw_error *err);

/* Run fn on options->n_ranks ranks and wait for them. `arg` is the caller's memory as it was at the
 * call (ranks are forked). Errors: fn's own; SW_LOST_RANK (who, by what, doing what); SW_TIMED_OUT;
 * SW_MISMATCH (ranks that wait for each other); SW_NO_MEMORY (no memory, processes or descriptors
 * for so many ranks); SW_BAD_CONFIG (options). */
SW_API sw_status sw_launch(const sw_launch_options *options, sw_rank_fn fn, void *arg,
                           sw_error *err);

/* Of NULL: -1, and 0 for the three below. */
SW_API int sw_comm_rank(const sw_comm *comm);
SW_API int sw_comm_size(const sw_comm *comm);

/* The signal that asked the run to end, 0 if none. Ranks may see it at different times: agree on it
 * before acting. */
SW_API int sw_stop_requested(const sw_comm *comm);

/* How often save_request has been set since the ranks began. The same holds. */
SW_API uint32_t sw_saves_requested(const sw_comm *comm);

/* Collective. Wait for all ranks. Errors, here and below: SW_ABORTED (another rank failed),
 * SW_MISMATCH (ranks are in different calls). */
SW_API sw_status sw_barrier(sw_comm *comm, sw_error *err);

/* Collective. Every rank gives `bytes` (at most SW_EXCHANGE_BYTES) and gets those of all ranks, in
 * rank order: all [size * bytes]. */
#define SW_EXCHANGE_BYTES 4096
SW_API sw_status sw_exchange(sw_comm *comm, const void *mine, void *all, size_t bytes,
                             sw_error *err);

#ifdef __cplusplus
}
#endif
#endif
