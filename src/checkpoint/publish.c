/* publish.c: what rank 0 does when every rank's bytes are on disk.
 *
 * The order is what makes a checkpoint complete or not there, whatever instant the power goes: the
 * manifest is on disk before the folder's entries, those before the folder's name, the name before
 * `latest` and before anything older is removed. What removal takes away loses its name, for good,
 * before its first file goes. tests/checkpoint/test_power_loss.c tries all that a disk may forget
 * of this.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/manifest_format.h"
#include "checkpoint/ranges.h"
#include "checkpoint/save_internal.h"

/* ---- what rank 0 has ---- */

/* A range before the ranges of all ranks are in order. */
typedef struct placed_range {
    int64_t offset, bytes, place;
} placed_range;

typedef struct range_list {
    placed_range *item; /* NULL: only counted */
    int64_t n;
} range_list;

static void add_range(range_list *list, int64_t offset, int64_t bytes, int64_t place) {
    if (list->item)
        list->item[list->n] = (placed_range){offset, bytes, place};
    list->n++;
}

/* One rank's ranges of each kind, whose checksums stand from *place on; as sw_save_count_ranges
 * counts them. */
static void list_ranges(const sw_save_options *options, const sw_state_files *files, int rank,
                        int64_t *place, range_list lists[SW_N_STATE_KINDS]) {
    ++*place; /* the stamp */
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        const sw_state_file *file = &files->file[kind];
        if (!file->is_there)
            continue;
        for (int64_t at = 0; rank == 0 && at < file->header_bytes; at += SW_RANGE_BYTES)
            add_range(&lists[kind], at,
                      file->header_bytes - at < SW_RANGE_BYTES ? file->header_bytes - at
                                                               : SW_RANGE_BYTES,
                      (*place)++);
        for (int g = 0; g < options->layout->n_groups; g++) {
            sw_range_walk walk;
            sw_range_part part;
            int64_t begin = -1;
            if (!sw_save_has_state(options, g, kind))
                continue;
            sw_range_walk_begin(options->layout, file->offset, g, rank, &walk);
            while (sw_range_walk_next(&walk, &part)) {
                begin = begin < 0 ? part.offset : begin;
                if (!part.ends_range)
                    continue;
                add_range(&lists[kind], begin,
                          part.offset + part.n * (int64_t)sizeof(float) - begin, (*place)++);
                begin = -1;
            }
        }
    }
}

static int by_offset(const void *a, const void *b) {
    int64_t left = ((const placed_range *)a)->offset, right = ((const placed_range *)b)->offset;
    return left < right ? -1 : left > right;
}

/* The ranges of one file in order, and where their checksums come from. */
static sw_status keep_ranges(sw_publisher *p, int kind, const sw_state_file *file, range_list list,
                             sw_error *err) {
    sw_manifest_file *to = &p->manifest.file[kind];
    *to = (sw_manifest_file){true, file->bytes, list.n,
                             malloc((size_t)(list.n + 1) * sizeof *to->range)};
    p->place[kind] = malloc((size_t)(list.n + 1) * sizeof **p->place);
    if (!to->range || !p->place[kind])
        return sw_fail(err, SW_NO_MEMORY, "no memory for %" PRId64 " ranges of a checkpoint",
                       list.n);
    qsort(list.item, (size_t)list.n, sizeof *list.item, by_offset);
    int64_t end = 0;
    for (int64_t i = 0; i < list.n; i++) {
        assert(list.item[i].offset == end); /* every byte of a file has one owner */
        end += list.item[i].bytes;
        to->range[i] = (sw_file_range){list.item[i].offset, list.item[i].bytes, 0};
        p->place[kind][i] = list.item[i].place;
    }
    assert(end == file->bytes);
    return SW_OK;
}

static sw_status make_ranges(sw_save *save, sw_error *err) {
    sw_publisher *p = save->publisher;
    range_list lists[SW_N_STATE_KINDS] = {{0}};
    int64_t place = 0;
    sw_status status = SW_OK;
    for (int rank = 0; rank < save->options.layout->n_shards; rank++)
        list_ranges(&save->options, &save->files, rank, &place, lists);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        lists[kind] =
            (range_list){.item = malloc((size_t)(lists[kind].n + 1) * sizeof(placed_range))};
        if (!lists[kind].item)
            status = sw_fail(err, SW_NO_MEMORY, "no memory for the ranges of a checkpoint");
    }
    place = 0;
    for (int rank = 0; rank < save->options.layout->n_shards && status == SW_OK; rank++)
        list_ranges(&save->options, &save->files, rank, &place, lists);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        if (save->files.file[kind].is_there)
            status = keep_ranges(p, kind, &save->files.file[kind], lists[kind], err);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        free(lists[kind].item);
    p->table_length = place;
    return status;
}

/* Room for so many more checkpoints than there are, before the list has to grow. */
enum { KEPT_AT_FIRST = 1024 };

/* The whole checkpoints of the folder, in order. The others are nobody's to remove. */
static sw_status list_kept(sw_save *save, sw_error *err) {
    sw_publisher *p = save->publisher;
    sw_steps steps = {0};
    sw_status status = sw_steps_list(save->options.folder, &steps, err);
    p->kept_capacity = steps.n + KEPT_AT_FIRST;
    p->kept = status == SW_OK ? malloc((size_t)p->kept_capacity * sizeof *p->kept) : NULL;
    if (status == SW_OK && !p->kept)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for a list of checkpoints");
    for (int i = steps.n - 1; i >= 0 && status == SW_OK; i--)
        if (steps.item[i].is_whole)
            p->kept[p->n_kept++] =
                (sw_kept_step){steps.item[i].step, steps.item[i].validation_loss};
    sw_steps_free(&steps);
    return status;
}

static void describe(const sw_save_options *options, const sw_state_parameter *parameters,
                     sw_manifest *manifest) {
    *manifest = (sw_manifest){.state = "{}",
                              .model_config = options->model_config,
                              .n_settings = options->n_settings,
                              .setting = options->settings,
                              .n_parameters = options->graph->parameters.n,
                              .parameter = parameters};
}

sw_status sw_publisher_create(sw_save *save, sw_error *err) {
    sw_publisher *p = save->publisher = calloc(1, sizeof *p);
    if (!p)
        return sw_fail(err, SW_NO_MEMORY, "no memory to save with");
    describe(&save->options, save->parameters, &p->manifest);
    sw_status status = make_ranges(save, err);
    if (status != SW_OK)
        return status;
    p->room = sw_manifest_write(&p->manifest, NULL, 0) + SW_SAVE_STATE_BYTES;
    p->table = malloc((size_t)p->table_length * sizeof *p->table);
    p->text = malloc((size_t)p->room);
    if (!p->table || !p->text)
        return sw_fail(err, SW_NO_MEMORY, "no memory for a manifest of %" PRId64 " bytes", p->room);
    return list_kept(save, err);
}

void sw_publisher_free(sw_publisher *publisher) {
    if (!publisher)
        return;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        free(publisher->manifest.file[kind].range);
        free(publisher->place[kind]);
    }
    free(publisher->table);
    free(publisher->text);
    free(publisher->kept);
    free(publisher);
}

int64_t sw_publisher_bytes(const sw_save_options *options, const sw_state_parameter *parameters,
                           const sw_state_files *files) {
    sw_manifest manifest;
    int64_t place = 0;
    describe(options, parameters, &manifest);
    for (int rank = 0; rank < options->layout->n_shards; rank++)
        place += sw_save_count_ranges(options, files, rank, NULL);
    int64_t n = place - options->layout->n_shards; /* each rank's stamp is no range */
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        if (files->file[kind].is_there)
            manifest.file[kind] =
                (sw_manifest_file){.is_there = true, .bytes = files->file[kind].bytes};
    /* A range's line in the manifest is at most: two numbers of 19 digits, 16 digits, and 10
     * characters around them. */
    return (int64_t)sizeof(sw_publisher) +
           n * (int64_t)(sizeof(sw_file_range) + sizeof(int64_t) + 64) +
           place * (int64_t)sizeof(uint64_t) + sw_manifest_write(&manifest, NULL, 0) +
           SW_SAVE_STATE_BYTES + (int64_t)KEPT_AT_FIRST * (int64_t)sizeof(sw_kept_step);
}

/* ---- publish ---- */

/* Take all ranks' checksums from their table. */
static sw_status read_table(sw_save *save, sw_error *err) {
    sw_publisher *p = save->publisher;
    const sw_save_options *o = &save->options;
    char path[SW_PATH_BYTES];
    int fd;
    int64_t bytes = 0, first = 0;
    sw_status status = sw_path_join(path, save->folder, SW_SAVE_TABLE_NAME, err);
    if (status == SW_OK)
        status = sw_file_open(path, &fd, &bytes, err);
    if (status != SW_OK)
        return status;
    status =
        sw_file_read_at(fd, path, p->table, p->table_length * (int64_t)sizeof *p->table, 0, err);
    close(fd);
    for (int rank = 0; rank < o->layout->n_shards && status == SW_OK; rank++) {
        if (p->table[first] != sw_save_stamp(save->step))
            status = sw_fail(err, SW_BUG, "%s: rank %d has not finished its part of step %" PRId64,
                             path, rank, save->step);
        first += sw_save_count_ranges(o, &save->files, rank, NULL);
    }
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        for (int64_t i = 0; i < p->manifest.file[kind].n_ranges; i++)
            p->manifest.file[kind].range[i].checksum = p->table[p->place[kind][i]];
    return status;
}

sw_status sw_save_check_state(const char *state, sw_error *err) {
    size_t bytes = strlen(state);
    if (bytes > SW_SAVE_STATE_BYTES ||
        sw_manifest_object_end(state, state + bytes) != state + bytes)
        return sw_fail(err, SW_BUG, "the state of a run is no JSON object of at most %d bytes",
                       SW_SAVE_STATE_BYTES);
    return SW_OK;
}

static sw_status write_manifest(sw_save *save, const sw_save_facts *facts, sw_error *err) {
    sw_publisher *p = save->publisher;
    sw_status status = sw_save_check_state(facts->state, err);
    if (status != SW_OK)
        return status;
    p->manifest.step = save->step;
    p->manifest.validation_loss = facts->validation_loss;
    p->manifest.state = facts->state;
    int64_t bytes = sw_manifest_write(&p->manifest, p->text, p->room);
    return sw_save_write_file(save->options.storage, save->folder, SW_MANIFEST_NAME, p->text, bytes,
                              0, true, err);
}

/* Exchange the folder that is written and the one of its step. Where the file system cannot do that
 * in one call it takes three, and a kill after the first would cost the checkpoint that is
 * replaced: no run replaces a good one, but where a save failed when it had its name already. */
static sw_status exchange(sw_save *save, const char *path, sw_error *err) {
    const sw_storage *storage = save->options.storage;
    char aside[SW_PATH_BYTES];
    int result = storage->exchange(storage->self, save->folder, path);
    if (result != -EINVAL)
        return sw_storage_expect(result, path, err);
    sw_status status = sw_step_removed_path(storage, save->options.folder, save->step, aside, err);
    if (status == SW_OK)
        status = sw_storage_expect(storage->rename(storage->self, path, aside), path, err);
    if (status != SW_OK)
        return status;
    status = sw_storage_expect(storage->rename(storage->self, save->folder, path), path, err);
    if (status != SW_OK)
        (void)storage->rename(storage->self, aside, path);
    return status == SW_OK
               ? sw_storage_expect(storage->rename(storage->self, aside, save->folder), aside, err)
               : status;
}

/* What fails when the checkpoint is there is no failure of the save: the next one tries again. The
 * first is told, and so is what was in its place. */
static void remark_on(sw_error *remark, sw_status status, const sw_error *reason) {
    if (status != SW_OK && remark->status == SW_OK)
        *remark = *reason;
}

/* Give the folder its name. A checkpoint that has it already takes the other name; what is not the
 * run's own is moved away, and told of. */
static sw_status name_folder(sw_save *save, sw_error *remark, sw_error *err) {
    const sw_save_options *o = &save->options;
    const sw_storage *storage = o->storage;
    char path[SW_PATH_BYTES], steps[SW_PATH_BYTES], moved[SW_PATH_BYTES];
    sw_error reason;
    sw_status status = sw_step_path(o->folder, save->step, path, err);
    if (status == SW_OK)
        status = sw_path_join(steps, o->folder, "steps", err);
    if (status == SW_OK && !sw_step_is_own(path, save->step)) {
        status = sw_step_move_away(storage, o->folder, save->step, moved, err);
        if (status == SW_OK)
            remark_on(remark,
                      sw_fail(&reason, SW_BAD_FILE,
                              "%s was something else, which this run did not write; it is %s now",
                              path, moved),
                      &reason);
    }
    if (status != SW_OK)
        return status;
    int result = storage->rename(storage->self, save->folder, path);
    status = result == -ENOTEMPTY || result == -EEXIST ? exchange(save, path, err)
                                                       : sw_storage_expect(result, path, err);
    return status == SW_OK
               ? sw_storage_expect(storage->sync_folder(storage->self, steps), steps, err)
               : status;
}

/* Enter the new checkpoint into the list of those that are there. */
static sw_status enter(sw_publisher *p, sw_kept_step step, sw_error *err) {
    int at = p->n_kept;
    while (at > 0 && p->kept[at - 1].step >= step.step)
        at--;
    if (at < p->n_kept && p->kept[at].step == step.step) {
        p->kept[at] = step;
        return SW_OK;
    }
    if (p->n_kept == p->kept_capacity) {
        sw_kept_step *more = realloc(p->kept, 2 * (size_t)p->kept_capacity * sizeof *more);
        if (!more)
            return sw_fail(err, SW_NO_MEMORY, "no memory for a list of %d checkpoints", p->n_kept);
        p->kept = more;
        p->kept_capacity *= 2;
    }
    memmove(p->kept + at + 1, p->kept + at, (size_t)(p->n_kept - at) * sizeof *p->kept);
    p->kept[at] = step;
    p->n_kept++;
    return SW_OK;
}

void sw_save_forget_after(sw_save *save, int64_t step) {
    sw_publisher *p = save->publisher;
    while (p->n_kept > 0 && p->kept[p->n_kept - 1].step > step)
        p->n_kept--;
}

static sw_status remove_surplus(sw_save *save, sw_error *err) {
    sw_publisher *p = save->publisher;
    sw_status status = SW_OK;
    for (int i = p->n_kept - 1; i >= 0 && status == SW_OK; i--) {
        if (p->kept[i].step == save->step ||
            sw_retention_keeps(&save->options.retention, p->kept, p->n_kept, i))
            continue;
        status = sw_step_remove(save->options.storage, save->options.folder, p->kept[i].step, err);
        if (status == SW_OK)
            memmove(p->kept + i, p->kept + i + 1, (size_t)(--p->n_kept - i) * sizeof *p->kept);
    }
    return status;
}

sw_status sw_save_publish(sw_save *save, const sw_save_facts *facts, sw_error *remark,
                          sw_error *err) {
    const sw_save_options *o = &save->options;
    const sw_storage *storage = o->storage;
    char table[SW_PATH_BYTES];
    sw_error reason;
    sw_fail(remark, SW_OK, "%s", "");
    sw_status status = sw_path_join(table, save->folder, SW_SAVE_TABLE_NAME, err);
    if (status == SW_OK)
        status = read_table(save, err);
    if (status == SW_OK)
        status = write_manifest(save, facts, err);
    if (status == SW_OK)
        status = sw_storage_expect(storage->remove(storage->self, table), table, err);
    if (status == SW_OK)
        status =
            sw_storage_expect(storage->sync_folder(storage->self, save->folder), save->folder, err);
    if (status == SW_OK)
        status = name_folder(save, remark, err);
    if (status == SW_OK)
        remark_on(remark, sw_steps_set_latest(storage, o->folder, save->step, &reason), &reason);
    if (status == SW_OK) /* the name of steps/ itself, of the run's records, and `latest` */
        status = sw_storage_expect(storage->sync_folder(storage->self, o->folder), o->folder, err);
    if (status != SW_OK)
        return status;
    save->is_begun = false;
    remark_on(remark, sw_step_folder_delete(storage, save->folder, NULL, &reason),
              &reason); /* what had the name before */
    remark_on(remark,
              enter(save->publisher, (sw_kept_step){save->step, facts->validation_loss}, &reason),
              &reason);
    remark_on(remark, remove_surplus(save, &reason), &reason);
    return SW_OK;
}
