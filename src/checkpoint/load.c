/* load.c: opening a checkpoint: what it says of itself is checked, its data are not read yet. See
 * load.h. */
#include "checkpoint/load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/reason.h"
#include "checkpoint/load_internal.h"

/* A manifest has some 40 bytes a range and 100 a parameter: this is enough for a model of 10^13
 * parameters. */
enum { MAX_MANIFEST_BYTES = INT32_MAX };

/* ---- open ---- */

sw_status sw_checkpoint_cannot_open(const char *path, int error, sw_error *err) {
    char owner[SW_USER_BYTES];
    bool is_barred = error == EACCES || error == EPERM;
    sw_status status = is_barred ? SW_BAD_CONFIG : sw_call_status(SW_CALL_READ, error);
    const char *hint =
        error == ENOENT    ? "this part is missing; take another checkpoint"
        : error == ENOTDIR ? "a checkpoint is a folder; check the path"
        : error == ELOOP ? "it is a link, and may lead out of the folder; put the file itself there"
        : error == EIO
            ? "the disk may be failing, take another checkpoint or restore this one from a copy"
        : error == ESTALE ? "the network file system has lost it, take another checkpoint"
                          : sw_call_hint(SW_CALL_READ, error);
    if (is_barred && sw_file_is_foreign(path, owner))
        return sw_fail(err, status, "%s: cannot be read: %s; it belongs to user %s: %s", path,
                       strerror(error), owner, hint);
    return sw_fail(err, status, "%s: cannot be read: %s; %s", path, strerror(error), hint);
}

/* A regular file of the folder, by its name: links are not followed, so that nothing outside is
 * taken for a part. */
static sw_status open_part(const sw_checkpoint *c, int folder, const char *name, int *descriptor,
                           int64_t *bytes, sw_error *err) {
    char path[SW_PATH_BYTES];
    struct stat info;
    sw_status status = sw_path_join(path, c->path, name, err);
    if (status != SW_OK)
        return status;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return sw_checkpoint_cannot_open(path, errno, err);
    int error = fstat(fd, &info) ? errno : 0;
    if (error) {
        close(fd);
        return sw_fail(err, SW_NO_MEMORY, "%s: cannot be looked at: %s; try again", path,
                       strerror(error)); /* it may be good */
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return sw_fail(err, SW_BAD_FILE, "%s: is no file; take another checkpoint", path);
    }
    *descriptor = fd;
    *bytes = info.st_size;
    return SW_OK;
}

static sw_status read_manifest(sw_checkpoint *c, int folder, sw_error *err) {
    char path[SW_PATH_BYTES], *text = NULL;
    sw_status status = sw_path_join(path, c->path, SW_MANIFEST_NAME, err);
    if (status == SW_OK)
        status = open_part(c, folder, SW_MANIFEST_NAME, &c->manifest_descriptor, &c->manifest_bytes,
                           err);
    if (status != SW_OK)
        return status;
    const int64_t bytes = c->manifest_bytes;
    if (bytes > MAX_MANIFEST_BYTES)
        status = sw_fail(err, SW_BAD_FILE, "%s: has %" PRId64 " bytes, which no manifest has", path,
                         bytes);
    else if (!(text = malloc((size_t)bytes + 1)))
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory for its %" PRId64 " bytes", path, bytes);
    if (status == SW_OK)
        status = sw_file_read_at(c->manifest_descriptor, path, text, bytes, 0, err);
    if (status == SW_OK)
        status = sw_manifest_parse(path, text, bytes, &c->manifest, err);
    free(text);
    return status;
}

/* One file of states: its size is the manifest's, as its parameters need, and its header is the
 * only one it can have. */
static sw_status open_file(sw_checkpoint *c, int folder, sw_state_kind kind, sw_error *err) {
    const sw_manifest_file *listed = &c->manifest.file[kind];
    const sw_state_file *planned = &c->files.file[kind];
    char *header = NULL;
    int64_t bytes = 0;
    sw_status status = sw_path_join(c->file[kind].path, c->path, sw_state_file_name(kind), err);
    if (status == SW_OK)
        status =
            open_part(c, folder, sw_state_file_name(kind), &c->file[kind].descriptor, &bytes, err);
    if (status != SW_OK)
        return status;
    const char *path = c->file[kind].path;
    if (listed->bytes != planned->bytes)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: its manifest gives it %" PRId64 " bytes, its parameters need %" PRId64,
                       path, listed->bytes, planned->bytes);
    if (bytes != listed->bytes)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: has %" PRId64 " bytes instead of %" PRId64
                       ": it was %s; take another checkpoint",
                       path, bytes, listed->bytes, bytes < listed->bytes ? "cut" : "changed");
    header = malloc((size_t)planned->header_bytes);
    if (!header)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its header", path);
    status = sw_file_read_at(c->file[kind].descriptor, path, header, planned->header_bytes, 0, err);
    if (status == SW_OK && memcmp(header, planned->header, (size_t)planned->header_bytes) != 0)
        status =
            sw_fail(err, SW_BAD_FILE, "%s: its header is damaged; take another checkpoint", path);
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
    qsort_r(c->by_name, (size_t)n, sizeof *c->by_name, by_name,
            (void *)(uintptr_t)c->manifest.parameter);
    return SW_OK;
}

/* What is at `path` now. */
static sw_status open_once(const char *path, sw_checkpoint **checkpoint, sw_error *err) {
    unsigned kinds = 0;
    sw_status status = SW_OK;
    sw_checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    c->folder = c->manifest_descriptor = -1;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        c->file[kind].descriptor = -1;
    if (!(c->path = strdup(path))) {
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
        goto done;
    }
    c->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->folder < 0) {
        status = sw_checkpoint_cannot_open(path, errno, err);
        goto done;
    }
    if ((status = read_manifest(c, c->folder, err)) != SW_OK)
        goto done;
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++)
        kinds |= (unsigned)c->manifest.file[kind].is_there << kind;
    status =
        sw_state_files_plan(c->manifest.parameter, c->manifest.n_parameters, kinds, &c->files, err);
    if (status == SW_BAD_CONFIG)
        status = sw_fail(err, SW_BAD_FILE, "%s: parameters that cannot be: %s", path,
                         err ? err->message : "");
    if (status == SW_OK)
        status = index_parameters(c, err);
    for (int kind = 0; kind < SW_N_STATE_KINDS && status == SW_OK; kind++)
        if (c->manifest.file[kind].is_there)
            status = open_file(c, c->folder, (sw_state_kind)kind, err);
done:
    *checkpoint = c; /* also after an error: what its folder was is asked then */
    return status;
}

bool sw_checkpoint_was_replaced(const sw_checkpoint *c) {
    struct stat read, now;
    return c->folder >= 0 && fstat(c->folder, &read) == 0 &&
           (stat(c->path, &now) != 0 ? errno == ENOENT || errno == ENOTDIR
                                     : now.st_dev != read.st_dev || now.st_ino != read.st_ino);
}

sw_status sw_checkpoint_open(const char *path, sw_checkpoint **checkpoint, sw_error *err) {
    enum { MOST_TRIES = 100 };
    struct stat info;
    sw_status status = SW_OK;
    *checkpoint = NULL;
    for (int i = 0; i < MOST_TRIES; i++) {
        status = open_once(path, checkpoint, err);
        if (status == SW_OK)
            return status;
        bool was_replaced = *checkpoint && sw_checkpoint_was_replaced(*checkpoint);
        sw_checkpoint_close(*checkpoint);
        *checkpoint = NULL;
        if (status != SW_BAD_FILE || !was_replaced)
            return status;
        if (stat(path, &info) != 0 && errno != ENOENT && errno != ENOTDIR)
            return sw_cannot_read(path, errno, err);
        if (stat(path, &info) != 0)
            return sw_fail(err, status,
                           "%s: was removed while it was opened; take another checkpoint", path);
    }
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s: is replaced faster than it can be opened; ask again later", path);
}

void sw_checkpoint_close(sw_checkpoint *checkpoint) {
    if (!checkpoint)
        return;
    if (checkpoint->folder >= 0)
        close(checkpoint->folder);
    if (checkpoint->manifest_descriptor >= 0)
        close(checkpoint->manifest_descriptor);
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
