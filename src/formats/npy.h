/* npy.h: where the numbers of a .npy file lie, and what to write before numbers to make one.
 *
 * Read are one-dimensional arrays of uint8, uint16, int32, uint32 or int64 (marks: of bool too),
 * little-endian, C order,
 * of format versions 1.0, 2.0 and 3.0 (numpy.lib.format). A file is a magic string, the version,
 * the length of a header, the header (a Python dict as text: {'descr': '<u2', 'fortran_order':
 * False, 'shape': (1000,), }) and the numbers. Everything else is refused with the reason.
 */
#ifndef SW_FORMATS_NPY_H
#define SW_FORMATS_NPY_H

#include <stdint.h>
#include <string.h>

#include <shardwise/status.h>

#include "base/dtype.h"

#define SW_NPY_MAX_PREFIX \
    65547 /* bytes of magic, version, length and header at most: what version 1.0 can express */

typedef struct sw_npy {
    sw_dtype dtype; /* SW_U8, SW_U16, SW_I32, SW_U32 or SW_I64 */
    int64_t n;      /* elements */
    int64_t first;  /* byte of the file where element 0 lies */
} sw_npy;

/* Read the header from the first n_bytes of a file of file_bytes bytes; n_bytes is file_bytes or
 * SW_NPY_MAX_PREFIX, whichever is less. `name` stands for the file in messages. On success all n
 * elements lie within the file and nothing follows them. Errors: SW_BAD_FILE. */
sw_status sw_npy_parse(const char *name, const uint8_t *bytes, int64_t n_bytes, int64_t file_bytes,
                       sw_npy *npy, sw_error *err);

/* The same of numbers that are 0 and 1, for which bool may stand. */
sw_status sw_npy_parse_marks(const char *name, const uint8_t *bytes, int64_t n_bytes,
                             int64_t file_bytes, sw_npy *npy, sw_error *err);

/* The header of a file of n numbers of one of these types, version 1.0, as numpy writes it but
 * always SW_NPY_HEADER bytes long: it can be written last, when n is known. */
#define SW_NPY_HEADER 128
void sw_npy_header(sw_dtype dtype, int64_t n, char header[SW_NPY_HEADER]);

/* Element i of numbers as they lie in the file, of any dtype above; the pointer need not be
 * aligned. */
static inline int64_t sw_npy_element(sw_dtype dtype, const uint8_t *bytes, int64_t i) {
    switch (dtype) {
    case SW_U8:
        return bytes[i];
    case SW_U16:
        return (int64_t)bytes[2 * i] | (int64_t)bytes[2 * i + 1] << 8;
    case SW_I64: {
        int64_t wide;
        memcpy(&wide, bytes + 8 * i, sizeof wide);
        return wide;
    }
    default: {
        uint32_t word;
        memcpy(&word, bytes + 4 * i, sizeof word);
        return dtype == SW_I32 ? (int64_t)(int32_t)word : (int64_t)word;
    }
    }
}

#endif
