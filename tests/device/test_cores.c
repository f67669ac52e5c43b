/* The cores that a process may use, and how ranks share them. Machines of other shapes are
 * described to hwloc in words, in a child process: it reads its environment once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cpu/cores.h"
#include "device/cpu/open.h"
#include "device/parallel.h"
#include "support/machine_folder.h"

/* 1: as expected. */
static int cores_of(const char *machine, int n, const int *cpus) {
    pid_t child = fork();
    if (child == 0) {
        static sw_cores cores;
        setenv("HWLOC_SYNTHETIC", machine, 1);
        sw_cores_find(&cores);
        _exit(cores.n_found == n && cores.n <= n &&
              memcmp(cores.cpu, cpus, (size_t)n * sizeof *cpus) == 0);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void hardware_threads_that_share_a_core_count_once(void **state) {
    (void)state;
    assert_true(cores_of("core:4 pu:1", 4, (int[]){0, 1, 2, 3}));
    assert_true(cores_of("core:2 pu:2", 2, (int[]){0, 2}));
    assert_true(cores_of("package:2 l3:2 core:2 pu:2", 8, (int[]){0, 2, 4, 6, 8, 10, 12, 14}));
}

/* Hardware threads numbered across packages, as many machines do: neighbours in the list still
 * share a package. */
static void cores_come_in_the_machine_s_order(void **state) {
    (void)state;
    assert_true(cores_of("package:2 core:2 pu:1(indexes=0,2,1,3)", 4, (int[]){0, 2, 1, 3}));
}

static void an_affinity_mask_is_honoured(void **state) {
    (void)state;
    static sw_cores all, one;
    cpu_set_t before, mask;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    sw_cores_find(&all);
    assert_in_range(all.n, 1, all.n_found);
    assert_in_range(all.n_found, 1, CPU_COUNT(&before));
    for (int i = 0; i < all.n_found; i++)
        assert_true(CPU_ISSET(all.cpu[i], &before));
    CPU_ZERO(&mask);
    CPU_SET(all.cpu[all.n_found - 1], &mask);
    assert_int_equal(sched_setaffinity(0, sizeof mask, &mask), 0);
    sw_cores_find(&one);
    int n = sw_cores_count();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(one.n, 1);
    assert_int_equal(n, 1);
    assert_int_equal(sw_cores_count(), all.n);
    assert_int_equal(one.cpu[0], all.cpu[all.n_found - 1]);
}

static void no_core_is_given_twice_and_none_when_they_are_too_few(void **state) {
    (void)state;
    static sw_cores cores;
    int cpus[SW_MAX_CORES];
    for (cores.n = cores.n_found = 1; cores.n <= 24; cores.n_found = ++cores.n)
        for (int n_ranks = 1; n_ranks <= 9; n_ranks++)
            for (int n_threads = 1; n_threads <= 5; n_threads++) {
                int times[24] = {0};
                for (int i = 0; i < cores.n; i++)
                    cores.cpu[i] = i;
                bool fits = n_ranks * n_threads <= cores.n;
                for (int rank = 0; rank < n_ranks; rank++) {
                    assert_int_equal(sw_cores_of_rank(&cores, n_ranks, n_threads, rank, cpus),
                                     fits);
                    for (int t = 0; t < n_threads && fits; t++)
                        assert_int_equal(times[cpus[t]]++, 0);
                }
            }
}

/* Where a control group lets two of four run, it does not say which: others have the same four. */
static void none_is_given_where_fewer_may_run_than_there_are(void **state) {
    (void)state;
    static const sw_cores cores = {.n = 2, .n_found = 4, .cpu = {0, 1, 2, 3}};
    int cpus[2];
    assert_false(sw_cores_of_rank(&cores, 1, 1, 0, cpus));
    assert_false(sw_cores_of_rank(&cores, 2, 1, 1, cpus));
}

static void expect_quota(void **state, double quota) {
    assert_true(sw_cores_quota(*state) == quota);
}

static void the_tightest_quota_above_the_process_counts(void **state) {
    expect_quota(state, INFINITY); /* no control groups at all */
    put_file(state, "/proc/self/cgroup", "0::/a/b\n");
    expect_quota(state, INFINITY);
    put_file(state, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    expect_quota(state, INFINITY);
    put_file(state, "/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    expect_quota(state, 1.5);
    put_file(state, "/sys/fs/cgroup/a/b/cpu.max", "25000 50000\n");
    expect_quota(state, 0.5);
    put_file(state, "/sys/fs/cgroup/a/b/cpu.max", "25000\n"); /* of no period */
    expect_quota(state, 1.5);
    put_file(state, "/sys/fs/cgroup/a/cpu.max", "1 0\n");
    expect_quota(state, INFINITY);
}

static void the_older_groups_have_quotas_too(void **state) {
    put_file(state, "/proc/self/cgroup", "4:memory:/jobs/1\n3:cpu,cpuacct:/jobs/1\n0::/\n");
    put_file(state, "/sys/fs/cgroup/cpu/jobs/1/cpu.cfs_quota_us", "-1\n");
    put_file(state, "/sys/fs/cgroup/cpu/jobs/1/cpu.cfs_period_us", "100000\n");
    put_file(state, "/sys/fs/cgroup/memory/jobs/1/cpu.cfs_quota_us", "1\n");
    put_file(state, "/sys/fs/cgroup/memory/jobs/1/cpu.cfs_period_us", "1\n");
    expect_quota(state, INFINITY);
    put_file(state, "/sys/fs/cgroup/cpu/jobs/1/cpu.cfs_quota_us", "300000\n");
    expect_quota(state, 3);
    put_file(state, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
             "200000\n"); /* of a period that is not told */
    expect_quota(state, 3);
}

/* In a container the group's name may be the host's. */
static void in_a_container_the_mount_is_the_group(void **state) {
    put_file(state, "/proc/self/cgroup", "0::/system.slice/docker-0123.scope\n");
    put_file(state, "/sys/fs/cgroup/cpu.max", "400000 100000\n");
    expect_quota(state, 4);
}

/* Two ranks of two threads on two packages of four cores: one rank on each. */
static void ranks_lie_far_apart(void **state) {
    (void)state;
    static sw_cores cores = {.n = 8, .n_found = 8, .cpu = {10, 11, 12, 13, 20, 21, 22, 23}};
    int cpus[2];
    assert_true(sw_cores_of_rank(&cores, 2, 2, 0, cpus));
    assert_true(cpus[0] == 10 && cpus[1] == 11);
    assert_true(sw_cores_of_rank(&cores, 2, 2, 1, cpus));
    assert_true(cpus[0] == 20 && cpus[1] == 21);
}

typedef struct places {
    pthread_barrier_t all_here;
    cpu_set_t mask[2]; /* by worker */
} places;

static void look(void *arg, int64_t task, int worker) {
    (void)task;
    places *p = arg;
    pthread_barrier_wait(&p->all_here);
    sched_getaffinity(0, sizeof p->mask[worker], &p->mask[worker]);
}

static void
threads_are_pinned_where_they_are_told_and_the_caller_is_freed_at_the_end(void **state) {
    (void)state;
    static sw_cores cores;
    cpu_set_t before, after;
    int cpus[2];
    sw_device *device;
    sw_error err;
    sw_cores_find(&cores);
    if (!sw_cores_of_rank(&cores, 1, 2, 0, cpus))
        skip();
    places p;
    assert_int_equal(pthread_barrier_init(&p.all_here, NULL, 2), 0);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(sw_cpu_open(&(sw_cpu_options){.n_threads = 2, .cpus = cpus}, &device, &err),
                     SW_OK);
    sw_parallel(device, 2, look, &p); /* each task waits for the other, so each worker has one */
    for (int worker = 0; worker < 2; worker++)
        assert_true(CPU_COUNT(&p.mask[worker]) == 1 && CPU_ISSET(cpus[worker], &p.mask[worker]));
    device->close(device);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    pthread_barrier_destroy(&p.all_here);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hardware_threads_that_share_a_core_count_once),
        cmocka_unit_test(cores_come_in_the_machine_s_order),
        cmocka_unit_test(an_affinity_mask_is_honoured),
        cmocka_unit_test(no_core_is_given_twice_and_none_when_they_are_too_few),
        cmocka_unit_test(none_is_given_where_fewer_may_run_than_there_are),
        MACHINE_TEST(the_tightest_quota_above_the_process_counts),
        MACHINE_TEST(the_older_groups_have_quotas_too),
        MACHINE_TEST(in_a_container_the_mount_is_the_group),
        cmocka_unit_test(ranks_lie_far_apart),
        cmocka_unit_test(threads_are_pinned_where_they_are_told_and_the_caller_is_freed_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
