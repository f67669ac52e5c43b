/* gguf.h: reading the GGUF format (versions 2 and 3, little-endian): metadata, tensors, elements as
 * fp32.
 *
 * A file is: "GGUF", version, counts; metadata (key, type, value); tensors (name, dimensions,
 * format, offset); data, aligned. All of it but the data is checked whole before anything is
 * believed: counts, lengths, offsets, overlaps, repeated names. Format:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
#ifndef SW_FORMATS_GGUF_H
#define SW_FORMATS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shardwise/status.h>

#include "base/arena.h"

/* ---- formats of elements ---- */

typedef struct sw_gguf_format {
    int id; /* in the file */
    const char *name;
    int block, block_bytes; /* elements of a block and its bytes */
    /* One block as fp32, with the arithmetic of the reference: out [block]. NULL: known, not
     * readable here. */
    void (*unpack)(const uint8_t *from, float *out);
} sw_gguf_format;

/* NULL: no format has this number. */
const sw_gguf_format *sw_gguf_format_of(uint32_t id);

/* ---- a file ---- */

typedef enum sw_gguf_type {
    SW_GGUF_U8,
    SW_GGUF_I8,
    SW_GGUF_U16,
    SW_GGUF_I16,
    SW_GGUF_U32,
    SW_GGUF_I32,
    SW_GGUF_F32,
    SW_GGUF_BOOL,
    SW_GGUF_TEXT,
    SW_GGUF_LIST,
    SW_GGUF_U64,
    SW_GGUF_I64,
    SW_GGUF_F64,
    SW_GGUF_N_TYPES
} sw_gguf_type;

typedef struct sw_gguf_value {
    const char *key;
    sw_gguf_type type;
    sw_gguf_type element; /* of a list */
    int64_t n;            /* elements of a list; else 1 */
    const uint8_t *at;    /* the value, or the list's first element */
} sw_gguf_value;

typedef struct sw_gguf_tensor {
    const char *name;
    const sw_gguf_format *format;
    int n_dimensions;
    int64_t dimension[4]; /* the outermost first, as Hugging Face has it; the file has them the
                             other way round */
    int64_t n_elements, n_bytes;
    int64_t file_offset;
} sw_gguf_tensor;

typedef struct sw_gguf {
    const char *path; /* for messages */
    int descriptor;   /* -1: parsed from memory */
    uint8_t *header;  /* what values point into; NULL: the caller's */
    uint8_t *chunk;   /* for reading blocks */
    sw_arena arena;
    int n_values, n_tensors;
    sw_gguf_value *values;   /* in order of key */
    sw_gguf_tensor *tensors; /* in order of name */
    int64_t data_offset;
} sw_gguf;

/* Open and check. Errors: SW_BAD_FILE naming the file, the key or tensor, the reason. Ownership:
 * sw_gguf_close, also after an error. */
sw_status sw_gguf_open(const char *path, sw_gguf *file, sw_error *err);
void sw_gguf_close(sw_gguf *file);

/* The same from the first n_bytes of a file of file_bytes, without the elements; `data` must
 * outlive the file. *is_cut: the header goes on behind n_bytes (then SW_BAD_FILE is returned too).
 * `path` is copied into the arena. */
sw_status sw_gguf_parse(const char *path, const uint8_t *data, int64_t n_bytes, int64_t file_bytes,
                        sw_gguf *file, bool *is_cut, sw_error *err);

const sw_gguf_tensor *sw_gguf_find_tensor(const sw_gguf *file, const char *name);
const sw_gguf_value *sw_gguf_find(const sw_gguf *file, const char *key);

/* Elements first .. first + n - 1 of a tensor as fp32. */
sw_status sw_gguf_read(sw_gguf *file, const sw_gguf_tensor *tensor, int64_t first, int64_t n,
                       float *out, sw_error *err);

/* ---- values; an absent one leaves *value as it is, and is an error if it is required ---- */

sw_status sw_gguf_integer(const sw_gguf *file, const char *key, bool is_required, int64_t *value,
                          sw_error *err);
sw_status sw_gguf_real(const sw_gguf *file, const char *key, bool is_required, double *value,
                       sw_error *err);
sw_status sw_gguf_bool(const sw_gguf *file, const char *key, bool is_required, bool *value,
                       sw_error *err);
/* UTF-8 without a NUL inside. Lives as long as the file. */
sw_status sw_gguf_text(sw_gguf *file, const char *key, bool is_required, const char **value,
                       sw_error *err);
/* A list of this element type (SW_GGUF_I32 takes U32 too); *value NULL where it is absent. */
sw_status sw_gguf_list(const sw_gguf *file, const char *key, bool is_required, sw_gguf_type element,
                       const sw_gguf_value **value, sw_error *err);

/* Element i of a list of 32-bit integers or reals. */
int32_t sw_gguf_list_integer(const sw_gguf_value *list, int64_t i);
float sw_gguf_list_real(const sw_gguf_value *list, int64_t i);

/* The next text of a list: *at starts as list->at. Returns its bytes, which no NUL ends; *n_bytes
 * of them. */
const char *sw_gguf_next_text(const uint8_t **at, int64_t *n_bytes);

#endif
