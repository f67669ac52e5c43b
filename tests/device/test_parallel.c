/* sw_parallel: every task once, on workers that exist, whatever the number of threads. Ranks run it
 * AS_THREADS too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "device/parallel.h"

enum { MOST_TASKS = 1000, MOST_THREADS = 5, N_CALLS = 300 };

static sw_device *open_with(int n_threads, bool may_spin) {
    sw_device *device;
    sw_error err;
    sw_cpu_options options = {.set = SW_SET_BASELINE, .n_threads = n_threads, .may_spin = may_spin};
    assert_int_equal(sw_cpu_open(&options, &device, &err), SW_OK);
    assert_int_equal(device->n_threads, n_threads ? n_threads : 1);
    return device;
}

typedef struct tally {
    const sw_device *device;
    int n_workers;
    _Atomic int times[MOST_TASKS];
    _Atomic int inside[MOST_THREADS]; /* tasks that run under each worker's number */
    _Atomic int n_wrong;
} tally;

static void count(void *arg, int64_t task, int worker) {
    tally *t = arg;
    if (worker < 0 || worker >= t->n_workers || atomic_fetch_add(&t->inside[worker], 1) != 0)
        atomic_fetch_add(&t->n_wrong, 1);
    atomic_fetch_add(&t->times[task], 1);
    if (worker >= 0 && worker < t->n_workers)
        atomic_fetch_sub(&t->inside[worker], 1);
}

static void run_and_check(const sw_device *device, int64_t n_tasks) {
    static tally t;
    memset(&t, 0, sizeof t);
    t.n_workers = device->n_threads;
    sw_parallel(device, n_tasks, count, &t);
    for (int64_t i = 0; i < MOST_TASKS; i++)
        assert_int_equal(t.times[i], i < n_tasks);
    assert_int_equal(t.n_wrong, 0);
}

static void every_task_runs_once_and_no_two_share_a_worker(void **state) {
    (void)state;
    const int64_t n_tasks[] = {0, 1, 2, 3, 7, 64, MOST_TASKS};
    for (int n_threads = 0; n_threads <= MOST_THREADS; n_threads++)
        for (int may_spin = 0; may_spin < 2; may_spin++) {
            sw_device *device = open_with(n_threads, may_spin);
            for (int call = 0; call < N_CALLS; call++)
                run_and_check(device, n_tasks[call % 7]);
            usleep(2000); /* workers fall asleep and must be found */
            run_and_check(device, MOST_TASKS);
            device->close(device);
        }
}

/* What tasks wrote is seen by the caller without further ado, and what the caller wrote is seen by
 * tasks. */
static void add_one(void *arg, int64_t task, int worker) {
    (void)worker;
    ((int64_t *)arg)[task]++;
}

static void calls_follow_one_another(void **state) {
    (void)state;
    static int64_t value[64];
    sw_device *device = open_with(3, true);
    memset(value, 0, sizeof value);
    for (int call = 0; call < 20000; call++) {
        value[call % 64] += 2;
        sw_parallel(device, 64, add_one, value);
    }
    for (int i = 0; i < 64; i++)
        assert_int_equal(value[i], 20000 + 2 * (20000 / 64 + (i < 20000 % 64)));
    device->close(device);
}

typedef struct nest {
    const sw_device *device;
    tally inner[8];
} nest;

static void call_again(void *arg, int64_t task, int worker) {
    (void)worker;
    nest *n = arg;
    n->inner[task].n_workers = 1; /* serial: worker 0 of its own working space */
    sw_parallel(n->device, 50, count, &n->inner[task]);
}

static void a_call_within_a_task_is_serial(void **state) {
    (void)state;
    static nest n;
    memset(&n, 0, sizeof n);
    sw_device *device = open_with(4, true);
    n.device = device;
    sw_parallel(device, 8, call_again, &n);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(n.inner[i].n_wrong, 0);
        for (int task = 0; task < MOST_TASKS; task++)
            assert_int_equal(n.inner[i].times[task], task < 50);
    }
    device->close(device);
}

/* Two lanes of a rank: each gets all its tasks done, and neither waits for the other. */
static void *second_lane(void *arg) {
    static int64_t value[64];
    for (int call = 0; call < 2000; call++)
        sw_parallel(arg, 64, add_one, value);
    for (int i = 0; i < 64; i++)
        if (value[i] != 2000)
            return arg;
    return NULL;
}

static void calls_of_two_threads_keep_apart(void **state) {
    (void)state;
    static int64_t value[64];
    pthread_t thread;
    void *wrong;
    sw_device *device = open_with(3, false);
    assert_int_equal(pthread_create(&thread, NULL, second_lane, device), 0);
    for (int call = 0; call < 2000; call++)
        sw_parallel(device, 64, add_one, value);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    for (int i = 0; i < 64; i++)
        assert_int_equal(value[i], 2000);
    device->close(device);
}

static void a_device_alone_has_one_thread_and_the_same_kernels(void **state) {
    (void)state;
    sw_device *device = open_with(3, false);
    assert_int_equal(device->alone->n_threads, 1);
    assert_null(device->alone->threads);
    assert_ptr_equal(device->alone->alone, device->alone);
    for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++)
        for (int kernel = 0; kernel < SW_N_KERNELS; kernel++)
            assert_ptr_equal(
                sw_device_kernel(device->alone, (sw_number_kind)numbers, (sw_kernel)kernel),
                sw_device_kernel(device, (sw_number_kind)numbers, (sw_kernel)kernel));
    run_and_check(device->alone, MOST_TASKS);
    device->close(device);
}

static void too_many_threads_are_refused(void **state) {
    (void)state;
    sw_device *device;
    sw_error err;
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.n_threads = SW_MAX_THREADS + 1}, &device, &err),
                     SW_BAD_CONFIG);
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.n_threads = -1}, &device, &err), SW_BAD_CONFIG);
    assert_null(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once_and_no_two_share_a_worker),
        cmocka_unit_test(calls_follow_one_another),
        cmocka_unit_test(a_call_within_a_task_is_serial),
        cmocka_unit_test(calls_of_two_threads_keep_apart),
        cmocka_unit_test(a_device_alone_has_one_thread_and_the_same_kernels),
        cmocka_unit_test(too_many_threads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
