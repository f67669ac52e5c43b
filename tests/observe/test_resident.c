/* test_resident.c: memory of a process, measured on one that grows; limits of a machine, read from
 * folders made for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "observe/resident.h"
#include "support/machine_folder.h"

#define MIB (INT64_C(1) << 20)
#define SLACK (8 * MIB) /* VmRSS is summed from counters per core, which lag behind */

/* ---- a process ---- */

static void touched_memory_is_resident_and_released_memory_stays_in_the_peak(void **state) {
    (void)state;
    const int64_t bytes = 64 * MIB;
    sw_resident before, during, after;
    assert_int_equal(sw_resident_read(0, &before, NULL), SW_OK);
    char *memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, (size_t)bytes);
    assert_int_equal(sw_resident_read(getpid(), &during, NULL), SW_OK);
    munmap(memory, (size_t)bytes);
    assert_int_equal(sw_resident_read(0, &after, NULL), SW_OK);
    assert_true(during.resident - before.resident >= bytes - SLACK);
    assert_true(after.resident <= during.resident - bytes + SLACK);
    assert_true(after.peak >= during.resident - SLACK);
    if (during.proportional >= 0)
        assert_true(during.proportional - before.proportional >= bytes - SLACK);
}

/* Two processes that map the same 64 MiB have 32 MiB of it each. */
static void shared_memory_counts_once_over_all_who_map_it(void **state) {
    (void)state;
    const int64_t bytes = 64 * MIB;
    sw_resident mine, both_mine, childs;
    int ready[2], done[2];
    char token = 0;
    assert_int_equal(sw_resident_read(0, &mine, NULL), SW_OK);
    if (mine.proportional < 0)
        skip(); /* the kernel does not tell */
    assert_int_equal(pipe(ready) | pipe(done), 0);
    char *memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        memset(memory, 1, (size_t)bytes);
        _exit(write(ready[1], &token, 1) == 1 && read(done[0], &token, 1) == 1 ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &token, 1), 1);
    memset(memory, 2, (size_t)bytes);
    assert_int_equal(sw_resident_read(0, &both_mine, NULL), SW_OK);
    assert_int_equal(sw_resident_read(child, &childs, NULL), SW_OK);
    assert_int_equal(write(done[1], &token, 1), 1);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_true(childs.proportional >= bytes / 2 && childs.proportional < bytes / 2 + SLACK);
    assert_true(both_mine.proportional - mine.proportional < bytes / 2 + SLACK);
    assert_true(childs.resident >= bytes - SLACK);
    munmap(memory, (size_t)bytes);
    for (int i = 0; i < 2; i++)
        close(ready[i]), close(done[i]);
}

static void a_process_that_is_not_there_is_an_error(void **state) {
    (void)state;
    sw_resident resident;
    sw_error err;
    assert_int_equal(sw_resident_read(INT32_MAX, &resident, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "/proc/2147483647/status"));
}

/* ---- a machine ---- */

static void assert_available(void **state, int64_t bytes, const char *limit) {
    sw_available_memory available;
    assert_int_equal(sw_available_memory_read(*state, &available, NULL), SW_OK);
    assert_int_equal(available.bytes, bytes);
    assert_string_equal(available.limit, limit);
}

static void without_groups_the_kernels_estimate_counts(void **state) {
    put_file(
        state, "/proc/meminfo",
        "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n");
    assert_available(state, INT64_C(8000000) * 1024, "MemAvailable of /proc/meminfo");
}

static void the_tightest_group_above_the_process_binds(void **state) {
    put_file(state, "/proc/meminfo", "MemAvailable:    8000000 kB\n");
    put_file(state, "/proc/self/cgroup", "0::/a/b\n");
    put_file(state, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    put_file(state, "/sys/fs/cgroup/a/b/memory.current", "500\n");
    put_file(state, "/sys/fs/cgroup/a/memory.max", "1000000\n");
    put_file(state, "/sys/fs/cgroup/a/memory.current", "400000\n");
    put_file(state, "/sys/fs/cgroup/a/memory.stat",
             "anon 100000\nfile 300000\ninactive_anon 7\nactive_anon 9\ninactive_file "
             "200000\nactive_file 50000\n");
    assert_available(state, 1000000 - (400000 - 250000), "/sys/fs/cgroup/a/memory.max");
    put_file(state, "/sys/fs/cgroup/a/b/memory.max", "800\n");
    assert_available(state, 300, "/sys/fs/cgroup/a/b/memory.max");
    put_file(state, "/sys/fs/cgroup/a/b/memory.max", "400\n"); /* over its limit already */
    assert_available(state, 0, "/sys/fs/cgroup/a/b/memory.max");
}

/* Beyond memory.high a group is slowed down until it barely moves: it limits a run as memory.max
 * does. */
static void a_group_that_is_slowed_down_is_full(void **state) {
    put_file(state, "/proc/meminfo", "MemAvailable:    8000000 kB\n");
    put_file(state, "/proc/self/cgroup", "0::/a\n");
    put_file(state, "/sys/fs/cgroup/a/memory.max", "max\n");
    put_file(state, "/sys/fs/cgroup/a/memory.high", "700000\n");
    put_file(state, "/sys/fs/cgroup/a/memory.current", "400000\n");
    assert_available(state, 300000, "/sys/fs/cgroup/a/memory.high");
    put_file(state, "/sys/fs/cgroup/a/memory.max", "900000\n");
    assert_available(state, 300000, "/sys/fs/cgroup/a/memory.high");
    put_file(state, "/sys/fs/cgroup/a/memory.max", "600000\n");
    assert_available(state, 200000, "/sys/fs/cgroup/a/memory.max");
    put_file(state, "/sys/fs/cgroup/a/memory.stat",
             "slab_reclaimable 50000\nslab_unreclaimable 7\ninactive_file 1000\n");
    assert_available(state, 251000, "/sys/fs/cgroup/a/memory.max");
}

/* A limit of a group above that is not mounted here still binds: the kernel tells the least of all
 * of them. */
static void a_limit_above_the_mount_binds(void **state) {
    put_file(state, "/proc/meminfo", "MemAvailable:    8000000 kB\n");
    put_file(state, "/proc/self/cgroup", "4:memory:/\n");
    put_file(state, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_file(state, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    put_file(state, "/sys/fs/cgroup/memory/memory.stat",
             "cache 5\nhierarchical_memory_limit 3000000\ntotal_inactive_file 400000\n");
    assert_available(state, 2400000, "/sys/fs/cgroup/memory/memory.stat");
}

static void the_older_groups_are_read_too(void **state) {
    put_file(state, "/proc/meminfo", "MemAvailable:    8000000 kB\n");
    put_file(state, "/proc/self/cgroup",
             "9:name=systemd:/\n4:hugetlb,memory:/jobs/1\n1:cpu:/\n0::/\n");
    put_file(state, "/sys/fs/cgroup/memory/jobs/1/memory.limit_in_bytes",
             "9223372036854771712\n"); /* none */
    put_file(state, "/sys/fs/cgroup/memory/jobs/1/memory.usage_in_bytes", "900\n");
    assert_available(state, INT64_C(8000000) * 1024, "MemAvailable of /proc/meminfo");
    put_file(state, "/sys/fs/cgroup/memory/jobs/1/memory.limit_in_bytes", "2000000\n");
    put_file(state, "/sys/fs/cgroup/memory/jobs/1/memory.usage_in_bytes", "1500000\n");
    put_file(
        state, "/sys/fs/cgroup/memory/jobs/1/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 600000\ntotal_active_file 100000\n");
    assert_available(state, 2000000 - 800000, "/sys/fs/cgroup/memory/jobs/1/memory.limit_in_bytes");
}

/* In a container the group's name may be the host's; the container's own limit lies at the
 * mount. */
static void in_a_container_the_mount_is_the_group(void **state) {
    put_file(state, "/proc/meminfo", "MemAvailable:    8000000 kB\n");
    put_file(state, "/proc/self/cgroup", "0::/system.slice/docker-0123.scope\n");
    put_file(state, "/sys/fs/cgroup/memory.max", "1000\n");
    put_file(state, "/sys/fs/cgroup/memory.current", "100\n");
    assert_available(state, 900, "/sys/fs/cgroup/memory.max");
    put_file(state, "/proc/self/cgroup", "0::/../../elsewhere\n");
    assert_available(state, 900, "/sys/fs/cgroup/memory.max");
}

static void a_machine_that_does_not_tell_is_an_error(void **state) {
    sw_available_memory available;
    sw_error err;
    assert_int_equal(sw_available_memory_read(*state, &available, &err), SW_BAD_CONFIG);
    assert_non_null(strstr(err.message, "/proc/meminfo"));
}

static void this_machine_tells(void **state) {
    (void)state;
    sw_available_memory available;
    assert_int_equal(sw_available_memory_read("", &available, NULL), SW_OK);
    assert_true(available.bytes > MIB);
    assert_true(strlen(available.limit) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(touched_memory_is_resident_and_released_memory_stays_in_the_peak),
        cmocka_unit_test(shared_memory_counts_once_over_all_who_map_it),
        cmocka_unit_test(a_process_that_is_not_there_is_an_error),
        MACHINE_TEST(without_groups_the_kernels_estimate_counts),
        MACHINE_TEST(the_tightest_group_above_the_process_binds),
        MACHINE_TEST(a_group_that_is_slowed_down_is_full),
        MACHINE_TEST(a_limit_above_the_mount_binds),
        MACHINE_TEST(the_older_groups_are_read_too),
        MACHINE_TEST(in_a_container_the_mount_is_the_group),
        MACHINE_TEST(a_machine_that_does_not_tell_is_an_error),
        cmocka_unit_test(this_machine_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
