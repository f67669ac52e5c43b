/* run_folder.c: see run_folder.h. */
#include "checkpoint/run_folder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "checkpoint/manifest_format.h"
#include "checkpoint/steps_internal.h"

/* Does the file begin with these words, as far as it goes? A start that was killed may have left
 * less. One that is there and cannot be read is taken for what its name says: whoever reads it
 * tells the reason. */
static bool begins(const char *folder, const char *name, const char *words, bool may_be_cut) {
    char path[SW_PATH_BYTES], text[64];
    const size_t n_words = strlen(words);
    if (sw_path_join(path, folder, name, NULL) != SW_OK)
        return false;
    int fd;
    int64_t bytes;
    if (sw_file_open(path, &fd, &bytes, NULL) != SW_OK)
        return access(path, F_OK) == 0;
    ssize_t n = pread(fd, text, n_words, 0);
    close(fd);
    return n < 0 || ((may_be_cut || (size_t)n == n_words) && memcmp(text, words, (size_t)n) == 0);
}

bool sw_is_runs_file(const char *folder, const char *name) {
    static const struct {
        const char *name, *words;
    } files[] = {{".lock", "process "},
                 {"plan.json", "{\n  \"version\": "},
                 {"events.jsonl", "{\"time\": \""}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(name, files[i].name))
            return begins(folder, name, files[i].words, true);
    return false;
}

static bool is_own(const char *steps, const char *name) {
    char path[SW_PATH_BYTES];
    if (sw_step_is_left_over(name))
        return true;
    return sw_step_of_name(name, strlen(name)) >= 0 &&
           sw_path_join(path, steps, name, NULL) == SW_OK &&
           begins(path, SW_MANIFEST_NAME, "{\"format\": \"" SW_MANIFEST_FORMAT "\"", false);
}

static void count(const char *folder, int64_t *n_own, int64_t *n_all) {
    char path[SW_PATH_BYTES];
    DIR *open_folder;
    int error = 0;
    *n_own = *n_all = 0;
    if (sw_steps_open_folder(folder, path, &open_folder, NULL) != SW_OK && access(path, F_OK) == 0)
        *n_own = *n_all = 1; /* as above */
    if (!open_folder)
        return;
    for (struct dirent *entry; (entry = sw_folder_next(open_folder, &error));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        ++*n_all;
        *n_own += is_own(path, entry->d_name);
    }
    closedir(open_folder);
    if (error)
        ++*n_all, ++*n_own;
}

bool sw_steps_are_own(const char *folder) {
    int64_t n_own, n_all;
    count(folder, &n_own, &n_all);
    return n_own > 0;
}

bool sw_steps_are_foreign(const char *folder) {
    int64_t n_own, n_all;
    count(folder, &n_own, &n_all);
    return n_all > 0 && n_own == 0;
}

bool sw_is_run_folder(const char *folder) {
    char path[SW_PATH_BYTES];
    if (sw_steps_are_own(folder))
        return true;
    return sw_path_join(path, folder, "run.yaml", NULL) == SW_OK && sw_file_exists(path) &&
           (sw_is_runs_file(folder, ".lock") || sw_is_runs_file(folder, "plan.json") ||
            sw_is_runs_file(folder, "events.jsonl"));
}

static bool is_of_a_start(const char *name) {
    static const char *const names[] = {
        ".",     "..",     ".lock",           "run.yaml.partial", "plan.json", "plan.json.partial",
        "steps", "latest", ".latest.partial", SW_RUN_FOLDER_CACHE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

sw_status sw_run_folder_is_begun(const char *path, bool *is_begun, sw_error *err) {
    int error = 0;
    DIR *entries = opendir(path);
    if (!entries)
        return sw_cannot_read(path, errno, err);
    bool all_known = true, has_lock = false, has_plan = false, has_steps = false,
         has_latest = false;
    for (struct dirent *entry; (entry = sw_folder_next(entries, &error));) {
        all_known = all_known && is_of_a_start(entry->d_name);
        has_lock = has_lock || !strcmp(entry->d_name, ".lock");
        has_plan = has_plan || !strcmp(entry->d_name, "plan.json");
        has_steps = has_steps || !strcmp(entry->d_name, "steps");
        has_latest = has_latest || !strcmp(entry->d_name, "latest");
    }
    closedir(entries);
    *is_begun = all_known && (!has_lock || sw_is_runs_file(path, ".lock")) &&
                (has_lock || !has_plan) && (has_steps || !has_latest) &&
                !(has_steps && sw_steps_are_foreign(path));
    return error ? sw_cannot_read(path, error, err) : SW_OK;
}
