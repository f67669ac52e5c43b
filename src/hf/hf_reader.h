/* hf_reader.h: the steps in which a config.json is read. Reading goes on until the first error;
 * then every further step does nothing.
 *
 * Keys that say a dimension give their value, or what `transformers` takes where they are absent or
 * null. Keys that change the arithmetic into something that is not built are refused by name unless
 * they say what is built.
 */
#ifndef SW_HF_HF_READER_H
#define SW_HF_HF_READER_H

#include "base/json.h"
#include "model/model.h"

enum { SW_HF_MOST_KEYS = 64 }; /* that a reader asks for */

typedef struct sw_hf_reader {
    sw_json_object root;
    sw_status status;
    sw_error *err;
    const char *
        asked[SW_HF_MOST_KEYS]; /* keys of the root whose value was looked at, some of them twice */
    int n_asked;
} sw_hf_reader;

/* Remember that the root's `key` is looked at. Every function below does that itself. */
void sw_hf_ask(sw_hf_reader *r, const char *key);

/* The integer under `key`, or under the second name that transformers knows it by (may be NULL).
 * The first is required. */
int64_t sw_hf_size(sw_hf_reader *r, const char *key, const char *alias);
int64_t sw_hf_size_or(sw_hf_reader *r, const char *key, const char *alias, int64_t otherwise);
double sw_hf_real_or(sw_hf_reader *r, const char *key, double otherwise);
bool sw_hf_bool_or(sw_hf_reader *r, const char *key, bool otherwise);

/* A token id: an integer or a list, of which the first counts; null and negative ids are none,
 * -1. */
int64_t sw_hf_token_or(sw_hf_reader *r, const char *key, int64_t otherwise, int64_t vocabulary);

/* `object`'s `key` asks for what is not built; `value` and `built` are words for the message. */
void sw_hf_refuse(sw_hf_reader *r, const sw_json_object *object, const char *key, const char *value,
                  const char *built);

void sw_hf_must_be(sw_hf_reader *r, const char *key, bool built);
void sw_hf_must_be_absent(sw_hf_reader *r, const char *key);
void sw_hf_must_be_number(sw_hf_reader *r, const char *key, double built);

/* A word that must be one of two names for the same thing. */
void sw_hf_must_be_word(sw_hf_reader *r, const char *key, const char *built, const char *synonym);

/* Rotary settings in both spellings, rope_theta beside rope_scaling and rope_parameters:
 * m->rope_theta and m->rope. max_positions must be known. */
void sw_hf_read_rope(sw_hf_reader *r, sw_model_config *m);

/* hf_keys.c: the keys that transformers reads for some families though their models have nothing of
 * the kind. m->architecture and m->max_positions must be known. */
void sw_hf_check_others(sw_hf_reader *r, const sw_model_config *m);

/* Their names in config.json, by sw_rope_type and sw_activation. */
extern const char *const sw_hf_rope_types[SW_N_ROPE_TYPES];
extern const char *const sw_hf_activations[SW_N_ACTIVATIONS];

/* The activation of that name, or of another name of it; false if none is built. */
bool sw_hf_find_activation(const char *name, sw_activation *activation);

#endif
