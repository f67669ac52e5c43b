/* comm_ranks.h: what tests of ranks need again and again. */
#ifndef SW_TESTS_SUPPORT_COMM_RANKS_H
#define SW_TESTS_SUPPORT_COMM_RANKS_H

#include <sys/types.h>

#include "comm/comm.h"

/* Small random numbers, the same on all ranks that start from the same seed. */
uint32_t comm_random(uint64_t *state);

/* Fail in a rank: a condition that does not hold ends the run with its text and place, which the
 * test then shows. */
#define RANK_CHECK(condition)                                                                   \
    do {                                                                                        \
        if (!(condition))                                                                       \
            return sw_fail(err, SW_BUG, "%s:%d: not true: %s", __FILE__, __LINE__, #condition); \
    } while (0)

#define RANK_TRY(call)                 \
    do {                               \
        sw_status try_status = (call); \
        if (try_status != SW_OK)       \
            return try_status;         \
    } while (0)

/* Launch options of a test. */
sw_launch_options comm_options(int n_ranks, bool as_threads);

/* Memory that the test and its ranks share: each rank signs in, so that the test can find it. */
typedef struct comm_roll {
    _Atomic int n_present;
    _Atomic pid_t pid[SW_MAX_RANKS];
    _Atomic int value[SW_MAX_RANKS]; /* for the test's own use */
} comm_roll;

comm_roll *comm_roll_create(void);
void comm_roll_free(comm_roll *roll);
void comm_sign_in(comm_roll *roll, const sw_comm *comm);

/* Fork a process that waits until n ranks have signed in, waits `milliseconds` more, sends
 * `signal_number` to `pid` (or, if that is 0, to `rank`), and exits. Reap it with comm_reap. */
pid_t comm_send_later(comm_roll *roll, int n_ranks, int milliseconds, int signal_number, pid_t pid,
                      int rank);
void comm_reap(pid_t pid);

/* Does any rank that signed in still exist? Waits up to two seconds for the last to go. */
bool comm_somebody_is_left(const comm_roll *roll, int n_ranks);

/* Open descriptors of this process, and whether one of them is a shared memory object. */
int comm_n_descriptors(bool *has_memory_object);

/* A rank's endless training: gathers, reduces and exchanges, each under its label. Returns what a
 * collective returned. */
sw_status comm_busy(sw_comm *comm, sw_error *err);

#endif
