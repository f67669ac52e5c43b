/* unicode.h: characters and their classes, from tables of our own, so that ids depend on no
 * library's Unicode version. */
#ifndef SW_TOKENIZER_UNICODE_H
#define SW_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

/* The tables (unicode_tables.c). All are sorted by their first member. */
typedef struct sw_code_range {
    uint32_t first, last;
} sw_code_range;

typedef struct sw_code_ranges {
    const sw_code_range *ranges;
    int n;
} sw_code_ranges;

typedef struct sw_code_stand_in {
    uint32_t first, last, value;
} sw_code_stand_in;

typedef struct sw_code_pair {
    uint32_t from, to;
} sw_code_pair;

typedef struct sw_code_decomposition {
    uint32_t code;
    uint16_t first, n; /* in the pool */
} sw_code_decomposition;

typedef struct sw_code_composition {
    uint32_t first, second, result;
} sw_code_composition;

extern const sw_code_ranges sw_unicode_numbers, sw_unicode_bert_punctuation, sw_unicode_bert_marks,
    sw_unicode_bert_controls, sw_unicode_bert_blanks, sw_unicode_bert_ideographs, sw_unicode_marks,
    sw_unicode_words;
extern const sw_code_stand_in sw_unicode_stand_ins[], sw_unicode_combining[];
extern const sw_code_pair sw_unicode_lowers[];
extern const sw_code_decomposition sw_unicode_canonical[], sw_unicode_compatible[];
extern const sw_code_composition sw_unicode_compositions[];
extern const uint32_t sw_unicode_pool[];
extern const int sw_unicode_n_stand_ins, sw_unicode_n_combining, sw_unicode_n_lowers,
    sw_unicode_n_canonical, sw_unicode_n_compatible, sw_unicode_n_compositions;

bool sw_unicode_is_in(const sw_code_ranges *ranges, uint32_t code);

/* The value of the range that holds the code, `otherwise` if there is none. */
uint32_t sw_unicode_value(const sw_code_stand_in *ranges, int n_ranges, uint32_t code,
                          uint32_t otherwise);

/* White_Space: 25 code points. */
bool sw_unicode_is_space(uint32_t code);

/* Lower case: one character, or two (U+0130). Returns how many. */
int sw_unicode_lower(uint32_t code, uint32_t lower[2]);

/* The character at `at`, which must be UTF-8; *at moves behind it. */
static inline uint32_t sw_utf8_next(const char **at) {
    const unsigned char *byte = (const unsigned char *)*at;
    if (byte[0] < 0x80) {
        *at += 1;
        return byte[0];
    }
    if (byte[0] < 0xE0) {
        *at += 2;
        return (byte[0] & 0x1Fu) << 6 | (byte[1] & 0x3Fu);
    }
    if (byte[0] < 0xF0) {
        *at += 3;
        return (byte[0] & 0x0Fu) << 12 | (byte[1] & 0x3Fu) << 6 | (byte[2] & 0x3Fu);
    }
    *at += 4;
    return (byte[0] & 0x07u) << 18 | (byte[1] & 0x3Fu) << 12 | (byte[2] & 0x3Fu) << 6 |
           (byte[3] & 0x3Fu);
}

/* Bytes of the character that begins with this byte. */
static inline int sw_utf8_length(char lead) {
    unsigned char byte = (unsigned char)lead;
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/* Write a character, at most 4 bytes. Returns how many. */
int sw_utf8_put(uint32_t code, char *out);

#endif
