/* model.h: the model of a tokenizer.json: from a piece of text to ids.
 *
 * Three kinds, one file each: BPE merges pairs by rank, WordPiece takes the longest match, Unigram
 * the likeliest path. All share the vocabulary and, per thread, a cache of short pieces: text
 * repeats its words.
 */
#ifndef SW_TOKENIZER_MODEL_H
#define SW_TOKENIZER_MODEL_H

#include "tokenizer/fields.h"
#include "tokenizer/token_list.h"
#include "tokenizer/vocabulary.h"

enum { SW_CACHED_BYTES = 26, SW_CACHED_IDS = 9, SW_CACHE_SLOTS = 1 << 15 };

/* One cached piece: 64 bytes. n_bytes is 0 in an empty slot. */
typedef struct sw_cached_piece {
    uint8_t n_bytes, n_ids;
    char text[SW_CACHED_BYTES];
    int32_t ids[SW_CACHED_IDS];
} sw_cached_piece;

typedef struct sw_bpe_symbol {
    int32_t id, before, after; /* neighbours; -1 at the ends. id -1: merged away */
} sw_bpe_symbol;

typedef struct sw_bpe_candidate {
    int32_t rank, at, id;
} sw_bpe_candidate;

typedef struct sw_unigram_node {
    double score;
    int64_t start; /* -1: no path ends here */
    int32_t id;
} sw_unigram_node;

/* What one thread needs. */
typedef struct sw_model_scratch {
    sw_cached_piece *cache; /* [SW_CACHE_SLOTS] */
    bool cache_is_literal;
    sw_bpe_symbol *symbols;
    sw_bpe_candidate *candidates;
    sw_unigram_node *nodes;
    size_t symbols_capacity, candidates_capacity, nodes_capacity;
    sw_bytes text;
} sw_model_scratch;

bool sw_model_scratch_create(sw_model_scratch *scratch);
void sw_model_scratch_free(sw_model_scratch *scratch);

/* Room for n items of a scratch array. */
bool sw_model_scratch_grow(void **items, size_t *capacity, size_t n, size_t item_bytes);

typedef struct sw_bpe sw_bpe;
typedef struct sw_unigram sw_unigram;
typedef struct sw_wordpiece sw_wordpiece;

typedef struct sw_model {
    sw_vocabulary vocabulary;
    bool takes_bytes; /* pieces are bytes, not yet characters of the byte alphabet */
    sw_bpe *bpe;      /* one of these */
    sw_unigram *unigram;
    sw_wordpiece *wordpiece;
} sw_model;

/* Read "model" of the root. `ends_in_bytes`: the pre-tokenizers end by writing bytes as characters;
 * a model that can do without takes the bytes themselves. */
sw_status sw_model_read(const sw_part *root, bool ends_in_bytes, sw_model *model, sw_error *err);
void sw_model_free(sw_model *model);

/* Append the ids of a piece [n_bytes], not empty. `is_literal`: control tokens (marked in the
 * vocabulary) are never text. */
sw_status sw_model_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                          size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err);

/* The kinds. Encoding is of pieces of less than 2^31 bytes. */
sw_status sw_bpe_read(const sw_part *part, bool ends_in_bytes, sw_model *model, sw_error *err);
void sw_bpe_free(sw_bpe *bpe);
sw_status sw_bpe_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                        size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err);

sw_status sw_unigram_read(const sw_part *part, sw_model *model, sw_error *err);
void sw_unigram_free(sw_unigram *unigram);
sw_status sw_unigram_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                            size_t n_bytes, bool is_literal, sw_token_list *out, sw_error *err);

sw_status sw_wordpiece_read(const sw_part *part, sw_model *model, sw_error *err);
void sw_wordpiece_free(sw_wordpiece *wordpiece);
sw_status sw_wordpiece_encode(const sw_model *model, sw_model_scratch *scratch, const char *text,
                              size_t n_bytes, sw_token_list *out, sw_error *err);

/* The position in text [n_bytes] from which on it may be encoded apart, after `from`; n_bytes if
 * there is none. */
size_t sw_bpe_next_cut(const sw_bpe *bpe, const char *text, size_t n_bytes, size_t from);

#endif
