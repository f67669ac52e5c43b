/* bpe.h: the tables of a byte pair encoding: bpe_read.c fills them, bpe.c merges by them. */
#ifndef SW_TOKENIZER_BPE_H
#define SW_TOKENIZER_BPE_H

#include "tokenizer/model.h"

typedef struct sw_bpe_merge {
    uint64_t pair; /* left + 1, right; 0: an empty slot */
    int32_t rank, id;
} sw_bpe_merge;

struct sw_bpe {
    sw_bpe_merge *merges; /* hash table */
    size_t mask;
    bool ignores_merges, falls_back_to_bytes, fuses_unknown;
    int32_t unknown;           /* -1: there is none */
    char *prefix, *suffix;     /* of a piece's symbols after the first, of its last one */
    size_t n_prefix, n_suffix; /* bytes */
    int32_t byte_ids[256];     /* of a byte: its token, or with byte fallback <0xNN>; -1: none */
    int32_t ascii_ids[128];    /* of a character; -1: none */
    bool has_all_bytes;        /* byte fallback never fails */
    sw_token_map bytes;        /* tokens as bytes, for whole pieces; takes_bytes */
    sw_bytes byte_texts;       /* what `bytes` points into */
    bool cuts_at_blanks;       /* see above */
    uint32_t *before_blanks;   /* characters that some token has before U+2581, sorted */
    size_t n_before_blanks;
};

/* The slot of a pair, or the empty one where it belongs. */
static inline sw_bpe_merge *sw_bpe_slot(const sw_bpe *bpe, uint64_t pair) {
    size_t at = (size_t)(pair * 0xD6E8FEB86659FD93u >> 32) & bpe->mask;
    while (bpe->merges[at].pair && bpe->merges[at].pair != pair)
        at = (at + 1) & bpe->mask;
    return &bpe->merges[at];
}

/* The merge of two tokens, NULL if there is none. */
static inline const sw_bpe_merge *sw_bpe_find(const sw_bpe *bpe, int32_t left, int32_t right) {
    const sw_bpe_merge *slot = sw_bpe_slot(bpe, (uint64_t)(left + 1) << 32 | (uint32_t)right);
    return slot->pair ? slot : NULL;
}

#endif
