/* steps.c: see steps.h. */
#include "checkpoint/steps.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/load_internal.h"
#include "checkpoint/save_internal.h"

static const char partial_end[] = ".partial", removed_end[] = ".removed";

/* ---- names ---- */

void sw_step_name(int64_t step, char name[SW_STEP_NAME_BYTES]) {
    snprintf(name, SW_STEP_NAME_BYTES, "steps/%08" PRId64, step);
}

void sw_step_partial_name(int64_t step, char name[SW_STEP_NAME_BYTES]) {
    snprintf(name, SW_STEP_NAME_BYTES, "steps/.%08" PRId64 "%s", step, partial_end);
}

/* The first such name, ".1" and so on. */
static void removed_name(int64_t step, int number, char name[SW_STEP_NAME_BYTES]) {
    int n = snprintf(name, SW_STEP_NAME_BYTES, "steps/.%08" PRId64 "%s", step, removed_end);
    if (number)
        snprintf(name + n, (size_t)(SW_STEP_NAME_BYTES - n), ".%d", number);
}

sw_status sw_step_path(const char *folder, int64_t step, char path[SW_PATH_BYTES], sw_error *err) {
    char name[SW_STEP_NAME_BYTES];
    sw_step_name(step, name);
    return sw_path_join(path, folder, name, err);
}

/* The step whose name, without "steps/", these bytes are; -1: it is none's. Steps of more than 8 digits have no zeros before
 * them. */
static int64_t step_of(const char *name, size_t bytes) {
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

/* Is it ".NNNNNNNN.partial", ".NNNNNNNN.removed" or ".NNNNNNNN.removed.N"? */
static bool is_left_over(const char *name) {
    size_t digits = name[0] == '.' ? strcspn(name + 1, ".") : 0;
    const char *end = name + 1 + digits;
    if (!digits || step_of(name + 1, digits) < 0)
        return false;
    if (strcmp(end, partial_end) == 0 || strcmp(end, removed_end) == 0)
        return true;
    const char *number = end + sizeof removed_end;
    return strncmp(end, removed_end, sizeof removed_end - 1) == 0 && number[-1] == '.' && *number &&
           strspn(number, "0123456789") == strlen(number);
}

/* ---- which stay ---- */

bool sw_retention_keeps(const sw_retention *retention, const sw_kept_step *list, int n, int i) {
    if (retention->keep <= 0 || n - i <= retention->keep || i == n - 1)
        return true;
    if (retention->keep_every > 0 && list[i].step % retention->keep_every == 0)
        return true;
    int best = -1; /* the earliest of equals */
    for (int k = 0; k < n; k++)
        if (!isnan(list[k].validation_loss) && (best < 0 || list[k].validation_loss < list[best].validation_loss))
            best = k;
    return i == best;
}

/* ---- the list ---- */

static int newest_first(const void *a, const void *b) {
    int64_t left = ((const sw_step *)a)->step, right = ((const sw_step *)b)->step;
    return left > right ? -1 : left < right;
}

/* A run that goes on beside who asks removes old checkpoints. */
static bool has_gone(const char *path) {
    struct stat info;
    return lstat(path, &info) != 0 && errno == ENOENT;
}

/* Errors: no memory, which says nothing about the checkpoint. */
static sw_status look_at(const char *path, sw_step *step, sw_error *err) {
    sw_checkpoint *checkpoint;
    sw_error reason;
    struct stat info;
    char manifest[SW_PATH_BYTES];
    step->validation_loss = NAN;
    if (sw_path_join(manifest, path, SW_MANIFEST_NAME, NULL) == SW_OK && lstat(manifest, &info) == 0)
        step->seconds = (double)info.st_mtime;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        snprintf(step->reason, sizeof step->reason, "is a link, and may lead out of the run's folder");
        return SW_OK;
    }
    sw_status status = sw_checkpoint_open(path, &checkpoint, &reason);
    if (status == SW_NO_MEMORY)
        return sw_fail(err, status, "%s", reason.message);
    if (status != SW_OK) {
        step->is_unknown = status == SW_BAD_CONFIG;
        snprintf(step->reason, sizeof step->reason, "%.*s", (int)sizeof step->reason - 1, reason.message);
        return SW_OK;
    }
    if (sw_checkpoint_step(checkpoint) == step->step) {
        step->is_whole = true;
        step->bytes = sw_checkpoint_bytes(checkpoint);
        step->validation_loss = sw_checkpoint_validation_loss(checkpoint);
    } else {
        snprintf(step->reason, sizeof step->reason, "holds step %" PRId64 ": it was renamed", sw_checkpoint_step(checkpoint));
    }
    sw_checkpoint_close(checkpoint);
    return SW_OK;
}

/* The folder `folder`/steps; *open_folder is NULL where there is none. */
static sw_status open_steps(const char *folder, char path[SW_PATH_BYTES], DIR **open_folder, sw_error *err) {
    struct stat info;
    *open_folder = NULL;
    sw_status status = sw_path_join(path, folder, "steps", err);
    if (status != SW_OK)
        return status;
    bool is_there = lstat(path, &info) == 0;
    if (!is_there && errno == ENOENT)
        return SW_OK;
    if (is_there && S_ISLNK(info.st_mode))
        return sw_fail(err, SW_BAD_FILE, "%s: is a link, and may lead out of the run's folder; put the folder itself there",
                       path);
    *open_folder = opendir(path);
    return *open_folder ? SW_OK : sw_checkpoint_cannot_open(path, errno, err);
}

sw_status sw_steps_list(const char *folder, sw_steps *steps, sw_error *err) {
    char path[SW_PATH_BYTES], entry_path[SW_PATH_BYTES];
    DIR *open_folder;
    *steps = (sw_steps){0};
    sw_status status = open_steps(folder, path, &open_folder, err);
    if (!open_folder)
        return status;
    for (struct dirent *entry; status == SW_OK && (entry = readdir(open_folder));) {
        int64_t step = step_of(entry->d_name, strlen(entry->d_name));
        if (step < 0)
            continue;
        if (steps->n == steps->capacity) {
            int capacity = steps->capacity ? 2 * steps->capacity : 16;
            sw_step *more = realloc(steps->item, (size_t)capacity * sizeof *more);
            if (!more) {
                status = sw_fail(err, SW_NO_MEMORY, "no memory for a list of %d checkpoints", capacity);
                break;
            }
            steps->item = more;
            steps->capacity = capacity;
        }
        if ((status = sw_path_join(entry_path, path, entry->d_name, err)) != SW_OK)
            break;
        steps->item[steps->n] = (sw_step){.step = step};
        status = look_at(entry_path, &steps->item[steps->n], err);
        if (steps->item[steps->n].is_whole || !has_gone(entry_path))
            steps->n++;
    }
    closedir(open_folder);
    if (steps->n)
        qsort(steps->item, (size_t)steps->n, sizeof *steps->item, newest_first);
    return status;
}

void sw_steps_free(sw_steps *steps) {
    free(steps->item);
    *steps = (sw_steps){0};
}

/* Open it, and compare all of it with its checksums. SW_BAD_FILE with the reason if it is not good. */
static sw_status open_good(const char *path, int n_threads, sw_checkpoint **checkpoint, sw_error *reason) {
    sw_status status = sw_checkpoint_open(path, checkpoint, reason);
    if (status == SW_OK)
        status = sw_checkpoint_verify(*checkpoint, n_threads, reason);
    if (status == SW_OK)
        return status;
    sw_checkpoint_close(*checkpoint);
    *checkpoint = NULL;
    return status;
}

/* The newest good one of a list. *lost_one: one has gone since it was listed. */
static sw_status find_good(const char *folder, const sw_steps *steps, int n_threads, sw_step_rejected_fn rejected, void *to,
                           sw_checkpoint **checkpoint, bool *lost_one, sw_error *err) {
    sw_error reason;
    char path[SW_PATH_BYTES];
    for (int i = 0; i < steps->n && !*checkpoint; i++) {
        const sw_step *item = &steps->item[i];
        sw_status status = sw_step_path(folder, item->step, path, err);
        if (status != SW_OK)
            return status;
        if (item->is_whole)
            status = open_good(path, n_threads, checkpoint, &reason);
        else
            status = sw_fail(&reason, item->is_unknown ? SW_BAD_CONFIG : SW_BAD_FILE, "%s", item->reason);
        if (status != SW_OK && status != SW_BAD_FILE) /* says nothing about the checkpoint */
            return sw_fail(err, status, "%s", reason.message);
        if (status == SW_BAD_FILE && has_gone(path))
            *lost_one = true;
        else if (status == SW_BAD_FILE && rejected)
            rejected(to, item->step, reason.message);
    }
    return SW_OK;
}

sw_status sw_steps_newest_good(const char *folder, int n_threads, sw_step_rejected_fn rejected, void *to,
                               sw_checkpoint **checkpoint, sw_error *err) {
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

/* ---- changes ---- */

/* The manifest goes first: what is left then is no checkpoint. */
sw_status sw_step_folder_delete(const sw_storage *storage, const char *path, bool *stays, sw_error *err) {
    char file[SW_PATH_BYTES];
    if (stays)
        *stays = false;
    int result = storage->remove(storage->self, path);
    if (result == 0 || result == -ENOENT) /* a link or a file had its name: nothing is followed */
        return SW_OK;
    if (result != -EISDIR && result != -EPERM)
        return sw_storage_fail(err, path, -1, result);
    static const char *const first[] = {SW_MANIFEST_NAME, SW_SAVE_MANIFEST_PARTIAL_NAME, SW_SAVE_TABLE_NAME};
    enum { N_FIRST = sizeof first / sizeof *first };
    for (int i = 0; i < N_FIRST + SW_N_STATE_KINDS; i++) {
        const char *name = i < N_FIRST ? first[i] : sw_state_file_name((sw_state_kind)(i - N_FIRST));
        sw_status status = sw_path_join(file, path, name, err);
        if (status != SW_OK)
            return status;
        result = storage->remove(storage->self, file);
        if (result < 0 && result != -ENOENT && result != -EISDIR)
            return sw_storage_fail(err, file, -1, result);
    }
    result = storage->remove_folder(storage->self, path);
    bool holds_more = result == -ENOTEMPTY || result == -EEXIST;
    if (stays)
        *stays = holds_more;
    return result < 0 && result != -ENOENT && !holds_more ? sw_storage_fail(err, path, -1, result) : SW_OK;
}

sw_status sw_step_removed_path(const sw_storage *storage, const char *folder, int64_t step, char path[SW_PATH_BYTES],
                               sw_error *err) {
    char name[SW_STEP_NAME_BYTES];
    bool is_taken = true; /* by what an earlier one of this step had in it */
    sw_status status = SW_OK;
    for (int number = 0; is_taken && status == SW_OK; number++) {
        removed_name(step, number, name);
        status = sw_path_join(path, folder, name, err);
        if (status == SW_OK)
            status = sw_step_folder_delete(storage, path, &is_taken, err); /* of an earlier try */
    }
    return status;
}

sw_status sw_step_remove(const sw_storage *storage, const char *folder, int64_t step, sw_error *err) {
    char path[SW_PATH_BYTES], removed[SW_PATH_BYTES], steps[SW_PATH_BYTES];
    sw_status status = sw_step_path(folder, step, path, err);
    if (status == SW_OK)
        status = sw_step_removed_path(storage, folder, step, removed, err);
    if (status == SW_OK)
        status = sw_path_join(steps, folder, "steps", err);
    if (status != SW_OK)
        return status;
    int result = storage->rename(storage->self, path, removed);
    if (result == -ENOENT)
        return SW_OK;
    if (result == 0) /* the files may be forgotten by the disk before the name is, if it is not made to keep the order */
        result = storage->sync_folder(storage->self, steps);
    return result < 0 ? sw_storage_fail(err, path, -1, result) : sw_step_folder_delete(storage, removed, NULL, err);
}

sw_status sw_steps_remove_after(const sw_storage *storage, const char *folder, int64_t step, sw_error *err) {
    sw_steps steps;
    sw_status status = sw_steps_list(folder, &steps, err);
    for (int i = 0; i < steps.n && steps.item[i].step > step && status == SW_OK; i++)
        status = sw_step_remove(storage, folder, steps.item[i].step, err);
    sw_steps_free(&steps);
    return status;
}

sw_status sw_steps_set_latest(const sw_storage *storage, const char *folder, int64_t step, sw_error *err) {
    char name[SW_STEP_NAME_BYTES], link[SW_PATH_BYTES], latest[SW_PATH_BYTES];
    sw_step_name(step, name);
    sw_status status = sw_path_join(link, folder, ".latest.partial", err);
    if (status == SW_OK)
        status = sw_path_join(latest, folder, "latest", err);
    if (status != SW_OK)
        return status;
    int result = storage->remove(storage->self, link);
    if (result < 0 && result != -ENOENT)
        return sw_storage_fail(err, link, -1, result);
    result = storage->link(storage->self, name, link);
    if (result == -EOPNOTSUPP) /* nobody but people misses it */
        return SW_OK;
    if (result == 0)
        result = storage->rename(storage->self, link, latest);
    return result < 0 ? sw_storage_fail(err, latest, -1, result) : SW_OK;
}

/* Remove what a killed run left in steps/. */
static sw_status remove_left_overs(const sw_storage *storage, const char *folder, sw_left_over_fn stays, void *to,
                                   sw_error *err) {
    char path[SW_PATH_BYTES], entry_path[SW_PATH_BYTES];
    DIR *open_folder;
    sw_status status = open_steps(folder, path, &open_folder, err);
    if (!open_folder)
        return status;
    for (struct dirent *entry; status == SW_OK && (entry = readdir(open_folder));) {
        bool holds_more = false;
        if (!is_left_over(entry->d_name))
            continue;
        if ((status = sw_path_join(entry_path, path, entry->d_name, err)) == SW_OK)
            status = sw_step_folder_delete(storage, entry_path, &holds_more, err);
        if (holds_more && stays)
            stays(to, entry_path);
    }
    closedir(open_folder);
    return status;
}

/* Remove the manifest that was to take the place of a checkpoint's. */
static sw_status remove_half_restated(const sw_storage *storage, const char *folder, const sw_step *step, sw_error *err) {
    char path[SW_PATH_BYTES], partial[SW_PATH_BYTES];
    sw_status status = sw_step_path(folder, step->step, path, err);
    if (status == SW_OK)
        status = sw_path_join(partial, path, SW_SAVE_MANIFEST_PARTIAL_NAME, err);
    if (status == SW_OK && step->is_whole)
        (void)storage->remove(storage->self, partial);
    return status;
}

/* May the name be given to a link? A link of any kind is replaced, and `latest` as nothing else than a link is somebody's own. */
static sw_status check_link(const char *path, sw_error *err) {
    struct stat info;
    if (lstat(path, &info) != 0 || S_ISLNK(info.st_mode))
        return SW_OK;
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s: is a %s, and a run makes a link of that name to its newest checkpoint · move it away, or remove it", path,
                   S_ISDIR(info.st_mode) ? "folder" : "file");
}

sw_status sw_steps_clean(const sw_storage *storage, const char *folder, sw_left_over_fn stays, void *to, sw_error *err) {
    char link[SW_PATH_BYTES], latest[SW_PATH_BYTES], target[SW_STEP_NAME_BYTES], name[SW_STEP_NAME_BYTES] = "";
    sw_steps steps = {0};
    sw_status status = sw_path_join(link, folder, ".latest.partial", err);
    if (status == SW_OK)
        status = sw_path_join(latest, folder, "latest", err);
    if (status == SW_OK)
        status = check_link(link, err);
    if (status == SW_OK)
        status = check_link(latest, err);
    if (status == SW_OK)
        status = remove_left_overs(storage, folder, stays, to, err);
    if (status == SW_OK)
        storage->remove(storage->self, link);
    if (status == SW_OK)
        status = sw_steps_list(folder, &steps, err);
    for (int i = 0; i < steps.n && status == SW_OK; i++)
        status = remove_half_restated(storage, folder, &steps.item[i], err);
    int newest = 0;
    while (newest < steps.n && !steps.item[newest].is_whole && !steps.item[newest].is_unknown)
        newest++;
    if (status == SW_OK && newest < steps.n && steps.item[newest].is_whole) {
        ssize_t n = readlink(latest, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        sw_step_name(steps.item[newest].step, name);
        if (strcmp(target, name) != 0)
            status = sw_steps_set_latest(storage, folder, steps.item[newest].step, err);
    }
    sw_steps_free(&steps);
    return status;
}
