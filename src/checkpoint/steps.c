/* steps.c: which checkpoints there are, which stay, and which to go on from. See steps.h. */
#include "checkpoint/steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/load_internal.h"
#include "checkpoint/steps_internal.h"

/* ---- names ---- */

void sw_step_name(int64_t step, char name[SW_STEP_NAME_BYTES]) {
    snprintf(name, SW_STEP_NAME_BYTES, "steps/%08" PRId64, step);
}

sw_status sw_step_path(const char *folder, int64_t step, char path[SW_PATH_BYTES], sw_error *err) {
    char name[SW_STEP_NAME_BYTES];
    sw_step_name(step, name);
    return sw_path_join(path, folder, name, err);
}

int64_t sw_step_of_name(const char *name, size_t bytes) {
    int64_t step = 0;
    if (bytes < 8 || bytes > 18 || (bytes > 8 && name[0] == '0'))
        return -1;
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] < '0' || name[i] > '9')
            return -1;
        step = step * 10 + (name[i] - '0');
    }
    return step;
}

/* ---- which stay ---- */

bool sw_retention_keeps(const sw_retention *retention, const sw_kept_step *list, int n, int i) {
    if (retention->keep <= 0 || n - i <= retention->keep || i == n - 1)
        return true;
    if (retention->keep_every > 0 && list[i].step % retention->keep_every == 0)
        return true;
    int best = -1; /* the earliest of equals */
    for (int k = 0; k < n; k++)
        if (!isnan(list[k].validation_loss) &&
            (best < 0 || list[k].validation_loss < list[best].validation_loss))
            best = k;
    return i == best;
}

/* ---- the list ---- */

static int newest_first(const void *a, const void *b) {
    int64_t left = ((const sw_step_entry *)a)->step, right = ((const sw_step_entry *)b)->step;
    return left > right ? -1 : left < right;
}

/* A run that goes on beside who asks removes old checkpoints. Asked in two ways: what one of them
 * does not see is not therefore gone, and a run that took its checkpoints for gone would begin
 * anew. */
static bool has_gone(const char *path) {
    struct stat info;
    if (lstat(path, &info) == 0 || errno != ENOENT)
        return false;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), error = errno;
    if (fd >= 0)
        close(fd);
    return fd < 0 && error == ENOENT;
}

/* Errors: no memory, which says nothing about the checkpoint. */
static sw_status look_at(const char *path, sw_step_entry *step, sw_error *err) {
    sw_checkpoint *checkpoint;
    sw_error reason;
    struct stat info;
    char manifest[SW_PATH_BYTES];
    step->validation_loss = NAN;
    if (sw_path_join(manifest, path, SW_MANIFEST_NAME, NULL) == SW_OK &&
        lstat(manifest, &info) == 0)
        step->seconds = (double)info.st_mtime;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        snprintf(step->reason, sizeof step->reason,
                 "is a link, and may lead out of the run's folder");
        return SW_OK;
    }
    sw_status status = sw_checkpoint_open(path, &checkpoint, &reason);
    if (status == SW_NO_MEMORY)
        return sw_fail(err, status, "%s", reason.message);
    if (status != SW_OK) {
        step->is_unknown = status == SW_BAD_CONFIG;
        snprintf(step->reason, sizeof step->reason, "%.*s", (int)sizeof step->reason - 1,
                 reason.message);
        return SW_OK;
    }
    if (sw_checkpoint_step(checkpoint) == step->step) {
        step->is_whole = true;
        step->bytes = sw_checkpoint_bytes(checkpoint);
        step->validation_loss = sw_checkpoint_validation_loss(checkpoint);
    } else {
        snprintf(step->reason, sizeof step->reason, "holds step %" PRId64 ": it was renamed",
                 sw_checkpoint_step(checkpoint));
    }
    sw_checkpoint_close(checkpoint);
    return SW_OK;
}

sw_status sw_steps_open_folder(const char *folder, char path[SW_PATH_BYTES], DIR **open_folder,
                               sw_error *err) {
    struct stat info;
    *open_folder = NULL;
    sw_status status = sw_path_join(path, folder, "steps", err);
    if (status != SW_OK)
        return status;
    bool is_there = lstat(path, &info) == 0;
    if (!is_there && errno == ENOENT)
        return SW_OK;
    if (is_there && S_ISLNK(info.st_mode))
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: is a link, and may lead out of the run's folder; put the folder itself there",
            path);
    *open_folder = opendir(path);
    return *open_folder ? SW_OK : sw_checkpoint_cannot_open(path, errno, err);
}

static sw_status enter_into_list(sw_steps *steps, const char *folder, const char *name,
                                 int64_t step, sw_error *err) {
    char path[SW_PATH_BYTES];
    if (steps->n == steps->capacity) {
        int capacity = steps->capacity ? 2 * steps->capacity : 16;
        sw_step_entry *more = realloc(steps->item, (size_t)capacity * sizeof *more);
        if (!more)
            return sw_fail(err, SW_NO_MEMORY, "no memory for a list of %d checkpoints", capacity);
        steps->item = more;
        steps->capacity = capacity;
    }
    sw_status status = sw_path_join(path, folder, name, err);
    if (status != SW_OK)
        return status;
    steps->item[steps->n] = (sw_step_entry){.step = step};
    status = look_at(path, &steps->item[steps->n], err);
    steps->n += steps->item[steps->n].is_whole || !has_gone(path);
    return status;
}

/* What the folder shows now. path: of steps/. */
static sw_status list_once(const char *folder, char path[SW_PATH_BYTES], sw_steps *steps,
                           sw_error *err) {
    DIR *open_folder;
    int error = 0;
    sw_status status = sw_steps_open_folder(folder, path, &open_folder, err);
    if (!open_folder)
        return status;
    steps->n = 0;
    for (struct dirent *entry; status == SW_OK && (entry = sw_folder_next(open_folder, &error));) {
        int64_t step = sw_step_of_name(entry->d_name, strlen(entry->d_name));
        if (step >= 0)
            status = enter_into_list(steps, path, entry->d_name, step, err);
    }
    closedir(open_folder);
    return error ? sw_checkpoint_cannot_open(path, error, err) : status;
}

/* Does the link beside the folder lead to a checkpoint in it? */
static bool latest_leads_to_one(const char *folder) {
    char latest[SW_PATH_BYTES], target[SW_STEP_NAME_BYTES], manifest[SW_PATH_BYTES];
    struct stat info;
    if (sw_path_join(latest, folder, "latest", NULL) != SW_OK ||
        sw_path_join(manifest, latest, SW_MANIFEST_NAME, NULL) != SW_OK)
        return false;
    ssize_t n = readlink(latest, target, sizeof target);
    return n >= 6 && strncmp(target, "steps/", 6) == 0 && stat(manifest, &info) == 0;
}

/* A folder may show no entry in the moment in which a run saves and removes in it. One that never
 * shows any, though the link leads to one, is not well: nobody may take its run for one without
 * checkpoints. */
sw_status sw_steps_list(const char *folder, sw_steps *steps, sw_error *err) {
    enum { MOST_TRIES = 100 };
    char path[SW_PATH_BYTES];
    sw_status status = SW_OK;
    bool is_odd = true;
    *steps = (sw_steps){0};
    for (int i = 0; i < MOST_TRIES && is_odd && status == SW_OK; i++) {
        status = list_once(folder, path, steps, err);
        is_odd = status == SW_OK && !steps->n && latest_leads_to_one(folder);
    }
    if (is_odd)
        return sw_fail(
            err, SW_BAD_FILE,
            "%s: shows no entries, though %s/latest points to one; check the disk and try again",
            path, folder);
    if (steps->n)
        qsort(steps->item, (size_t)steps->n, sizeof *steps->item, newest_first);
    return status;
}

int64_t sw_steps_newest_whole(const sw_steps *steps) {
    for (int i = 0; i < steps->n; i++)
        if (steps->item[i].is_whole)
            return steps->item[i].step;
    return -1;
}

void sw_steps_free(sw_steps *steps) {
    free(steps->item);
    *steps = (sw_steps){0};
}

/* The newest good one of a list. *lost_one: one has gone since it was listed. */
static sw_status find_good(const char *folder, const sw_steps *steps, int n_threads,
                           sw_step_rejected_fn rejected, void *to, sw_checkpoint **checkpoint,
                           bool *lost_one, sw_error *err) {
    sw_error reason;
    char path[SW_PATH_BYTES];
    for (int i = 0; i < steps->n && !*checkpoint; i++) {
        const sw_step_entry *item = &steps->item[i];
        sw_status status = sw_step_path(folder, item->step, path, err);
        if (status != SW_OK)
            return status;
        if (item->is_whole)
            status = sw_checkpoint_open_good(path, n_threads, checkpoint, &reason);
        else
            status = sw_fail(&reason, item->is_unknown ? SW_BAD_CONFIG : SW_BAD_FILE, "%s",
                             item->reason);
        if (status != SW_OK && status != SW_BAD_FILE) /* says nothing about the checkpoint */
            return sw_fail(err, status, "%s", reason.message);
        if (status == SW_BAD_FILE && has_gone(path))
            *lost_one = true;
        else if (status == SW_BAD_FILE && rejected)
            rejected(to, item->step, reason.message);
    }
    return SW_OK;
}

sw_status sw_steps_newest_good(const char *folder, int n_threads, sw_step_rejected_fn rejected,
                               void *to, sw_checkpoint **checkpoint, sw_error *err) {
    sw_status status = SW_OK;
    *checkpoint = NULL;
    for (bool lost_one = true; lost_one && !*checkpoint && status == SW_OK;) {
        sw_steps steps;
        lost_one = false;
        status = sw_steps_list(folder, &steps, err);
        if (status == SW_OK)
            status = find_good(folder, &steps, n_threads, rejected, to, checkpoint, &lost_one, err);
        sw_steps_free(&steps);
    }
    return status;
}
