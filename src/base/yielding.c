/* yielding.c: see yielding.h. Empty but in a build with SW_YIELD. */
#ifdef SW_YIELD
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Each thread of each rank draws numbers of its own; ranks are forked one after another, so their ids count them. */
static uint64_t draw(void) {
    static _Atomic uint64_t n_threads;
    static _Thread_local uint64_t state;
    static _Thread_local pid_t owner;
    if (!state || owner != getpid()) {
        const char *seed = getenv("SW_YIELD_SEED");
        owner = getpid();
        state = (seed ? strtoull(seed, NULL, 10) : 1) * UINT64_C(0x9E3779B97F4A7C15) +
                (uint64_t)(owner - getppid()) * 0x2545F491 + ++n_threads;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

void sw_yield_perhaps(void);

void sw_yield_perhaps(void) {
    uint64_t drawn = draw() >> 20;
    if (drawn % 32)
        return;
    long microseconds = drawn / 32 % 256 == 0 ? 20000 : drawn / 32 % 16 == 0 ? (long)(drawn >> 16 & 511) : 0;
    if (microseconds)
        nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
    else
        sched_yield();
}
#else
typedef int sw_nothing_yields;
#endif
