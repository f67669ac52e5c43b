/* condition.h: waiting for a condition, but not for longer than a while. */
#ifndef SW_BASE_CONDITION_H
#define SW_BASE_CONDITION_H

#include <pthread.h>
#include <time.h>

/* A condition whose waits are measured by the clock that only goes forward: setting the time of day
 * does not stretch them. Ownership: pthread_cond_destroy. */
static inline void sw_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Wait under the lock until such a condition is signalled, at most for so many milliseconds, fewer
 * than 1000. It may return for no reason: the caller looks again. */
static inline void sw_condition_wait_ms(pthread_cond_t *condition, pthread_mutex_t *lock,
                                        int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(condition, lock, &until);
}

#endif
