/* vocabulary.h: tokens by text and by id. */
#ifndef SW_TOKENIZER_VOCABULARY_H
#define SW_TOKENIZER_VOCABULARY_H

#include "tokenizer/containers.h"
#include "tokenizer/fields.h"

typedef struct sw_vocabulary {
    sw_token_text *by_id; /* [n], sorted by id */
    bool *is_control;     /* [n], beside by_id: special tokens, which literal text does not give */
    int32_t n;
    sw_token_map by_text;
    char *texts; /* what the others point into */
} sw_vocabulary;

/* From {"token": id, ...}. Errors: SW_BAD_FILE (an id that is none, or not below 2^31),
 * SW_NO_MEMORY. */
sw_status sw_vocabulary_read(const sw_part *part, const char *key, sw_vocabulary *vocabulary,
                             sw_error *err);

/* From [["token", score], ...]: ids count from 0; scores [n] are handed over with free(). */
sw_status sw_vocabulary_read_scored(const sw_part *part, const char *key, sw_vocabulary *vocabulary,
                                    double **scores, sw_error *err);
void sw_vocabulary_free(sw_vocabulary *vocabulary);

/* The entry of an id, NULL if there is none. */
const sw_token_text *sw_vocabulary_find(const sw_vocabulary *vocabulary, int32_t id);

/* Is the id's token marked as a control token? */
bool sw_vocabulary_is_control(const sw_vocabulary *vocabulary, int32_t id);

#endif
