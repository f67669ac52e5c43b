/* save.h: one rank's part in writing checkpoints.
 *
 * A checkpoint of step N is the folder steps/NNNNNNNN of the run: the files of state_files.h and
 * manifest.json. It is written as steps/.NNNNNNNN.partial and gets its name when all of it is on
 * disk: it is complete or not there. All ranks write at once, each the byte ranges that the
 * ownership map gives it, straight from live memory: a group's values are fetched into one of a few
 * bounce buffers, a range of at most SW_RANGE_BYTES at a time, checksummed there and handed to the
 * disk. Nothing else is copied, and after sw_save_open nothing is allocated.
 *
 *   every rank   sw_save_begin     step N
 *                sw_save_group     once for each group of the layout, in any order, other work
 *                                  between them
 *                sw_save_finish    this rank's bytes are on disk
 *   (all ranks learn that all have finished)
 *   rank 0       sw_save_publish   manifest, the folder's name, `latest`, and what is not kept any
 *                                  more is removed
 *
 * A checkpoint that is there may get another state: sw_save_replace_state.
 *
 * When any of it fails on any rank, every rank, each of which has begun, calls sw_save_abandon,
 * rank 0 after the others have: the folder is removed, what was there before is as it was, and the
 * next save may begin. Failures are SW_NO_SPACE (SW_NO_MEMORY and SW_BAD_CONFIG from sw_save_open
 * too), with one message: file, offset, reason, what to try.
 *
 * A save is used by one thread at a time, which need not be always the same.
 */
#ifndef SW_CHECKPOINT_SAVE_H
#define SW_CHECKPOINT_SAVE_H

#include "checkpoint/manifest.h"
#include "checkpoint/steps.h"
#include "shard/layout.h"

/* Fill values [n] with elements first .. first + n - 1 of a piece of this rank's shard, of the
 * state of that kind. `values` is aligned as floats are, no better. Frozen parameters are asked for
 * SW_STATE_MASTER alone. */
typedef sw_status (*sw_fetch_state_fn)(void *from, sw_state_kind kind, int group,
                                       const sw_piece *piece, int64_t first, int64_t n,
                                       float *values, sw_error *err);

typedef struct sw_save_options {
    const sw_storage *storage; /* sw_storage_system() */
    const char *folder;        /* the run's; exists */
    const sw_graph *graph;     /* the layout's */
    const sw_layout *layout;
    int owner;      /* of the shard that is written here: sw_layout_owner. Owner 0 publishes */
    unsigned kinds; /* sw_state_kinds_of */
    bool leaves_out_frozen; /* frozen parameters are read again from where they came from, and not
                               written */
    sw_fetch_state_fn fetch;
    void *from;
    const sw_setting_text *settings; /* [n_settings]; rank 0's are written */
    int n_settings;
    const char *model_config; /* text of the model's config.json, for exports; NULL: it has none */
    sw_retention retention;   /* rank 0's counts */
} sw_save_options;

/* What else the next step depends on, known when a checkpoint is published. */
typedef struct sw_save_facts {
    /* Text of one JSON object of the caller's (data position, schedule, counters, guard): given
     * back as it is when a run goes on. At most SW_SAVE_STATE_BYTES. */
    const char *state;
    double validation_loss; /* NAN: there was no evaluation at this step */
} sw_save_facts;

#define SW_SAVE_STATE_BYTES (64 << 10)

typedef struct sw_save sw_save;

/* Once in a run: makes `folder`/steps, allocates all that saving needs, and looks on rank 0 what
 * checkpoints there are. The graph, the layout, storage, folder and settings must outlive it.
 * Ownership: sw_save_close, which takes NULL too. */
sw_status sw_save_open(const sw_save_options *options, sw_save **save, sw_error *err);
void sw_save_close(sw_save *save);

/* Bytes that sw_save_open allocates for this rank, for the plan; those of the kernel's ring
 * apart. */
int64_t sw_save_bytes(const sw_save_options *options);

/* Bytes of a checkpoint's files on the disk, for whoever asks whether there is room; a little more
 * than they come to. */
int64_t sw_save_file_bytes(const sw_save_options *options);

/* Begin the checkpoint of the state after `step` steps. */
sw_status sw_save_begin(sw_save *save, int64_t step, sw_error *err);

/* Write this rank's part of a group. When it returns, the group's memory has been read and may
 * change; its bytes may still be on their way to the disk. */
sw_status sw_save_group(sw_save *save, int group, sw_error *err);

/* Wait until this rank's bytes are on disk, and leave its checksums for rank 0. Every group was
 * written. */
sw_status sw_save_finish(sw_save *save, sw_error *err);

/* Rank 0, when all ranks have finished. A checkpoint of the same step that is there already is
 * replaced. When it fails, the checkpoint is there or it is not, whole in either case, and the
 * older ones are. `remark`: what could not be done when the checkpoint was there (`latest`,
 * removing others), and is tried again with the next; its message is "" when there is none. */
sw_status sw_save_publish(sw_save *save, const sw_save_facts *facts, sw_error *remark,
                          sw_error *err);

/* Rank 0, while nothing is being saved: the checkpoint of a step, which is there, gets another
 * state (as in sw_save_facts), and all else of it stays as it is: only its manifest is written
 * anew. At any moment it is whole, with the one state or the other. Reads the manifest, and
 * allocates for that. Errors: SW_NO_SPACE; SW_BAD_FILE: it is damaged, or gone; SW_NO_MEMORY. */
sw_status sw_save_replace_state(sw_save *save, int64_t step, const char *state, sw_error *err);

/* Rank 0, while nothing is being saved: checkpoints after this step are the caller's to remove, and
 * count no more among those that retention looks at. */
void sw_save_forget_after(sw_save *save, int64_t step);

/* Give up what was begun, if anything was. */
void sw_save_abandon(sw_save *save);

#endif
