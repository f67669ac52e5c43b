/* test_loading.c: while a model or a checkpoint is read, which may take long: rank 0 says how far
 * it is, and who asks for an end does not wait for a step.
 *
 * Files are slow here: this program's pread, which the library then calls too, sleeps in ranks.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <shardwise.h>

#include "base/file.h"
#include "support/folder.h"

static pid_t supervisor; /* 0: files are not slow */

ssize_t pread(int descriptor, void *to, size_t bytes, off_t offset) {
    if (supervisor && getpid() != supervisor)
        nanosleep(&(struct timespec){.tv_nsec = 80000000}, NULL);
    return syscall(SYS_pread64, descriptor, to, bytes, offset);
}

/* Lines come from the supervisor and from rank 0. */
static void keep_line(void *to, const char *text) {
    FILE *file = fopen(to, "ae");
    if (file) {
        fprintf(file, "%s\n", text);
        fclose(file);
    }
}

/* The model has 39 tensors, each of which is a read: on one rank they take at least three seconds,
 * so that there are lines. */
static void a_long_reading_of_the_model_is_told_of(void **state) {
    (void)state;
    char folder[FOLDER_BYTES], lines_path[64], run[96], *lines = NULL;
    int64_t n_bytes = 0;
    sw_error err = {0};
    assert_true(folder_make(folder));
    snprintf(lines_path, sizeof lines_path, "%s/lines", folder);
    snprintf(run, sizeof run, "checkpoint.path=%s/run", folder);
    const char *overrides[] = {run, "shard.ranks=1", "train.steps=1"};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.listener = (sw_listener){.line = keep_line, .to = lines_path};
    supervisor = getpid();
    if (sw_train_file(SW_SOURCE_FOLDER "/tests/golden/llama-untied/run.yaml", overrides, 3,
                      &options, &err) != SW_OK)
        fail_msg("%s", err.message);
    if (sw_file_read(lines_path, 1 << 20, &lines, &n_bytes, &err) != SW_OK)
        fail_msg("%s", err.message);
    const char *line = strstr(lines, "loading "), *end = line ? strchr(line, '\n') : NULL;
    if (!end || !strstr(line, "llama-untied/model: ") || !strstr(line, "values that rank 0 reads"))
        fail_msg("no line tells of it: %s", lines);
    free(lines);
    assert_int_equal(folder_remove(folder), 0);
}

static int n_steps_in(const char *path) {
    int64_t n_bytes = 0;
    char *text = NULL;
    int n = 0;
    if (sw_file_read(path, 1 << 20, &text, &n_bytes, NULL) == SW_OK)
        for (const char *c = text; *c; c++)
            n += *c == '\n';
    free(text);
    return n;
}

/* The signal is there before the ranks are: none of them takes a step, nothing is saved, and the
 * next start goes on as if nothing had been. First while the model is read, then a checkpoint. */
static void an_end_does_not_wait_for_a_step(void **state) {
    static const struct {
        int number;
        sw_status status;
        const char *words;
    } cases[] = {{SIGTERM, SW_TERMINATED, "SIGTERM"},
                 {SIGINT, SW_INTERRUPTED, "Ctrl-C"},
                 {SIGHUP, SW_HUNG_UP, "SIGHUP"}};
    (void)state;
    char folder[FOLDER_BYTES], run[96], metrics[128];
    assert_true(folder_make(folder));
    snprintf(run, sizeof run, "checkpoint.path=%s/run", folder);
    snprintf(metrics, sizeof metrics, "%s/run/metrics.jsonl", folder);
    const char *overrides[] = {run, "shard.ranks=2", "train.steps=2", "checkpoint.every=1",
                               "log.every=1"};
    supervisor = 0; /* nothing is slow here */
    for (int n_done = 0; n_done <= 2; n_done += 2) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            volatile sig_atomic_t stop_signal = cases[i].number;
            sw_error err = {0};
            sw_train_options options = SW_TRAIN_OPTIONS_INIT;
            options.stop_signal = &stop_signal;
            overrides[2] = n_done ? "train.steps=4" : "train.steps=2";
            assert_int_equal(sw_train_file(SW_SOURCE_FOLDER "/tests/golden/llama-untied/run.yaml",
                                           overrides, 5, &options, &err),
                             cases[i].status);
            if (!strstr(err.message, cases[i].words) || !strstr(err.message, "while loading"))
                fail_msg("%s", err.message);
            assert_int_equal(n_steps_in(metrics), n_done);
        }
        sw_error err = {0};
        sw_train_options options = SW_TRAIN_OPTIONS_INIT;
        if (sw_train_file(SW_SOURCE_FOLDER "/tests/golden/llama-untied/run.yaml", overrides, 5,
                          &options, &err) != SW_OK)
            fail_msg("%s", err.message);
        assert_int_equal(n_steps_in(metrics), n_done + 2);
    }
    assert_int_equal(folder_remove(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_long_reading_of_the_model_is_told_of),
                                       cmocka_unit_test(an_end_does_not_wait_for_a_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
