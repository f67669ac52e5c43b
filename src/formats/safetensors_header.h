/* safetensors_header.h: the parser of a safetensors header, by itself: text in, tensors out, no
 * file. */
#ifndef SW_FORMATS_SAFETENSORS_HEADER_H
#define SW_FORMATS_SAFETENSORS_HEADER_H

#include "formats/safetensors.h"

/* A text under a key of __metadata__. */
typedef struct sw_tensor_note {
    const char *key, *text;
} sw_tensor_note;

typedef struct sw_tensor_list {
    sw_tensor_entry *item; /* [n] in order of file_offset */
    int64_t n, capacity;
    int64_t *by_name; /* [n] indices into item, in order of name */
    int64_t *pool;    /* the dimensions of all tensors, one after the other */
    int64_t pool_used, pool_capacity;
    sw_tensor_note *notes; /* [n_notes] */
    int64_t n_notes, note_capacity;
} sw_tensor_list;

/* Parse and check `header` [header_bytes + 1, the last a NUL] of a file whose data are data_bytes
 * long. Names are unescaped where they stand: the header is changed, and must live as long as the
 * list. Ownership: sw_tensor_list_free, also after an error. */
sw_status sw_tensor_list_parse(const char *path, char *header, int64_t header_bytes,
                               int64_t data_bytes, sw_tensor_list *list, sw_error *err);
void sw_tensor_list_free(sw_tensor_list *list);

#endif
