/* postprocess.h: what a tokenizer.json puts before and after the ids of a text. */
#ifndef SW_TOKENIZER_POSTPROCESS_H
#define SW_TOKENIZER_POSTPROCESS_H

#include "tokenizer/fields.h"
#include "tokenizer/token_list.h"

typedef struct sw_postprocessor {
    sw_token_list before, after;
} sw_postprocessor;

/* Read "post_processor" of the root. */
sw_status sw_postprocessor_read(const sw_part *root, sw_postprocessor *processor, sw_error *err);
void sw_postprocessor_free(sw_postprocessor *processor);

#endif
