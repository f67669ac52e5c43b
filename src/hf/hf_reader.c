/* hf_reader.c: the steps in which a config.json is read. */
#include "hf/hf_reader.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void sw_hf_ask(sw_hf_reader *r, const char *key) {
    assert(r->n_asked < SW_HF_MOST_KEYS);
    r->asked[r->n_asked++] = key;
}

/* ---- keys that say a dimension ---- */

/* `key`, or the second name that transformers knows it by (may be NULL). Where both are there they
 * must agree: which one counts depends on their order. */
static const char *spelled(sw_hf_reader *r, const char *key, const char *alias) {
    const bool has_key = sw_json_has(&r->root, key),
               has_alias = alias && sw_json_has(&r->root, alias);
    const char *name = has_alias && !has_key ? alias : key;
    char one[64], other[64];
    sw_hf_ask(r, name);
    if (has_key && has_alias) {
        sw_hf_ask(r, alias);
        if (strcmp(sw_json_words(&r->root, key, one, sizeof one),
                   sw_json_words(&r->root, alias, other, sizeof other)) != 0)
            r->status =
                sw_fail(r->err, SW_BAD_FILE,
                        "%s: %s %s and %s %s are one setting and differ; leave one of them out",
                        sw_json_name(&r->root), key, one, alias, other);
    }
    return name;
}

int64_t sw_hf_size(sw_hf_reader *r, const char *key, const char *alias) {
    int64_t value = 0;
    const char *name = r->status == SW_OK ? spelled(r, key, alias) : key;
    if (r->status == SW_OK)
        r->status = sw_json_integer(&r->root, name, SW_JSON_REQUIRED, &value, r->err);
    return value;
}

int64_t sw_hf_size_or(sw_hf_reader *r, const char *key, const char *alias, int64_t otherwise) {
    int64_t value = otherwise;
    const char *name = r->status == SW_OK ? spelled(r, key, alias) : key;
    if (r->status == SW_OK)
        r->status = sw_json_integer(&r->root, name, SW_JSON_OPTIONAL, &value, r->err);
    return value;
}

double sw_hf_real_or(sw_hf_reader *r, const char *key, double otherwise) {
    double value = otherwise;
    sw_hf_ask(r, key);
    if (r->status == SW_OK)
        r->status = sw_json_real(&r->root, key, SW_JSON_OPTIONAL, &value, r->err);
    return value;
}

bool sw_hf_bool_or(sw_hf_reader *r, const char *key, bool otherwise) {
    bool value = otherwise;
    sw_hf_ask(r, key);
    if (r->status == SW_OK)
        r->status = sw_json_bool(&r->root, key, SW_JSON_OPTIONAL, &value, r->err);
    return value;
}

/* A token id: an integer or a list, of which the first counts; null and negative ids are none. */
int64_t sw_hf_token_or(sw_hf_reader *r, const char *key, int64_t otherwise, int64_t vocabulary) {
    int64_t id = otherwise < vocabulary ? otherwise : -1;
    int n;
    sw_hf_ask(r, key);
    if (r->status != SW_OK || sw_json_is_null(&r->root, key))
        return -1;
    if (sw_json_is_list(&r->root, key)) {
        id = -1;
        r->status = sw_json_integers(&r->root, key, &id, 1, &n, r->err);
    } else {
        r->status = sw_json_integer(&r->root, key, SW_JSON_OPTIONAL, &id, r->err);
    }
    return id < 0 ? -1 : id;
}

/* ---- keys that change the arithmetic ---- */

void sw_hf_refuse(sw_hf_reader *r, const sw_json_object *object, const char *key, const char *value,
                  const char *built) {
    r->status = sw_fail(r->err, SW_BAD_FILE,
                        "%s: %s%s %s asks for arithmetic that is not built; only %s is",
                        sw_json_name(object), object->path, key, value, built);
}

void sw_hf_must_be(sw_hf_reader *r, const char *key, bool built) {
    if (sw_hf_bool_or(r, key, built) != built && r->status == SW_OK)
        sw_hf_refuse(r, &r->root, key, built ? "false" : "true", built ? "true" : "false");
}

void sw_hf_must_be_absent(sw_hf_reader *r, const char *key) {
    sw_hf_ask(r, key);
    char value[64];
    if (r->status == SW_OK && sw_json_has(&r->root, key))
        sw_hf_refuse(r, &r->root, key, sw_json_words(&r->root, key, value, sizeof value), "null");
}

void sw_hf_must_be_number(sw_hf_reader *r, const char *key, double built) {
    char value[SW_TEXT_NUMBER_BYTES], only[SW_TEXT_NUMBER_BYTES];
    double found = sw_hf_real_or(r, key, built);
    if (found != built && r->status == SW_OK)
        sw_hf_refuse(r, &r->root, key, sw_text_exact_real(found, value, sizeof value),
                     sw_text_exact_real(built, only, sizeof only));
}

/* A word that must be one of two names for the same thing. */
void sw_hf_must_be_word(sw_hf_reader *r, const char *key, const char *built, const char *synonym) {
    const char *word = built;
    char quoted[96];
    sw_hf_ask(r, key);
    if (r->status == SW_OK)
        r->status = sw_json_text(&r->root, key, SW_JSON_OPTIONAL, &word, r->err);
    if (r->status != SW_OK || strcmp(word, built) == 0 || strcmp(word, synonym) == 0)
        return;
    snprintf(quoted, sizeof quoted, "\"%.80s\"", word);
    sw_hf_refuse(r, &r->root, key, quoted, built);
}
