/* comm_ranks.h: what tests of ranks need again and again. */
#ifndef SW_TESTS_SUPPORT_COMM_RANKS_H
#define SW_TESTS_SUPPORT_COMM_RANKS_H

#include "comm/comm.h"

/* Small random numbers, the same on all ranks that start from the same seed. */
uint32_t comm_random(uint64_t *state);

/* Fail in a rank: a condition that does not hold ends the run with its text and place, which the test then shows. */
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

#endif
