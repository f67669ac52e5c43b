/* gguf_write.h: the metadata of a GGUF file, value by value, and a folder's tokenizer among
 * them. */
#ifndef SW_FORMATS_GGUF_WRITE_H
#define SW_FORMATS_GGUF_WRITE_H

#include <stdio.h>

#include "formats/gguf.h"

/* Writing goes on whatever happens; the caller looks at ferror(out) in the end. */
typedef struct sw_gguf_writer {
    FILE *out;
    uint64_t n_values;
} sw_gguf_writer;

/* Plain numbers and texts, little-endian. */
void sw_gguf_put_32(FILE *out, uint32_t value);
void sw_gguf_put_64(FILE *out, uint64_t value);
void sw_gguf_put_text(FILE *out, const char *text);

/* A key and its value. */
void sw_gguf_write_integer(sw_gguf_writer *w, const char *key, uint32_t value);
void sw_gguf_write_real(sw_gguf_writer *w, const char *key, float value);
void sw_gguf_write_bool(sw_gguf_writer *w, const char *key, bool value);
void sw_gguf_write_text(sw_gguf_writer *w, const char *key, const char *value);
/* The start of a list of n elements, which the caller puts behind it. */
void sw_gguf_write_list(sw_gguf_writer *w, const char *key, sw_gguf_type element, uint64_t n);

/* Tokens, kinds, merges or scores, special ids and chat template of a Hugging Face folder whose
 * model knows `vocabulary` ids. A folder without tokenizer.json has none; a tokenizer that GGUF has
 * no name for is SW_BAD_FILE, by name. */
sw_status sw_gguf_write_tokenizer(sw_gguf_writer *w, const char *folder, int64_t vocabulary,
                                  sw_error *err);

#endif
