/* hf_keys.c: keys that change what transformers computes though no code of the family names them:
 * its caches, its loader and what all models share read them. They must say what is built: nothing.
 *
 * What else stands in a config.json and is not asked for is read by nobody, or by parts of a model
 * that are not here (heads for classes, drafts of tokens to come), or says how to compute the same.
 * tests/model/make_keys.py asks transformers, key by key; what it says is tests/model/keys.json.
 */
#include <string.h>

#include "hf/hf_reader.h"

enum {
    LLAMA = 1 << SW_LLAMA,
    MISTRAL = 1 << SW_MISTRAL,
    GPT2 = 1 << SW_GPT2,
    ALL = (1 << SW_N_ARCHITECTURES) - 1
};

/* What may stand there: null, and an empty object or list; as many keys as a row has at most,
 * beyond which none is forgotten; or the name of what every layer does anyway. */
typedef enum harmless { NOTHING, ALL_POSITIONS, FULL_ATTENTION } harmless;

static const struct {
    const char *key;
    int families; /* a bit each */
    harmless harmless;
    const char *built;
} others[] = {
    {"sliding_window", LLAMA | GPT2, ALL_POSITIONS,
     "null"}, /* the cache forgets keys, whatever use_sliding_window says */
    {"attention_chunk_size", LLAMA | MISTRAL | GPT2, ALL_POSITIONS, "null"},
    {"layer_types", LLAMA | GPT2, FULL_ATTENTION, "full_attention"},
    {"kv_sharing_modes", ALL, NOTHING, "null"},     /* layers without keys of their own */
    {"per_layer_config", ALL, NOTHING, "null"},     /* layers that differ */
    {"transformers_weights", ALL, NOTHING, "null"}, /* another file with the weights */
};

static bool is_empty(const sw_json_object *root, const char *key) {
    char words[8];
    sw_json_words(root, key, words, sizeof words);
    return strcmp(words, "{}") == 0 || strcmp(words, "[]") == 0;
}

/* A list of one name alone. */
static bool all_are(sw_hf_reader *r, const char *key, const char *name) {
    const char *names[2048];
    const int most = sizeof names / sizeof *names;
    int n = 0;
    if (!sw_json_is_list(&r->root, key) ||
        sw_json_texts(&r->root, key, names, (size_t)most, &n, NULL) || n > most)
        return false;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) != 0)
            return false;
    return true;
}

void sw_hf_check_others(sw_hf_reader *r, const sw_model_config *m) {
    for (size_t i = 0; i < sizeof others / sizeof *others && r->status == SW_OK; i++) {
        const char *key = others[i].key;
        int64_t size = 0;
        char value[64];
        if (!(others[i].families >> m->architecture & 1))
            continue;
        sw_hf_ask(r, key);
        if (!sw_json_has(&r->root, key) || is_empty(&r->root, key))
            continue;
        if (others[i].harmless == ALL_POSITIONS &&
            !sw_json_integer(&r->root, key, SW_JSON_OPTIONAL, &size, NULL) &&
            size >= m->max_positions)
            continue;
        if (others[i].harmless == FULL_ATTENTION && all_are(r, key, others[i].built))
            continue;
        sw_hf_refuse(r, &r->root, key, sw_json_words(&r->root, key, value, sizeof value),
                     others[i].built);
    }
}
