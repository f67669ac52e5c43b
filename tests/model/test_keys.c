/* test_keys.c: every key of keys.json, which says what transformers makes of it (make_keys.py), for
 * every family: what changes a number is honoured or refused by name and value; what changes none
 * is accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/model.h"

static bool is_among(const char *key, const char *const *keys) {
    for (; *keys; keys++)
        if (strcmp(key, *keys) == 0)
            return true;
    return false;
}

/* How tokens are chosen: transformers takes it from config.json where there is no
 * generation_config.json; here flags say it. */
static const char *const of_generation[] = {
    "num_beams",       "repetition_penalty", "no_repeat_ngram_size",
    "suppress_tokens", "bad_words_ids",      NULL};

/* Refused though the value that was tried changes nothing there: other programs, or transformers 4,
 * read it; or it names another file and layers that differ, which then happened to be the same. */
static const char *const refused_all_the_same[] = {"attention_bias",
                                                   "mlp_bias",
                                                   "partial_rotary_factor",
                                                   "tie_word_embeddings",
                                                   "per_layer_config",
                                                   "transformers_weights",
                                                   NULL};

/* transformers fails over what is the form of an answer, 64-bit arithmetic, or shapes of tensors,
 * which are checked elsewhere. */
static const char *const no_matter_of_configuration[] = {
    "return_dict",       "reorder_and_upcast_attn", "head_dim", "hidden_size",
    "num_hidden_layers", "num_attention_heads",     NULL};

/* The configuration as it would be written; NULL: it is refused, with err saying why. */
static char *read_and_write(const char *family, const json_t *settings, const char *key,
                            const json_t *value, sw_error *err) {
    json_t *config = json_deep_copy(settings);
    json_object_set_new(config, "model_type", json_string(family));
    if (key)
        json_object_set(config, key, (json_t *)(uintptr_t)value);
    char *text = json_dumps(config, 0), *written = NULL;
    sw_model_config read;
    assert_non_null(text);
    if (!sw_model_config_parse("config.json", text, (int64_t)strlen(text), &read, err))
        assert_int_equal(sw_model_config_write(&read, SW_F32, &written, err), SW_OK);
    free(text);
    json_decref(config);
    return written;
}

static void every_key_is_honoured_refused_or_without_effect(void **state) {
    (void)state;
    json_t *document = json_load_file(SW_SOURCE_FOLDER "/tests/model/keys.json", 0, NULL), *row;
    assert_non_null(document);
    const json_t *families = json_object_get(document, "families");
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(document, "keys"), i, row) {
        const char *family = json_string_value(json_object_get(row, "family")),
                   *key = json_string_value(json_object_get(row, "key"));
        const char *effect = json_string_value(json_object_get(row, "effect"));
        const json_t *settings = json_object_get(families, family),
                     *value = json_object_get(row, "value");
        sw_error err = {0};
        char *plain = read_and_write(family, settings, NULL, NULL, &err),
             *with = read_and_write(family, settings, key, value, &err);
        char *words = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        assert_non_null(plain);
        n++;
        const bool is_refused = !with, is_honoured = with && strcmp(plain, with) != 0;
        if (is_refused && !strstr(err.message, key) && !is_among(key, no_matter_of_configuration))
            fail_msg("%s: %s %s is refused, and not by name: %s", family, key, words, err.message);
        if (strcmp(effect, "none") == 0 && is_refused && !is_among(key, refused_all_the_same))
            fail_msg("%s: %s %s changes nothing and is refused: %s", family, key, words,
                     err.message);
        const bool may_pass =
            strcmp(effect, "none") == 0 ||
            (strcmp(effect, "continuation") == 0 && is_among(key, of_generation)) ||
            (strncmp(effect, "error", 5) == 0 && is_among(key, no_matter_of_configuration));
        if (!may_pass && !is_refused && !is_honoured)
            fail_msg("%s: %s %s is passed over, and transformers has: %s", family, key, words,
                     effect);
        free(words);
        free(plain);
        free(with);
    }
    print_message("%d values of keys\n", n);
    assert_true(n > 500);
    json_decref(document);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_honoured_refused_or_without_effect)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
