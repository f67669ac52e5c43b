/* precompiled.h: SentencePiece's compiled map of characters: a double array from byte strings to
 * replacements.
 *
 * The blob is the number of bytes of the array (little-endian, 4 bytes), the array's 32-bit units,
 * and the replacements, each ended by a NUL. A unit holds a label, an offset to its children and
 * whether a value follows (Yata's darts-clone).
 */
#ifndef SW_TOKENIZER_PRECOMPILED_H
#define SW_TOKENIZER_PRECOMPILED_H

#include "tokenizer/pattern.h"

typedef struct sw_precompiled {
    uint32_t *units;
    size_t n_units;
    char *replacements; /* NUL-terminated */
    size_t n_replacement_bytes;
    sw_pattern grapheme; /* \X */
} sw_precompiled;

/* From the base64 text of a component's "precompiled_charsmap". */
sw_status sw_precompiled_read(const sw_part *part, sw_precompiled *map, sw_error *err);
void sw_precompiled_free(sw_precompiled *map);

/* Append the text [n_bytes] with its replacements made. `copy` is scratch. */
sw_status sw_precompiled_append(const sw_precompiled *map, const sw_pattern_scratch *scratch,
                                sw_bytes *copy, const char *text, size_t n_bytes, sw_bytes *out,
                                sw_error *err);

#endif
