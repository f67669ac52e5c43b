/* comm_ranks.c: see comm_ranks.h. */
#include "support/comm_ranks.h"

uint32_t comm_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

sw_launch_options comm_options(int n_ranks, bool as_threads) {
    sw_launch_options options = SW_LAUNCH_OPTIONS_INIT;
    options.n_ranks = n_ranks;
    options.as_threads = as_threads;
    options.deadline_seconds = 30;
    return options;
}
