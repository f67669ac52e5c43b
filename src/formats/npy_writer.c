/* npy_writer.c: see npy_writer.h. */
#include "formats/npy_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/reason.h"
#include "formats/npy.h"

enum { BUFFERED_NUMBERS = 1 << 16 };

sw_status sw_npy_open(sw_npy_writer *w, const char *path, sw_dtype dtype, sw_error *err) {
    *w = (sw_npy_writer){
        .path = path, .descriptor = -1, .dtype = dtype, .element_bytes = sw_dtype_bytes(dtype)};
    sw_status status = path ? sw_file_check_name(path, err) : SW_OK;
    if (status || !path)
        return status;
    w->buffer = malloc((size_t)(BUFFERED_NUMBERS * w->element_bytes));
    if (!w->buffer)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    if (snprintf(w->partial, sizeof w->partial, "%s.partial", path) >= (int)sizeof w->partial)
        return sw_fail(err, SW_BAD_CONFIG, "%.100s...: the path is too long", path);
    status = sw_file_create(w->partial, path, &w->descriptor, err);
    if (status)
        *w->partial = 0; /* what has the name is not ours to remove */
    return status;
}

static sw_status flush(sw_npy_writer *w, sw_error *err) {
    int64_t at = SW_NPY_HEADER + (w->n - w->n_buffered) * w->element_bytes,
            n_bytes = w->n_buffered * w->element_bytes;
    w->n_buffered = 0;
    return n_bytes ? sw_file_write_at(w->descriptor, w->path, w->buffer, n_bytes, at, err) : SW_OK;
}

sw_status sw_npy_put(sw_npy_writer *w, int64_t number, sw_error *err) {
    if (!w->path)
        return SW_OK;
    uint8_t *out = w->buffer + w->n_buffered * w->element_bytes;
    for (int i = 0; i < w->element_bytes; i++)
        out[i] = (uint8_t)((uint64_t)number >> (8 * i));
    w->n++;
    return ++w->n_buffered == BUFFERED_NUMBERS ? flush(w, err) : SW_OK;
}

sw_status sw_npy_finish(sw_npy_writer *w, sw_error *err) {
    char header[SW_NPY_HEADER];
    if (!w->path)
        return SW_OK;
    sw_status status = flush(w, err);
    sw_npy_header(w->dtype, w->n, header);
    if (!status)
        status = sw_file_write_at(w->descriptor, w->path, header, sizeof header, 0, err);
    if (!status)
        status = sw_file_sync(w->descriptor, w->path, err);
    status = sw_file_close(w->descriptor, w->path, status, err);
    w->descriptor = -1;
    return status;
}

sw_status sw_npy_publish(sw_npy_writer *w, sw_error *err) {
    if (!w->path)
        return SW_OK;
    if (rename(w->partial, w->path))
        return sw_cannot_write(w->path, errno, err);
    *w->partial = 0;
    return SW_OK;
}

void sw_npy_close(sw_npy_writer *w) {
    if (w->descriptor >= 0)
        close(w->descriptor);
    if (*w->partial && w->path)
        unlink(w->partial);
    free(w->buffer);
}
