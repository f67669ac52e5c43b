/* load_internal.h: an open checkpoint, shared by the files that read it. */
#ifndef SW_CHECKPOINT_LOAD_INTERNAL_H
#define SW_CHECKPOINT_LOAD_INTERNAL_H

#include "base/file.h"
#include "checkpoint/load.h"

struct sw_checkpoint {
    char *path;
    int folder; /* stays open, so that no other one gets its number: sw_checkpoint_was_replaced */
    sw_manifest manifest;
    int manifest_descriptor; /* stays open, as the others do: what a run removes or replaces
                                meanwhile changes nothing */
    int64_t manifest_bytes;
    sw_state_files files; /* as they must be: headers and places */
    int *by_name;         /* [n_parameters] of the manifest, in order of name */
    struct {
        char path[SW_PATH_BYTES]; /* for messages */
        int descriptor;           /* -1: there is none */
    } file[SW_N_STATE_KINDS];
};

/* Is what was opened no more what its path leads to: has a run saved that step again, or removed
 * it? */
bool sw_checkpoint_was_replaced(const sw_checkpoint *checkpoint);

/* A folder or file of a checkpoint could not be opened, for the reason `error` (errno).
 * SW_BAD_CONFIG where this user may not, SW_NO_MEMORY where the process has not enough, else
 * SW_BAD_FILE. */
sw_status sw_checkpoint_cannot_open(const char *path, int error, sw_error *err);

/* A range of a file into `to` [range's bytes], checked. Errors: SW_BAD_FILE as sw_range_damaged
 * says it. */
sw_status sw_range_read(const sw_checkpoint *checkpoint, sw_state_kind kind, int64_t range,
                        void *to, sw_error *err);

/* SW_BAD_FILE: file, bytes and parameters of a range. */
sw_status sw_range_damaged(const sw_checkpoint *checkpoint, sw_state_kind kind, int64_t range,
                           sw_error *err);

#endif
