/* load.h: reading a checkpoint back, by any number of ranks, each its own part.
 *
 * Nothing is believed before it was checked: the manifest against its own checksum and its rules,
 * the files' sizes and headers against the manifest, and every range's bytes against its checksum
 * before any of them is handed out. Names in a checkpoint cannot lead out of it: files are opened
 * by fixed names, links are not followed.
 *
 * Errors: SW_BAD_FILE: damaged, cut, missing, of another model: file, range and parameters are
 * named. SW_BAD_CONFIG: it may be good, but that is not for this program or this user to tell: it
 * is of a newer format, or may not be read. Nobody falls back from such a checkpoint, or removes
 * it.
 */
#ifndef SW_CHECKPOINT_LOAD_H
#define SW_CHECKPOINT_LOAD_H

#include "checkpoint/manifest.h"
#include "shard/layout.h"

typedef struct sw_checkpoint sw_checkpoint;

/* Open the folder of a step ("runs/x/steps/00000200", or "runs/x/latest"): manifest, sizes,
 * headers. A run that saves the step again meanwhile damages nothing: then the new one is opened.
 * Ownership: sw_checkpoint_close, which takes NULL too. An open checkpoint is constant: threads and
 * forked processes may share it. */
sw_status sw_checkpoint_open(const char *path, sw_checkpoint **checkpoint, sw_error *err);
void sw_checkpoint_close(sw_checkpoint *checkpoint);

const char *sw_checkpoint_path(const sw_checkpoint *checkpoint);
int64_t sw_checkpoint_step(const sw_checkpoint *checkpoint);
const char *sw_checkpoint_state(
    const sw_checkpoint *checkpoint); /* text of sw_save_facts.state; base/json.h reads it */
double sw_checkpoint_validation_loss(const sw_checkpoint *checkpoint);   /* NAN: none */
const char *sw_checkpoint_model_config(const sw_checkpoint *checkpoint); /* NULL: none */
unsigned sw_checkpoint_kinds(const sw_checkpoint *checkpoint);
int64_t sw_checkpoint_bytes(const sw_checkpoint *checkpoint); /* of all its files */
int sw_checkpoint_n_parameters(const sw_checkpoint *checkpoint);
const sw_state_parameter *sw_checkpoint_parameter(const sw_checkpoint *checkpoint, int i);
int sw_checkpoint_find_parameter(const sw_checkpoint *checkpoint,
                                 const char *name); /* -1: not there */

/* The settings that were given when it was written: the i-th, or by key (NULL: not there). */
int sw_checkpoint_n_settings(const sw_checkpoint *checkpoint);
const sw_setting_text *sw_checkpoint_setting(const sw_checkpoint *checkpoint, int i);
const char *sw_checkpoint_find_setting(const sw_checkpoint *checkpoint, const char *key);

/* Does it hold exactly the parameters of `graph`, frozen ones frozen, and the kinds of state that
 * are needed? The first that differ are named, and how many do. */
sw_status sw_checkpoint_compare(const sw_checkpoint *checkpoint, const sw_graph *graph,
                                unsigned kinds, sw_error *err);

/* Elements first .. first + n - 1 of the piece arrive: values [n]. Kind by kind, group by group,
 * pieces in order. */
typedef sw_status (*sw_put_state_fn)(void *to, sw_state_kind kind, int group, const sw_piece *piece,
                                     int64_t first, int64_t n, float *values, sw_error *err);

/* Read `rank`'s part of every group through `put`, of those kinds, as far as it is stored, after
 * sw_checkpoint_compare with them and the layout's graph. Memory: two buffers of SW_RANGE_BYTES.
 * *bytes_read (may be NULL): this rank's bytes, and those of the ranges at their ends. Where every
 * rank holds all (stage 0), call it for each rank of the layout. */
sw_status sw_checkpoint_load(const sw_checkpoint *checkpoint, const sw_layout *layout, int rank,
                             unsigned kinds, sw_put_state_fn put, void *to, int64_t *bytes_read,
                             sw_error *err);

/* One thread's way of reading parts. Ownership: sw_checkpoint_reader_close, which takes NULL
 * too. */
typedef struct sw_checkpoint_reader sw_checkpoint_reader;
sw_status sw_checkpoint_reader_open(const sw_checkpoint *checkpoint, sw_checkpoint_reader **reader,
                                    sw_error *err);
void sw_checkpoint_reader_close(sw_checkpoint_reader *reader);

/* Elements first .. first + n - 1 of a parameter, by its number in the checkpoint; it has state of
 * that kind. */
sw_status sw_checkpoint_read(sw_checkpoint_reader *reader, sw_state_kind kind, int parameter,
                             int64_t first, int64_t n, float *values, sw_error *err);

/* Open it and verify it. One that was saved again while it was read is read again, before it is
 * called damaged. */
sw_status sw_checkpoint_open_good(const char *path, int n_threads, sw_checkpoint **checkpoint,
                                  sw_error *err);

/* Read everything on n_threads threads and compare all checksums. Error: the first damaged range,
 * and how many there are. */
sw_status sw_checkpoint_verify(const sw_checkpoint *checkpoint, int n_threads, sw_error *err);

#endif
