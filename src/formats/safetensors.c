/* safetensors.c: files by byte range. What a header may say is in safetensors_header.c. */
#include "formats/safetensors.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/file_format.h"
#include "formats/safetensors_header.h"

enum { MAX_HEADER_BYTES = 100000000, LENGTH_BYTES = 8 }; /* the limit of the reference reader */

struct sw_safetensors {
    char *path;
    int descriptor;
    char *header; /* names point into it */
    sw_tensor_list tensors;
    int64_t bytes_read;
};

static sw_status read_at(sw_safetensors *file, void *out, int64_t bytes, int64_t offset,
                         sw_error *err) {
    sw_status status = sw_file_read_at(file->descriptor, file->path, out, bytes, offset, err);
    if (status == SW_OK)
        file->bytes_read += bytes;
    return status;
}

static sw_status open_checked(sw_safetensors *file, sw_error *err) {
    int64_t file_bytes;
    sw_status status = sw_file_open(file->path, &file->descriptor, &file_bytes, err);
    if (status != SW_OK)
        return status;
    if ((status = sw_file_expect_open(file->descriptor, file->path, file_bytes, SW_FILE_SAFETENSORS,
                                      err)) != SW_OK)
        return status;
    if (file_bytes < LENGTH_BYTES)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: has %" PRId64
                       " bytes, too few for the length of a header; is the download complete?",
                       file->path, file_bytes);
    uint64_t header_bytes;
    if ((status = read_at(file, &header_bytes, LENGTH_BYTES, 0, err)) != SW_OK)
        return status;
    header_bytes = le64toh(header_bytes);
    if (header_bytes > MAX_HEADER_BYTES)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the header claims %" PRIu64
                       " bytes, at most %d are allowed; is it a safetensors file?",
                       file->path, header_bytes, MAX_HEADER_BYTES);
    if ((int64_t)header_bytes > file_bytes - LENGTH_BYTES)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: the header claims %" PRIu64 " bytes, the file has %" PRId64
                       " after the length; is the download complete?",
                       file->path, header_bytes, file_bytes - LENGTH_BYTES);
    file->header = malloc((size_t)header_bytes + 1);
    if (!file->header)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its header of %" PRIu64 " bytes",
                       file->path, header_bytes);
    if ((status = read_at(file, file->header, (int64_t)header_bytes, LENGTH_BYTES, err)) != SW_OK)
        return status;
    file->header[header_bytes] = 0;
    int64_t data_start = LENGTH_BYTES + (int64_t)header_bytes;
    status = sw_tensor_list_parse(file->path, file->header, (int64_t)header_bytes,
                                  file_bytes - data_start, &file->tensors, err);
    for (int64_t i = 0; status == SW_OK && i < file->tensors.n; i++)
        file->tensors.item[i].file_offset += data_start;
    return status;
}

sw_status sw_safetensors_open(const char *path, sw_safetensors **file, sw_error *err) {
    sw_safetensors *opened = calloc(1, sizeof *opened);
    if (!opened)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    opened->descriptor = -1;
    opened->path = strdup(path);
    sw_status status = opened->path ? open_checked(opened, err)
                                    : sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    if (status != SW_OK)
        sw_safetensors_close(opened);
    else
        *file = opened;
    return status;
}

void sw_safetensors_close(sw_safetensors *file) {
    if (!file)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    sw_tensor_list_free(&file->tensors);
    free(file->header);
    free(file->path);
    free(file);
}

const char *sw_safetensors_path(const sw_safetensors *file) {
    return file->path;
}

int64_t sw_safetensors_count(const sw_safetensors *file) {
    return file->tensors.n;
}

const sw_tensor_entry *sw_safetensors_at(const sw_safetensors *file, int64_t i) {
    return &file->tensors.item[i];
}

const sw_tensor_entry *sw_safetensors_find(const sw_safetensors *file, const char *name) {
    const sw_tensor_list *tensors = &file->tensors;
    for (int64_t low = 0, high = tensors->n; low < high;) {
        int64_t middle = low + (high - low) / 2;
        const sw_tensor_entry *tensor = &tensors->item[tensors->by_name[middle]];
        int order = strcmp(name, tensor->name);
        if (order == 0)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *sw_safetensors_metadata(const sw_safetensors *file, const char *key) {
    for (int64_t i = 0; i < file->tensors.n_notes; i++)
        if (strcmp(file->tensors.notes[i].key, key) == 0)
            return file->tensors.notes[i].text;
    return NULL;
}

int64_t sw_safetensors_bytes_read(const sw_safetensors *file) {
    return file->bytes_read;
}

/* ---- reading ---- */

typedef enum element { ELEMENT_F32, ELEMENT_BF16, ELEMENT_F16, ELEMENT_F64, ELEMENT_OTHER } element;

static element element_of(const sw_tensor_entry *tensor) {
    static const char *const names[] = {"F32", "BF16", "F16", "F64"};
    for (int i = 0; i < ELEMENT_OTHER; i++)
        if (strcmp(tensor->dtype, names[i]) == 0)
            return (element)i;
    return ELEMENT_OTHER;
}

bool sw_safetensors_is_real(const sw_tensor_entry *tensor) {
    return element_of(tensor) != ELEMENT_OTHER;
}

sw_status sw_safetensors_read_bytes(sw_safetensors *file, const sw_tensor_entry *tensor,
                                    int64_t first, int64_t n, void *out, sw_error *err) {
    if (first < 0 || n < 0 || first > tensor->n_bytes || n > tensor->n_bytes - first)
        return sw_fail(err, SW_BUG,
                       "%s: bytes %" PRId64 " + %" PRId64
                       " of tensor \"%.200s\", which has %" PRId64,
                       file->path, first, n, tensor->name, tensor->n_bytes);
    return read_at(file, out, n, tensor->file_offset + first, err);
}

/* The second half of `out` takes the 16-bit elements; widened from the front, each is read before
 * its place is written. */
static sw_status read_16_bits(sw_safetensors *file, const sw_tensor_entry *tensor, int64_t first,
                              int64_t n, bool is_bf16, float *out, sw_error *err) {
    char *half = (char *)out + 2 * n;
    sw_status status = sw_safetensors_read_bytes(file, tensor, 2 * first, 2 * n, half, err);
    for (int64_t i = 0; status == SW_OK && i < n; i++) {
        uint16_t bits;
        memcpy(&bits, half + 2 * i, sizeof bits);
        bits = le16toh(bits);
        out[i] = is_bf16 ? sw_bf16_to_float(bits) : sw_f16_to_float(bits);
    }
    return status;
}

static sw_status read_doubles(sw_safetensors *file, const sw_tensor_entry *tensor, int64_t first,
                              int64_t n, float *out, sw_error *err) {
    double chunk[512];
    enum { CHUNK = sizeof chunk / sizeof *chunk };
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t length = n - done < CHUNK ? n - done : CHUNK;
        sw_status status =
            sw_safetensors_read_bytes(file, tensor, 8 * (first + done), 8 * length, chunk, err);
        if (status != SW_OK)
            return status;
        for (int64_t i = 0; i < length; i++)
            out[done + i] = (float)chunk[i];
    }
    return SW_OK;
}

sw_status sw_safetensors_read(sw_safetensors *file, const sw_tensor_entry *tensor, int64_t first,
                              int64_t n, float *out, sw_error *err) {
    if (first < 0 || n < 0 || first > tensor->n_elements || n > tensor->n_elements - first)
        return sw_fail(err, SW_BUG,
                       "%s: elements %" PRId64 " + %" PRId64
                       " of tensor \"%.200s\", which has %" PRId64,
                       file->path, first, n, tensor->name, tensor->n_elements);
    switch (element_of(tensor)) {
    case ELEMENT_F32:
        return sw_safetensors_read_bytes(file, tensor, 4 * first, 4 * n, out, err);
    case ELEMENT_BF16:
    case ELEMENT_F16:
        return read_16_bits(file, tensor, first, n, element_of(tensor) == ELEMENT_BF16, out, err);
    case ELEMENT_F64:
        return read_doubles(file, tensor, first, n, out, err);
    default:
        return sw_fail(err, SW_BAD_FILE,
                       "%s: tensor \"%.200s\" has dtype %s; only F32, F16, BF16 and F64 are read",
                       file->path, tensor->name, tensor->dtype);
    }
}
