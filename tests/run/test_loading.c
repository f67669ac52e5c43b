/* test_loading.c: rank 0 says how far the reading of a model is when that takes long.
 *
 * Files are slow here: this program's pread, which the library then calls too, sleeps in ranks.
 */
#include <setjmp.h>
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

static pid_t supervisor;

ssize_t pread(int descriptor, void *to, size_t bytes, off_t offset) {
    if (getpid() != supervisor)
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

/* The model has 39 tensors, each of which is a read: on one rank they take at least three seconds, so that there are lines. */
static void a_long_reading_of_the_model_is_told_of(void **state) {
    (void)state;
    char folder[] = "/tmp/shardwise-loading-XXXXXX", lines_path[64], run[96], command[96], *lines = NULL;
    int64_t n_bytes = 0;
    sw_error err = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(lines_path, sizeof lines_path, "%s/lines", folder);
    snprintf(run, sizeof run, "checkpoint.path=%s/run", folder);
    const char *overrides[] = {run, "shard.ranks=1", "train.steps=1"};
    sw_train_options options = SW_TRAIN_OPTIONS_INIT;
    options.listener = (sw_listener){.line = keep_line, .to = lines_path};
    supervisor = getpid();
    if (sw_train_file(SW_SOURCE_FOLDER "/tests/golden/llama-untied/run.yaml", overrides, 3, &options, &err) != SW_OK)
        fail_msg("%s", err.message);
    if (sw_file_read(lines_path, 1 << 20, &lines, &n_bytes, &err) != SW_OK)
        fail_msg("%s", err.message);
    const char *line = strstr(lines, "loading "), *end = line ? strchr(line, '\n') : NULL;
    if (!end || !strstr(line, "llama-untied/model: ") || !strstr(line, "values that rank 0 reads"))
        fail_msg("no line tells of it: %s", lines);
    free(lines);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_long_reading_of_the_model_is_told_of)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
