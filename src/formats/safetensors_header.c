/* safetensors_header.c: a header is parsed by a small scanner of its own.
 *
 * A general JSON reader gives away what is asked here: which of two equal keys came first, whether
 * an offset was written as 1 or 1.0, integers beyond 2^63, and memory in proportion to the header.
 * The grammar is small and has no nesting of arbitrary depth:
 *
 *      { "__metadata__": {"key": "text", ...},
 *        "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ... }
 *
 * so the scanner needs no recursion. What it has parsed is then checked as a whole: names differ,
 * and the byte ranges follow one another from 0 to the end of the data without holes or overlaps.
 */
#include "formats/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "formats/scanner.h"

/* The most dimensions that numpy and PyTorch know; it bounds the memory of a hostile header. */
enum { MAX_DIMENSIONS = 64 };

typedef struct dtype_row {
    const char *name;
    int bits;
} dtype_row;

static const dtype_row dtypes[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64}};

static sw_status bad_tensor(const sw_scanner *s, const char *name, const char *reason) {
    return sw_fail(s->err, SW_BAD_FILE, "%s: tensor \"%.200s\": %s", s->path, name, reason);
}

/* `[1, 2, ...]` to the end of the pool. */
static sw_status scan_integers(sw_scanner *s, const char *what, int limit, sw_tensor_list *list,
                               int *n) {
    *n = 0;
    if (!sw_scan_pass(s, '['))
        return sw_scan_fail_about(s, "%s: a list of non-negative integers is needed", what);
    if (sw_scan_pass(s, ']'))
        return SW_OK;
    do {
        if (*n == limit)
            return sw_scan_fail_about(s, "%s: there are too many numbers", what);
        if (list->pool_used == list->pool_capacity) {
            int64_t capacity = list->pool_capacity ? 2 * list->pool_capacity : 64;
            int64_t *pool = realloc(list->pool, (size_t)capacity * sizeof *pool);
            if (!pool)
                return sw_fail(s->err, SW_NO_MEMORY, "%s: no memory for its header", s->path);
            list->pool = pool;
            list->pool_capacity = capacity;
        }
        sw_status status = sw_scan_integer(s, what, &list->pool[list->pool_used]);
        if (status != SW_OK)
            return status;
        list->pool_used++;
        ++*n;
    } while (sw_scan_pass(s, ','));
    return sw_scan_pass(s, ']') ? SW_OK : sw_scan_fail_about(s, "%s: a comma or ] is needed", what);
}

/* Bytes of a tensor by its shape and dtype. Checked in the order of the dimensions: a zero makes
 * what follows harmless. */
static sw_status measure(const sw_scanner *s, sw_tensor_entry *tensor, const int64_t *dimension) {
    int64_t n_elements = 1, n_bits;
    for (int i = 0; i < tensor->n_dimensions; i++)
        if (__builtin_mul_overflow(n_elements, dimension[i], &n_elements))
            return bad_tensor(s, tensor->name, "the shape multiplies to more than 2^63 elements");
    if (__builtin_mul_overflow(n_elements, tensor->dtype_bits, &n_bits))
        return bad_tensor(s, tensor->name,
                          "shape and dtype make more bytes than 64 bits can count");
    if (n_bits % 8)
        return bad_tensor(s, tensor->name, "shape and dtype do not fill whole bytes");
    tensor->n_elements = n_elements;
    tensor->n_bytes = n_bits / 8;
    return SW_OK;
}

/* What is known of a tensor while its description is read. */
typedef struct description {
    bool has_dtype, has_shape, has_offsets;
    int64_t begin, end;
} description;

static sw_status scan_dtype(sw_scanner *s, sw_tensor_entry *tensor) {
    char *dtype;
    sw_status status = sw_scan_string(s, "dtype is not a string", &dtype);
    if (status != SW_OK)
        return status;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtype, dtypes[i].name) == 0) {
            tensor->dtype = dtypes[i].name;
            tensor->dtype_bits = dtypes[i].bits;
            return SW_OK;
        }
    return sw_scan_fail_about(s, "has the unknown dtype \"%.60s\"", dtype);
}

static sw_status scan_offsets(sw_scanner *s, sw_tensor_list *list, description *d) {
    int n;
    sw_status status = scan_integers(s, "data_offsets", 2, list, &n);
    if (status != SW_OK)
        return status;
    list->pool_used -= n;
    if (n != 2)
        return sw_scan_fail(s, "data_offsets are not two numbers");
    d->begin = list->pool[list->pool_used];
    d->end = list->pool[list->pool_used + 1];
    return SW_OK;
}

/* `"field": value` of a description. An unknown field is refused: what it means for the bytes is
 * unknown too. */
static sw_status scan_field(sw_scanner *s, sw_tensor_list *list, sw_tensor_entry *tensor,
                            description *d) {
    char *field;
    sw_status status = sw_scan_string(s, "a field name is needed", &field);
    if (status != SW_OK)
        return status;
    bool *seen = strcmp(field, "dtype") == 0          ? &d->has_dtype
                 : strcmp(field, "shape") == 0        ? &d->has_shape
                 : strcmp(field, "data_offsets") == 0 ? &d->has_offsets
                                                      : NULL;
    if (!seen)
        return sw_scan_fail_about(s, "has the unknown field \"%.60s\"", field);
    if (*seen)
        return sw_scan_fail_about(s, "has the field \"%.60s\" twice", field);
    *seen = true;
    if (!sw_scan_pass(s, ':'))
        return sw_scan_fail(s, "a colon is needed after a field name");
    if (seen == &d->has_dtype)
        return scan_dtype(s, tensor);
    if (seen == &d->has_shape)
        return scan_integers(s, "shape", MAX_DIMENSIONS, list, &tensor->n_dimensions);
    return scan_offsets(s, list, d);
}

/* The object that describes one tensor. Its dimensions are the last of the pool afterwards. */
static sw_status scan_tensor(sw_scanner *s, sw_tensor_list *list, int64_t data_bytes,
                             sw_tensor_entry *tensor) {
    description d = {0};
    sw_status status;
    if (!sw_scan_pass(s, '{'))
        return sw_scan_fail(
            s, "is not described by an object {\"dtype\", \"shape\", \"data_offsets\"}");
    if (!sw_scan_pass(s, '}')) {
        do
            if ((status = scan_field(s, list, tensor, &d)) != SW_OK)
                return status;
        while (sw_scan_pass(s, ','));
        if (!sw_scan_pass(s, '}'))
            return sw_scan_fail(s, s->at == s->end ? "the header ends inside its description"
                                                   : "a comma or } is needed");
    }
    if (!d.has_dtype || !d.has_shape || !d.has_offsets)
        return bad_tensor(s, tensor->name,
                          !d.has_dtype   ? "dtype is missing"
                          : !d.has_shape ? "shape is missing"
                                         : "data_offsets are missing");
    if (d.begin > d.end)
        return bad_tensor(s, tensor->name, "data_offsets begin after their end");
    if ((status = measure(s, tensor, list->pool + list->pool_used - tensor->n_dimensions)) != SW_OK)
        return status;
    if (d.end > data_bytes)
        return sw_fail(s->err, SW_BAD_FILE,
                       "%s: tensor \"%.200s\" ends at byte %" PRId64
                       " of the data, the file has %" PRId64 "; is the download complete?",
                       s->path, tensor->name, d.end, data_bytes);
    if (d.end - d.begin != tensor->n_bytes)
        return sw_fail(s->err, SW_BAD_FILE,
                       "%s: tensor \"%.200s\": shape and dtype %s make %" PRId64
                       " bytes, data_offsets give it %" PRId64,
                       s->path, tensor->name, tensor->dtype, tensor->n_bytes, d.end - d.begin);
    tensor->file_offset = d.begin;
    return SW_OK;
}

static sw_status add_note(const sw_scanner *s, sw_tensor_list *list, const char *key,
                          const char *text) {
    if (list->n_notes == list->note_capacity) {
        int64_t capacity = list->note_capacity ? 2 * list->note_capacity : 8;
        sw_tensor_note *notes = realloc(list->notes, (size_t)capacity * sizeof *notes);
        if (!notes)
            return sw_fail(s->err, SW_NO_MEMORY, "%s: no memory for its header", s->path);
        list->notes = notes;
        list->note_capacity = capacity;
    }
    list->notes[list->n_notes++] = (sw_tensor_note){key, text};
    return SW_OK;
}

static sw_status scan_metadata(sw_scanner *s, sw_tensor_list *list) {
    char *key, *text;
    sw_status status;
    if (!sw_scan_pass(s, '{'))
        return sw_scan_fail(s, "is not an object of texts");
    if (sw_scan_pass(s, '}'))
        return SW_OK;
    do {
        if ((status = sw_scan_string(s, "holds a key that is not a string", &key)) != SW_OK)
            return status;
        if (!sw_scan_pass(s, ':'))
            return sw_scan_fail(s, "a colon is needed after a key");
        if ((status = sw_scan_string(s, "holds a value that is not a string", &text)) != SW_OK ||
            (status = add_note(s, list, key, text)) != SW_OK)
            return status;
    } while (sw_scan_pass(s, ','));
    return sw_scan_pass(s, '}') ? SW_OK : sw_scan_fail(s, "a comma or } is needed");
}

/* `"NAME": description`, to the end of the list. */
static sw_status scan_member(sw_scanner *s, sw_tensor_list *list, int64_t data_bytes,
                             bool *has_metadata) {
    char *name;
    sw_status status = sw_scan_string(s, "needs a tensor's name here", &name);
    if (status != SW_OK)
        return status;
    s->key = name;
    if (!sw_scan_pass(s, ':'))
        return sw_scan_fail(s, "a colon is needed after its name");
    if (strcmp(name, "__metadata__") == 0) {
        if (*has_metadata)
            return sw_scan_fail(s, "is there twice");
        *has_metadata = true;
        status = scan_metadata(s, list);
    } else {
        if (list->n == list->capacity) {
            int64_t capacity = list->capacity ? 2 * list->capacity : 16;
            sw_tensor_entry *item = realloc(list->item, (size_t)capacity * sizeof *item);
            if (!item)
                return sw_fail(s->err, SW_NO_MEMORY, "%s: no memory for its header", s->path);
            list->item = item;
            list->capacity = capacity;
        }
        sw_tensor_entry *tensor = &list->item[list->n];
        *tensor = (sw_tensor_entry){.name = name};
        status = scan_tensor(s, list, data_bytes, tensor);
        list->n++;
    }
    s->key = NULL;
    return status;
}

static int by_range(const void *a, const void *b) {
    const sw_tensor_entry *x = a, *y = b;
    if (x->file_offset != y->file_offset)
        return x->file_offset < y->file_offset ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static int by_name(const void *a, const void *b, void *items) {
    const sw_tensor_entry *item = items;
    return strcmp(item[*(const int64_t *)a].name, item[*(const int64_t *)b].name);
}

/* Names differ; ranges follow one another and leave no byte over. */
static sw_status check_whole(const sw_scanner *s, sw_tensor_list *list, int64_t data_bytes) {
    list->by_name = malloc((size_t)(list->n ? list->n : 1) * sizeof *list->by_name);
    if (!list->by_name)
        return sw_fail(s->err, SW_NO_MEMORY, "%s: no memory for its header", s->path);
    if (list->n > 0)
        qsort(list->item, (size_t)list->n, sizeof *list->item, by_range);
    for (int64_t i = 0; i < list->n; i++)
        list->by_name[i] = i;
    qsort_r(list->by_name, (size_t)list->n, sizeof *list->by_name, by_name, list->item);
    for (int64_t i = 1; i < list->n; i++)
        if (strcmp(list->item[list->by_name[i - 1]].name, list->item[list->by_name[i]].name) == 0)
            return bad_tensor(s, list->item[list->by_name[i]].name, "is there twice");
    int64_t expected = 0;
    for (int64_t i = 0; i < list->n; i++) {
        const sw_tensor_entry *tensor = &list->item[i];
        if (tensor->file_offset < expected)
            return sw_fail(s->err, SW_BAD_FILE,
                           "%s: tensors \"%.200s\" and \"%.200s\" claim the same bytes of the data",
                           s->path, list->item[i - 1].name, tensor->name);
        if (tensor->file_offset > expected)
            return sw_fail(s->err, SW_BAD_FILE,
                           "%s: bytes %" PRId64 " to %" PRId64
                           " of the data, before tensor \"%.200s\", belong to none",
                           s->path, expected, tensor->file_offset - 1, tensor->name);
        expected += tensor->n_bytes;
    }
    if (expected != data_bytes)
        return sw_fail(s->err, SW_BAD_FILE,
                       "%s: the last %" PRId64 " bytes belong to no tensor of the header", s->path,
                       data_bytes - expected);
    return SW_OK;
}

sw_status sw_tensor_list_parse(const char *path, char *header, int64_t header_bytes,
                               int64_t data_bytes, sw_tensor_list *list, sw_error *err) {
    sw_scanner s = {
        .path = path, .text = header, .at = header, .end = header + header_bytes, .err = err};
    bool has_metadata = false;
    sw_status status;
    *list = (sw_tensor_list){0};
    if (header_bytes == 0 || *header != '{')
        return sw_scan_fail(&s, "does not begin with {");
    if (!sw_text_is_utf8(header, (size_t)header_bytes))
        return sw_scan_fail(&s, "holds a name or text that is not UTF-8");
    s.at++;
    if (!sw_scan_pass(&s, '}')) {
        do
            if ((status = scan_member(&s, list, data_bytes, &has_metadata)) != SW_OK)
                return status;
        while (sw_scan_pass(&s, ','));
        if (!sw_scan_pass(&s, '}'))
            return sw_scan_fail(&s, s.at == s.end ? "ends before its closing }"
                                                  : "needs a comma or } here");
    }
    sw_scan_blanks(&s);
    if (s.at != s.end)
        return sw_scan_fail(&s, "has something after its closing } that is not a blank");
    /* Only now does the pool stay where it is. */
    const int64_t *dimension = list->pool;
    for (int64_t i = 0; i < list->n; i++) {
        list->item[i].dimension = dimension;
        dimension += list->item[i].n_dimensions;
    }
    return check_whole(&s, list, data_bytes);
}

void sw_tensor_list_free(sw_tensor_list *list) {
    free(list->item);
    free(list->by_name);
    free(list->pool);
    free(list->notes);
    *list = (sw_tensor_list){0};
}
