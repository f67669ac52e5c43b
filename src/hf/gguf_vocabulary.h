/* gguf_vocabulary.h: the tokens of a GGUF file: text, kind, score, by id and by text; and which of
 * them are special. */
#ifndef SW_HF_GGUF_VOCABULARY_H
#define SW_HF_GGUF_VOCABULARY_H

#include "base/token_map.h"
#include "formats/gguf.h"

enum { SW_GGUF_LONGEST_TOKEN = 4096 };

/* The kinds of tokens. */
enum {
    SW_GGUF_NORMAL = 1,
    SW_GGUF_UNKNOWN,
    SW_GGUF_CONTROL,
    SW_GGUF_USER_DEFINED,
    SW_GGUF_UNUSED,
    SW_GGUF_BYTE
};

typedef struct sw_gguf_vocabulary {
    sw_gguf *file;
    int64_t n;
    const char **token; /* [n], in the arena */
    const sw_gguf_value *kinds, *scores;
    bool is_sentence_piece;
    sw_token_map ids;
    char *quoted;                       /* room for any token as JSON */
    int64_t bos, eos, unknown, padding; /* -1: none */
    bool adds_bos, adds_eos, adds_blank;
} sw_gguf_vocabulary;

/* Read and check the lists and ids of a file whose is_sentence_piece and defaults (special ids -1,
 * what is added) are set. Errors: SW_BAD_FILE, naming the key or token. Ownership:
 * sw_gguf_vocabulary_free, also after an error; tokens are the file's.
 */
sw_status sw_gguf_vocabulary_read(sw_gguf_vocabulary *v, sw_error *err);
void sw_gguf_vocabulary_free(sw_gguf_vocabulary *v);

int sw_gguf_token_kind(const sw_gguf_vocabulary *v, int64_t id);

/* The id of the token with these bytes, none of which is a NUL; -1: there is none. */
int32_t sw_gguf_token_id(const sw_gguf_vocabulary *v, const char *text, size_t n);

#endif
