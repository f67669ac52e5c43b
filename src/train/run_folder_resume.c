/* run_folder_resume.c: a run in a folder that is there already: may it go on, from where, and what
 * it leaves of the old.
 *
 * A folder is that of a run as run_folder.h tells; or when there is nothing in it yet but what a
 * run makes before its run.yaml, so that a start that was killed at any instant can be made again,
 * or but a checkpoint that was imported. What steps/ holds decides the rest: a checkpoint to go on
 * from; none, and then the run begins anew in its folder, unless it is a finished run without
 * checkpoints.
 */
#include "train/training.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/reason.h"
#include "checkpoint/load.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/steps.h"

/* What is there is somebody's, or a run's that is done: nothing of it is to be removed to make
 * place for a run. */
static sw_status take_another(const char *path, const char *why, sw_error *err) {
    return sw_fail(err, SW_BAD_CONFIG, "%s %s · take another checkpoint.path", path, why);
}

static sw_status is_no_runs_folder(const char *path, sw_error *err) {
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s exists and is not the folder of a run; a run writes only into a new folder "
                   "or its own · take another "
                   "checkpoint.path, for example %s/run",
                   path, path);
}

/* A model that was trained there can be gone on from in another folder. */
static sw_status is_done(const char *path, const char *why, sw_error *err) {
    return sw_fail(
        err, SW_BAD_CONFIG,
        "%s %s · take another checkpoint.path; to go on from its weights, set model.path=%s/model",
        path, why, path);
}

/* The ranks of a supervisor that was killed hold the lock until they end, which takes a moment. */
static sw_status take_lock(sw_run *run, sw_error *err) {
    enum { N_TRIES = 20, PAUSE_MS = 100 };
    if (!run->is_first_host) /* it is the first one's */
        return SW_OK;
    sw_status status = SW_BAD_CONFIG;
    for (int i = 0; i < N_TRIES && status == SW_BAD_CONFIG; i++) {
        if (i)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
        status = sw_run_lock_take(run->settings->checkpoint.path, &run->lock, err);
    }
    return status;
}

static bool has(const char *folder, const char *name) {
    char path[SW_PATH_BYTES];
    return sw_path_join(path, folder, name, NULL) == SW_OK && sw_file_exists(path);
}

sw_status sw_run_folder_look(sw_run *run, sw_error *err) {
    const char *path = run->settings->checkpoint.path;
    struct stat info;
    if (stat(path, &info)) {
        int error = errno;
        if (error != ENOENT && error != ENOTDIR) /* it may well be there */
            return sw_fail_call(err, SW_CALL_WRITE, error, "%s (checkpoint.path): cannot be made",
                                path);
        return lstat(path, &info) ? SW_OK : take_another(path, "is a link that leads nowhere", err);
    }
    if (!S_ISDIR(info.st_mode))
        return take_another(path, "exists and is no folder", err);
    bool is_known = sw_is_run_folder(path);
    sw_status status = is_known ? SW_OK : sw_run_folder_is_begun(path, &is_known, err);
    if (status || !is_known)
        return status ? status : is_no_runs_folder(path, err);
    if (run->settings->checkpoint.resume.never && has(path, "model"))
        return is_done(path, "exists as a run's folder, and checkpoint.resume is never", err);
    if (run->settings->checkpoint.resume.never)
        return take_another(path, "exists as a run's folder, and checkpoint.resume is never", err);
    sw_steps steps;
    status = sw_steps_list(path, &steps, err);
    int n_steps = status ? 0 : steps.n;
    sw_steps_free(&steps);
    if (status)
        return status;
    if (!n_steps && has(path, "model"))
        return is_done(path, "exists, is finished and has no checkpoint to go on from", err);
    run->goes_on = true;
    return take_lock(run, err);
}

sw_status sw_run_folder_newest(const char *path, sw_checkpoint **checkpoint, sw_error *err) {
    sw_steps steps;
    char folder[SW_PATH_BYTES];
    *checkpoint = NULL;
    sw_status status = sw_steps_list(path, &steps, err), last = SW_OK;
    for (int i = 0; i < steps.n && !status && !*checkpoint; i++) {
        status = sw_step_path(path, steps.item[i].step, folder, err);
        if (!status)
            last = sw_checkpoint_open(folder, checkpoint, err);
        if (*checkpoint && !steps.item[i].is_whole) { /* a link, or of another step */
            sw_checkpoint_close(*checkpoint);
            *checkpoint = NULL;
            last = sw_fail(err, SW_BAD_FILE, "%s: %s", folder, steps.item[i].reason);
        }
        if (last && last != SW_BAD_FILE)
            status = last;
    }
    if (!status && !*checkpoint && last)
        status = sw_fail_within(err, "no checkpoint of %s is whole; the last that was tried", path);
    sw_steps_free(&steps);
    return status;
}

static void forced(void *to, const char *line) {
    sw_report_line(to, "%s", line);
}

/* A state that cannot be read is for the ranks to tell of, who fall back to a checkpoint before
 * it. */
static void find_length(sw_run *run, const sw_checkpoint *checkpoint) {
    sw_training at = {.run = run};
    if (!sw_training_state_read(&at, checkpoint, NULL))
        run->n_steps = sw_run_length(run, at.step, sw_training_rows_taken(&at));
}

sw_status sw_run_folder_compare(sw_run *run, sw_error *err) {
    const sw_assembly *a = &run->plan.assembly;
    const char *path = run->settings->checkpoint.path;
    sw_checkpoint *checkpoint;
    sw_status status = sw_run_folder_newest(path, &checkpoint, err);
    if (status || !checkpoint)
        return status;
    status = sw_record_take_kernels(&run->record, checkpoint,
                                    run->settings->train.kernels != SW_KERNELS_AUTO,
                                    &run->plan.kernel_set, &run->plan.gemm.kind, err);
    if (!status)
        status = sw_record_compare(&run->record, run->settings, checkpoint, forced, run, err);
    if (!status)
        status = sw_checkpoint_compare(checkpoint, a->graph,
                                       sw_state_kinds_of(&a->sharding.optimizer), err);
    if (!status)
        find_length(run, checkpoint);
    if (!status)
        run->is_finished = sw_checkpoint_step(checkpoint) >= run->n_steps && has(path, "model");
    sw_checkpoint_close(checkpoint);
    return status;
}

static void tell_of_left_over(void *to, const char *path) {
    sw_report_warning(
        to, "%s has files that belong to no checkpoint, so it is kept; move them away", path);
}

sw_status sw_run_folder_clean(const sw_run *run, sw_error *err) {
    return sw_steps_clean(sw_storage_system(), run->settings->checkpoint.path, tell_of_left_over,
                          (void *)(uintptr_t)run, err);
}

/* Give the run.yaml that is there the next free number. */
static sw_status keep_settings(const char *folder, const char *yaml, sw_error *err) {
    char kept[SW_PATH_BYTES], name[32];
    struct stat info;
    sw_status status = SW_OK;
    int error = 0;
    for (int i = 1; !status && !error; i++) {
        snprintf(name, sizeof name, "run.yaml.%d", i);
        status = sw_path_join(kept, folder, name, err);
        error = !status && lstat(kept, &info) ? errno : 0;
    }
    if (status || error != ENOENT)
        return status ? status : sw_cannot_write(kept, error, err);
    return sw_file_write(kept, yaml, (int64_t)strlen(yaml), err);
}

sw_status sw_run_folder_renew(const sw_run *run, sw_error *err) {
    const char *folder = run->settings->checkpoint.path;
    char path[SW_PATH_BYTES], *old = NULL, *yaml = sw_run_yaml(run);
    sw_status status =
        yaml ? sw_path_join(path, folder, "run.yaml", err)
             : sw_fail(err, SW_NO_MEMORY, "%s: no memory for the settings' text", folder);
    bool is_there = !status && sw_file_exists(path);
    if (is_there)
        status = sw_file_read(path, 1 << 20, &old, NULL, err);
    bool is_same = old && !status && !strcmp(old, yaml);
    if (is_there && !status && !is_same)
        status = keep_settings(folder, old, err);
    if (!status && !is_same)
        status = sw_file_write(path, yaml, (int64_t)strlen(yaml), err);
    if (!status)
        status = sw_run_folder_plan(run, err);
    free(old);
    free(yaml);
    return status;
}
