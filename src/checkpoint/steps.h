/* steps.h: the checkpoints of a run's folder: which there are, which to go on from, what a killed
 * run left behind.
 *
 *   steps/00000200            a checkpoint
 *   steps/.00000400.partial   one that is being written, or was when the run was killed
 *   steps/.00000100.removed   one that is being removed, or was; with ".1" and so on where that
 *                             name is taken
 *   steps/00000300.moved      what had the name of a step without being a checkpoint of it, when
 *                             that step was saved
 *   latest                    a link to the newest: for people; nothing here reads it
 *
 * Other names in steps/ are nobody's: they are neither read nor removed. Nor is anything removed
 * that has the name of a step and is not what a run has written under it: sw_step_is_own.
 */
#ifndef SW_CHECKPOINT_STEPS_H
#define SW_CHECKPOINT_STEPS_H

#include "base/file.h"
#include "checkpoint/storage.h"

/* Which checkpoints stay when a new one has been published. The newest and the best always do. */
typedef struct sw_retention {
    int64_t keep;       /* so many of the newest; 0: all */
    int64_t keep_every; /* and those of steps that are a multiple of this; 0: no more */
} sw_retention;

typedef struct sw_kept_step {
    int64_t step;
    double validation_loss; /* NAN: none */
} sw_kept_step;

/* Does the i-th of the checkpoints list [n], in order of their steps, stay? */
bool sw_retention_keeps(const sw_retention *retention, const sw_kept_step *list, int n, int i);

typedef struct sw_step_entry {
    int64_t step;
    bool is_whole;          /* manifest, sizes and headers are right; the data were not read */
    bool is_unknown;        /* it may be whole: of a newer format, or not to be read by this user */
    char reason[256];       /* why it is not whole, or unknown; "" */
    int64_t bytes;          /* of its files; 0 if it is not whole */
    double validation_loss; /* NAN: none, or not whole */
    double seconds;         /* when it was written, since 1970, by its manifest's file */
} sw_step_entry;

typedef struct sw_steps {
    sw_step_entry *item; /* [n] newest step first */
    int n, capacity;
} sw_steps;

/* List what is in `folder`/steps; no such folder: an empty list. What a run removes meanwhile is
 * not in it. Ownership: sw_steps_free, also after an error. Errors: SW_BAD_FILE: the folder is a
 * link, or none; SW_BAD_CONFIG: this user may not read it. */
sw_status sw_steps_list(const char *folder, sw_steps *steps, sw_error *err);
void sw_steps_free(sw_steps *steps);

/* The newest that is_whole; -1: none is. */
int64_t sw_steps_newest_whole(const sw_steps *steps);

/* The folder of a step: "`folder`/steps/00000200". */
sw_status sw_step_path(const char *folder, int64_t step, char path[SW_PATH_BYTES], sw_error *err);

/* A checkpoint was passed over: its message says which and why. */
typedef void (*sw_step_rejected_fn)(void *to, int64_t step, const char *message);

/* Open the newest checkpoint whose every byte is right (sw_checkpoint_verify), read by n_threads
 * threads; NULL if there is none. `rejected` (may be NULL) hears of each newer one that is not.
 * What is open stays, whatever a run removes. Ownership: sw_checkpoint_close. Errors:
 * SW_BAD_CONFIG: a newer one is unknown. */
typedef struct sw_checkpoint sw_checkpoint; /* checkpoint/load.h */
sw_status sw_steps_newest_good(const char *folder, int n_threads, sw_step_rejected_fn rejected,
                               void *to, sw_checkpoint **checkpoint, sw_error *err);

/* At the start of a run, by who holds its lock, before anything is saved: remove what a killed run
 * left (checkpoints that were being written or removed), and let `latest` name the newest whole
 * one, unless a newer one is unknown. What holds files that are no checkpoint's stays with them,
 * and `stays` (may be NULL) hears of it. Errors: SW_BAD_CONFIG: something is in the place of the
 * link that no run makes, so that no save could set it. */
typedef void (*sw_left_over_fn)(void *to, const char *path);
sw_status sw_steps_clean(const sw_storage *storage, const char *folder, sw_left_over_fn stays,
                         void *to, sw_error *err);

/* Bytes on the disk that sw_steps_clean gives back. */
int64_t sw_steps_left_over_bytes(const char *folder);

/* May what has the name of a step be removed by a run? Nothing is there; or it is a folder whose
 * manifest says that step, or is damaged and says none. A link, a file, a folder without a
 * manifest, a checkpoint of another step are somebody's: copied or renamed by hand. Nothing is
 * allocated. */
bool sw_step_is_own(const char *path, int64_t step);

/* Remove a checkpoint: it loses its name first, so that it is whole or not there at any moment. One
 * that is not there is fine, and what is not a run's own stays as it is. Files in it that are no
 * checkpoint's stay, under the other name. */
sw_status sw_step_remove(const sw_storage *storage, const char *folder, int64_t step,
                         sw_error *err);

/* Remove every checkpoint of a step beyond `step`, whole or not, that is a run's own: for a run
 * that goes on from an older one, before it saves. */
sw_status sw_steps_remove_after(const sw_storage *storage, const char *folder, int64_t step,
                                sw_error *err);

/* ---- for who writes checkpoints; nothing is allocated ---- */

/* Names below a run's folder: "steps/00000200", and of one that is being written
 * "steps/.00000200.partial". */
#define SW_STEP_NAME_BYTES 64
void sw_step_name(int64_t step, char name[SW_STEP_NAME_BYTES]);
void sw_step_partial_name(int64_t step, char name[SW_STEP_NAME_BYTES]);

/* Remove the files of a checkpoint, or those that are there, from the folder `path`, and the
 * folder. One that is not there is fine, and one that holds other things stays with them: *stays
 * (may be NULL). */
sw_status sw_step_folder_delete(const sw_storage *storage, const char *path, bool *stays,
                                sw_error *err);

/* A free name for the folder of a step that is being removed or replaced: ".00000100.removed", or
 * with a number behind it. What an earlier try left there is removed. */
sw_status sw_step_removed_path(const sw_storage *storage, const char *folder, int64_t step,
                               char path[SW_PATH_BYTES], sw_error *err);

/* Give what has the name of a step, and is not a run's own, the first free one of
 * ".../00000300.moved", ".../00000300.moved.1" and so on, which nothing touches any more. It lasts
 * when steps/ has been synced. */
sw_status sw_step_move_away(const sw_storage *storage, const char *folder, int64_t step,
                            char moved[SW_PATH_BYTES], sw_error *err);

/* Let `latest` name the checkpoint of a step, where the file system has links. It lasts when
 * `folder` has been synced. */
sw_status sw_steps_set_latest(const sw_storage *storage, const char *folder, int64_t step,
                              sw_error *err);

#endif
