/* copy.c: see copy.h. Written as a save writes: under another name, synced, checked, renamed. */
#include "checkpoint/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "checkpoint/load_internal.h"
#include "checkpoint/steps.h"

/* `bytes` of an open file into a new one of the folder. `chunk`: [SW_RANGE_BYTES]. */
static sw_status copy_file(const sw_storage *storage, int from, const char *from_path,
                           int64_t bytes, const char *folder, const char *name, char *chunk,
                           sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_status status = sw_path_join(path, folder, name, err);
    if (status != SW_OK)
        return status;
    int fd = storage->open(storage->self, path, false);
    if (fd < 0)
        return sw_storage_fail(err, path, -1, fd);
    status = sw_storage_expect(storage->reserve(storage->self, fd, bytes), path, err);
    for (int64_t at = 0; at < bytes && status == SW_OK; at += SW_RANGE_BYTES) {
        int64_t n = bytes - at < SW_RANGE_BYTES ? bytes - at : SW_RANGE_BYTES;
        status = sw_file_read_at(from, from_path, chunk, n, at, err);
        if (status == SW_OK)
            status = sw_storage_write(storage, path, fd, chunk, n, at, err);
    }
    if (status == SW_OK)
        status = sw_storage_expect(storage->sync(storage->self, fd), path, err);
    int result = storage->close(storage->self, fd);
    return status == SW_OK ? sw_storage_expect(result, path, err) : status;
}

static sw_status copy_files(const sw_checkpoint *c, const sw_storage *storage, const char *folder,
                            sw_error *err) {
    char path[SW_PATH_BYTES], *chunk = malloc(SW_RANGE_BYTES);
    sw_status status =
        chunk ? SW_OK : sw_fail(err, SW_NO_MEMORY, "%s: no memory to copy it", c->path);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        if (c->manifest.file[kind].is_there)
            status = copy_file(storage, c->file[kind].descriptor, c->file[kind].path,
                               c->manifest.file[kind].bytes, folder,
                               sw_state_file_name((sw_state_kind)kind), chunk, err);
    if (status == SW_OK)
        status = sw_path_join(path, c->path, SW_MANIFEST_NAME, err);
    if (status == SW_OK)
        status = copy_file(storage, c->manifest_descriptor, path, c->manifest_bytes, folder,
                           SW_MANIFEST_NAME, chunk, err);
    free(chunk);
    return status == SW_OK
               ? sw_storage_expect(storage->sync_folder(storage->self, folder), folder, err)
               : status;
}

static sw_status check_copy(const char *folder, int n_threads, sw_error *err) {
    sw_checkpoint *copy;
    sw_status status = sw_checkpoint_open(folder, &copy, err);
    if (status != SW_OK)
        return status;
    status = sw_checkpoint_verify(copy, n_threads, err);
    sw_checkpoint_close(copy);
    return status;
}

static sw_status check_folder(const char *folder, int64_t step, sw_error *err) {
    sw_steps steps;
    sw_status status = sw_steps_list(folder, &steps, err);
    if (status == SW_OK && steps.n && steps.item[0].step >= step)
        status =
            sw_fail(err, SW_BAD_CONFIG,
                    "%s: has a checkpoint of step %" PRId64
                    " already, and would not continue from step %" PRId64 "; take another folder",
                    folder, steps.item[0].step, step);
    sw_steps_free(&steps);
    return status;
}

sw_status sw_checkpoint_copy(const sw_checkpoint *checkpoint, const sw_storage *storage,
                             const char *folder, int n_threads, sw_error *err) {
    char steps[SW_PATH_BYTES], partial[SW_PATH_BYTES], path[SW_PATH_BYTES],
        name[SW_STEP_NAME_BYTES];
    const int64_t step = sw_checkpoint_step(checkpoint);
    sw_step_partial_name(step, name);
    sw_status status = sw_path_join(steps, folder, "steps", err);
    if (status == SW_OK)
        status = sw_path_join(partial, folder, name, err);
    if (status == SW_OK)
        status = sw_step_path(folder, step, path, err);
    if (status == SW_OK)
        status = check_folder(folder, step, err);
    if (status == SW_OK)
        status = sw_steps_clean(storage, folder, NULL, NULL, err);
    if (status != SW_OK)
        return status;
    int result = storage->make_folder(storage->self, steps);
    status = result == -EEXIST ? SW_OK : sw_storage_expect(result, steps, err);
    if (status == SW_OK) {
        result = storage->make_folder(storage->self, partial);
        status = result == -EEXIST
                     ? SW_OK
                     : sw_storage_expect(result, partial,
                                         err); /* somebody's files that cleaning left in one */
    }
    if (status != SW_OK)
        return status;
    status = copy_files(checkpoint, storage, partial, err);
    if (status == SW_OK)
        status = check_copy(partial, n_threads, err);
    if (status == SW_OK)
        status = sw_storage_expect(storage->rename(storage->self, partial, path), path, err);
    if (status == SW_OK)
        status = sw_storage_expect(storage->sync_folder(storage->self, steps), steps, err);
    if (status == SW_OK)
        status = sw_steps_set_latest(storage, folder, step, err);
    if (status == SW_OK)
        return sw_storage_expect(storage->sync_folder(storage->self, folder), folder, err);
    (void)sw_step_folder_delete(storage, partial, NULL, NULL);
    return status;
}
