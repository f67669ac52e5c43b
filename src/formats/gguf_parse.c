/* gguf_parse.c: the header of a GGUF file: every length and offset is checked against the bytes
 * there are before it is used. */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "formats/gguf.h"

typedef struct cursor {
    sw_gguf *file;
    const uint8_t *start, *at, *end;
    int64_t file_bytes;
    const char *what; /* the key or tensor that is read, NULL before the first */
    bool *is_cut;
    sw_error *err;
} cursor;

static sw_status refuse(const cursor *c, const char *reason) {
    int64_t byte = c->at - c->start;
    if (c->what)
        return sw_fail(c->err, SW_BAD_FILE, "%s: \"%.200s\": %s (byte %" PRId64 ")", c->file->path,
                       c->what, reason, byte);
    return sw_fail(c->err, SW_BAD_FILE, "%s: %s (byte %" PRId64 ")", c->file->path, reason, byte);
}

/* Are n more bytes there? If not, either more of the file must be read, or the file is cut. */
static sw_status need(const cursor *c, uint64_t n) {
    if (n <= (uint64_t)(c->end - c->at))
        return SW_OK;
    /* Only what the file could hold is worth reading on for. */
    *c->is_cut = n <= (uint64_t)(c->file_bytes - (c->at - c->start));
    return refuse(c, "goes on beyond the end of the file; is the download complete?");
}

static uint64_t little(const uint8_t *from, int n_bytes) {
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static sw_status take(cursor *c, int n_bytes, uint64_t *value) {
    sw_status status = need(c, (uint64_t)n_bytes);
    if (status != SW_OK)
        return status;
    *value = little(c->at, n_bytes);
    c->at += n_bytes;
    return SW_OK;
}

/* A length and so many bytes, which are passed over. */
static sw_status take_text(cursor *c, const char **text, uint64_t *n_bytes) {
    sw_status status = take(c, 8, n_bytes);
    if (status == SW_OK)
        status = need(c, *n_bytes);
    if (status != SW_OK)
        return status;
    *text = (const char *)c->at;
    c->at += *n_bytes;
    return SW_OK;
}

/* A name: text that is not empty, not absurdly long, UTF-8 and free of NULs; copied. */
static sw_status take_name(cursor *c, const char **name) {
    enum { LONGEST = 65535 };
    const char *text;
    uint64_t n;
    c->what = NULL;
    sw_status status = take_text(c, &text, &n);
    if (status != SW_OK)
        return status;
    if (n == 0 || n > LONGEST || memchr(text, 0, n) || !sw_text_is_utf8(text, n))
        return refuse(c, "a name is empty, too long, or not UTF-8; is it a GGUF file?");
    char *copy = sw_arena_take(&c->file->arena, n + 1);
    if (!copy)
        return sw_fail(c->err, SW_NO_MEMORY, "%s: no memory for its names", c->file->path);
    memcpy(copy, text, n);
    *name = c->what = copy;
    return SW_OK;
}

/* ---- metadata ---- */

/* Bytes of a value of fixed size, 0 for texts and lists. */
static int type_bytes(uint64_t type) {
    static const int bytes[SW_GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[type];
}

static sw_status pass_over_list(cursor *c, sw_gguf_value *value) {
    uint64_t element, n;
    sw_status status = take(c, 4, &element);
    if (status == SW_OK)
        status = take(c, 8, &n);
    if (status != SW_OK)
        return status;
    if (element >= SW_GGUF_N_TYPES || element == SW_GGUF_LIST)
        return refuse(c, element == SW_GGUF_LIST ? "is a list of lists, which are not read"
                                                 : "is a list of an unknown type");
    int size = type_bytes(element);
    uint64_t bytes;
    if (__builtin_mul_overflow(n, (uint64_t)(size ? size : 8), &bytes) || bytes > INT64_MAX)
        return refuse(c, "is a list with more elements than a file can have");
    value->element = (sw_gguf_type)element;
    value->n = (int64_t)n;
    value->at = c->at;
    if ((status = need(c, bytes)) != SW_OK)
        return status;
    if (size) {
        c->at += bytes;
        return SW_OK;
    }
    for (uint64_t i = 0; i < n && status == SW_OK; i++) {
        const char *text;
        uint64_t n_bytes;
        status = take_text(c, &text, &n_bytes);
    }
    return status;
}

static sw_status take_value(cursor *c, sw_gguf_value *value) {
    uint64_t type;
    sw_status status = take_name(c, &value->key);
    if (status == SW_OK)
        status = take(c, 4, &type);
    if (status != SW_OK)
        return status;
    if (type >= SW_GGUF_N_TYPES)
        return refuse(c, "has a value of an unknown type");
    value->type = (sw_gguf_type)type;
    if (type == SW_GGUF_LIST)
        return pass_over_list(c, value);
    value->n = 1;
    value->at = c->at;
    if (type == SW_GGUF_TEXT) {
        const char *text;
        uint64_t n_bytes;
        return take_text(c, &text, &n_bytes);
    }
    if ((status = need(c, (uint64_t)type_bytes(type))) != SW_OK)
        return status;
    if (type == SW_GGUF_BOOL && *c->at > 1)
        return refuse(c, "is neither true nor false");
    c->at += type_bytes(type);
    return SW_OK;
}

/* ---- tensors ---- */

static sw_status take_tensor(cursor *c, sw_gguf_tensor *tensor) {
    uint64_t n_dimensions, id, offset, dimension;
    sw_status status = take_name(c, &tensor->name);
    if (status == SW_OK)
        status = take(c, 4, &n_dimensions);
    if (status != SW_OK)
        return status;
    if (n_dimensions > 4)
        return refuse(c, "has more than 4 dimensions");
    tensor->n_dimensions = (int)n_dimensions;
    tensor->n_elements = 1;
    for (int i = tensor->n_dimensions - 1; i >= 0; i--) {
        if ((status = take(c, 8, &dimension)) != SW_OK)
            return status;
        if (dimension > INT64_MAX ||
            __builtin_mul_overflow(tensor->n_elements, (int64_t)dimension, &tensor->n_elements))
            return refuse(c, "has more elements than 63 bits can count");
        tensor->dimension[i] = (int64_t)dimension;
    }
    if ((status = take(c, 4, &id)) != SW_OK || (status = take(c, 8, &offset)) != SW_OK)
        return status;
    tensor->format = sw_gguf_format_of((uint32_t)id);
    if (!tensor->format)
        return sw_fail(c->err, SW_BAD_FILE, "%s: \"%.200s\": element format %" PRIu64 " is unknown",
                       c->file->path, c->what, id);
    const sw_gguf_format *format = tensor->format;
    int64_t row = tensor->n_dimensions ? tensor->dimension[tensor->n_dimensions - 1] : 1;
    if (row % format->block != 0)
        return sw_fail(c->err, SW_BAD_FILE,
                       "%s: \"%.200s\": rows of %" PRId64
                       " elements are no whole blocks of %s (%d)",
                       c->file->path, c->what, row, format->name, format->block);
    if (__builtin_mul_overflow(tensor->n_elements / format->block, (int64_t)format->block_bytes,
                               &tensor->n_bytes))
        return refuse(c, "has more bytes than 63 bits can count");
    if (offset > INT64_MAX)
        return refuse(c, "its data lie beyond the end of the file; is the download complete?");
    tensor->file_offset = (int64_t)offset; /* of the data, whose start is known later */
    return SW_OK;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const sw_gguf_value *)a)->key, ((const sw_gguf_value *)b)->key);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sw_gguf_tensor *)a)->name, ((const sw_gguf_tensor *)b)->name);
}

static int by_range(const void *a, const void *b) {
    const sw_gguf_tensor *x = *(const sw_gguf_tensor *const *)a,
                         *y = *(const sw_gguf_tensor *const *)b;
    if (x->file_offset != y->file_offset)
        return x->file_offset < y->file_offset ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

/* The power of two that offsets are multiples of. */
static sw_status read_alignment(const cursor *c, int64_t *alignment) {
    *alignment = 32;
    sw_status status = sw_gguf_integer(c->file, "general.alignment", false, alignment, c->err);
    if (status == SW_OK &&
        (*alignment < 1 || *alignment > 1 << 20 || (*alignment & (*alignment - 1))))
        return sw_fail(c->err, SW_BAD_FILE,
                       "%s: general.alignment is %" PRId64 ", a power of two up to 2^20 is needed",
                       c->file->path, *alignment);
    return status;
}

/* Data begin at the next multiple behind the header; each tensor lies at a multiple, in the file,
 * and by itself. */
static sw_status place_tensors(cursor *c, int64_t alignment) {
    sw_gguf *file = c->file;
    int64_t header_bytes = c->at - c->start;
    file->data_offset = (header_bytes + alignment - 1) / alignment * alignment;
    const sw_gguf_tensor **in_order = malloc(((size_t)file->n_tensors + 1) * sizeof *in_order);
    if (!in_order)
        return sw_fail(c->err, SW_NO_MEMORY, "%s: no memory for its tensors", file->path);
    sw_status status = SW_OK;
    for (int t = 0; t < file->n_tensors && status == SW_OK; t++) {
        sw_gguf_tensor *tensor = &file->tensors[t];
        in_order[t] = tensor;
        c->what = tensor->name;
        int64_t end;
        if (tensor->file_offset % alignment)
            status = sw_fail(c->err, SW_BAD_FILE,
                             "%s: \"%.200s\": its data lie at %" PRId64 ", no multiple of %" PRId64,
                             file->path, tensor->name, tensor->file_offset, alignment);
        else if (__builtin_add_overflow(tensor->file_offset, file->data_offset,
                                        &tensor->file_offset) ||
                 __builtin_add_overflow(tensor->file_offset, tensor->n_bytes, &end) ||
                 end > c->file_bytes)
            status = sw_fail(c->err, SW_BAD_FILE,
                             "%s: \"%.200s\": its data lie beyond the end of the file; is the "
                             "download complete?",
                             file->path, tensor->name);
    }
    if (status == SW_OK && file->n_tensors > 0)
        qsort(in_order, (size_t)file->n_tensors, sizeof *in_order, by_range);
    for (int t = 1; t < file->n_tensors && status == SW_OK; t++)
        if (in_order[t - 1]->file_offset + in_order[t - 1]->n_bytes > in_order[t]->file_offset)
            status = sw_fail(c->err, SW_BAD_FILE,
                             "%s: tensors \"%.200s\" and \"%.200s\" claim the same bytes",
                             file->path, in_order[t - 1]->name, in_order[t]->name);
    free(in_order);
    return status;
}

static sw_status check_names(const cursor *c) {
    const sw_gguf *file = c->file;
    for (int i = 1; i < file->n_values; i++)
        if (strcmp(file->values[i - 1].key, file->values[i].key) == 0)
            return sw_fail(c->err, SW_BAD_FILE, "%s: \"%.200s\" is there twice", file->path,
                           file->values[i].key);
    for (int i = 1; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return sw_fail(c->err, SW_BAD_FILE, "%s: tensor \"%.200s\" is there twice", file->path,
                           file->tensors[i].name);
    return SW_OK;
}

static sw_status take_version(cursor *c) {
    uint64_t version;
    sw_status status = need(c, 4);
    if (status != SW_OK)
        return status;
    if (memcmp(c->at, "GGUF", 4) != 0)
        return refuse(c, "does not begin with GGUF; is it the right file?");
    c->at += 4;
    if ((status = take(c, 4, &version)) != SW_OK || version == 2 || version == 3)
        return status;
    if (version == 0x02000000 || version == 0x03000000)
        return refuse(c, "is big-endian, which is not read; convert it where it was made");
    return sw_fail(c->err, SW_BAD_FILE,
                   "%s: is of GGUF version %" PRIu64 "; versions 2 and 3 are read", c->file->path,
                   version);
}

/* How many there are; each takes some bytes of the file, so a count beyond that is a lie. */
static sw_status take_count(cursor *c, int least_bytes, int *n) {
    uint64_t count;
    sw_status status = take(c, 8, &count);
    if (status != SW_OK)
        return status;
    if (count > (uint64_t)(c->file_bytes / least_bytes) || count > INT_MAX / 2)
        return refuse(
            c,
            "counts more tensors or values than the file has room for; is the download complete?");
    *n = (int)count;
    return SW_OK;
}

sw_status sw_gguf_parse(const char *path, const uint8_t *data, int64_t n_bytes, int64_t file_bytes,
                        sw_gguf *file, bool *is_cut, sw_error *err) {
    int n_tensors = 0, n_values = 0, capacity = 0;
    *file = (sw_gguf){.descriptor = -1};
    *is_cut = false;
    file->path = sw_arena_text(&file->arena, path);
    if (!file->path)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", path);
    cursor c = {.file = file,
                .start = data,
                .at = data,
                .end = data + n_bytes,
                .file_bytes = file_bytes,
                .is_cut = is_cut,
                .err = err};
    sw_status status = take_version(&c);
    if (status == SW_OK)
        status = take_count(&c, 24, &n_tensors);
    if (status == SW_OK)
        status = take_count(&c, 13, &n_values);
    for (int i = 0; i < n_values && status == SW_OK; i++) {
        sw_gguf_value *more = sw_arena_grow(&file->arena, file->values, i, &capacity, sizeof *more);
        if (!more)
            return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its metadata", path);
        file->values = more;
        more[i] = (sw_gguf_value){0};
        if ((status = take_value(&c, &more[i])) == SW_OK)
            file->n_values++;
    }
    if (file->n_values > 0)
        qsort(file->values, (size_t)file->n_values, sizeof *file->values, by_key);
    capacity = 0;
    for (int i = 0; i < n_tensors && status == SW_OK; i++) {
        sw_gguf_tensor *more =
            sw_arena_grow(&file->arena, file->tensors, i, &capacity, sizeof *more);
        if (!more)
            return sw_fail(err, SW_NO_MEMORY, "%s: no memory for its tensors", path);
        file->tensors = more;
        more[i] = (sw_gguf_tensor){0};
        if ((status = take_tensor(&c, &more[i])) == SW_OK)
            file->n_tensors++;
    }
    if (file->n_tensors > 0)
        qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, by_name);
    int64_t alignment;
    if (status == SW_OK)
        status = check_names(&c);
    if (status == SW_OK)
        status = read_alignment(&c, &alignment);
    if (status == SW_OK)
        status = place_tensors(&c, alignment);
    return status;
}
