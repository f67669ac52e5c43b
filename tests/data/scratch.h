/* scratch.h: small files in a folder that lives as long as one test. */
#ifndef TESTS_DATA_SCRATCH_H
#define TESTS_DATA_SCRATCH_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "support/folder.h"

#define SCRATCH_PATHS 8

typedef struct scratch {
    char folder[64];
    char path[SCRATCH_PATHS][160];
    int n_paths;
} scratch;

static inline int make_scratch(void **state) {
    scratch *made = calloc(1, sizeof *made);
    *state = made;
    return folder_make(made->folder) ? 0 : -1;
}

static inline int remove_scratch(void **state) {
    scratch *made = *state;
    int result = folder_remove(made->folder);
    free(made);
    return result;
}

/* The path of `name` in the folder; at most SCRATCH_PATHS are kept at a time. */
static inline const char *scratch_path(scratch *s, const char *name) {
    char *path = s->path[s->n_paths++ % SCRATCH_PATHS];
    assert_true(strlen(s->folder) + strlen(name) + 2 <= sizeof s->path[0]);
    stpcpy(stpcpy(stpcpy(path, s->folder), "/"), name);
    return path;
}

static inline const char *write_bytes(scratch *s, const char *name, const void *bytes, size_t n) {
    const char *path = scratch_path(s, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *write_text(scratch *s, const char *name, const char *text) {
    return write_bytes(s, name, text, strlen(text));
}

/* The bytes of a .npy header as numpy writes it: padded with spaces so that the numbers begin at a
 * multiple of 64. */
static inline size_t npy_header(uint8_t *into, int major, const char *dict) {
    size_t first = major == 1 ? 10 : 12, length = (first + strlen(dict) + 1 + 63) / 64 * 64 - first;
    memcpy(into, "\x93NUMPY", 6);
    into[6] = (uint8_t)major, into[7] = 0;
    for (size_t i = 0; i < first - 8; i++)
        into[8 + i] = (uint8_t)(length >> (8 * i));
    memset(into + first, ' ', length);
    memcpy(into + first, dict, strlen(dict));
    into[first + length - 1] = '\n';
    return first + length;
}

/* A file of n integers of `dtype`. */
static inline const char *write_npy(scratch *s, const char *name, sw_dtype dtype,
                                    const int64_t *numbers, int64_t n) {
    const char *descr = dtype == SW_U8    ? "|u1"
                        : dtype == SW_U16 ? "<u2"
                        : dtype == SW_I32 ? "<i4"
                        : dtype == SW_U32 ? "<u4"
                                          : "<i8";
    char dict[128];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,), }",
             descr, (long long)n);
    size_t width = (size_t)sw_dtype_bytes(dtype);
    uint8_t *bytes = calloc(1, 256 + (size_t)n * width);
    size_t first = npy_header(bytes, 1, dict);
    for (int64_t i = 0; i < n; i++)
        memcpy(bytes + first + (size_t)i * width, &numbers[i], width); /* little-endian */
    const char *path = write_bytes(s, name, bytes, first + (size_t)n * width);
    free(bytes);
    return path;
}

#endif
