/* run_folder.c: the folder of a run, with run.yaml and plan.json in it before the first step, and
 * what is left when it ends. */
#include "train/train.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "base/text.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/saving.h"
#include "hf/model_files.h"

static sw_dtype save_dtype(const sw_settings *s) {
    static const sw_dtype dtypes[] = {
        [SW_SAVE_BF16] = SW_BF16, [SW_SAVE_FP32] = SW_F32, [SW_SAVE_FP16] = SW_F16};
    return dtypes[s->model.save_dtype];
}

sw_model_output sw_run_folder_output(const sw_run *run) {
    const sw_settings *s = run->settings;
    if (run->plan.assembly.lora.rank)
        return (sw_model_output){.graph = run->plan.assembly.lora_layers.parameters,
                                 .dtype = save_dtype(s),
                                 .is_adapter = true,
                                 .chat_template = run->chat_template,
                                 .base_mark = run->base_mark};
    return (sw_model_output){
        .graph = run->plan.assembly.graph,
        .dtype = save_dtype(s),
        .max_shard_size = s->model.max_shard_size,
        .config = run->options->model ? NULL : &run->plan.assembly.model,
        .companions = run->options->model ? NULL
                      : run->tokenizer    ? run->tokenizer_folder
                                          : s->model.path,
        .is_bytes = sw_settings_is_bytes(s),
        .chat_template = run->chat_template,
    };
}

/* Make the folder, which must be a new one (another run may have begun since it was looked for),
 * and those above it. */
static sw_status make_folders(const char *path, sw_error *err) {
    char part[SW_PATH_BYTES];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return sw_fail(err, SW_BAD_CONFIG, "checkpoint.path is longer than %d bytes",
                       SW_PATH_BYTES - 1);
    while (length > 1 && path[length - 1] == '/')
        length--;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && i < length)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (!mkdir(part, 0777) || (errno == EEXIST && i < length))
            continue;
        if (errno == EEXIST)
            return sw_fail(
                err, SW_BAD_CONFIG,
                "%s exists: another run has just begun in it · take another checkpoint.path", path);
        return sw_fail_call(err, SW_CALL_WRITE, errno, "%s (checkpoint.path): cannot be made",
                            part);
    }
    if (access(path, W_OK))
        return sw_fail_call(err, SW_CALL_WRITE, errno, "%s (checkpoint.path): cannot be written",
                            path);
    return SW_OK;
}

static sw_status write_text(const char *folder, const char *name, char *text, sw_error *err) {
    char path[SW_PATH_BYTES];
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "no memory to write %s", name);
    sw_status status = sw_path_join(path, folder, name, err);
    return status ? status : sw_file_write(path, text, (int64_t)strlen(text), err);
}

static const char *const made_at_start[] = {"run.yaml", "plan.json", ".lock", SW_RUN_FOLDER_CACHE,
                                            "steps"};
enum { N_MADE_AT_START = sizeof made_at_start / sizeof *made_at_start, N_FILES_AT_START = 3 };

/* Is there nothing in the folder but that? */
static bool holds_only_a_start(const char *path) {
    DIR *entries = opendir(path);
    bool is_only = entries;
    int error = 0;
    for (struct dirent *entry; entries && (entry = sw_folder_next(entries, &error));) {
        bool is_known = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
        for (int i = 0; i < N_MADE_AT_START; i++)
            is_known = is_known || !strcmp(entry->d_name, made_at_start[i]);
        is_only = is_only && is_known;
    }
    if (entries)
        closedir(entries);
    return is_only && !error;
}

/* What sw_run_folder_begin and sw_run_folder_create make, and nothing else: a folder that holds
 * more stays whole. */
static void remove_folder(const char *path) {
    char file[SW_PATH_BYTES];
    if (!holds_only_a_start(path))
        return;
    if (sw_path_join(file, path, SW_RUN_FOLDER_CACHE, NULL) == SW_OK)
        sw_text_cache_remove(file);
    if (sw_path_join(file, path, "steps", NULL) == SW_OK && rmdir(file) && errno != ENOENT)
        return;
    for (int i = 0; i < N_FILES_AT_START; i++)
        if (sw_path_join(file, path, made_at_start[i], NULL) == SW_OK)
            unlink(file);
    rmdir(path);
}

char *sw_run_yaml(const sw_run *run) {
    sw_settings found = *run->settings;
    if (!found.data.chat_now && run->chat_now[0])
        found.data.chat_now = run->chat_now;
    return sw_settings_yaml(&found);
}

sw_status sw_run_folder_plan(const sw_run *run, sw_error *err) {
    char *plan = sw_plan_json(&run->plan, true);
    sw_status status = write_text(run->settings->checkpoint.path, "plan.json", plan, err);
    free(plan);
    return status;
}

sw_status sw_run_folder_begin(sw_run *run, sw_error *err) {
    const char *path = run->settings->checkpoint.path;
    if (run->goes_on || run->has_begun || !run->is_first_host)
        return SW_OK;
    sw_status status = make_folders(path, err);
    if (!status)
        status =
            sw_run_lock_take(path, &run->lock,
                             err); /* if another run found the new folder first, it is that one's */
    run->has_begun = !status;
    return status;
}

sw_status sw_run_folder_create(sw_run *run, sw_error *err) {
    const char *path = run->settings->checkpoint.path;
    sw_status status = sw_run_folder_begin(run, err);
    if (status)
        return status;
    char *yaml = sw_run_yaml(run);
    status = write_text(path, "run.yaml", yaml, err);
    if (!status)
        status = sw_run_folder_plan(run, err);
    free(yaml);
    if (status) { /* the way is free for the next attempt, whose folder it may be at once */
        remove_folder(path);
        run->has_begun = false;
    }
    return status;
}

/* ---- the final model ---- */

static const char replaced[] = "model.before";

/* Remove the model that was replaced. What somebody has put beside its files, or a link in its
 * place, gets the first free of the names model.kept, model.kept.1 and so on, which nothing touches
 * any more. */
static void remove_replaced(const sw_run *run, const char *before) {
    char kept[SW_PATH_BYTES], name[32] = "model.kept";
    struct stat info;
    sw_model_files_remove(before);
    if (lstat(before, &info))
        return;
    for (int i = 1; sw_path_join(kept, run->settings->checkpoint.path, name, NULL) == SW_OK &&
                    !lstat(kept, &info);
         i++)
        snprintf(name, sizeof name, "model.kept.%d", i);
    if (!rename(before, kept))
        sw_report_warning(run, "%s/model had files that no run writes; it has been renamed to %s",
                          run->settings->checkpoint.path, kept);
}

sw_status sw_run_folder_set_model_aside(const sw_run *run, sw_error *err) {
    char model[SW_PATH_BYTES], before[SW_PATH_BYTES];
    sw_status status = sw_path_join(model, run->settings->checkpoint.path, "model", err);
    if (!status)
        status = sw_path_join(before, run->settings->checkpoint.path, replaced, err);
    if (status || !sw_file_exists(model))
        return status;
    remove_replaced(run, before);
    return rename(model, before)
               ? sw_fail_call(err, SW_CALL_WRITE, errno, "%s: cannot be replaced", model)
               : SW_OK;
}

/* Settings and plans whose writing was cut short by a kill. */
static void remove_half_written(const char *folder) {
    static const char ending[] = ".partial";
    char file[SW_PATH_BYTES];
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        size_t length = strlen(name), n = sizeof ending - 1;
        bool is_ours = !strncmp(name, "run.yaml", 8) || !strncmp(name, "plan.json", 9);
        if (is_ours && length > n && !strcmp(name + length - n, ending) &&
            sw_path_join(file, folder, name, NULL) == SW_OK)
            unlink(file);
    }
    if (entries)
        closedir(entries);
}

void sw_run_folder_tidy(const sw_run *run) {
    const char *path = run->settings->checkpoint.path;
    char file[SW_PATH_BYTES], before[SW_PATH_BYTES];
    if (sw_path_join(file, path, "model", NULL) == SW_OK &&
        sw_path_join(before, path, replaced, NULL) == SW_OK) {
        sw_model_files_abandon(file);
        if (sw_file_exists(file))
            remove_replaced(run, before);
        else
            (void)rename(before, file); /* if it is there: the new one did not come about */
    }
    remove_half_written(path);
}

void sw_run_folder_leave(const sw_run *run) {
    const char *path = run->settings->checkpoint.path;
    char events[SW_PATH_BYTES];
    if (run->has_begun && sw_path_join(events, path, "events.jsonl", NULL) == SW_OK &&
        !sw_file_exists(events))
        remove_folder(path);
}
