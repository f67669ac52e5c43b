/* save_internal.h: a save, shared by the file that writes a rank's part and the one that publishes
 * the whole. */
#ifndef SW_CHECKPOINT_SAVE_INTERNAL_H
#define SW_CHECKPOINT_SAVE_INTERNAL_H

#include "base/file.h"
#include "checkpoint/bounce.h"
#include "checkpoint/save.h"
#include "checkpoint/steps.h"

/* Each rank's checksums, for rank 0, in a file of the folder that is being written: first a stamp,
 * then those of its ranges in the order in which it walks them (kind by kind; on rank 0 the file's
 * header first; then group by group). */
#define SW_SAVE_TABLE_NAME "checksums"

/* A manifest that is about to take the place of the one beside it: replace_state.c. */
#define SW_SAVE_MANIFEST_PARTIAL_NAME "manifest.json.partial"

/* What rank 0 alone has. */
typedef struct sw_publisher {
    sw_manifest manifest; /* its ranges are in order of offset */
    int64_t *
        place[SW_N_STATE_KINDS]; /* [n_ranges] of each range's checksum in the table of all ranks */
    int64_t table_length;        /* entries of all ranks, stamps too */
    uint64_t *table;             /* [table_length] */
    char *text;                  /* [room] of the manifest */
    int64_t room;
    sw_kept_step *kept; /* [n_kept] the checkpoints that are there, in order; only counted where
                           some are not kept */
    int n_kept, kept_capacity;
} sw_publisher;

struct sw_save {
    sw_save_options options;
    sw_state_parameter *parameters; /* [n_parameters] */
    sw_state_files files;
    sw_bounce *bounce;
    int64_t *first_range[SW_N_STATE_KINDS]; /* [n_groups] place of a group's first checksum in this
                                               rank's table */
    int64_t header_range[SW_N_STATE_KINDS]; /* rank 0: of a header's first one */
    int64_t table_first, table_length; /* this rank's part of the table of all ranks, in entries */
    uint64_t *table;                   /* [table_length] */
    int64_t n_written;                 /* ranges of this checkpoint so far */
    sw_publisher *publisher;           /* NULL but on rank 0 */
    /* of the checkpoint that is being written */
    bool is_begun;
    int64_t step;
    char folder[SW_PATH_BYTES];
    char path[SW_N_STATE_KINDS][SW_PATH_BYTES];
    sw_bounce_file file[SW_N_STATE_KINDS];
};

/* Entries of a rank's table, counted by walking its ranges; fills `first_range` and `header_range`
 * of `save` unless NULL. */
int64_t sw_save_count_ranges(const sw_save_options *options, const sw_state_files *files, int rank,
                             sw_save *save);

/* What marks a table as that of a step. */
static inline uint64_t sw_save_stamp(int64_t step) {
    return UINT64_C(0x7368617264777365) ^ (uint64_t)step;
}

/* publish.c: make and free what rank 0 has; bytes that making it allocates. */
sw_status sw_publisher_create(sw_save *save, sw_error *err);
void sw_publisher_free(sw_publisher *publisher);
int64_t sw_publisher_bytes(const sw_save_options *options, const sw_state_parameter *parameters,
                           const sw_state_files *files);

/* Write bytes of a small file of `folder`, which is made if it is not there, and let them last. */
sw_status sw_save_write_file(const sw_storage *storage, const char *folder, const char *name,
                             const void *data, int64_t bytes, int64_t offset, bool lasts,
                             sw_error *err);

/* SW_BUG: this cannot be the state in a manifest. */
sw_status sw_save_check_state(const char *state, sw_error *err);

/* Does a group have state of that kind? */
bool sw_save_has_state(const sw_save_options *options, int group, int kind);

#endif
