/* test_save_memory.c: what saving takes is what was planned; while a run saves nothing is
 * allocated; and each allocation of opening, loading, verifying, listing and comparing fails in
 * turn: an error, never a crash, and nothing is kept.
 */
#include "checkpoint/saved_run.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "checkpoint/diff.h"

/* Sanitizers bring an allocator of their own; there the tests walk the way on which nothing
 * fails. */
#ifdef SW_SANITIZED
#define CAN_FAIL 0
#else
#define CAN_FAIL 1
#endif

static atomic_llong n_left = -1;   /* allocations until one fails; below 0: none does */
static atomic_llong n_allocations; /* so far */
static atomic_llong n_alive;       /* that were not given back yet */

#if CAN_FAIL
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void __libc_free(void *memory);

#pragma GCC visibility push(default) /* libraries call these too */
void *malloc(size_t bytes);
void *calloc(size_t n, size_t bytes);
void *realloc(void *memory, size_t bytes);
void *aligned_alloc(size_t alignment, size_t bytes);
void free(void *memory);
void *mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset);
#pragma GCC visibility pop

static bool fails(void) {
    atomic_fetch_add(&n_allocations, 1);
    bool is_failing = atomic_load(&n_left) >= 0 && atomic_fetch_sub(&n_left, 1) == 0;
    if (is_failing)
        errno = ENOMEM;
    return is_failing;
}

static void *alive(void *memory) {
    atomic_fetch_add(&n_alive, memory != NULL);
    return memory;
}

void *malloc(size_t bytes) {
    return fails() ? NULL : alive(__libc_malloc(bytes));
}
void *calloc(size_t n, size_t bytes) {
    return fails() ? NULL : alive(__libc_calloc(n, bytes));
}
void *realloc(void *memory, size_t bytes) {
    void *moved = fails() ? NULL : __libc_realloc(memory, bytes);
    return memory ? moved : alive(moved);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? NULL : alive(__libc_memalign(alignment, bytes));
}
void free(void *memory) {
    atomic_fetch_sub(&n_alive, memory != NULL);
    __libc_free(memory);
}
void *mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
    atomic_fetch_add(&n_allocations, 1);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset);
}
#endif

/* Bytes that sw_save_open takes on each rank. */
static void memory_is_what_was_planned(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    begin_run(&run, 3);
    for (int rank = 0; rank < 3 && CAN_FAIL; rank++) {
        sw_save_options options = save_options(&run, rank);
        struct mallinfo2 before = mallinfo2();
        assert_int_equal(sw_save_open(&options, &run.save[rank], &err), SW_OK);
        struct mallinfo2 after = mallinfo2();
        int64_t taken =
            (int64_t)(after.uordblks + after.hblkhd) - (int64_t)(before.uordblks + before.hblkhd);
        int64_t planned = sw_save_bytes(&options);
        assert_true(taken <= planned + 16384 &&
                    planned <= taken + 65536); /* an allocator's own bytes; rounding up to pages */
    }
    end_run(&run);
}

/* Not for a moment, by the library or by what it calls, on any rank; with what is not kept removed
 * on the way. */
static void nothing_is_allocated_while_saving(void **state) {
    (void)state;
    saved_run run;
    sw_error err;
    begin_run(&run, 2);
    run.retention.keep = 1;
    save_step(&run, 1);
    assert_true(!CAN_FAIL || n_allocations > 0); /* counting works */
    long long before = n_allocations;
    for (int step = 2; step < 5; step++)
        assert_int_equal(try_save(&run, step, &err), SW_OK);
    assert_int_equal(n_allocations, before);
    end_run(&run);
}

static void hear_difference(void *to, const sw_difference *difference) {
    (void)to, (void)difference;
}

static sw_status put_nowhere(void *to, sw_state_kind kind, int group, const sw_piece *piece,
                             int64_t first, int64_t n, float *values, sw_error *err) {
    (void)to, (void)kind, (void)group, (void)piece, (void)first, (void)n, (void)values, (void)err;
    return SW_OK;
}

/* Everything that reads. */
static sw_status read_all(const saved_run *run, sw_error *err) {
    sw_checkpoint *checkpoint = NULL;
    sw_steps steps = {0};
    int64_t step = 0;
    char path[SW_PATH_BYTES];
    sw_status status = sw_step_path(run->folder, 10, path, err);
    if (status == SW_OK)
        status = sw_checkpoint_open(path, &checkpoint, err);
    if (status == SW_OK)
        status = sw_checkpoint_compare(checkpoint, run->graph, ALL_ADAMW, err);
    if (status == SW_OK)
        status = sw_checkpoint_load(checkpoint, &run->layout, 0, ALL_ADAMW, put_nowhere, NULL, NULL,
                                    err);
    if (status == SW_OK)
        status = sw_checkpoint_verify(checkpoint, 1, err);
    if (status == SW_OK)
        status = sw_checkpoint_diff(checkpoint, checkpoint, hear_difference, NULL, err);
    sw_checkpoint_close(checkpoint);
    if (status == SW_OK)
        status = sw_steps_list(run->folder, &steps, err);
    for (int i = 0; i < steps.n && status == SW_OK;
         i++) /* one that could not be looked at for want of memory is not damaged */
        assert_true(steps.item[i].is_whole);
    sw_steps_free(&steps);
    if (status == SW_OK)
        status = newest_good_step(run->folder, 1, NULL, NULL, &step, err);
    assert_true(status != SW_OK || step == 20);
    return status;
}

static sw_status open_and_close(saved_run *run, sw_error *err) {
    sw_status status = open_saves(run, err);
    close_saves(run);
    return status;
}

/* `what` until none of its allocations fails; returns how many there are. */
static int each_fails(saved_run *run, sw_status (*what)(saved_run *run, sw_error *err)) {
    int n = 0;
    for (;; n++) {
        sw_error err = {0};
        long long before = n_alive;
        n_left = CAN_FAIL ? n : -1;
        sw_status status = what(run, &err);
        bool did_fail = CAN_FAIL && n_left < 0;
        n_left = -1;
        if (!did_fail) {
            assert_int_equal(status, SW_OK);
            return n;
        }
        if (status != SW_NO_MEMORY &&
            status != SW_OK) /* a list may be sorted without, a thread done without */
            fail_msg("allocation %d: %s", n, err.message);
        assert_int_equal(status != SW_OK, err.message[0] != 0);
        if (n_alive != before)
            fail_msg("allocation %d: %s: %lld allocations are kept", n, err.message,
                     n_alive - before);
        assert_true(n < 5000);
    }
}

static sw_status read_again(saved_run *run, sw_error *err) {
    return read_all(run, err);
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    saved_run run;
    begin_run_of(&run, 2, SKINNY_ROWS);
    run.model_config = "{}";
    save_step(&run, 10);
    save_step(&run, 20);
    close_saves(&run);
    int n_read = each_fails(&run, read_again), n_open = each_fails(&run, open_and_close);
    assert_true(!CAN_FAIL || (n_read > 100 && n_open > 50));
    end_run(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_what_was_planned),
        cmocka_unit_test(nothing_is_allocated_while_saving),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
