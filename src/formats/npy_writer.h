/* npy_writer.h: a one-dimensional .npy file that grows: its header is written last, and the file
 * gets its name once whole. */
#ifndef SW_FORMATS_NPY_WRITER_H
#define SW_FORMATS_NPY_WRITER_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/file.h"

typedef struct sw_npy_writer {
    const char *path; /* NULL: none is written */
    char partial[SW_PATH_BYTES];
    int descriptor;
    sw_dtype dtype;
    int64_t n, element_bytes;
    uint8_t *buffer; /* numbers that are not written yet */
    int64_t n_buffered;
} sw_npy_writer;

/* Numbers of whole bytes: SW_U8, SW_U16, SW_I32, SW_U32 or SW_I64. `path` (NULL: nothing is
 * written, and the others do nothing) stays the caller's. Ownership: sw_npy_close, also after an
 * error. Errors: SW_BAD_CONFIG (the name), SW_NO_SPACE, SW_NO_MEMORY.
 */
sw_status sw_npy_open(sw_npy_writer *writer, const char *path, sw_dtype dtype, sw_error *err);

/* One number more. Errors: SW_NO_SPACE. */
sw_status sw_npy_put(sw_npy_writer *writer, int64_t number, sw_error *err);

/* Write the header and all to disk: nothing that needs space is left to do. Errors: SW_NO_SPACE. */
sw_status sw_npy_finish(sw_npy_writer *writer, sw_error *err);

/* Give the finished file its name. Errors: SW_NO_SPACE. */
sw_status sw_npy_publish(sw_npy_writer *writer, sw_error *err);

/* Throw away what has no name yet. */
void sw_npy_close(sw_npy_writer *writer);

#endif
