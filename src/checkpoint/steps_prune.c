/* steps_prune.c: checkpoints are removed, and what is in their way is moved. See steps.h.
 *
 * Nothing is removed but what a run has written, and has given the name that it is found under:
 * everything here asks sw_step_is_own first, or knows the name from sw_step_is_left_over, which no
 * person would give. tests/checkpoint/test_foreign.c and tests/run/strange_folders.py put other
 * things under names of steps.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/load_internal.h"
#include "checkpoint/manifest_format.h"
#include "checkpoint/save_internal.h"
#include "checkpoint/steps_internal.h"

static const char partial_end[] = ".partial", removed_end[] = ".removed", moved_end[] = ".moved";

/* ---- names ---- */

void sw_step_partial_name(int64_t step, char name[SW_STEP_NAME_BYTES]) {
    snprintf(name, SW_STEP_NAME_BYTES, "steps/.%08" PRId64 "%s", step, partial_end);
}

/* "steps/", the folder's name of a step behind `before`, an ending, and a number where the names
 * before it are taken. */
static void other_name(const char *before, int64_t step, const char *end, int number,
                       char name[SW_STEP_NAME_BYTES]) {
    int n = snprintf(name, SW_STEP_NAME_BYTES, "steps/%s%08" PRId64 "%s", before, step, end);
    if (number)
        snprintf(name + n, (size_t)(SW_STEP_NAME_BYTES - n), ".%d", number);
}

bool sw_step_is_left_over(const char *name) {
    size_t digits = name[0] == '.' ? strcspn(name + 1, ".") : 0;
    const char *end = name + 1 + digits;
    if (!digits || sw_step_of_name(name + 1, digits) < 0)
        return false;
    if (strcmp(end, partial_end) == 0 || strcmp(end, removed_end) == 0)
        return true;
    const char *number = end + sizeof removed_end;
    return strncmp(end, removed_end, sizeof removed_end - 1) == 0 && number[-1] == '.' && *number &&
           strspn(number, "0123456789") == strlen(number);
}

/* ---- whose it is ---- */

/* The step that the beginning of a manifest says, as sw_manifest_write writes it; -1: it says
 * none. */
static int64_t said_step(const char *text) {
    static const char version[] = "{\"format\": \"" SW_MANIFEST_FORMAT "\", \"version\": ",
                      step[] = ",\n\"step\": ";
    if (strncmp(text, version, sizeof version - 1) != 0)
        return -1;
    text += sizeof version - 1;
    text += strspn(text, "0123456789");
    if (strncmp(text, step, sizeof step - 1) != 0)
        return -1;
    text += sizeof step - 1;
    return *text >= '0' && *text <= '9' ? strtoll(text, NULL, 10) : -1;
}

bool sw_step_is_own(const char *path, int64_t step) {
    char manifest[SW_PATH_BYTES], text[128] = "";
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT;
    if (!S_ISDIR(info.st_mode) || sw_path_join(manifest, path, SW_MANIFEST_NAME, NULL) != SW_OK)
        return false;
    int fd = open(manifest, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    (void)!pread(fd, text, sizeof text - 1, 0); /* what cannot be read is damaged */
    close(fd);
    int64_t said = said_step(text);
    return said < 0 || said == step;
}

sw_status sw_step_move_away(const sw_storage *storage, const char *folder, int64_t step,
                            char moved[SW_PATH_BYTES], sw_error *err) {
    char path[SW_PATH_BYTES], name[SW_STEP_NAME_BYTES];
    struct stat info;
    bool is_free = false;
    sw_status status = sw_step_path(folder, step, path, err);
    for (int number = 0; !is_free && status == SW_OK; number++) {
        other_name("", step, moved_end, number, name);
        status = sw_path_join(moved, folder, name, err);
        is_free = status == SW_OK && lstat(moved, &info) != 0;
    }
    return status == SW_OK
               ? sw_storage_expect(storage->rename(storage->self, path, moved), path, err)
               : status;
}

/* ---- changes ---- */

/* The manifest goes first: what is left then is no checkpoint. */
sw_status sw_step_folder_delete(const sw_storage *storage, const char *path, bool *stays,
                                sw_error *err) {
    char file[SW_PATH_BYTES];
    if (stays)
        *stays = false;
    int result = storage->remove(storage->self, path);
    if (result == 0 || result == -ENOENT) /* a link or a file had its name: nothing is followed */
        return SW_OK;
    if (result != -EISDIR && result != -EPERM)
        return sw_storage_fail(err, path, -1, result);
    static const char *const first[] = {SW_MANIFEST_NAME, SW_SAVE_MANIFEST_PARTIAL_NAME,
                                        SW_SAVE_TABLE_NAME};
    enum { N_FIRST = sizeof first / sizeof *first };
    for (int i = 0; i < N_FIRST + SW_N_STATE_KINDS; i++) {
        const char *name =
            i < N_FIRST ? first[i] : sw_state_file_name((sw_state_kind)(i - N_FIRST));
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
    return result < 0 && result != -ENOENT && !holds_more ? sw_storage_fail(err, path, -1, result)
                                                          : SW_OK;
}

sw_status sw_step_removed_path(const sw_storage *storage, const char *folder, int64_t step,
                               char path[SW_PATH_BYTES], sw_error *err) {
    char name[SW_STEP_NAME_BYTES];
    bool is_taken = true; /* by what an earlier one of this step had in it */
    sw_status status = SW_OK;
    for (int number = 0; is_taken && status == SW_OK; number++) {
        other_name(".", step, removed_end, number, name);
        status = sw_path_join(path, folder, name, err);
        if (status == SW_OK)
            status = sw_step_folder_delete(storage, path, &is_taken, err); /* of an earlier try */
    }
    return status;
}

sw_status sw_step_remove(const sw_storage *storage, const char *folder, int64_t step,
                         sw_error *err) {
    char path[SW_PATH_BYTES], removed[SW_PATH_BYTES], steps[SW_PATH_BYTES];
    sw_status status = sw_step_path(folder, step, path, err);
    if (status != SW_OK || !sw_step_is_own(path, step))
        return status;
    status = sw_step_removed_path(storage, folder, step, removed, err);
    if (status == SW_OK)
        status = sw_path_join(steps, folder, "steps", err);
    if (status != SW_OK)
        return status;
    int result = storage->rename(storage->self, path, removed);
    if (result == -ENOENT)
        return SW_OK;
    if (result == 0) /* the files may be forgotten by the disk before the name is, if it is not made
                        to keep the order */
        result = storage->sync_folder(storage->self, steps);
    return result < 0 ? sw_storage_fail(err, path, -1, result)
                      : sw_step_folder_delete(storage, removed, NULL, err);
}

sw_status sw_steps_remove_after(const sw_storage *storage, const char *folder, int64_t step,
                                sw_error *err) {
    sw_steps steps;
    sw_status status = sw_steps_list(folder, &steps, err);
    for (int i = 0; i < steps.n && steps.item[i].step > step && status == SW_OK; i++)
        status = sw_step_remove(storage, folder, steps.item[i].step, err);
    sw_steps_free(&steps);
    return status;
}

sw_status sw_steps_set_latest(const sw_storage *storage, const char *folder, int64_t step,
                              sw_error *err) {
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
static sw_status remove_left_overs(const sw_storage *storage, const char *folder,
                                   sw_left_over_fn stays, void *to, sw_error *err) {
    char path[SW_PATH_BYTES], entry_path[SW_PATH_BYTES];
    DIR *open_folder;
    int error = 0;
    sw_status status = sw_steps_open_folder(folder, path, &open_folder, err);
    if (!open_folder)
        return status;
    for (struct dirent *entry; status == SW_OK && (entry = sw_folder_next(open_folder, &error));) {
        bool holds_more = false;
        if (!sw_step_is_left_over(entry->d_name))
            continue;
        if ((status = sw_path_join(entry_path, path, entry->d_name, err)) == SW_OK)
            status = sw_step_folder_delete(storage, entry_path, &holds_more, err);
        if (holds_more && stays)
            stays(to, entry_path);
    }
    closedir(open_folder);
    return error ? sw_checkpoint_cannot_open(path, error, err) : status;
}

int64_t sw_steps_left_over_bytes(const char *folder) {
    char path[SW_PATH_BYTES], entry_path[SW_PATH_BYTES];
    DIR *open_folder;
    int64_t bytes = 0;
    if (sw_steps_open_folder(folder, path, &open_folder, NULL) != SW_OK || !open_folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(open_folder));)
        if (sw_step_is_left_over(entry->d_name) &&
            sw_path_join(entry_path, path, entry->d_name, NULL) == SW_OK)
            bytes += sw_folder_blocks(entry_path);
    closedir(open_folder);
    return bytes;
}

/* Remove the manifest that was to take the place of a checkpoint's. */
static sw_status remove_half_replaced(const sw_storage *storage, const char *folder,
                                      const sw_step_entry *step, sw_error *err) {
    char path[SW_PATH_BYTES], partial[SW_PATH_BYTES];
    sw_status status = sw_step_path(folder, step->step, path, err);
    if (status == SW_OK)
        status = sw_path_join(partial, path, SW_SAVE_MANIFEST_PARTIAL_NAME, err);
    if (status == SW_OK && step->is_whole)
        (void)storage->remove(storage->self, partial);
    return status;
}

/* May the name be given to a link? A link of any kind is replaced, and `latest` as nothing else
 * than a link is somebody's own. */
static sw_status check_link(const char *path, sw_error *err) {
    struct stat info;
    if (lstat(path, &info) != 0 || S_ISLNK(info.st_mode))
        return SW_OK;
    return sw_fail(
        err, SW_BAD_CONFIG,
        "%s: is a %s, and a run makes a link of that name to its newest checkpoint · move it away",
        path, S_ISDIR(info.st_mode) ? "folder" : "file");
}

sw_status sw_steps_clean(const sw_storage *storage, const char *folder, sw_left_over_fn stays,
                         void *to, sw_error *err) {
    char link[SW_PATH_BYTES], latest[SW_PATH_BYTES], target[SW_STEP_NAME_BYTES],
        name[SW_STEP_NAME_BYTES] = "";
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
        status = remove_half_replaced(storage, folder, &steps.item[i], err);
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
