/* faults.c: the library of faults lies beside the command, or where it was installed; LD_PRELOAD
 * puts it before libc, which only a new start can do. */
#include "cli/faults.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "faults/fault_calls.h"
#include "faults/faults.h"

/* Where it is, from the command's own folder. */
static sw_status find_library(char path[SW_PATH_BYTES], sw_error *err) {
    static const char *const places[] = {SW_FAULT_CALLS_FILE, SW_FAULT_CALLS_INSTALLED};
    char own[SW_PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = 0;
    char *name = strrchr(own, '/');
    if (name)
        *name = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places && name; i++)
        if (sw_path_join(path, own, places[i], NULL) == SW_OK && sw_file_exists(path))
            return SW_OK;
    return sw_fail(
        err, SW_BAD_CONFIG,
        "--inject allocation and write need %s, which is neither beside the command nor in %s",
        SW_FAULT_CALLS_FILE, SW_FAULT_CALLS_INSTALLED);
}

static sw_status start_again(const char *verb, int n_arguments, char **arguments, sw_error *err) {
    char path[SW_PATH_BYTES];
    const char *others = getenv("LD_PRELOAD");
    sw_status status = find_library(path, err);
    if (status)
        return status;
    if (others && strstr(others, path))
        return sw_fail(err, SW_BAD_CONFIG,
                       "%s could not be loaded before all other libraries; is the command "
                       "privileged, or static?",
                       path);
    size_t bytes = strlen(path) + (others ? strlen(others) : 0) + 2;
    char *preload = malloc(bytes);
    char **again = calloc((size_t)n_arguments + 3, sizeof *again);
    if (preload && again) {
        snprintf(preload, bytes, "%s%s%s", path, others ? ":" : "", others ? others : "");
        again[0] = (char *)"shardwise";
        again[1] = (char *)verb;
        memcpy(again + 2, arguments, (size_t)n_arguments * sizeof *again);
        if (!setenv("LD_PRELOAD", preload, 1))
            execv("/proc/self/exe", again);
    }
    status = sw_fail(err, SW_NO_MEMORY, "the command could not be started again with %s: %s", path,
                     strerror(errno));
    free(preload);
    free(again);
    return status;
}

sw_status sw_faults_load(const char *verb, const sw_flag_texts *texts, int n_arguments,
                         char **arguments, sw_error *err) {
    sw_faults *faults;
    sw_status status = sw_faults_open(texts->item, texts->n, &faults, err);
    if (!status && sw_faults_need_calls(faults) && !sw_fault_calls_are_loaded())
        status = start_again(verb, n_arguments, arguments, err);
    sw_faults_close(faults);
    return status;
}
