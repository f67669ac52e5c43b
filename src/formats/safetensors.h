/* safetensors.h: reading and writing the safetensors format by byte range.
 *
 * A file is: header length (u64, little-endian), header (JSON: name -> dtype, shape, data_offsets),
 * data. The header is checked whole before anything is believed, and nothing is allocated but what
 * the header needs: the list of files that must be accepted and refused, with reasons, is
 * tests/checkpoint/bad-files/verdicts.jsonl.
 */
#ifndef SW_FORMATS_SAFETENSORS_H
#define SW_FORMATS_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_tensor_entry {
    const char *name;
    const char *dtype; /* as the file spells it: "F32", "BF16", "F8_E4M3" ... */
    int dtype_bits;    /* per element: 4 and 6 exist too */
    int n_dimensions;
    const int64_t *dimension;
    int64_t n_elements;
    int64_t file_offset; /* of its first byte, from the start of the file; need not be aligned */
    int64_t n_bytes;
} sw_tensor_entry;

typedef struct sw_safetensors sw_safetensors;

/* Open and check. Errors: SW_BAD_FILE naming file, tensor or key, reason. Ownership:
 * sw_safetensors_close. */
sw_status sw_safetensors_open(const char *path, sw_safetensors **file, sw_error *err);
void sw_safetensors_close(sw_safetensors *file);
const char *sw_safetensors_path(const sw_safetensors *file);
int64_t sw_safetensors_count(const sw_safetensors *file);
const sw_tensor_entry *sw_safetensors_at(const sw_safetensors *file,
                                         int64_t i); /* in order of file_offset */
const sw_tensor_entry *sw_safetensors_find(const sw_safetensors *file, const char *name);

/* The text under a key of the file's __metadata__; NULL: there is none. */
const char *sw_safetensors_metadata(const sw_safetensors *file, const char *key);

/* Can sw_safetensors_read turn the tensor's elements into fp32? (F32, F16, BF16, F64) */
bool sw_safetensors_is_real(const sw_tensor_entry *tensor);

/* Elements first .. first + n - 1 of such a tensor as fp32, by pread; unaligned files are fine.
 * Other dtypes are SW_BAD_FILE. */
sw_status sw_safetensors_read(sw_safetensors *file, const sw_tensor_entry *tensor, int64_t first,
                              int64_t n, float *out, sw_error *err);

/* Bytes first .. first + n - 1 of a tensor of any dtype, as they are. */
sw_status sw_safetensors_read_bytes(sw_safetensors *file, const sw_tensor_entry *tensor,
                                    int64_t first, int64_t n, void *out, sw_error *err);

/* Bytes that this handle has read so far, header included. */
int64_t sw_safetensors_bytes_read(const sw_safetensors *file);

/* ---- writing: the layout of a file is fixed first; then anyone writes its own byte ranges ---- */

typedef struct sw_tensor_plan {
    const char *name;
    const char *dtype; /* "F32", "F16", "BF16" */
    int n_dimensions;
    int64_t dimension[4];
    int64_t file_offset; /* out */
} sw_tensor_plan;

/* The header (8-byte length included, padded with spaces to a multiple of 8) of a file with these
 * tensors in this order, metadata {"format": "pt"} and, unless `base_mark` is NULL,
 * {SW_BASE_MARK_KEY: base_mark}; fills in file_offset. Refuses the name "__metadata__" and repeated
 * names. Ownership: free(*header). */
#define SW_BASE_MARK_KEY \
    "shardwise.base_model" /* of an adapter's file: sw_model_mark of the model that it is for */
sw_status sw_safetensors_plan(sw_tensor_plan *tensors, int64_t n_tensors, const char *base_mark,
                              char **header, int64_t *header_bytes, int64_t *file_bytes,
                              sw_error *err);

#endif
