/* internal.h: what a tokenizer and a scratch are made of. */
#ifndef SW_TOKENIZER_INTERNAL_H
#define SW_TOKENIZER_INTERNAL_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/decode.h"
#include "tokenizer/model.h"
#include "tokenizer/normalize.h"
#include "tokenizer/postprocess.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

struct sw_tokenizer {
    sw_normalizers normalizers;
    sw_pretokenizers pretokenizers;
    sw_model model;
    sw_added_tokens added;
    sw_postprocessor postprocessor;
    sw_decoders decoders;
    int32_t bos_id, eos_id;
};

struct sw_tokenizer_scratch {
    sw_pattern_scratch pattern;
    sw_bytes normalized[2], copy;
    sw_pretokenize_scratch pretokenize;
    sw_model_scratch model;
};

/* A folder of GPT-2's time: vocab.json and merges.txt and no tokenizer.json. Reading gives the text
 * of the tokenizer.json that means the same. Ownership: free(*text). */
bool sw_gpt2_files_exist(const char *folder);
sw_status sw_gpt2_files_read(const char *folder, char **text, int64_t *n_bytes, sw_error *err);

#endif
