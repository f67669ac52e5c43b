/* load.c: an open checkpoint, and parts of it as values. See load.h. */
#include "checkpoint/load.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/load_internal.h"

/* A manifest has some 40 bytes a range and 100 a parameter: this is enough for a model of 10^13 parameters. */
enum { MAX_MANIFEST_BYTES = INT32_MAX };

/* ---- open ---- */

static sw_status cannot_open(const char *path, int error, sw_error *err) {
    struct stat info;
    const struct passwd *owner = NULL;
    const char *hint = error == ENOENT    ? "this part is missing; take another checkpoint"
                       : error == ENOTDIR ? "a checkpoint is a folder; check the path"
                       : error == ELOOP   ? "it is a link, and may lead out of the folder; put the file itself there"
                       : error == EMFILE || error == ENFILE ? "raise the limit with ulimit -n"
                                                            : "give this user the right to read it";
    if (error == EACCES && lstat(path, &info) == 0 && info.st_uid != geteuid())
        owner = getpwuid(info.st_uid);
    if (owner)
        return sw_fail(err, SW_BAD_FILE, "%s: cannot be read: %s; it belongs to user %s: %s", path, strerror(error),
                       owner->pw_name, hint);
    return sw_fail(err, SW_BAD_FILE, "%s: cannot be read: %s; %s", path, strerror(error), hint);
}

/* A regular file of the folder, by its name: links are not followed, so that nothing outside is taken for a part. */
static sw_status open_part(const sw_checkpoint *c, int folder, const char *name, int *descriptor, int64_t *bytes, sw_error *err) {
    char path[SW_PATH_BYTES];
    struct stat info;
    sw_status status = sw_path_join(path, c->path, name, err);
    if (status != SW_OK)
        return status;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return cannot_open(path, errno, err);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return sw_fail(err, SW_BAD_FILE, "%s: is no file; take another checkpoint", path);
    }
    *descriptor = fd;
    *bytes = info.st_size;
    return SW_OK;
}

static sw_status read_manifest(sw_checkpoint *c, int folder, sw_error *err) {
    char path[SW_PATH_BYTES], *text = NULL;
    int fd = -1;
    int64_t bytes;
    sw_status status = sw_path_join(path, c->path, SW_MANIFEST_NAME, err);
    if (status == SW_OK)
        status = open_part(c, folder, SW_MANIFEST_NAME, &fd, &bytes, err);
    if (status != SW_OK)
        return status;
    if (bytes > MAX_MANIFEST_BYTES)
        status = sw_fail(err, SW_BAD_FILE, "%s: has %" PRId64 " bytes, which no manifest has", path, bytes);
    else if (!(text = malloc((size_t)bytes + 1)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for its %" PRId64 " bytes", path, bytes);
    if (status == SW_OK)
        status = sw_file_read_at(fd, path, text, bytes, 0, err);
    if (status == SW_OK)
        status = sw_manifest_parse(path, text, bytes, &c->manifest, err);
    free(text);
    close(fd);
    return status;
}

/* One file of states: its size is the manifest's, which is what its parameters need, and its header is the only one it can have.
 */
static sw_status open_file(sw_checkpoint *c, int folder, sw_state_kind kind, sw_error *err) {
    const sw_manifest_file *listed = &c->manifest.file[kind];
    const sw_state_file *planned = &c->files.file[kind];
    char *header = NULL;
    int64_t bytes;
    sw_status status = sw_path_join(c->file[kind].path, c->path, sw_state_file_name(kind), err);
    if (status == SW_OK)
        status = open_part(c, folder, sw_state_file_name(kind), &c->file[kind].descriptor, &bytes, err);
    if (status != SW_OK)
        return status;
    const char *path = c->file[kind].path;
    if (listed->bytes != planned->bytes)
        return sw_fail(err, SW_BAD_FILE, "%s: its manifest gives it %" PRId64 " bytes, its parameters need %" PRId64, path,
                       listed->bytes, planned->bytes);
    if (bytes != listed->bytes)
        return sw_fail(err, SW_BAD_FILE, "%s: has %" PRId64 " bytes instead of %" PRId64 ": it was %s; take another checkpoint",
                       path, bytes, listed->bytes, bytes < listed->bytes ? "cut" : "changed");
    header = malloc((size_t)planned->header_bytes);
    if (!header)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its header", path);
    status = sw_file_read_at(c->file[kind].descriptor, path, header, planned->header_bytes, 0, err);
    if (status == SW_OK && memcmp(header, planned->header, (size_t)planned->header_bytes) != 0)
        status = sw_fail(err, SW_BAD_FILE, "%s: its header is damaged; take another checkpoint", path);
    free(header);
    return status;
}

static int by_name(const void *a, const void *b, void *parameters) {
    const sw_state_parameter *p = parameters;
    return strcmp(p[*(const int *)a].name, p[*(const int *)b].name);
}

static sw_status index_parameters(sw_checkpoint *c, sw_error *err) {
    int n = c->manifest.n_parameters;
    c->by_name = malloc((size_t)(n ? n : 1) * sizeof *c->by_name);
    if (!c->by_name)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its parameters", c->path);
    for (int i = 0; i < n; i++)
        c->by_name[i] = i;
    qsort_r(c->by_name, (size_t)n, sizeof *c->by_name, by_name, (void *)(uintptr_t)c->manifest.parameter);
    return SW_OK;
}

sw_status sw_checkpoint_open(const char *path, sw_checkpoint **checkpoint, sw_error *err) {
    unsigned kinds = 0;
    int folder = -1;
    sw_status status = SW_OK;
    sw_checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        c->file[kind].descriptor = -1;
    if (!(c->path = strdup(path))) {
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
        goto done;
    }
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        status = cannot_open(path, errno, err);
        goto done;
    }
    if ((status = read_manifest(c, folder, err)) != SW_OK)
        goto done;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        kinds |= (unsigned)c->manifest.file[kind].is_there << kind;
    status = sw_state_files_plan(c->manifest.parameter, c->manifest.n_parameters, kinds, &c->files, err);
    if (status == SW_BAD_CONFIG)
        status = sw_fail(err, SW_BAD_FILE, "%s: parameters that cannot be: %s", path, err ? err->message : "");
    if (status == SW_OK)
        status = index_parameters(c, err);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        if (c->manifest.file[kind].is_there)
            status = open_file(c, folder, (sw_state_kind)kind, err);
    if (status == SW_OK) {
        *checkpoint = c;
        c = NULL;
    }
done:
    if (folder >= 0)
        close(folder);
    sw_checkpoint_close(c);
    return status;
}

void sw_checkpoint_close(sw_checkpoint *checkpoint) {
    if (!checkpoint)
        return;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        if (checkpoint->file[kind].descriptor >= 0)
            close(checkpoint->file[kind].descriptor);
    sw_state_files_free(&checkpoint->files);
    sw_manifest_free(&checkpoint->manifest);
    free(checkpoint->by_name);
    free(checkpoint->path);
    free(checkpoint);
}

/* ---- questions ---- */

const char *sw_checkpoint_path(const sw_checkpoint *checkpoint) {
    return checkpoint->path;
}

int64_t sw_checkpoint_step(const sw_checkpoint *checkpoint) {
    return checkpoint->manifest.step;
}

const char *sw_checkpoint_state(const sw_checkpoint *checkpoint) {
    return checkpoint->manifest.state;
}

double sw_checkpoint_validation_loss(const sw_checkpoint *checkpoint) {
    return checkpoint->manifest.validation_loss;
}

const char *sw_checkpoint_model_config(const sw_checkpoint *checkpoint) {
    return checkpoint->manifest.model_config;
}

unsigned sw_checkpoint_kinds(const sw_checkpoint *checkpoint) {
    unsigned kinds = 0;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        kinds |= (unsigned)checkpoint->manifest.file[kind].is_there << kind;
    return kinds;
}

int64_t sw_checkpoint_bytes(const sw_checkpoint *checkpoint) {
    int64_t bytes = 0;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        bytes += checkpoint->manifest.file[kind].bytes;
    return bytes;
}

int sw_checkpoint_n_parameters(const sw_checkpoint *checkpoint) {
    return checkpoint->manifest.n_parameters;
}

const sw_state_parameter *sw_checkpoint_parameter(const sw_checkpoint *checkpoint, int i) {
    return &checkpoint->manifest.parameter[i];
}

int sw_checkpoint_find_parameter(const sw_checkpoint *checkpoint, const char *name) {
    int low = 0, high = checkpoint->manifest.n_parameters;
    while (low < high) {
        int middle = low + (high - low) / 2, p = checkpoint->by_name[middle];
        int order = strcmp(checkpoint->manifest.parameter[p].name, name);
        if (order == 0)
            return p;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return -1;
}

int sw_checkpoint_n_settings(const sw_checkpoint *checkpoint) {
    return checkpoint->manifest.n_settings;
}

const sw_setting_text *sw_checkpoint_setting(const sw_checkpoint *checkpoint, int i) {
    return &checkpoint->manifest.setting[i];
}

const char *sw_checkpoint_find_setting(const sw_checkpoint *checkpoint, const char *key) {
    for (int i = 0; i < checkpoint->manifest.n_settings; i++)
        if (strcmp(checkpoint->manifest.setting[i].key, key) == 0)
            return checkpoint->manifest.setting[i].value;
    return NULL;
}

/* ---- comparing ---- */

static void print_shape(int n_dimensions, const int64_t *dimension, char text[96]) {
    int n = snprintf(text, 96, "[");
    for (int d = 0; d < n_dimensions && n < 96; d++)
        n += snprintf(text + n, (size_t)(96 - n), "%s%" PRId64, d ? ", " : "", dimension[d]);
    if (n < 96)
        snprintf(text + n, (size_t)(96 - n), "]");
}

/* How a parameter of the model differs from the checkpoint's, in words; "" if it does not. */
static void describe_difference(const sw_checkpoint *c, const sw_parameter *parameter, char words[320]) {
    int found = sw_checkpoint_find_parameter(c, parameter->name);
    const sw_state_parameter *stored = found < 0 ? NULL : &c->manifest.parameter[found];
    char here[96], there[96];
    *words = 0;
    if (!stored) {
        snprintf(words, 320, "is not in it");
        return;
    }
    print_shape(parameter->n_dimensions, parameter->dimension, here);
    print_shape(stored->n_dimensions, stored->dimension, there);
    if (strcmp(here, there) != 0)
        snprintf(words, 320, "has shape %s in it and %s in the model", there, here);
    else if (parameter->is_trainable != stored->is_trainable)
        snprintf(words, 320, "is %s in it and %s in the model", stored->is_trainable ? "trained" : "frozen",
                 parameter->is_trainable ? "trained" : "frozen");
}

sw_status sw_checkpoint_compare(const sw_checkpoint *checkpoint, const sw_graph *graph, unsigned kinds, sw_error *err) {
    char words[320], first[640] = "";
    int n_different = 0;
    for (int p = 0; p < graph->parameters.n; p++) {
        const sw_parameter *parameter = graph->parameters.item[p];
        describe_difference(checkpoint, parameter, words);
        if (*words && n_different++ == 0)
            snprintf(first, sizeof first, "%.200s %s", parameter->name, words);
    }
    /* Those that match are as many as the checkpoint has, or it has others. */
    for (int p = 0; p < checkpoint->manifest.n_parameters; p++) {
        bool is_there = false;
        for (int q = 0; q < graph->parameters.n && !is_there; q++) {
            int at = (p + q) % graph->parameters.n; /* mostly the same order */
            is_there = strcmp(graph->parameters.item[at]->name, checkpoint->manifest.parameter[p].name) == 0;
        }
        if (!is_there && n_different++ == 0)
            snprintf(first, sizeof first, "%.200s is not in the model", checkpoint->manifest.parameter[p].name);
    }
    if (n_different == 1)
        return sw_fail(err, SW_BAD_FILE, "%s: is of another model: %s; is model the same as when it was written?",
                       checkpoint->path, first);
    if (n_different > 1)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: is of another model: %s, and %d more parameters differ; is model the same as when it was written?",
                       checkpoint->path, first, n_different - 1);
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        if (kinds >> kind & 1 && !checkpoint->manifest.file[kind].is_there)
            return sw_fail(err, SW_BAD_FILE, "%s: has no %s, which this optimizer needs; is it the optimizer that wrote it?",
                           checkpoint->path, sw_state_file_name((sw_state_kind)kind));
    return SW_OK;
}

/* ---- reading ---- */

struct sw_checkpoint_reader {
    const sw_checkpoint *checkpoint;
    char *memory; /* [SW_RANGE_BYTES] the range that was read last in part */
    sw_state_kind kind;
    int64_t held; /* its number in its file; -1: none */
    int64_t bytes_read;
};

sw_status sw_checkpoint_reader_open(const sw_checkpoint *checkpoint, sw_checkpoint_reader **reader, sw_error *err) {
    sw_checkpoint_reader *r = calloc(1, sizeof *r);
    if (r)
        r->memory = malloc(SW_RANGE_BYTES);
    if (!r || !r->memory) {
        free(r);
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for %d bytes to read with", checkpoint->path, SW_RANGE_BYTES);
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
        *(file->range[middle].offset <= byte ? &low : &high) = file->range[middle].offset <= byte ? middle : middle - 1;
    }
    return low;
}

sw_status sw_range_damaged(const sw_checkpoint *c, sw_state_kind kind, int64_t range, sw_error *err) {
    const sw_file_range *r = &c->manifest.file[kind].range[range];
    const sw_state_file *file = &c->files.file[kind];
    const char *first = NULL, *last = NULL;
    for (int p = 0; p < c->manifest.n_parameters; p++) {
        int64_t begin = file->offset[p], end = begin + c->manifest.parameter[p].n_elements * (int64_t)sizeof(float);
        if (begin < 0 || end <= r->offset || begin >= r->offset + r->bytes || begin == end)
            continue;
        first = first ? first : c->manifest.parameter[p].name;
        last = c->manifest.parameter[p].name;
    }
    return sw_fail(err, SW_BAD_FILE, "%s: bytes %" PRId64 " to %" PRId64 " are damaged (%.200s%s%.200s); take another checkpoint",
                   c->file[kind].path, r->offset, r->offset + r->bytes - 1, first ? first : "its header",
                   last && last != first ? " to " : "", last && last != first ? last : "");
}

sw_status sw_range_read(const sw_checkpoint *c, sw_state_kind kind, int64_t range, void *to, sw_error *err) {
    const sw_file_range *r = &c->manifest.file[kind].range[range];
    sw_status status = sw_file_read_at(c->file[kind].descriptor, c->file[kind].path, to, r->bytes, r->offset, err);
    if (status == SW_OK && sw_checksum(to, r->bytes) != r->checksum)
        status = sw_range_damaged(c, kind, range, err);
    return status;
}

sw_status sw_checkpoint_read(sw_checkpoint_reader *reader, sw_state_kind kind, int parameter, int64_t first, int64_t n,
                             float *values, sw_error *err) {
    const sw_checkpoint *c = reader->checkpoint;
    const sw_manifest_file *file = &c->manifest.file[kind];
    assert(file->is_there && c->files.file[kind].offset[parameter] >= 0 && first >= 0 && n >= 0 &&
           n <= c->manifest.parameter[parameter].n_elements - first);
    int64_t at = c->files.file[kind].offset[parameter] + first * (int64_t)sizeof(float), end = at + n * (int64_t)sizeof(float);
    char *to = (char *)values;
    for (int64_t i = n ? find_range(file, at) : 0; at < end; i++) {
        const sw_file_range *range = &file->range[i];
        int64_t range_end = range->offset + range->bytes, part_end = end < range_end ? end : range_end;
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

static sw_status load_piece(sw_checkpoint_reader *reader, sw_state_kind kind, int group, const sw_piece *piece,
                            sw_put_state_fn put, void *to, float *values, sw_error *err) {
    const sw_checkpoint *c = reader->checkpoint;
    int parameter = sw_checkpoint_find_parameter(c, piece->parameter->name);
    if (parameter < 0)
        return sw_fail(err, SW_BUG, "%s: %s is loaded without having been compared", c->path, piece->parameter->name);
    for (int64_t done = 0; done < piece->length;) {
        /* Up to where ranges may end: whole ones are then read in one piece. */
        int64_t offset = c->files.file[kind].offset[parameter] + (piece->first + done) * (int64_t)sizeof(float);
        int64_t n = (SW_RANGE_BYTES - offset % SW_RANGE_BYTES) / (int64_t)sizeof(float);
        n = n < piece->length - done ? n : piece->length - done;
        sw_status status = sw_checkpoint_read(reader, kind, parameter, piece->first + done, n, values, err);
        if (status == SW_OK)
            status = put(to, kind, group, piece, done, n, values, err);
        if (status != SW_OK)
            return status;
        done += n;
    }
    return SW_OK;
}

sw_status sw_checkpoint_load(const sw_checkpoint *checkpoint, const sw_layout *layout, int rank, unsigned kinds,
                             sw_put_state_fn put, void *to, int64_t *bytes_read, sw_error *err) {
    sw_checkpoint_reader *reader = NULL;
    float *values = aligned_alloc(64, SW_RANGE_BYTES);
    sw_status status = values ? sw_checkpoint_reader_open(checkpoint, &reader, err)
                              : sw_fail(err, SW_NO_MEMORY, "%s: no memory to load it with", checkpoint->path);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++) {
        if (!(kinds >> kind & 1))
            continue;
        for (int g = 0; g < layout->n_groups && status == SW_OK; g++) {
            sw_piece piece;
            int at = 0;
            if (kind != SW_STATE_MASTER && !layout->groups[g].is_trainable)
                continue;
            while (status == SW_OK && sw_layout_next_piece(layout, g, rank, &at, &piece))
                status = load_piece(reader, (sw_state_kind)kind, g, &piece, put, to, values, err);
        }
    }
    if (bytes_read)
        *bytes_read = reader ? reader->bytes_read : 0;
    sw_checkpoint_reader_close(reader);
    free(values);
    return status;
}
