/* save.c: a rank's part of a checkpoint: fetched, checksummed and sent to the disk, range by range.
 * See save.h. */
#include "checkpoint/save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/ranges.h"
#include "checkpoint/save_internal.h"

/* ---- open ---- */

static int64_t header_ranges(const sw_state_file *file) {
    return (file->header_bytes + SW_RANGE_BYTES - 1) / SW_RANGE_BYTES;
}

bool sw_save_has_state(const sw_save_options *options, int group, int kind) {
    return options->kinds >> kind & 1 && (options->layout->groups[group].is_trainable ||
                                          (kind == SW_STATE_MASTER && !options->leaves_out_frozen));
}

int64_t sw_save_count_ranges(const sw_save_options *options, const sw_state_files *files, int rank,
                             sw_save *save) {
    int64_t n = 1; /* the stamp */
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        if (!files->file[kind].is_there)
            continue;
        if (save)
            save->header_range[kind] = n;
        if (rank == 0)
            n += header_ranges(&files->file[kind]);
        for (int g = 0; g < options->layout->n_groups; g++) {
            if (save)
                save->first_range[kind][g] = n;
            if (sw_save_has_state(options, g, kind))
                n += sw_range_count(options->layout, files->file[kind].offset, g, rank);
        }
    }
    return n;
}

/* The parameters and files of a save. Ownership: free(*parameters), sw_state_files_free. */
static sw_status plan_files(const sw_save_options *options, sw_state_parameter **parameters,
                            sw_state_files *files, sw_error *err) {
    int n = options->graph->parameters.n;
    *files = (sw_state_files){0};
    *parameters = malloc((size_t)(n ? n : 1) * sizeof **parameters);
    if (!*parameters)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the names of %d parameters", n);
    sw_state_parameters_of(options->graph, options->leaves_out_frozen, *parameters);
    return sw_state_files_plan(*parameters, n, options->kinds, files, err);
}

static sw_status make_steps_folder(const sw_save_options *options, sw_error *err) {
    const sw_storage *storage = options->storage;
    char path[SW_PATH_BYTES];
    sw_status status = sw_path_join(path, options->folder, "steps", err);
    if (status != SW_OK)
        return status;
    int result =
        storage->make_folder(storage->self, path); /* the first checkpoint lets its name last */
    return result == 0 || result == -EEXIST ? SW_OK : sw_storage_fail(err, path, -1, result);
}

sw_status sw_save_open(const sw_save_options *options, sw_save **save, sw_error *err) {
    int n_groups = options->layout->n_groups;
    sw_status status;
    sw_save *s = calloc(1, sizeof *s);
    if (!s)
        return sw_fail(err, SW_NO_MEMORY, "no memory to save with");
    s->options = *options;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        s->file[kind] = (sw_bounce_file){s->path[kind], -1, -1};
    if ((status = plan_files(options, &s->parameters, &s->files, err)) != SW_OK)
        goto done;
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        if (!(s->first_range[kind] = malloc((size_t)(n_groups ? n_groups : 1) * sizeof(int64_t))))
            status = sw_fail(err, SW_NO_MEMORY,
                             "no memory for the places of %d groups in a checkpoint", n_groups);
    if (status != SW_OK)
        goto done;
    for (int rank = 0; rank < options->owner; rank++)
        s->table_first += sw_save_count_ranges(options, &s->files, rank, NULL);
    s->table_length = sw_save_count_ranges(options, &s->files, options->owner, s);
    s->table = calloc((size_t)s->table_length, sizeof *s->table);
    if (!s->table) {
        status = sw_fail(err, SW_NO_MEMORY, "no memory for %" PRId64 " checksums", s->table_length);
        goto done;
    }
    if ((status = sw_bounce_open(options->storage, &s->bounce, err)) == SW_OK)
        status = make_steps_folder(options, err);
    if (status == SW_OK && options->owner == 0)
        status = sw_publisher_create(s, err);
    if (status == SW_OK) {
        *save = s;
        s = NULL;
    }
done:
    sw_save_close(s);
    return status;
}

void sw_save_close(sw_save *save) {
    if (!save)
        return;
    sw_save_abandon(save);
    sw_bounce_close(save->bounce);
    sw_publisher_free(save->publisher);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        free(save->first_range[kind]);
    sw_state_files_free(&save->files);
    free(save->parameters);
    free(save->table);
    free(save);
}

int64_t sw_save_bytes(const sw_save_options *options) {
    sw_state_parameter *parameters = NULL;
    sw_state_files files;
    int64_t n = options->graph->parameters.n,
            bytes = INT64_C(1) << 50; /* without memory to count: more than there is */
    if (plan_files(options, &parameters, &files, NULL) == SW_OK) {
        bytes =
            (int64_t)sizeof(sw_save) + sw_bounce_memory() +
            n * (int64_t)sizeof(sw_state_parameter) +
            SW_N_STATE_KINDS * options->layout->n_groups * (int64_t)sizeof(int64_t) +
            sw_save_count_ranges(options, &files, options->owner, NULL) * (int64_t)sizeof(uint64_t);
        for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
            if (files.file[kind].is_there)
                bytes += files.file[kind].header_bytes + n * (int64_t)sizeof(int64_t);
        if (options->owner == 0)
            bytes += sw_publisher_bytes(options, parameters, &files);
    }
    sw_state_files_free(&files);
    free(parameters);
    return bytes;
}

int64_t sw_save_file_bytes(const sw_save_options *options) {
    enum { SMALL_FILES_BYTES = 64 << 10, BYTES_OF_A_NAME = 512 };
    int n_states = __builtin_popcount(options->kinds), n_parameters = options->graph->parameters.n;
    int64_t elements = 0;
    for (int p = 0; p < n_parameters; p++) {
        const sw_parameter *parameter = options->graph->parameters.item[p];
        int n_kept = parameter->is_trainable ? n_states : !options->leaves_out_frozen;
        elements += n_kept * parameter->n_elements;
    }
    return elements * (int64_t)sizeof(float) + SMALL_FILES_BYTES +
           n_states * (int64_t)BYTES_OF_A_NAME * n_parameters;
}

/* ---- begin ---- */

static sw_status open_file(sw_save *save, int kind, sw_error *err) {
    const sw_storage *storage = save->options.storage;
    sw_bounce_file *file = &save->file[kind];
    sw_status status =
        sw_path_join(save->path[kind], save->folder, sw_state_file_name((sw_state_kind)kind), err);
    if (status != SW_OK)
        return status;
    file->plain = storage->open(storage->self, file->path, false);
    if (file->plain < 0)
        return sw_storage_fail(err, file->path, -1, file->plain);
    file->direct = storage->allows_ring ? storage->open(storage->self, file->path, true) : -1;
    return SW_OK;
}

/* One range from `data`, which is in the buffer that was taken last. */
static sw_status send(sw_save *save, int kind, const void *data, int64_t bytes, int64_t place,
                      sw_error *err) {
    save->table[place] = sw_checksum(data, bytes);
    save->n_written++;
    return sw_bounce_send(save->bounce, &save->file[kind], bytes, err);
}

/* Rank 0: the file's full size, so that a full disk is found early, and its header. */
static sw_status lay_out_file(sw_save *save, int kind, sw_error *err) {
    const sw_storage *storage = save->options.storage;
    const sw_state_file *file = &save->files.file[kind];
    int result = storage->reserve(storage->self, save->file[kind].plain, file->bytes);
    if (result < 0)
        return sw_storage_fail(err, save->path[kind], -1, result);
    sw_status status = SW_OK;
    for (int64_t i = 0; i < header_ranges(file) && status == SW_OK; i++) {
        int64_t offset = i * SW_RANGE_BYTES, left = file->header_bytes - offset,
                bytes = left < SW_RANGE_BYTES ? left : SW_RANGE_BYTES;
        void *data;
        if ((status = sw_bounce_take(save->bounce, offset, &data, err)) != SW_OK)
            break;
        memcpy(data, file->header + offset, (size_t)bytes);
        status = send(save, kind, data, bytes, save->header_range[kind] + i, err);
    }
    return status;
}

sw_status sw_save_begin(sw_save *save, int64_t step, sw_error *err) {
    const sw_storage *storage = save->options.storage;
    char name[SW_STEP_NAME_BYTES];
    if (save->is_begun)
        return sw_fail(err, SW_BUG,
                       "the checkpoint of step %" PRId64 " is begun before that of step %" PRId64
                       " has ended",
                       step, save->step);
    save->is_begun = true;
    save->step = step;
    save->n_written = 0;
    save->table[0] = sw_save_stamp(step);
    sw_step_partial_name(step, name);
    sw_status status = sw_path_join(save->folder, save->options.folder, name, err);
    if (status != SW_OK)
        return status;
    int result = storage->make_folder(storage->self, save->folder);
    if (result < 0 && result != -EEXIST) /* another rank was first */
        return sw_storage_fail(err, save->folder, -1, result);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++) {
        if (!save->files.file[kind].is_there)
            continue;
        status = open_file(save, kind, err);
        if (status == SW_OK && save->options.owner == 0)
            status = lay_out_file(save, kind, err);
    }
    return status;
}

/* ---- a group ---- */

static sw_status write_ranges(sw_save *save, int group, int kind, sw_error *err) {
    const sw_save_options *o = &save->options;
    int64_t place = save->first_range[kind][group],
            begin = -1; /* of the range that is being filled */
    sw_range_walk walk;
    sw_range_part part;
    void *data = NULL;
    sw_status status = SW_OK;
    sw_range_walk_begin(o->layout, save->files.file[kind].offset, group, o->owner, &walk);
    while (status == SW_OK && sw_range_walk_next(&walk, &part)) {
        if (begin < 0) {
            if ((status = sw_bounce_take(save->bounce, part.offset, &data, err)) != SW_OK)
                return status;
            begin = part.offset;
        }
        float *values = (float *)(void *)((char *)data + (part.offset - begin));
        status = o->fetch(o->from, (sw_state_kind)kind, group, &part.piece, part.first, part.n,
                          values, err);
        if (status == SW_OK && part.ends_range) {
            status = send(save, kind, data, part.offset + part.n * (int64_t)sizeof(float) - begin,
                          place++, err);
            begin = -1;
        }
    }
    return status;
}

sw_status sw_save_group(sw_save *save, int group, sw_error *err) {
    sw_status status = SW_OK;
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        if (sw_save_has_state(&save->options, group, kind))
            status = write_ranges(save, group, kind, err);
    return status;
}

/* ---- finish, or not ---- */

sw_status sw_save_write_file(const sw_storage *storage, const char *folder, const char *name,
                             const void *data, int64_t bytes, int64_t offset, bool lasts,
                             sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_status status = sw_path_join(path, folder, name, err);
    if (status != SW_OK)
        return status;
    int fd = storage->open(storage->self, path, false), result = 0;
    if (fd < 0)
        return sw_storage_fail(err, path, -1, fd);
    status = sw_storage_write(storage, path, fd, data, bytes, offset, err);
    if (status == SW_OK && lasts && (result = storage->sync(storage->self, fd)) < 0)
        status = sw_storage_fail(err, path, -1, result);
    result = storage->close(storage->self, fd);
    return status == SW_OK && result < 0 ? sw_storage_fail(err, path, -1, result) : status;
}

/* Close a file, whatever happens; the first thing that did is reported. */
static sw_status close_file(sw_save *save, int kind, sw_status status, sw_error *err) {
    const sw_storage *storage = save->options.storage;
    int *descriptors[] = {&save->file[kind].direct, &save->file[kind].plain};
    for (int i = 0; i < 2; i++) {
        int result = *descriptors[i] < 0 ? 0 : storage->close(storage->self, *descriptors[i]);
        if (result < 0 && status == SW_OK)
            status = sw_storage_fail(err, save->path[kind], -1, result);
        *descriptors[i] = -1;
    }
    return status;
}

sw_status sw_save_finish(sw_save *save, sw_error *err) {
    const sw_storage *storage = save->options.storage;
    if (!save->is_begun || save->n_written != save->table_length - 1)
        return sw_fail(err, SW_BUG,
                       "%" PRId64 " of %" PRId64
                       " ranges of a checkpoint were written when it was to be finished",
                       save->n_written, save->table_length - 1);
    sw_status status = sw_bounce_wait(save->bounce, err);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++) {
        if (!save->files.file[kind].is_there)
            continue;
        int result = storage->sync(storage->self, save->file[kind].plain);
        if (result < 0)
            status = sw_storage_fail(err, save->path[kind], -1, result);
        status = close_file(save, kind, status, err);
    }
    if (status == SW_OK)
        status = sw_save_write_file(storage, save->folder, SW_SAVE_TABLE_NAME, save->table,
                                    save->table_length * (int64_t)sizeof *save->table,
                                    save->table_first * (int64_t)sizeof *save->table, false, err);
    if (status == SW_OK && save->options.owner != 0)
        save->is_begun = false; /* rank 0 does the rest */
    return status;
}

void sw_save_abandon(sw_save *save) {
    if (!save->is_begun)
        return;
    sw_bounce_wait(save->bounce, NULL);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        close_file(save, kind, SW_OK, NULL);
    if (save->options.owner == 0)
        sw_step_folder_delete(save->options.storage, save->folder, NULL, NULL);
    save->is_begun = false;
}
