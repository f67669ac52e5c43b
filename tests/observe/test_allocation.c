/* test_allocation.c: what a step calls of data/, observe/ and optim/ allocates nothing. The
 * program's own malloc counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "data/sampling.h"
#include "observe/events.h"
#include "observe/metrics.h"
#include "observe/resident.h"
#include "optim/schedule.h"
#include "support/folder.h"

/* Sanitizers bring an allocator of their own. */
#ifdef SW_SANITIZED
#define COUNTS 0
#else
#define COUNTS 1
#endif

static volatile int64_t n_allocations;

#if COUNTS
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes) {
    n_allocations++;
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    n_allocations++;
    return __libc_calloc(n, bytes);
}
void *realloc(void *memory, size_t bytes) {
    n_allocations++;
    return __libc_realloc(memory, bytes);
}
#endif

#define GOLDEN SW_SOURCE_FOLDER "/tests/golden/llama-masked/"
#define V 50000

static void a_step_allocates_nothing(void **state) {
    (void)state;
    const char *path = GOLDEN "tokens.npy";
    const sw_dataset_options options = {.paths = &path,
                                        .n_paths = 1,
                                        .labels_mask = GOLDEN "labels-mask.npy",
                                        .sequence_length = 32,
                                        .shuffle = true,
                                        .seed = 1};
    const sw_schedule schedule = {SW_SCHEDULE_COSINE, 1e-3, 2, 20, 0.1, 0};
    const sw_sampling sampling = {.temperature = 0.8, .top_k = 50, .top_p = 0.9, .seed = 1};
    static float logits[V];
    static int32_t work[V];
    char folder[FOLDER_BYTES], metrics_path[64], events_path[64];
    sw_dataset *dataset;
    sw_json_lines *metrics;
    sw_json_lines *events;
    assert_true(folder_make(folder));
    snprintf(metrics_path, sizeof metrics_path, "%s/metrics.jsonl", folder);
    snprintf(events_path, sizeof events_path, "%s/events.jsonl", folder);
    assert_int_equal(sw_dataset_open(&options, &dataset, NULL), SW_OK);
    assert_int_equal(sw_json_lines_open(metrics_path, &metrics, NULL), SW_OK);
    assert_int_equal(sw_events_open(events_path, &events, NULL), SW_OK);

    const int64_t before = n_allocations;
    int n_failed = 0;
    for (int64_t step = 0; step < 20; step++) {
        sw_step_metrics m = {.step = step + 1,
                             .loss = 1.0 / 3,
                             .learning_rate = sw_learning_rate(&schedule, step),
                             .skipped = "no"};
        int32_t tokens[32], targets[32], token;
        int64_t n_supervised;
        sw_resident resident;
        sw_available_memory available;
        const sw_detail detail = sw_detail_real("norm", 1e300 * (double)step);
        n_failed += sw_dataset_row(dataset, step, tokens, targets, NULL, NULL) != SW_OK;
        n_failed += sw_dataset_supervised(dataset, step, 24, &n_supervised, NULL) != SW_OK;
        n_failed += sw_resident_read(0, &resident, NULL) != SW_OK;
        n_failed += sw_available_memory_read("", &available, NULL) != SW_OK;
        n_failed += sw_sample(&sampling, logits, V, step, work, &token, NULL) != SW_OK;
        n_failed += sw_metrics_write(metrics, &m, NULL) != SW_OK;
        n_failed += sw_events_write(events, "skip", step, "no", &detail, 1, NULL) != SW_OK;
    }
    const int64_t n_in_steps = n_allocations - before;
    assert_int_equal(n_failed, 0);
    assert_int_equal(n_in_steps, 0);
    if (COUNTS)
        assert_true(before > 0); /* the counter is the one in use */
    sw_json_lines_close(events);
    sw_json_lines_close(metrics);
    sw_dataset_close(dataset);
    unlink(metrics_path);
    unlink(events_path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_allocates_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
