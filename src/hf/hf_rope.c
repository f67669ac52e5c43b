/* hf_rope.c: rotary settings of a config.json, in both spellings:
 *
 *   most published models:
 *     "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, ...}
 *   transformers 5:
 *     "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, ...}
 *
 * `type` and `rope_type` are one key. A key that the type does not know is refused, for a reader
 * that knew it would compute something else.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "hf/hf_reader.h"

const char *const sw_hf_rope_types[SW_N_ROPE_TYPES] = {[SW_ROPE_DEFAULT] = "default",
                                                       [SW_ROPE_LINEAR] = "linear",
                                                       [SW_ROPE_DYNAMIC] = "dynamic",
                                                       [SW_ROPE_LLAMA3] = "llama3",
                                                       [SW_ROPE_YARN] = "yarn"};

/* What is found in one object. */
typedef struct rope {
    double theta;
    sw_rope_scaling scaling;
} rope;

static void read_type(sw_hf_reader *r, const sw_json_object *object, sw_rope_type *type) {
    const char *names[2] = {NULL, NULL};
    static const char *const keys[2] = {"rope_type", "type"};
    for (int k = 0; k < 2 && r->status == SW_OK; k++)
        r->status = sw_json_text(object, keys[k], SW_JSON_OPTIONAL, &names[k], r->err);
    if (r->status != SW_OK)
        return;
    if (names[0] && names[1] && strcmp(names[0], names[1]) != 0) {
        r->status =
            sw_fail(r->err, SW_BAD_FILE, "%s: %srope_type and %stype differ; leave one of them out",
                    sw_json_name(object), object->path, object->path);
        return;
    }
    const char *name = names[0] ? names[0] : names[1] ? names[1] : "default";
    for (int i = 0; i < SW_N_ROPE_TYPES; i++)
        if (strcmp(name, sw_hf_rope_types[i]) == 0) {
            *type = (sw_rope_type)i;
            return;
        }
    char quoted[96];
    snprintf(quoted, sizeof quoted, "\"%.80s\"", name);
    sw_hf_refuse(r, object, names[0] ? "rope_type" : "type", quoted,
                 "default, linear, dynamic, llama3 or yarn");
}

static void read_real(sw_hf_reader *r, const sw_json_object *object, const char *key,
                      sw_json_need need, double *value) {
    if (r->status == SW_OK)
        r->status = sw_json_real(object, key, need, value, r->err);
}

/* Its own key, or one beside it, or what the model has now. */
static void read_original_positions(sw_hf_reader *r, const sw_json_object *object,
                                    const sw_model_config *m, int64_t *positions) {
    static const char key[] = "original_max_position_embeddings";
    int64_t beside = 0;
    *positions = 0;
    if (r->status == SW_OK)
        r->status = sw_json_integer(object, key, SW_JSON_OPTIONAL, positions, r->err);
    sw_hf_ask(r, key);
    if (r->status == SW_OK)
        r->status = sw_json_integer(&r->root, key, SW_JSON_OPTIONAL, &beside, r->err);
    if (r->status == SW_OK && beside && *positions && beside != *positions)
        r->status = sw_fail(r->err, SW_BAD_FILE, "%s: %s and %s%s differ; leave one of them out",
                            sw_json_name(object), key, object->path, key);
    if (!*positions)
        *positions = beside ? beside : m->max_positions;
}

static void read_scaling(sw_hf_reader *r, const sw_json_object *object, const sw_model_config *m,
                         sw_rope_scaling *s) {
    switch (s->type) {
    case SW_ROPE_LINEAR:
    case SW_ROPE_DYNAMIC:
        read_real(r, object, "factor", SW_JSON_REQUIRED, &s->factor);
        break;
    case SW_ROPE_LLAMA3:
        read_real(r, object, "factor", SW_JSON_REQUIRED, &s->factor);
        read_real(r, object, "low_freq_factor", SW_JSON_REQUIRED, &s->low_factor);
        read_real(r, object, "high_freq_factor", SW_JSON_REQUIRED, &s->high_factor);
        read_original_positions(r, object, m, &s->original_positions);
        break;
    case SW_ROPE_YARN: {
        bool truncates = true;
        read_original_positions(r, object, m, &s->original_positions);
        s->factor = s->original_positions > 0
                        ? (double)m->max_positions / (double)s->original_positions
                        : 1;
        s->beta_fast = 32;
        s->beta_slow = 1;
        read_real(r, object, "factor", SW_JSON_OPTIONAL, &s->factor);
        read_real(r, object, "beta_fast", SW_JSON_OPTIONAL, &s->beta_fast);
        read_real(r, object, "beta_slow", SW_JSON_OPTIONAL, &s->beta_slow);
        read_real(r, object, "attention_factor", SW_JSON_OPTIONAL, &s->attention_factor);
        read_real(r, object, "mscale", SW_JSON_OPTIONAL, &s->mscale);
        read_real(r, object, "mscale_all_dim", SW_JSON_OPTIONAL, &s->mscale_all);
        if (r->status == SW_OK)
            r->status = sw_json_bool(object, "truncate", SW_JSON_OPTIONAL, &truncates, r->err);
        if (r->status == SW_OK && s->attention_factor == 0 &&
            sw_json_has(object, "attention_factor"))
            sw_hf_refuse(r, object, "attention_factor", "0", "a number above 0");
        s->is_exact = !truncates;
        break;
    }
    default:
        break;
    }
}

static void refuse_unknown_keys(sw_hf_reader *r, const sw_json_object *object, sw_rope_type type) {
    enum {
        ANY = ~0,
        SCALED = ~(1 << SW_ROPE_DEFAULT),
        LLAMA3 = 1 << SW_ROPE_LLAMA3,
        YARN = 1 << SW_ROPE_YARN
    };
    static const struct {
        const char *key;
        int types; /* a bit each */
    } known[] = {
        {"rope_type", ANY},          {"type", ANY},
        {"rope_theta", ANY},         {"partial_rotary_factor", ANY},
        {"factor", SCALED},          {"original_max_position_embeddings", LLAMA3 | YARN},
        {"low_freq_factor", LLAMA3}, {"high_freq_factor", LLAMA3},
        {"beta_fast", YARN},         {"beta_slow", YARN},
        {"attention_factor", YARN},  {"mscale", YARN},
        {"mscale_all_dim", YARN},    {"truncate", YARN},
    };
    void *at = NULL;
    char built[64];
    snprintf(built, sizeof built, "the type \"%s\" without it", sw_hf_rope_types[type]);
    for (const char *name; r->status == SW_OK && (name = sw_json_next_key(object, &at));) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= strcmp(name, known[i].key) == 0 && known[i].types >> type & 1;
        if (!is_known && sw_json_has(object, name))
            sw_hf_refuse(r, object, name, "(it is set)", built);
    }
}

/* False: there is no such object. */
static bool read_object(sw_hf_reader *r, const char *key, const sw_model_config *m, rope *found) {
    sw_json_object object;
    sw_hf_ask(r, key);
    if (r->status != SW_OK || !sw_json_has(&r->root, key) ||
        (r->status = sw_json_child(&r->root, key, &object, r->err)) != SW_OK)
        return false;
    double partial = 1;
    *found = (rope){.theta = m->rope_theta};
    read_type(r, &object, &found->scaling.type);
    read_real(r, &object, "rope_theta", SW_JSON_OPTIONAL, &found->theta);
    read_real(r, &object, "partial_rotary_factor", SW_JSON_OPTIONAL, &partial);
    if (r->status == SW_OK && partial != 1)
        sw_hf_refuse(r, &object, "partial_rotary_factor", "(it is not 1)", "1");
    if (r->status == SW_OK)
        refuse_unknown_keys(r, &object, found->scaling.type);
    read_scaling(r, &object, m, &found->scaling);
    if (r->status == SW_OK && sw_json_has(&r->root, "rope_theta") && found->theta != m->rope_theta)
        r->status = sw_fail(r->err, SW_BAD_FILE,
                            "%s: rope_theta and %s.rope_theta differ; leave one of them out",
                            sw_json_name(&r->root), key);
    return r->status == SW_OK;
}

static bool are_equal(const rope *a, const rope *b) {
    const sw_rope_scaling *s = &a->scaling, *t = &b->scaling;
    return a->theta == b->theta && s->type == t->type && s->factor == t->factor &&
           s->original_positions == t->original_positions && s->low_factor == t->low_factor &&
           s->high_factor == t->high_factor && s->beta_fast == t->beta_fast &&
           s->beta_slow == t->beta_slow && s->attention_factor == t->attention_factor &&
           s->mscale == t->mscale && s->mscale_all == t->mscale_all && s->is_exact == t->is_exact;
}

void sw_hf_read_rope(sw_hf_reader *r, sw_model_config *m) {
    rope newer, older;
    m->rope_theta = sw_hf_real_or(r, "rope_theta", 10000);
    bool has_newer = read_object(r, "rope_parameters", m, &newer),
         has_older = read_object(r, "rope_scaling", m, &older);
    if (has_newer && has_older && !sw_json_has(&r->root, "rope_theta"))
        older.theta = newer.theta; /* the older spelling has no place for it inside */
    if (r->status == SW_OK && has_newer && has_older && !are_equal(&newer, &older))
        r->status = sw_fail(r->err, SW_BAD_FILE,
                            "%s: rope_parameters and rope_scaling differ; leave one of them out",
                            sw_json_name(&r->root));
    if (r->status != SW_OK || (!has_newer && !has_older))
        return;
    m->rope_theta = has_newer ? newer.theta : older.theta;
    m->rope = has_newer ? newer.scaling : older.scaling;
}
