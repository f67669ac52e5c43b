/* normalize.h: the chain of normalizers of a tokenizer.json, made flat. */
#ifndef SW_TOKENIZER_NORMALIZE_H
#define SW_TOKENIZER_NORMALIZE_H

#include "tokenizer/pattern.h"
#include "tokenizer/precompiled.h"

typedef struct sw_normalizer sw_normalizer;

typedef struct sw_normalizers {
    sw_normalizer *steps;
    int n_steps;
} sw_normalizers;

/* Read the component under "normalizer" of the root; absent: none. Errors: SW_BAD_FILE (it names
 * unknown ones), SW_NO_MEMORY. */
sw_status sw_normalizers_read(const sw_part *root, sw_normalizers *normalizers, sw_error *err);
void sw_normalizers_free(sw_normalizers *normalizers);

/* Normalize text [n_bytes]: *result is the text itself, or lies in one of the two buffers. `copy`
 * is scratch. *keeps_beginning (in and out) becomes false when the first character was removed,
 * or replaced together with others. */
sw_status sw_normalizers_run(const sw_normalizers *normalizers, const sw_pattern_scratch *scratch,
                             sw_bytes buffers[2], sw_bytes *copy, const char *text, size_t n_bytes,
                             const char **result, size_t *n_result, bool *keeps_beginning,
                             sw_error *err);

#endif
