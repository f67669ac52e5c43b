/* safetensors_plan.c: the header of a file to be written, from which every byte's place follows. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "formats/safetensors.h"

static int64_t bytes_of_dtype(const char *dtype) {
    return strcmp(dtype, "F32") == 0                                 ? 4
           : strcmp(dtype, "F16") == 0 || strcmp(dtype, "BF16") == 0 ? 2
                                                                     : 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names are UTF-8, differ, and none is the reserved one: a file with it could be read by nobody. */
static sw_status check_names(const sw_tensor_plan *tensors, int64_t n_tensors, sw_error *err) {
    const char **names = malloc((size_t)(n_tensors ? n_tensors : 1) * sizeof *names);
    if (!names)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the names of %" PRId64 " tensors",
                       n_tensors);
    sw_status status = SW_OK;
    for (int64_t i = 0; i < n_tensors && status == SW_OK; i++) {
        names[i] = tensors[i].name;
        if (strcmp(names[i], "__metadata__") == 0)
            status = sw_fail(err, SW_BAD_CONFIG,
                             "a parameter is called \"__metadata__\", which safetensors files "
                             "reserve; rename it");
        else if (!sw_text_is_utf8(names[i], strlen(names[i])))
            status = sw_fail(err, SW_BAD_CONFIG,
                             "the name of parameter %" PRId64 " is not UTF-8; rename it", i);
    }
    if (status == SW_OK)
        qsort(names, (size_t)n_tensors, sizeof *names, by_text);
    for (int64_t i = 1; i < n_tensors && status == SW_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = sw_fail(err, SW_BAD_CONFIG, "two parameters are called \"%.200s\"; rename one",
                             names[i]);
    free(names);
    return status;
}

/* Bytes of one tensor; -1 if they do not fit into 63 bits. */
static int64_t tensor_bytes(const sw_tensor_plan *tensor) {
    int64_t bytes = bytes_of_dtype(tensor->dtype);
    for (int i = 0; i < tensor->n_dimensions; i++)
        if (tensor->dimension[i] < 0 || __builtin_mul_overflow(bytes, tensor->dimension[i], &bytes))
            return -1;
    return bytes;
}

sw_status sw_safetensors_plan(sw_tensor_plan *tensors, int64_t n_tensors, const char *base_mark,
                              char **header, int64_t *header_bytes, int64_t *file_bytes,
                              sw_error *err) {
    sw_status status = check_names(tensors, n_tensors, err);
    if (status != SW_OK)
        return status;
    static const char metadata[] = "{\"__metadata__\":{\"format\":\"pt\"",
                      mark_key[] = ",\"" SW_BASE_MARK_KEY "\":";
    size_t capacity = 8 + sizeof metadata + 16; /* length, braces, padding */
    capacity += base_mark ? sizeof mark_key + 6 * strlen(base_mark) + 3 : 0;
    for (int64_t i = 0; i < n_tensors; i++)
        capacity += 6 * strlen(tensors[i].name) +
                    256; /* a quoted name, and fields with 6 numbers of up to 20 digits */
    char *text = malloc(capacity);
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the header of %" PRId64 " tensors",
                       n_tensors);
    char *to = text + 8;
    to += sprintf(to, "%s%s", metadata, base_mark ? mark_key : "");
    to += base_mark ? sw_json_quote(base_mark, to) : 0;
    *to++ = '}';
    int64_t data_bytes = 0;
    for (int64_t i = 0; i < n_tensors; i++) {
        sw_tensor_plan *tensor = &tensors[i];
        int64_t begin = data_bytes, bytes = tensor_bytes(tensor);
        if (bytes < 0 || __builtin_add_overflow(data_bytes, bytes, &data_bytes) ||
            data_bytes > INT64_MAX / 2) {
            free(text);
            return sw_fail(
                err, SW_BAD_CONFIG,
                "parameter \"%.200s\": the file would have more bytes than 64 bits can count",
                tensor->name);
        }
        *to++ = ',';
        to += sw_json_quote(tensor->name, to);
        to += sprintf(to, ":{\"dtype\":\"%s\",\"shape\":[", tensor->dtype);
        for (int k = 0; k < tensor->n_dimensions; k++)
            to += sprintf(to, "%s%" PRId64, k ? "," : "", tensor->dimension[k]);
        to += sprintf(to, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", begin, data_bytes);
        tensor->file_offset = begin;
    }
    *to++ = '}';
    while ((to - text) % 8)
        *to++ = ' ';
    uint64_t length = htole64((uint64_t)(to - text - 8));
    memcpy(text, &length, sizeof length);
    *header = text;
    *header_bytes = to - text;
    *file_bytes = *header_bytes + data_bytes;
    for (int64_t i = 0; i < n_tensors; i++)
        tensors[i].file_offset += *header_bytes;
    return SW_OK;
}
