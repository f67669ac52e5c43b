/* streamed_text.h: what one prompt has become so far: tokens in, text out, up to the first stop
 * text. */
#ifndef SW_INFER_STREAMED_TEXT_H
#define SW_INFER_STREAMED_TEXT_H

#include "infer/generate.h"
#include "tokenizer/tokenizer.h"

/* Bytes that grow; starts as {0}. */
typedef struct sw_bytes {
    char *item;
    size_t n, capacity;
} sw_bytes;

typedef struct sw_streamed_text {
    const sw_generate_options *options;
    int64_t number, n_prompt_tokens;
    sw_token_stream *stream; /* NULL: ids alone */
    sw_bytes held;           /* may turn out to be the beginning of a stop text */
    sw_bytes ready;          /* to be shown, when it is this text's turn */
    int64_t n_tokens;        /* produced */
    bool has_begun, is_over, has_slid;
    sw_text_end end;
} sw_streamed_text;

/* `number`: for the sink. tokenizer may be NULL. Ownership: sw_streamed_text_free. */
sw_status sw_streamed_text_create(const sw_generate_options *options, int64_t number,
                                  int64_t n_prompt_tokens, const sw_tokenizer *tokenizer,
                                  sw_streamed_text *text, sw_error *err);
void sw_streamed_text_free(sw_streamed_text *text);

/* One token more; `ends_text`: it is a token of the model that ends a text, and is not shown. Sets
 * is_over when the text is. */
sw_status sw_streamed_text_push(sw_streamed_text *text, int32_t id, bool ends_text, sw_error *err);

/* It ends for a reason from outside. */
sw_status sw_streamed_text_finish(sw_streamed_text *text, sw_text_end end, sw_error *err);

/* Hand to the sink what is ready. */
sw_status sw_streamed_text_show(sw_streamed_text *text, sw_error *err);

#endif
