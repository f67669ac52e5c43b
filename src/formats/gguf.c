/* gguf.c: GGUF files by key, by name and by element. What a header may say is in gguf_parse.c. */
#include "formats/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_format.h"
#include "base/text.h"

/* The header is read in a piece that is large enough for most; longer ones are read again, four
 * times as much. */
enum { FIRST_BYTES = 8 << 20, CHUNK_BYTES = 1 << 18, LARGEST_BLOCK = 256 };
static const int64_t max_header_bytes = (int64_t)1 << 30;

static sw_status open_parsed(const char *path, int descriptor, int64_t file_bytes, sw_gguf *file,
                             sw_error *err) {
    uint8_t *header = NULL;
    sw_status status;
    for (int64_t n = FIRST_BYTES;; n *= 4) {
        bool is_cut = false;
        int64_t n_bytes = n < file_bytes ? n : file_bytes;
        free(header);
        sw_arena_free(&file->arena);
        header = malloc((size_t)n_bytes + 1);
        status = header ? sw_file_read_at(descriptor, path, header, n_bytes, 0, err)
                        : sw_fail(err, SW_NO_MEMORY, "%s: no memory for its header", path);
        if (status == SW_OK)
            status = sw_gguf_parse(path, header, n_bytes, file_bytes, file, &is_cut, err);
        if (!is_cut || n_bytes == file_bytes || n_bytes >= max_header_bytes)
            break;
    }
    file->header = header;
    return status;
}

sw_status sw_gguf_open(const char *path, sw_gguf *file, sw_error *err) {
    int descriptor;
    int64_t file_bytes;
    *file = (sw_gguf){.descriptor = -1};
    sw_status status = sw_file_open(path, &descriptor, &file_bytes, err);
    if (status != SW_OK)
        return status;
    status = sw_file_expect_open(descriptor, path, file_bytes, SW_FILE_GGUF, err);
    if (status == SW_OK)
        status = open_parsed(path, descriptor, file_bytes, file, err);
    file->descriptor = descriptor;
    file->chunk = malloc(CHUNK_BYTES);
    if (status == SW_OK && !file->chunk)
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    return status;
}

void sw_gguf_close(sw_gguf *file) {
    if (file->descriptor >= 0)
        close(file->descriptor);
    sw_arena_free(&file->arena);
    free(file->header);
    free(file->chunk);
    *file = (sw_gguf){.descriptor = -1};
}

static int compare_key(const void *key, const void *value) {
    return strcmp(key, ((const sw_gguf_value *)value)->key);
}

static int compare_name(const void *name, const void *tensor) {
    return strcmp(name, ((const sw_gguf_tensor *)tensor)->name);
}

const sw_gguf_value *sw_gguf_find(const sw_gguf *file, const char *key) {
    return file->n_values ? bsearch(key, file->values, (size_t)file->n_values, sizeof *file->values,
                                    compare_key)
                          : NULL;
}

const sw_gguf_tensor *sw_gguf_find_tensor(const sw_gguf *file, const char *name) {
    return file->n_tensors ? bsearch(name, file->tensors, (size_t)file->n_tensors,
                                     sizeof *file->tensors, compare_name)
                           : NULL;
}

/* ---- elements ---- */

sw_status sw_gguf_read(sw_gguf *file, const sw_gguf_tensor *tensor, int64_t first, int64_t n,
                       float *out, sw_error *err) {
    const sw_gguf_format *format = tensor->format;
    if (first < 0 || n < 0 || first > tensor->n_elements || n > tensor->n_elements - first)
        return sw_fail(err, SW_BUG,
                       "%s: elements %" PRId64 " + %" PRId64
                       " of tensor \"%.200s\", which has %" PRId64,
                       file->path, first, n, tensor->name, tensor->n_elements);
    if (!format->unpack)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: tensor \"%.200s\" is in format %s; F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
                       "Q5_0, Q5_1, Q4_K and Q6_K are read",
                       file->path, tensor->name, format->name);
    int64_t end = first + n, chunk_blocks = CHUNK_BYTES / format->block_bytes;
    for (int64_t block = first / format->block; block * format->block < end;
         block += chunk_blocks) {
        int64_t n_blocks = (end - 1) / format->block + 1 - block;
        n_blocks = n_blocks < chunk_blocks ? n_blocks : chunk_blocks;
        sw_status status = sw_file_read_at(file->descriptor, file->path, file->chunk,
                                           n_blocks * format->block_bytes,
                                           tensor->file_offset + block * format->block_bytes, err);
        if (status != SW_OK)
            return status;
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t begin = (block + b) * format->block; /* element of the tensor */
            const uint8_t *from = file->chunk + b * format->block_bytes;
            if (begin >= first && begin + format->block <= end) {
                format->unpack(from, out + (begin - first));
                continue;
            }
            float whole[LARGEST_BLOCK];
            format->unpack(from, whole);
            for (int64_t i = 0; i < format->block; i++)
                if (begin + i >= first && begin + i < end)
                    out[begin + i - first] = whole[i];
        }
    }
    return SW_OK;
}

/* ---- values ---- */

static const char *type_words(sw_gguf_type type) {
    static const char *const words[SW_GGUF_N_TYPES] = {
        [SW_GGUF_U8] = "an integer",  [SW_GGUF_I8] = "an integer",
        [SW_GGUF_U16] = "an integer", [SW_GGUF_I16] = "an integer",
        [SW_GGUF_U32] = "an integer", [SW_GGUF_I32] = "an integer",
        [SW_GGUF_F32] = "a fraction", [SW_GGUF_BOOL] = "true or false",
        [SW_GGUF_TEXT] = "text",      [SW_GGUF_LIST] = "a list",
        [SW_GGUF_U64] = "an integer", [SW_GGUF_I64] = "an integer",
        [SW_GGUF_F64] = "a fraction",
    };
    return words[type];
}

/* The value of a key, NULL with SW_OK if an optional one is absent. */
static sw_status find(const sw_gguf *file, const char *key, bool is_required,
                      const sw_gguf_value **value, sw_error *err) {
    *value = sw_gguf_find(file, key);
    if (!*value && is_required)
        return sw_fail(err, SW_BAD_FILE, "%s: %s is missing", file->path, key);
    return SW_OK;
}

static sw_status wrong_type(const sw_gguf *file, const sw_gguf_value *value, const char *needed,
                            sw_error *err) {
    return sw_fail(err, SW_BAD_FILE, "%s: %s is %s, %s is needed", file->path, value->key,
                   type_words(value->type), needed);
}

static uint64_t little(const uint8_t *from, int n_bytes) {
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

sw_status sw_gguf_integer(const sw_gguf *file, const char *key, bool is_required, int64_t *value,
                          sw_error *err) {
    const sw_gguf_value *found;
    sw_status status = find(file, key, is_required, &found, err);
    if (!found)
        return status;
    switch (found->type) {
    case SW_GGUF_U8:
        *value = found->at[0];
        return SW_OK;
    case SW_GGUF_I8:
        *value = found->at[0] < 128 ? found->at[0] : found->at[0] - 256;
        return SW_OK;
    case SW_GGUF_U16:
        *value = (int64_t)little(found->at, 2);
        return SW_OK;
    case SW_GGUF_I16:
        *value = (int16_t)little(found->at, 2);
        return SW_OK;
    case SW_GGUF_U32:
        *value = (int64_t)little(found->at, 4);
        return SW_OK;
    case SW_GGUF_I32:
        *value = (int32_t)little(found->at, 4);
        return SW_OK;
    case SW_GGUF_U64:
    case SW_GGUF_I64:
        if (found->type == SW_GGUF_U64 && little(found->at, 8) > INT64_MAX)
            return sw_fail(err, SW_BAD_FILE, "%s: %s is 2^63 or more", file->path, key);
        *value = (int64_t)little(found->at, 8);
        return SW_OK;
    default:
        return wrong_type(file, found, "an integer", err);
    }
}

sw_status sw_gguf_real(const sw_gguf *file, const char *key, bool is_required, double *value,
                       sw_error *err) {
    const sw_gguf_value *found;
    sw_status status = find(file, key, is_required, &found, err);
    if (!found)
        return status;
    if (found->type == SW_GGUF_F32) {
        uint32_t bits = (uint32_t)little(found->at, 4);
        float single;
        memcpy(&single, &bits, sizeof single);
        *value = single;
        return SW_OK;
    }
    if (found->type == SW_GGUF_F64) {
        uint64_t bits = little(found->at, 8);
        memcpy(value, &bits, sizeof *value);
        return SW_OK;
    }
    int64_t whole = 0;
    if (sw_gguf_integer(file, key, true, &whole, NULL) != SW_OK)
        return wrong_type(file, found, "a number", err);
    *value = (double)whole;
    return SW_OK;
}

sw_status sw_gguf_bool(const sw_gguf *file, const char *key, bool is_required, bool *value,
                       sw_error *err) {
    const sw_gguf_value *found;
    sw_status status = find(file, key, is_required, &found, err);
    if (!found)
        return status;
    if (found->type != SW_GGUF_BOOL)
        return wrong_type(file, found, "true or false", err);
    *value = found->at[0] != 0;
    return SW_OK;
}

sw_status sw_gguf_text(sw_gguf *file, const char *key, bool is_required, const char **value,
                       sw_error *err) {
    const sw_gguf_value *found;
    sw_status status = find(file, key, is_required, &found, err);
    if (!found)
        return status;
    if (found->type != SW_GGUF_TEXT)
        return wrong_type(file, found, "text", err);
    const uint8_t *at = found->at;
    int64_t n_bytes;
    const char *text = sw_gguf_next_text(&at, &n_bytes);
    if (memchr(text, 0, (size_t)n_bytes) || !sw_text_is_utf8(text, (size_t)n_bytes))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is not UTF-8 text", file->path, key);
    char *copy = sw_arena_take(&file->arena, (size_t)n_bytes + 1);
    if (!copy)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory for %s", file->path, key);
    memcpy(copy, text, (size_t)n_bytes);
    *value = copy;
    return SW_OK;
}

sw_status sw_gguf_list(const sw_gguf *file, const char *key, bool is_required, sw_gguf_type element,
                       const sw_gguf_value **value, sw_error *err) {
    sw_status status = find(file, key, is_required, value, err);
    if (!*value)
        return status;
    if ((*value)->type != SW_GGUF_LIST)
        return wrong_type(file, *value, "a list", err);
    sw_gguf_type found = (*value)->element;
    if (found != element && !(element == SW_GGUF_I32 && found == SW_GGUF_U32))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is a list of the wrong type: its elements are %s",
                       file->path, key, type_words(found));
    return SW_OK;
}

int32_t sw_gguf_list_integer(const sw_gguf_value *list, int64_t i) {
    return (int32_t)little(list->at + 4 * i, 4);
}

float sw_gguf_list_real(const sw_gguf_value *list, int64_t i) {
    uint32_t bits = (uint32_t)little(list->at + 4 * i, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

const char *sw_gguf_next_text(const uint8_t **at, int64_t *n_bytes) {
    *n_bytes = (int64_t)little(*at, 8);
    const char *text = (const char *)*at + 8;
    *at += 8 + *n_bytes;
    return text;
}
