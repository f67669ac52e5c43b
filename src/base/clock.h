/* clock.h: seconds that only go forward. */
#ifndef SW_BASE_CLOCK_H
#define SW_BASE_CLOCK_H

#include <time.h>

/* Since some moment in the past, whatever happens to the time of day. */
static inline double sw_seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds for which the calling thread has had a core: what others do on it meanwhile does not
 * count. */
static inline double sw_seconds_of_thread(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
