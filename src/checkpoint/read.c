/* read.c: parts of an open checkpoint as values: no byte is handed out before its range was checked
 * whole. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/load_internal.h"

struct sw_checkpoint_reader {
    const sw_checkpoint *checkpoint;
    char *memory; /* [SW_RANGE_BYTES] the range that was read last in part */
    sw_state_kind kind;
    int64_t held; /* its number in its file; -1: none */
    int64_t bytes_read;
};

sw_status sw_checkpoint_reader_open(const sw_checkpoint *checkpoint, sw_checkpoint_reader **reader,
                                    sw_error *err) {
    sw_checkpoint_reader *r = calloc(1, sizeof *r);
    if (r)
        r->memory = malloc(SW_RANGE_BYTES);
    if (!r || !r->memory) {
        free(r);
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for %d bytes to read with",
                       checkpoint->path, SW_RANGE_BYTES);
    }
    r->checkpoint = checkpoint;
    r->held = -1;
    *reader = r;
    return SW_OK;
}

void sw_checkpoint_reader_close(sw_checkpoint_reader *reader) {
    if (reader)
        free(reader->memory);
    free(reader);
}

/* The range that holds a byte of the file. */
static int64_t find_range(const sw_manifest_file *file, int64_t byte) {
    int64_t low = 0, high = file->n_ranges - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        *(file->range[middle].offset <= byte ? &low : &high) =
            file->range[middle].offset <= byte ? middle : middle - 1;
    }
    return low;
}

sw_status sw_range_damaged(const sw_checkpoint *c, sw_state_kind kind, int64_t range,
                           sw_error *err) {
    const sw_file_range *r = &c->manifest.file[kind].range[range];
    const sw_state_file *file = &c->files.file[kind];
    const char *first = NULL, *last = NULL;
    for (int p = 0; p < c->manifest.n_parameters; p++) {
        int64_t begin = file->offset[p],
                end = begin + c->manifest.parameter[p].n_elements * (int64_t)sizeof(float);
        if (begin < 0 || end <= r->offset || begin >= r->offset + r->bytes || begin == end)
            continue;
        first = first ? first : c->manifest.parameter[p].name;
        last = c->manifest.parameter[p].name;
    }
    return sw_fail(err, SW_BAD_FILE,
                   "%s: bytes %" PRId64 " to %" PRId64
                   " are damaged (%.200s%s%.200s); take another checkpoint",
                   c->file[kind].path, r->offset, r->offset + r->bytes - 1,
                   first ? first : "its header", last && last != first ? " to " : "",
                   last && last != first ? last : "");
}

sw_status sw_range_read(const sw_checkpoint *c, sw_state_kind kind, int64_t range, void *to,
                        sw_error *err) {
    const sw_file_range *r = &c->manifest.file[kind].range[range];
    sw_status status =
        sw_file_read_at(c->file[kind].descriptor, c->file[kind].path, to, r->bytes, r->offset, err);
    if (status == SW_OK && sw_checksum(to, r->bytes) != r->checksum)
        status = sw_range_damaged(c, kind, range, err);
    return status;
}

sw_status sw_checkpoint_read(sw_checkpoint_reader *reader, sw_state_kind kind, int parameter,
                             int64_t first, int64_t n, float *values, sw_error *err) {
    const sw_checkpoint *c = reader->checkpoint;
    const sw_manifest_file *file = &c->manifest.file[kind];
    assert(file->is_there && c->files.file[kind].offset[parameter] >= 0 && first >= 0 && n >= 0 &&
           n <= c->manifest.parameter[parameter].n_elements - first);
    int64_t at = c->files.file[kind].offset[parameter] + first * (int64_t)sizeof(float),
            end = at + n * (int64_t)sizeof(float);
    char *to = (char *)values;
    for (int64_t i = n ? find_range(file, at) : 0; at < end; i++) {
        const sw_file_range *range = &file->range[i];
        int64_t range_end = range->offset + range->bytes,
                part_end = end < range_end ? end : range_end;
        sw_status status = SW_OK;
        if (at == range->offset && part_end == range_end) { /* all of it is wanted: no detour */
            status = sw_range_read(c, kind, i, to, err);
            reader->bytes_read += range->bytes;
        } else {
            if (reader->held != i || reader->kind != kind) {
                reader->held = -1;
                status = sw_range_read(c, kind, i, reader->memory, err);
                reader->bytes_read += range->bytes;
            }
            if (status == SW_OK) {
                reader->held = i;
                reader->kind = kind;
                memcpy(to, reader->memory + (at - range->offset), (size_t)(part_end - at));
            }
        }
        if (status != SW_OK)
            return status;
        to += part_end - at;
        at = part_end;
    }
    return SW_OK;
}

static sw_status load_piece(sw_checkpoint_reader *reader, sw_state_kind kind, int group,
                            const sw_piece *piece, sw_put_state_fn put, void *to, float *values,
                            sw_error *err) {
    const sw_checkpoint *c = reader->checkpoint;
    int parameter = sw_checkpoint_find_parameter(c, piece->parameter->name);
    if (parameter < 0)
        return sw_fail(err, SW_BUG, "%s: %s is loaded without having been compared", c->path,
                       piece->parameter->name);
    for (int64_t done = 0; done < piece->length;) {
        /* Up to where ranges may end: whole ones are then read in one piece. */
        int64_t offset =
            c->files.file[kind].offset[parameter] + (piece->first + done) * (int64_t)sizeof(float);
        int64_t n = (SW_RANGE_BYTES - offset % SW_RANGE_BYTES) / (int64_t)sizeof(float);
        n = n < piece->length - done ? n : piece->length - done;
        sw_status status =
            sw_checkpoint_read(reader, kind, parameter, piece->first + done, n, values, err);
        if (status == SW_OK)
            status = put(to, kind, group, piece, done, n, values, err);
        if (status != SW_OK)
            return status;
        done += n;
    }
    return SW_OK;
}

sw_status sw_checkpoint_load(const sw_checkpoint *checkpoint, const sw_layout *layout, int rank,
                             unsigned kinds, sw_put_state_fn put, void *to, int64_t *bytes_read,
                             sw_error *err) {
    sw_checkpoint_reader *reader = NULL;
    float *values = aligned_alloc(64, SW_RANGE_BYTES);
    sw_status status =
        values ? sw_checkpoint_reader_open(checkpoint, &reader, err)
               : sw_fail(err, SW_NO_MEMORY, "%s: no memory to load it with", checkpoint->path);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++) {
        if (!(kinds >> kind & 1))
            continue;
        for (int g = 0; g < layout->n_groups && status == SW_OK; g++) {
            sw_piece piece;
            int at = 0;
            while (status == SW_OK && sw_layout_next_piece(layout, g, rank, &at, &piece)) {
                int parameter = sw_checkpoint_find_parameter(checkpoint, piece.parameter->name);
                if (parameter >= 0 &&
                    !sw_state_is_stored(sw_checkpoint_parameter(checkpoint, parameter),
                                        (sw_state_kind)kind))
                    continue;
                status = load_piece(reader, (sw_state_kind)kind, g, &piece, put, to, values, err);
            }
        }
    }
    if (bytes_read)
        *bytes_read = reader ? reader->bytes_read : 0;
    sw_checkpoint_reader_close(reader);
    free(values);
    return status;
}
