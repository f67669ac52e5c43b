/* pretokenize.h: the chain of pre-tokenizers of a tokenizer.json, made flat: each cuts its pieces
 * and hands them to the next. */
#ifndef SW_TOKENIZER_PRETOKENIZE_H
#define SW_TOKENIZER_PRETOKENIZE_H

#include "tokenizer/pattern.h"

typedef struct sw_pretokenizer sw_pretokenizer;

enum { SW_MAX_PRETOKENIZERS = 32 };

typedef struct sw_pretokenizers {
    sw_pretokenizer *steps;
    int n_steps;
    bool ends_in_bytes; /* the last step writes bytes as characters of the byte alphabet */
    bool leaves_bytes;  /* ... which it leaves to the model: it hands on the bytes themselves */
} sw_pretokenizers;

sw_status sw_pretokenizers_read(const sw_part *root, sw_pretokenizers *pretokenizers,
                                sw_error *err);
void sw_pretokenizers_free(sw_pretokenizers *pretokenizers);

/* Where the pieces go. */
typedef struct sw_piece_sink {
    sw_status (*take)(void *to, const char *text, size_t n_bytes, sw_error *err);
    void *to;
} sw_piece_sink;

/* What one thread needs: for each step a buffer for changed text, one for stand-ins, and one for
 * bytes as characters. */
typedef struct sw_pretokenize_scratch {
    sw_pattern_scratch *pattern;
    sw_bytes texts[SW_MAX_PRETOKENIZERS], copies[SW_MAX_PRETOKENIZERS],
        mapped[SW_MAX_PRETOKENIZERS];
} sw_pretokenize_scratch;

/* Cut text [n_bytes]; `begins_input`: it is the beginning of the whole input (Metaspace asks). */
sw_status sw_pretokenize(const sw_pretokenizers *pretokenizers, sw_pretokenize_scratch *scratch,
                         const char *text, size_t n_bytes, bool begins_input, sw_piece_sink sink,
                         sw_error *err);

#endif
