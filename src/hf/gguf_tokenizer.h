/* gguf_tokenizer.h: the tokenizer in a GGUF file's metadata, as the files that Hugging Face keeps
 * it in. */
#ifndef SW_HF_GGUF_TOKENIZER_H
#define SW_HF_GGUF_TOKENIZER_H

#include "formats/gguf.h"

/* Texts of the files; NULL: there is none. */
typedef struct sw_gguf_tokenizer_files {
    char *tokenizer, *tokenizer_config, *chat_template, *generation_config;
} sw_gguf_tokenizer_files;

/* Models `gpt2` (byte-level BPE, by the name of its pre-tokenizer) and `llama` (SentencePiece BPE,
 * whose scores become merges); another one is refused by name. A file without a tokenizer has no
 * texts. Ownership: sw_gguf_tokenizer_files_free, also after an error. */
sw_status sw_gguf_tokenizer(sw_gguf *file, sw_gguf_tokenizer_files *files, sw_error *err);
void sw_gguf_tokenizer_files_free(sw_gguf_tokenizer_files *files);

/* How text is split before BPE, by the name that GGUF gives it: parts of a tokenizer.json as JSON
 * text. */
typedef struct sw_gguf_split {
    const char *name;
    const char *normalizer, *pre_tokenizer;
    bool ignores_merges,
        adds_bos; /* a word that is a token stays whole; whether the file says so or not */
} sw_gguf_split;

/* The i-th, NULL when there are no more; several names may mean the same, and the first one is
 * written. */
const sw_gguf_split *sw_gguf_split_at(int i);

/* SentencePiece's normalizers in a tokenizer.json: blanks are made visible (U+2581), with one more
 * put before the text or not. */
#define SW_GGUF_BLANK "\"\xe2\x96\x81\""
#define SW_GGUF_BLANKS \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":" SW_GGUF_BLANK "}"
#define SW_GGUF_BLANKS_AND_PREFIX                                                              \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":" SW_GGUF_BLANK \
    "}," SW_GGUF_BLANKS "]}"

#endif
