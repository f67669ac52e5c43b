/* From step 3 on no rank allocates anything: not by malloc and its kin (which alone call brk), not
 * by mmap, neither in the compute nor in the communication lane, while every step is logged and
 * evaluated. This program's own malloc counts, also for the libraries it loads.
 *
 * Counting begins when rank 0 has told of step 2 and ends when it has told of the last step but
 * one: the others cannot be past the next step's decision then, which needs rank 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <shardwise.h>

#include "base/file.h"
#include "support/folder.h"

/* Sanitizers bring an allocator of their own. */
#ifdef SW_SANITIZED
#define COUNTS 0
#else
#define COUNTS 1
#endif

enum { N_STEPS = 7, N_SHOWN = 8 };

/* Shared with the ranks, which are forked. */
typedef struct counter {
    atomic_int is_counting, n_allocations, n_steps_seen;
    atomic_int n_mallocs_before, n_maps_before; /* of ranks, so that one knows that they are seen */
    struct {
        const char *what;
        void *caller;
    } first[N_SHOWN];
} counter;

static counter *shared;
static pid_t supervisor;

#if COUNTS
static void count(const char *what, void *caller) {
    if (!shared || getpid() == supervisor)
        return;
    if (!atomic_load(&shared->is_counting)) {
        atomic_fetch_add(
            strcmp(what, "mmap") == 0 ? &shared->n_maps_before : &shared->n_mallocs_before, 1);
        return;
    }
    int i = atomic_fetch_add(&shared->n_allocations, 1);
    if (i < N_SHOWN) {
        shared->first[i].what = what;
        shared->first[i].caller = caller;
    }
}

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    count("malloc", __builtin_return_address(0));
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    count("calloc", __builtin_return_address(0));
    return __libc_calloc(n, bytes);
}
void *realloc(void *memory, size_t bytes) {
    count("realloc", __builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    count("aligned_alloc", __builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    count("posix_memalign", __builtin_return_address(0));
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : 12; /* ENOMEM */
}
void *mmap(void *address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
    count("mmap", __builtin_return_address(0));
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset);
}
#endif

static void see_step(void *to, const sw_progress *progress) {
    (void)to;
    atomic_fetch_add(&shared->n_steps_seen, 1);
    if (progress->step == 2)
        atomic_store(&shared->is_counting, 1);
    if (progress->step == N_STEPS - 1)
        atomic_store(&shared->is_counting, 0);
}

static char folder[64], yaml[128];

static int make_folder(void **state) {
    char text[4096], path[128], settings[1024];
    (void)state;
    supervisor = getpid();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !folder_make(folder))
        return -1;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    snprintf(path, sizeof path, "%s/text.txt", folder);
    snprintf(yaml, sizeof yaml, "%s/run.yaml", folder);
    int length =
        snprintf(settings, sizeof settings,
                 "model: {architecture: llama, layers: 3, hidden: 64, heads: 2, ffn: 96, "
                 "max_positions: 32, dropout: 0.1}\n"
                 "data: {train: [text.txt], validation: [text.txt], validation_rows: 5, tokenizer: "
                 "bytes, sequence_length: 32}\n"
                 "train: {steps: %d, batch_size: 10, micro_batch_size: 2, validate_every: 1}\n"
                 "optimizer: {learning_rate: 1e-3}\n"
                 "checkpoint: {path: run}\n"
                 "log: {every: 1}\n",
                 N_STEPS);
    return sw_file_write(path, text, sizeof text, NULL) ||
                   sw_file_write(yaml, settings, length, NULL)
               ? -1
               : 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static void expect_nothing_allocated(const char *const *overrides, int n, sw_status expected) {
    static int n_runs;
    char path[64];
    const char *all[8];
    snprintf(path, sizeof path, "checkpoint.path=run%d", n_runs++);
    memcpy(all, overrides, (size_t)n * sizeof *all);
    all[n] = path;
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.listener.step = see_step;
    sw_error err = {0};
    memset(shared, 0, sizeof *shared);
    if (sw_train_file(yaml, all, n + 1, &options, &err) != expected)
        fail_msg("%s %s: %s", overrides[0], overrides[1], err.message);
    assert_int_equal(atomic_load(&shared->n_steps_seen), N_STEPS);
    assert_true(atomic_load(&shared->n_mallocs_before) > 0 &&
                atomic_load(&shared->n_maps_before) > 0);
    for (int i = 0; i < atomic_load(&shared->n_allocations) && i < N_SHOWN; i++)
        print_error("%s, called from %p\n", shared->first[i].what, shared->first[i].caller);
    if (atomic_load(&shared->n_allocations))
        fail_msg("%d allocations with %s %s %s %s", atomic_load(&shared->n_allocations),
                 overrides[0], overrides[1], overrides[2], overrides[3]);
}

static void no_rank_allocates_from_step_3_on(void **state) {
    static const char *const modes[] = {"shard.mode=view", "shard.mode=copy", "shard.mode=trap"};
    static const char *const stages[] = {"shard.stage=0", "shard.stage=1", "shard.stage=2",
                                         "shard.stage=3"};
    static const char *const others[][2] = {{"shard.ranks=2", "shard.recompute=none"},
                                            {"shard.ranks=3", "shard.param_dtype=fp32"},
                                            {"shard.ranks=4", "shard.accumulate=unsharded"}};
    (void)state;
    if (!COUNTS)
        skip();
    for (int mode = 0; mode < 3; mode++)
        for (int stage = 0; stage < 4; stage++) {
            const char *const *more = others[(mode + stage) % 3];
            const char *const overrides[] = {modes[mode], stages[stage], more[0], more[1]};
            expect_nothing_allocated(overrides, 4, SW_OK);
        }
}

/* A skipped step writes an event and a reason. */
static void nor_where_steps_are_skipped(void **state) {
    static const char *const overrides[] = {"shard.ranks=2", "optimizer.learning_rate=1e30",
                                            "optimizer.schedule=constant", "shard.mode=copy"};
    (void)state;
    if (!COUNTS)
        skip();
    expect_nothing_allocated(overrides, 4, SW_OK);
}

/* Nor where every second step is saved while the next computes, and where the ranks' numbers are
 * compared. The step after the last that is counted ends the run. */
static void nor_where_checkpoints_are_written(void **state) {
    static const char *const modes[] = {"shard.mode=view", "shard.mode=copy"};
    static const char *const stages[] = {"shard.stage=0", "shard.stage=3"};
    (void)state;
    if (!COUNTS)
        skip();
    for (int mode = 0; mode < 2; mode++)
        for (int stage = 0; stage < 2; stage++) {
            const char *const overrides[] = {modes[mode], stages[stage], "checkpoint.every=2",
                                             "guard.verify_every=3", "shard.ranks=2"};
            expect_nothing_allocated(overrides, 5, SW_OK);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rank_allocates_from_step_3_on),
        cmocka_unit_test(nor_where_steps_are_skipped),
        cmocka_unit_test(nor_where_checkpoints_are_written),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
