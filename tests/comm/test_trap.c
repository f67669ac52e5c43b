/* Trap mode: memory that is not open faults at the exact instruction, and the error names window,
 * offset and what was done. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_ranks.h"

enum { SLICE = 1 << 16 }; /* of each rank; a multiple of every page size */

typedef struct offence {
    bool writes;
    sw_page_access access;
    int64_t offset;
} offence;

static sw_status offend(sw_comm *comm, void *arg, sw_error *err) {
    const offence *o = arg;
    sw_window other, window;
    RANK_TRY(comm->vtable->window_create(comm, "gradients", SLICE, &other, err));
    RANK_TRY(comm->vtable->window_create(comm, "parameters", 2 * SLICE, &window, err));
    window.base[(int64_t)sw_comm_rank(comm) * SLICE] = 1;
    RANK_TRY(sw_barrier(comm, err));
    RANK_TRY(sw_comm_protect(comm, window.base + SLICE, SLICE, o->access, err));
    sw_comm_enter(comm, 0, 17, 2, 40, "forward layers.3 linear");
    volatile char *byte = window.base + o->offset;
    if (sw_comm_rank(comm) == 0 && o->writes)
        *byte = 1;
    else if (sw_comm_rank(comm) == 0)
        (void)*byte;
    return sw_barrier(comm, err);
}

static sw_error launch_offence(offence o, sw_status expected) {
    sw_launch_options options = comm_options(2, false);
    sw_error err = {0};
    options.mode = SW_SHM_TRAP;
    sw_status status = sw_launch(&options, offend, &o, &err);
    if (status != expected)
        fail_msg("%s: %s", sw_status_name(status), err.message);
    return err;
}

static void expect_text(const char *message, const char *text) {
    if (!strstr(message, text))
        fail_msg("'%s' is missing in: %s", text, message);
}

static void a_read_of_what_is_not_gathered_is_named(void **state) {
    (void)state;
    sw_error err = launch_offence((offence){false, SW_PAGE_NONE, SLICE + 1234}, SW_BUG);
    expect_text(err.message, "window \"parameters\" at offset 66770,");
    expect_text(err.message, "rank 0");
    expect_text(err.message, "in \"forward layers.3 linear\" at step 17, slot 2");
#ifdef __x86_64__
    expect_text(err.message, " read ");
#endif
}

static void a_write_outside_the_update_is_named(void **state) {
    (void)state;
    sw_error err = launch_offence((offence){true, SW_PAGE_READ, SLICE}, SW_BUG);
    expect_text(err.message, "window \"parameters\" at offset 65536,");
    expect_text(err.message, "in \"forward layers.3 linear\" at step 17");
#ifdef __x86_64__
    expect_text(err.message, " wrote ");
#endif
}

/* Threads beside the rank's own: one that computes for it, and one that is a lane itself. */
typedef struct other_thread {
    sw_comm *comm;
    const volatile char *byte;
    int lane; /* whose thread it is; -1: none's */
} other_thread;

static void *offend_there(void *arg) {
    const other_thread *o = arg;
    if (o->lane >= 0)
        sw_comm_enter(o->comm, o->lane, 18, 3, 41, "gather layers.4");
    (void)*o->byte;
    return NULL;
}

static sw_status offend_in_a_thread(sw_comm *comm, void *arg, sw_error *err) {
    sw_window window;
    RANK_TRY(comm->vtable->window_create(comm, "parameters", SLICE, &window, err));
    sw_comm_enter(comm, 0, 17, 2, 40, "forward layers.3 linear");
    RANK_TRY(sw_comm_protect(comm, window.base, SLICE, SW_PAGE_NONE, err));
    other_thread other = {comm, window.base, *(const int *)arg};
    pthread_t thread;
    RANK_CHECK(pthread_create(&thread, NULL, offend_there, &other) == 0);
    pthread_join(thread, NULL);
    return sw_barrier(comm, err);
}

static void the_lane_of_a_thread_is_named(void **state) {
    (void)state;
    for (int lane = -1; lane < SW_LANES; lane++) {
        sw_launch_options options = comm_options(1, false);
        sw_error err = {0};
        options.mode = SW_SHM_TRAP;
        assert_int_equal(sw_launch(&options, offend_in_a_thread, &lane, &err), SW_BUG);
        expect_text(err.message, lane < 0    ? "rank 0 (a compute thread of lane 0) "
                                 : lane == 1 ? "rank 0 (lane 1, which moves bytes) "
                                             : "rank 0 ");
        expect_text(err.message, lane < 0 ? "in \"forward layers.3 linear\" at step 17, slot 2"
                                          : "in \"gather layers.4\" at step 18, slot 3");
    }
}

static void what_is_open_can_be_used(void **state) {
    (void)state;
    launch_offence((offence){false, SW_PAGE_READ, SLICE}, SW_OK);
    launch_offence((offence){true, SW_PAGE_WRITE, SLICE}, SW_OK);
    launch_offence((offence){true, SW_PAGE_NONE, 0}, SW_OK); /* the slice beside it */
}

static sw_status use_forbidden_page(sw_comm *comm, void *arg, sw_error *err) {
    volatile char *page = arg;
    sw_comm_enter(comm, 0, 1, 0, 0, "forward");
    if (sw_comm_rank(comm) == 1)
        *page = 1;
    return sw_barrier(comm, err);
}

/* A launch in which rank 1 comes to a fault that is not the handler's to name. */
static void expect_a_crash(sw_rank_fn fn, void *arg) {
    sw_launch_options options = comm_options(2, false);
    sw_error err = {0};
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    options.mode = SW_SHM_TRAP;
    assert_int_equal(sw_launch(&options, fn, arg, &err), SW_LOST_RANK);
    expect_text(err.message, "rank 1 was killed by SIGSEGV while in \"forward\" at step 1");
}

static void a_fault_elsewhere_is_a_crash_like_any_other(void **state) {
    (void)state;
    void *page = mmap(NULL, SLICE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect_a_crash(use_forbidden_page, page);
    munmap(page, SLICE);
}

static sw_status send_itself_a_fault(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_window window; /* so that some address could be taken for one inside */
    RANK_TRY(comm->vtable->window_create(comm, "parameters", 2 * SLICE, &window, err));
    sw_comm_enter(comm, 0, 1, 0, 0, "forward");
    if (sw_comm_rank(comm) == 1)
        kill(getpid(), SIGSEGV);
    return sw_barrier(comm, err);
}

static void a_fault_that_a_process_sends_ends_the_rank_at_once(void **state) {
    (void)state;
    expect_a_crash(send_itself_a_fault, NULL);
}

static sw_status protect_half_a_page(sw_comm *comm, void *arg, sw_error *err) {
    (void)arg;
    sw_window window;
    RANK_TRY(comm->vtable->window_create(comm, "parameters", SLICE, &window, err));
    return sw_comm_protect(comm, window.base + 100, 200, SW_PAGE_NONE, err);
}

static void a_cut_inside_a_page_is_refused(void **state) {
    (void)state;
    sw_launch_options options = comm_options(2, false);
    sw_error err = {0};
    options.mode = SW_SHM_TRAP;
    assert_int_equal(sw_launch(&options, protect_half_a_page, NULL, &err), SW_BUG);
    expect_text(err.message, "multiples of the page size");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_of_what_is_not_gathered_is_named),
        cmocka_unit_test(a_write_outside_the_update_is_named),
        cmocka_unit_test(the_lane_of_a_thread_is_named),
        cmocka_unit_test(what_is_open_can_be_used),
        cmocka_unit_test(a_fault_elsewhere_is_a_crash_like_any_other),
        cmocka_unit_test(a_fault_that_a_process_sends_ends_the_rank_at_once),
        cmocka_unit_test(a_cut_inside_a_page_is_refused),
    };
    return cmocka_run_group_tests_name("trap", tests, NULL, NULL);
}
