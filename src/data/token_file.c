/* token_file.c: checking a file of tokens, and reading ranges of it by pread. */
#include "data/token_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "formats/npy.h"

enum { CHECK_BYTES = 1 << 20, READ_BYTES = 16 << 10 };

/* are_marks: its numbers are 0 and 1. */
static sw_status read_header(sw_token_file *file, int descriptor, int64_t file_bytes,
                             bool are_marks, sw_error *err) {
    int64_t n_bytes = file_bytes < SW_NPY_MAX_PREFIX ? file_bytes : SW_NPY_MAX_PREFIX;
    uint8_t prefix[SW_NPY_MAX_PREFIX];
    sw_status status = sw_file_read_at(descriptor, file->path, prefix, n_bytes, 0, err);
    if (status != SW_OK)
        return status;
    sw_npy npy;
    status = are_marks ? sw_npy_parse_marks(file->path, prefix, n_bytes, file_bytes, &npy, err)
                       : sw_npy_parse(file->path, prefix, n_bytes, file_bytes, &npy, err);
    if (status != SW_OK)
        return status;
    file->dtype = npy.dtype;
    file->data_first = npy.first;
    file->n_tokens = npy.n;
    return SW_OK;
}

/* The largest of n numbers read as unsigned: negative ones come out above every limit. One plain
 * loop for each width, which compilers turn into vector instructions: a corpus is checked as fast
 * as it can be read. */
static uint64_t largest_unsigned(sw_dtype dtype, const void *numbers, int64_t n) {
#define LARGEST(type)                                            \
    {                                                            \
        const type *number = numbers;                            \
        type largest = 0;                                        \
        for (int64_t i = 0; i < n; i++)                          \
            largest = number[i] > largest ? number[i] : largest; \
        return largest;                                          \
    }
    switch (sw_dtype_bytes(dtype)) {
    case 1:
        LARGEST(uint8_t)
    case 2:
        LARGEST(uint16_t)
    case 4:
        LARGEST(uint32_t)
    default:
        LARGEST(uint64_t)
    }
#undef LARGEST
}

static sw_status name_bad_id(const sw_token_file *file, const sw_token_rule *rule,
                             const uint8_t *buffer, int64_t first, sw_error *err) {
    int64_t i = 0, id;
    while ((id = sw_npy_element(file->dtype, buffer, i)) >= 0 && id < rule->limit)
        i++;
    return sw_fail(err, SW_BAD_FILE,
                   "%s: position %" PRId64 " has %s %" PRId64 "; %s allows 0 to %" PRId64,
                   file->path, first + i, rule->noun, id, rule->whose, rule->limit - 1);
}

static sw_status check_ids(sw_token_file *file, int descriptor, const sw_token_rule *rule,
                           uint8_t *buffer, sw_error *err) {
    int64_t width = sw_dtype_bytes(file->dtype), n_at_once = CHECK_BYTES / width;
    for (int64_t first = 0; first < file->n_tokens; first += n_at_once) {
        int64_t n = file->n_tokens - first < n_at_once ? file->n_tokens - first : n_at_once;
        sw_status status = sw_file_read_at(descriptor, file->path, buffer, n * width,
                                           file->data_first + first * width, err);
        if (status != SW_OK)
            return status;
        uint64_t largest = largest_unsigned(file->dtype, buffer, n);
        if (largest >= (uint64_t)rule->limit)
            return name_bad_id(file, rule, buffer, first, err);
        if ((int64_t)largest > file->largest_id)
            file->largest_id = (int64_t)largest;
    }
    return SW_OK;
}

/* Any bytes are a text of bytes, but a pointer of Git LFS stands for another file. */
static sw_status refuse_pointer(const char *path, int descriptor, int64_t file_bytes,
                                sw_error *err) {
    char head[SW_FILE_HEAD_BYTES];
    int64_t n = file_bytes < SW_FILE_HEAD_BYTES ? file_bytes : SW_FILE_HEAD_BYTES;
    sw_status status = sw_file_read_at(descriptor, path, head, n, 0, err);
    if (status == SW_OK && sw_file_format_of(head, n, file_bytes) == SW_FILE_LFS_POINTER)
        status = sw_file_expect(path, head, n, file_bytes, SW_FILE_TEXT, err);
    return status;
}

sw_status sw_token_file_check(const char *path, bool is_text, const sw_token_rule *rule,
                              sw_token_file *file, sw_error *err) {
    int descriptor = -1;
    int64_t file_bytes;
    uint8_t *buffer = NULL;
    sw_status status = sw_file_open(path, &descriptor, &file_bytes, err);
    if (status != SW_OK)
        return status;

    *file = (sw_token_file){.path = path, .dtype = SW_U8, .n_tokens = file_bytes};
    if (file_bytes == 0) {
        status = sw_fail(err, SW_BAD_FILE, "%s: is empty", path);
        goto done;
    }
    if (is_text && (status = refuse_pointer(path, descriptor, file_bytes, err)) != SW_OK)
        goto done;
    if (!is_text &&
        (status = read_header(file, descriptor, file_bytes, rule->limit == 2, err)) != SW_OK)
        goto done;
    if (file->n_tokens == 0) {
        status = sw_fail(err, SW_BAD_FILE, "%s: is empty (an array of 0 elements)", path);
        goto done;
    }
    buffer = malloc(CHECK_BYTES);
    if (!buffer) {
        status =
            sw_fail(err, SW_NO_MEMORY, "%s: no memory for a buffer of %d bytes to check it with",
                    path, CHECK_BYTES);
        goto done;
    }
    status = check_ids(file, descriptor, rule, buffer, err);
done:
    free(buffer);
    close(descriptor);
    return status;
}

sw_status sw_token_file_describe(const char *path, int64_t largest, sw_token_file *file,
                                 sw_error *err) {
    int descriptor;
    int64_t file_bytes;
    sw_status status = sw_file_open(path, &descriptor, &file_bytes, err);
    if (status != SW_OK)
        return status;
    *file = (sw_token_file){.path = path, .largest_id = largest};
    status = read_header(file, descriptor, file_bytes, false, err);
    close(descriptor);
    return status;
}

sw_status sw_token_file_open(const sw_token_file *file, int *descriptor, sw_error *err) {
    int64_t bytes;
    return sw_file_open(file->path, descriptor, &bytes, err);
}

sw_status sw_token_file_read(const sw_token_file *file, int descriptor, int64_t first, int64_t n,
                             int32_t *ids, sw_error *err) {
    uint8_t buffer[READ_BYTES];
    int64_t width = sw_dtype_bytes(file->dtype), n_at_once = READ_BYTES / width;
    for (int64_t done = 0; done < n;) {
        int64_t n_now = n - done < n_at_once ? n - done : n_at_once;
        sw_status status = sw_file_read_at(descriptor, file->path, buffer, n_now * width,
                                           file->data_first + (first + done) * width, err);
        if (status != SW_OK)
            return status;
        for (int64_t i = 0; i < n_now; i++) {
            int64_t id = sw_npy_element(file->dtype, buffer, i);
            if (id < 0 || id > file->largest_id)
                return sw_fail(err, SW_BAD_FILE,
                               "%s: position %" PRId64 " has %" PRId64 ", the largest was %" PRId64
                               " when it was checked; leave data files alone while they are used",
                               file->path, first + done + i, id, file->largest_id);
            ids[done + i] = (int32_t)id;
        }
        done += n_now;
    }
    return SW_OK;
}
