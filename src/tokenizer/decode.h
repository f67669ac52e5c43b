/* decode.h: the chain of decoders of a tokenizer.json: from the texts of tokens to text. */
#ifndef SW_TOKENIZER_DECODE_H
#define SW_TOKENIZER_DECODE_H

#include "tokenizer/pattern.h"

typedef struct sw_decoder sw_decoder;

typedef struct sw_decoders {
    sw_decoder *steps;
    int n_steps;
} sw_decoders;

sw_status sw_decoders_read(const sw_part *root, sw_decoders *decoders, sw_error *err);
void sw_decoders_free(sw_decoders *decoders);

/* Texts one behind the other: text i ends at ends[i]. */
typedef struct sw_texts {
    sw_bytes bytes;
    size_t *ends;
    size_t n, capacity;
} sw_texts;

/* Close the text that ends with the last of the bytes. Shortage of memory shows in
 * bytes.is_short. */
void sw_texts_close(sw_texts *texts);
void sw_texts_free(sw_texts *texts);

/* Decode the texts of tokens; what comes out, joined, are the bytes of *texts. Without a decoder
 * they are joined by blanks. */
sw_status sw_decoders_run(const sw_decoders *decoders, sw_texts *texts, sw_error *err);

#endif
