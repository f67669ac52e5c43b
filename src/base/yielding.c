/* yielding.c: see yielding.h. Empty but in a build with SW_YIELD.
 *
 * A race between a look and what is done about it wants one thread that is late just there, while
 * all others go on as they do. So threads do not sleep anywhere at any time. Half of them are never
 * late. The others are late at a few places each: every eighth line that touches a shared word, and
 * there for a few passes in a row, mostly the first, as what is done once only is done early. Who
 * is late where is drawn from the seed and from the numbers of the process and the thread, so ranks
 * differ.
 */
#ifdef SW_YIELD
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { PLACES = 512 };

typedef struct habits {
    uint64_t number; /* drawn for the thread; 0: not yet */
    uint64_t state;  /* of what is drawn at every access */
    uint32_t n_passes[PLACES];
} habits;

static _Thread_local habits mine;
static _Atomic uint64_t n_threads;
static uint64_t process = 1; /* its parent's number, and how many that one had started before */
static uint64_t n_forks;

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static void before_fork(void) {
    n_forks++;
}

static void in_child(void) {
    process = mix(process + n_forks);
    n_forks = 0;
    n_threads = 0;
    mine = (habits){0};
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, NULL, in_child);
}

static void take_habits(void) {
    const char *seed = getenv("SW_YIELD_SEED");
    uint64_t given = seed ? strtoull(seed, NULL, 10) : 1;
    mine.number = mine.state =
        mix(mix(given * UINT64_C(0x9E3779B97F4A7C15)) + process * 1024 + ++n_threads) | 1;
}

static void sleep_for(int64_t microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

void sw_yield_perhaps(const char *place) {
    if (!mine.number)
        take_habits();
    uint64_t habit = mine.number;
    for (const char *at = place; *at; at++)
        habit = (habit ^ (unsigned char)*at) * UINT64_C(0x100000001B3);
    habit = mix(habit);
    uint32_t pass = mine.n_passes[habit % PLACES]++;
    bool is_late_thread = mine.number >> 60 & 1, is_late_place = habit >> 61 == 0;
    uint32_t first = habit >> 20 & 1 ? 0 : 1U << (habit >> 21 & 7), n_late = 1 + (habit >> 24 & 3);
    if (is_late_thread && is_late_place && pass >= first && pass < first + n_late) {
        sleep_for(habit >> 30 & 1 ? 20000 : 1000 << (habit >> 31 & 3));
        return;
    }
    mine.state = mine.state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint32_t drawn = mine.state >> 33;
    if (drawn % 2048 == 0)
        sleep_for(drawn >> 11 & 255);
    else if (drawn % 128 == 0)
        sched_yield();
}
#else
typedef int sw_nothing_yields;
#endif
