/* threads.c: workers that share out the tasks of a call.
 *
 * A call is open while its caller takes tasks. A worker enters an open call, takes tasks until none
 * is left, and leaves; the caller closes the call when it finds no more tasks, and returns when
 * nobody is inside. A worker that wakes late finds the call closed and holds nobody up. Gate, count
 * and number of the call are one word, so entering is one compare-and-swap:
 *
 *      | number of the call | open | workers inside |
 *      |      23 bits       |  1   |     8 bits     |
 *
 * Workers sleep on that word (a futex) after a short spin; a system call is made only when somebody
 * sleeps.
 */
#include "device/cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "device/parallel.h"

enum { INSIDE = 0xff, OPEN = 0x100, NUMBER = 0x200 };
enum {
    SPINS = 4000
}; /* looks for the next call: some 100 microseconds, as long as small kernels between two calls
      take */

typedef struct worker {
    sw_threads *all;
    pthread_t thread;
    int number; /* 1 .. */
} worker;

struct sw_threads {
    _Alignas(64) _Atomic uint32_t gate;
    _Atomic uint32_t n_asleep; /* workers that sleep on the gate, or are about to */
    _Alignas(64) _Atomic int64_t next_task;
    _Alignas(64) _Atomic uint32_t is_taken; /* somebody's call runs */
    _Atomic uint32_t
        caller_sleeps; /* ... and waits for the last worker to leave: that one wakes it */
    /* the call; written while the gate is closed and nobody is inside */
    int64_t n_tasks;
    sw_task_fn fn;
    void *arg;
    /* fixed */
    bool may_spin;
    _Atomic uint32_t is_over;
    int n_workers; /* beside the caller */
    worker workers[];
};

static void take_tasks(sw_threads *threads, int number) {
    for (int64_t task; (task = atomic_fetch_add_explicit(&threads->next_task, 1,
                                                         memory_order_relaxed)) < threads->n_tasks;)
        threads->fn(threads->arg, task, number);
}

/* ---- a worker ---- */

static bool has_call(uint32_t gate, uint32_t last) {
    return (gate & OPEN) && (gate & ~(uint32_t)(INSIDE | OPEN)) != last;
}

/* The gate once it is open for a call that this worker has not been in, or once all is over. */
static uint32_t wait_for_call(sw_threads *threads, uint32_t last) {
    uint32_t gate = atomic_load_explicit(&threads->gate, memory_order_acquire);
    for (int i = 0;
         threads->may_spin && i < SPINS && !has_call(gate, last) && !atomic_load(&threads->is_over);
         i++) {
        sw_pause();
        gate = atomic_load_explicit(&threads->gate, memory_order_acquire);
    }
    if (has_call(gate, last))
        return gate;
    atomic_fetch_add(&threads->n_asleep, 1);
    while (!has_call(gate = atomic_load(&threads->gate), last) && !atomic_load(&threads->is_over))
        sw_futex_wait(&threads->gate, gate, NULL, false);
    atomic_fetch_sub(&threads->n_asleep, 1);
    return gate;
}

static void leave(sw_threads *threads) {
    uint32_t before = atomic_fetch_sub(&threads->gate, 1);
    if ((before & (INSIDE | OPEN)) == 1 && atomic_exchange(&threads->caller_sleeps, 0))
        sw_futex_wake(&threads->caller_sleeps, 1, false);
}

static void *work(void *arg) {
    worker *self = arg;
    sw_threads *threads = self->all;
    uint32_t last = 0; /* number of the call that this worker was in; the first is 1 */
    char name[16];
    snprintf(name, sizeof name, "shardwise-%d", self->number & 0xfff);
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        uint32_t gate = wait_for_call(threads, last);
        if (atomic_load(&threads->is_over))
            return NULL;
        while (has_call(gate, last))
            if (atomic_compare_exchange_weak(&threads->gate, &gate, gate + 1)) {
                last = gate & ~(uint32_t)(INSIDE | OPEN);
                take_tasks(threads, self->number);
                leave(threads);
                break;
            }
    }
}

/* ---- the caller ---- */

/* Nobody is inside any more. */
static void wait_until_empty(sw_threads *threads) {
    for (int i = 0; threads->may_spin && i < SPINS; i++) {
        if (!(atomic_load_explicit(&threads->gate, memory_order_acquire) & INSIDE))
            return;
        sw_pause();
    }
    while (atomic_load(&threads->gate) & INSIDE) {
        /* Seen before the gate is looked at again. (An exchange, as emulators of other CPUs do not
         * keep a plain store before the load that follows it.) */
        (void)atomic_exchange(&threads->caller_sleeps, 1);
        if (atomic_load(&threads->gate) & INSIDE)
            sw_futex_wait(&threads->caller_sleeps, 1, NULL, false);
    }
    atomic_store(&threads->caller_sleeps, 0);
}

void sw_parallel(const sw_device *device, int64_t n_tasks, sw_task_fn fn, void *arg) {
    sw_threads *threads = device->threads;
    if (!threads || n_tasks < 2 || atomic_exchange(&threads->is_taken, 1)) {
        for (int64_t task = 0; task < n_tasks; task++)
            fn(arg, task, 0);
        return;
    }
    threads->n_tasks = n_tasks;
    threads->fn = fn;
    threads->arg = arg;
    atomic_store_explicit(&threads->next_task, 0, memory_order_relaxed);
    atomic_fetch_add(&threads->gate, NUMBER + OPEN);
    uint32_t n_asleep = atomic_load(&threads->n_asleep);
    if (n_asleep)
        sw_futex_wake(&threads->gate, n_tasks - 1 < n_asleep ? (int)(n_tasks - 1) : (int)n_asleep,
                      false);
    take_tasks(threads, 0);
    atomic_fetch_sub(&threads->gate, OPEN);
    wait_until_empty(threads);
    atomic_store(&threads->is_taken, 0);
}

/* ---- start and stop ---- */

/* `cpu`: to pin to, -1: none. A mask that cannot be had costs speed at most. */
static int start_worker(worker *w, pthread_attr_t *attributes, int cpu) {
    if (cpu >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_attr_setaffinity_np(attributes, sizeof one, &one);
    }
    sigset_t before, asynchronous;
    sigfillset(&asynchronous); /* the program's handlers run on its own threads; a fault is met by
                                  whoever faults */
    sigdelset(&asynchronous, SIGSEGV);
    sigdelset(&asynchronous, SIGBUS);
    sigdelset(&asynchronous, SIGFPE);
    sigdelset(&asynchronous, SIGILL);
    pthread_sigmask(SIG_SETMASK, &asynchronous, &before);
    int code = pthread_create(&w->thread, attributes, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

sw_status sw_threads_start(int n_threads, bool may_spin, const int *cpus, sw_threads **threads,
                           sw_error *err) {
    size_t bytes = (sizeof(sw_threads) + (size_t)(n_threads - 1) * sizeof(worker) + 63) / 64 * 64;
    sw_threads *t = aligned_alloc(64, bytes);
    *threads = NULL;
    if (!t)
        return sw_fail(err, SW_NO_MEMORY, "opening the CPU: no memory for %d threads (%zu bytes)",
                       n_threads, bytes);
    memset(t, 0, bytes);
    t->may_spin = may_spin;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, SW_THREAD_STACK_BYTES);
    int code = 0;
    for (int i = 0; i < n_threads - 1 && !code; i++) {
        t->workers[i] = (worker){.all = t, .number = i + 1};
        code = start_worker(&t->workers[i], &attributes, cpus ? cpus[i + 1] : -1);
        t->n_workers += !code;
    }
    pthread_attr_destroy(&attributes);
    if (code) {
        sw_fail(err, SW_NO_MEMORY,
                "opening the CPU: thread %d of %d could not be started: %s; take fewer threads or "
                "raise the limit on "
                "processes (ulimit -u)",
                t->n_workers + 2, n_threads, strerror(code));
        sw_threads_stop(t);
        return SW_NO_MEMORY;
    }
    *threads = t;
    return SW_OK;
}

void sw_threads_stop(sw_threads *threads) {
    if (!threads)
        return;
    atomic_store(&threads->is_over, 1);
    atomic_fetch_add(&threads->gate,
                     NUMBER); /* whoever is about to sleep on the old value does not */
    sw_futex_wake(&threads->gate, threads->n_workers, false);
    for (int i = 0; i < threads->n_workers; i++)
        pthread_join(threads->workers[i].thread, NULL);
    free(threads);
}
