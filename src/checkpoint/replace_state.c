/* replace_state.c: a checkpoint that is there gets another state. See sw_save_replace_state.
 *
 * A run that went back to it has left rows out, which is all that is new: gigabytes beside it are
 * what they were. So the manifest alone is written, beside the old one, and renamed over it when it
 * is on disk. That needs neither the room of a second checkpoint nor a file system that exchanges
 * folders. tests/checkpoint/test_power_loss.c tries all that a disk may forget of this.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/load_internal.h"
#include "checkpoint/save_internal.h"

/* The text [bytes] of the manifest in the folder `path`, with that state. Ownership:
 * free(*text). */
static sw_status make_manifest(const char *path, const char *state, char **text, int64_t *bytes,
                               sw_error *err) {
    sw_checkpoint *checkpoint;
    *text = NULL;
    sw_status status = sw_checkpoint_open(path, &checkpoint, err);
    if (status != SW_OK)
        return status;
    sw_manifest manifest = checkpoint->manifest; /* whose memory stays the checkpoint's */
    manifest.state = state;
    int64_t room = sw_manifest_write(&manifest, NULL, 0);
    *text = malloc((size_t)room);
    if (*text)
        *bytes = sw_manifest_write(&manifest, *text, room);
    else
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for a manifest of %lld bytes", path,
                         (long long)room);
    sw_checkpoint_close(checkpoint);
    return status;
}

sw_status sw_save_replace_state(sw_save *save, int64_t step, const char *state, sw_error *err) {
    const sw_storage *storage = save->options.storage;
    char path[SW_PATH_BYTES], manifest[SW_PATH_BYTES], partial[SW_PATH_BYTES], *text = NULL;
    int64_t bytes = 0;
    sw_status status = sw_save_check_state(state, err);
    if (status == SW_OK)
        status = sw_step_path(save->options.folder, step, path, err);
    if (status == SW_OK)
        status = sw_path_join(manifest, path, SW_MANIFEST_NAME, err);
    if (status == SW_OK)
        status = sw_path_join(partial, path, SW_SAVE_MANIFEST_PARTIAL_NAME, err);
    if (status == SW_OK)
        status = make_manifest(path, state, &text, &bytes, err);
    if (status != SW_OK)
        return status;
    int result = storage->remove(storage->self, partial); /* of a killed run: it may be longer */
    status = result == -ENOENT ? SW_OK : sw_storage_expect(result, partial, err);
    if (status == SW_OK)
        status = sw_save_write_file(storage, path, SW_SAVE_MANIFEST_PARTIAL_NAME, text, bytes, 0,
                                    true, err);
    if (status == SW_OK)
        status =
            sw_storage_expect(storage->rename(storage->self, partial, manifest), manifest, err);
    if (status == SW_OK)
        status = sw_storage_expect(storage->sync_folder(storage->self, path), path, err);
    if (status != SW_OK)
        (void)storage->remove(storage->self, partial);
    free(text);
    return status;
}
