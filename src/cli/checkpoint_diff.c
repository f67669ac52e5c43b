/* checkpoint_diff.c: shardwise checkpoint diff: what differs between two checkpoints, parameter by
 * parameter, or between two models' folders.
 *
 * What is found is one JSON object, for --json as it is, else told in words. Steps, states and
 * settings that differ are told and do not count: two runs may well have come to the same weights
 * in different ways.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_number.h"
#include "base/reason.h"
#include "base/text.h"
#include "checkpoint/diff.h"
#include "cli/checkpoint.h"

/* ---- what is found ---- */

/* Two values of a key; NULL: there is none. Takes both over. False when memory is short. */
static bool add_pair(json_t *object, const char *key, json_t *a, json_t *b) {
    return json_object_set_new(object, key,
                               json_pack("[o, o]", a ? a : json_null(), b ? b : json_null())) == 0;
}

/* Entries of two objects that differ, as pairs; NULL when memory is short. Takes both over. */
static json_t *different_entries(json_t *a, json_t *b) {
    json_t *entries = json_object(), *value;
    bool is_whole = a && b && entries;
    const char *key;
    json_object_foreach(a, key, value) {
        if (!json_equal(value, json_object_get(b, key)))
            is_whole =
                add_pair(entries, key, json_incref(value), json_incref(json_object_get(b, key))) &&
                is_whole;
    }
    json_object_foreach(b, key, value) {
        if (!json_object_get(a, key))
            is_whole = add_pair(entries, key, NULL, json_incref(value)) && is_whole;
    }
    json_decref(a);
    json_decref(b);
    if (is_whole)
        return entries;
    json_decref(entries);
    return NULL;
}

static json_t *state_of(const sw_checkpoint *c) {
    json_t *state = json_loads(sw_checkpoint_state(c), 0, NULL);
    json_object_del(state, "step"); /* which the checkpoint has too */
    return state;
}

static json_t *settings_of(const sw_checkpoint *c) {
    json_t *object = json_object();
    bool is_whole = object;
    for (int i = 0; i < sw_checkpoint_n_settings(c) && is_whole; i++)
        is_whole = json_object_set_new(object, sw_checkpoint_setting(c, i)->key,
                                       json_string(sw_checkpoint_setting(c, i)->value)) == 0;
    if (is_whole)
        return object;
    json_decref(object);
    return NULL;
}

static const char *const kind_words[] = {[SW_SAME] = "same",
                                         [SW_OTHER_VALUES] = "values",
                                         [SW_OTHER_TYPE] = "type",
                                         [SW_OTHER_SHAPE] = "shape",
                                         [SW_ONLY_IN_FIRST] = "only_in_first",
                                         [SW_ONLY_IN_SECOND] = "only_in_second"};

typedef struct tensors {
    int64_t n;
    bool is_whole; /* memory was never short */
    json_t *different;
} tensors;

static void add_tensor(void *to, const sw_difference *d) {
    tensors *t = to;
    const char *file = sw_state_file_name(d->state);
    t->n++;
    if (d->kind == SW_SAME)
        return;
    json_t *entry = json_pack("{s:s%, s:s, s:s}", "state", file, strcspn(file, "."), "name",
                              d->name, "difference", kind_words[d->kind]);
    if (d->kind == SW_OTHER_VALUES) {
        json_t *values =
            json_pack("{s:I, s:I, s:o}", "elements", (json_int_t)d->n_elements, "different",
                      (json_int_t)d->n_different, "largest", sw_json_number(d->largest));
        t->is_whole = json_object_update(entry, values) == 0 && t->is_whole;
        json_decref(values);
    }
    t->is_whole = json_array_append_new(t->different, entry) == 0 && t->is_whole;
}

/* ---- in words ---- */

/* A value of a state or a setting, if it is short: most are numbers. Ownership: free; NULL: it is
 * long. */
static char *short_text(json_t *value) {
    enum { MOST = 60 };
    char *text = json_is_string(value)
                     ? strdup(json_string_value(value))
                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!text || strlen(text) <= MOST)
        return text;
    free(text);
    return NULL;
}

static void tell_pair(const char *what, const char *key, json_t *values) {
    char *a = short_text(json_array_get(values, 0)), *b = short_text(json_array_get(values, 1));
    if (a && b)
        printf("%s %s: %s and %s\n", what, key, a, b);
    else
        printf("%s %s: differs\n", what, key);
    free(a);
    free(b);
}

static void tell_tensor(json_t *entry) {
    const char *difference = json_string_value(json_object_get(entry, "difference"));
    json_t *largest = json_object_get(entry, "largest");
    printf("%s %s: ", json_string_value(json_object_get(entry, "state")),
           json_string_value(json_object_get(entry, "name")));
    if (!strcmp(difference, kind_words[SW_OTHER_VALUES]))
        printf("%lld of %lld %s, by %.3g at most\n",
               (long long)json_integer_value(json_object_get(entry, "different")),
               (long long)json_integer_value(json_object_get(entry, "elements")),
               json_integer_value(json_object_get(entry, "elements")) == 1    ? "element differs"
               : json_integer_value(json_object_get(entry, "different")) == 1 ? "elements differs"
                                                                              : "elements differ",
               json_is_real(largest) ? json_real_value(largest) : INFINITY);
    else if (!strcmp(difference, kind_words[SW_OTHER_SHAPE]))
        printf("other shape, or trained in one alone\n");
    else if (!strcmp(difference, kind_words[SW_OTHER_TYPE]))
        printf("the same numbers, as another element type\n");
    else
        printf("only in the %s\n",
               !strcmp(difference, kind_words[SW_ONLY_IN_FIRST]) ? "first" : "second");
}

/* One line for each state that differs, in place of one for each of its tensors. */
static void summarize(json_t *different) {
    json_t *value, *other;
    size_t i, k;
    json_array_foreach(different, i, value) {
        const char *state = json_string_value(json_object_get(value, "state"));
        long long n_tensors = 0, n_elements = 0, n_different = 0, n_otherwise = 0;
        double largest = 0;
        bool is_told = false;
        json_array_foreach(different, k, other) {
            json_t *size = json_object_get(other, "largest");
            if (strcmp(json_string_value(json_object_get(other, "state")), state))
                continue;
            is_told = is_told || k < i;
            n_tensors++;
            n_otherwise += !size;
            n_elements += json_integer_value(json_object_get(other, "elements"));
            n_different += json_integer_value(json_object_get(other, "different"));
            largest = fmax(largest, json_is_real(size) ? json_real_value(size)
                                    : size             ? INFINITY
                                                       : 0);
        }
        if (is_told)
            continue;
        long long n_alike = n_tensors - n_otherwise;
        printf("%s: ", state);
        if (n_alike)
            printf("%lld %s, %lld of their %lld elements, by %.3g at most", n_alike,
                   sw_text_noun(n_alike, "tensor differs", "tensors differ"), n_different,
                   n_elements, largest);
        if (n_otherwise)
            printf("%s%lld %s", n_alike ? "; " : "", n_otherwise,
                   sw_text_noun(n_otherwise,
                                "tensor has another shape or type or is in only one of the two",
                                "tensors have other shapes or types or are in only one of the "
                                "two"));
        putchar('\n');
    }
}

static void tell(json_t *report, bool in_short) {
    json_t *value, *step = json_object_get(report, "step"),
                   *different = json_object_get(report, "different");
    const char *key;
    size_t i;
    long long n = json_integer_value(json_object_get(report, "tensors"));
    if (!json_equal(json_array_get(step, 0), json_array_get(step, 1)))
        printf("step: %lld and %lld\n", (long long)json_integer_value(json_array_get(step, 0)),
               (long long)json_integer_value(json_array_get(step, 1)));
    json_object_foreach(json_object_get(report, "state"), key, value) {
        tell_pair("state", key, value);
    }
    json_object_foreach(json_object_get(report, "settings"), key, value) {
        tell_pair("setting", key, value);
    }
    if (in_short)
        summarize(different);
    json_array_foreach(different, i, value) {
        if (!in_short)
            tell_tensor(value);
    }
    if (json_array_size(different))
        printf("%zu of %lld %s\n", json_array_size(different), n,
               sw_text_noun(n, "tensor differs", "tensors differ"));
    else
        printf("equal: %lld %s, every bit\n", n, sw_text_noun(n, "tensor", "tensors"));
}

/* ---- the action ---- */

/* Two checkpoints, or, where these are NULL, the models at the two paths. */
static sw_status compare(sw_checkpoint *const checkpoint[2], const char *const path[2],
                         bool as_json, bool in_short, sw_error *err) {
    const sw_checkpoint *a = checkpoint[0], *b = checkpoint[1];
    tensors t = {0, true, json_array()};
    json_t *report = NULL;
    sw_status status =
        a ? sw_checkpoint_diff(a, b, add_tensor, &t, err)
          : sw_model_diff(path[0], path[1], sw_weights_at(path[0]) == SW_WEIGHTS_ADAPTER,
                          add_tensor, &t, err);
    if (status == SW_OK && t.is_whole)
        report = json_pack(
            "{s:b, s:o, s:o, s:o, s:I, s:O}", "equal", json_array_size(t.different) == 0, "step",
            a ? json_pack("[I, I]", (json_int_t)sw_checkpoint_step(a),
                          (json_int_t)sw_checkpoint_step(b))
              : json_pack("[n, n]"),
            "state", a ? different_entries(state_of(a), state_of(b)) : json_object(), "settings",
            a ? different_entries(settings_of(a), settings_of(b)) : json_object(), "tensors",
            (json_int_t)t.n, "different", t.different);
    json_decref(t.different);
    if (status == SW_OK && !report)
        status = sw_fail(err, SW_NO_MEMORY, "no memory to tell what differs");
    if (status != SW_OK)
        return status;
    if (as_json) {
        json_dumpf(report, stdout, JSON_REAL_PRECISION(17));
        putchar('\n');
    } else {
        tell(report, in_short);
    }
    json_decref(report);
    return SW_OK;
}

static sw_status refuse_unlike(const char *const path[2], sw_error *err) {
    static const char *const words[] = {[SW_WEIGHTS_NONE] = "a checkpoint",
                                        [SW_WEIGHTS_MODEL] = "a model",
                                        [SW_WEIGHTS_ADAPTER] = "an adapter"};
    const sw_weights_kind kind[2] = {sw_weights_at(path[0]), sw_weights_at(path[1])};
    if (kind[0] == kind[1])
        return SW_OK;
    return sw_fail(
        err, SW_BAD_CONFIG,
        "%.300s is %s and %.300s is %s; only the same kinds can be compared · "
        "shardwise checkpoint export makes a model of a checkpoint, shardwise checkpoint "
        "merge one of an adapter",
        path[0], words[kind[0]], path[1], words[kind[1]]);
}

sw_status sw_checkpoint_action_diff(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, as_json = false, in_short = false, goes_on;
    const sw_flag flags[] = {{"--json", NULL, "print one JSON object", SW_FLAG_SWITCH, &as_json},
                             {"--summary", NULL,
                              "print one line for each kind of state, not for each tensor",
                              SW_FLAG_SWITCH, &in_short},
                             {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help}};
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    static const sw_verb verb = {"checkpoint diff",
                                 "RUN_DIR|CHECKPOINT_DIR|MODEL_DIR "
                                 "RUN_DIR|CHECKPOINT_DIR|MODEL_DIR",
                                 "what differs between two checkpoints, whatever their numbers of "
                                 "ranks (for a run, its newest is taken), or between two models",
                                 NULL};
    const char **others;
    int n_others;
    sw_checkpoint *checkpoint[2] = {NULL, NULL};
    sw_status status = sw_arguments_begin(&verb, n_arguments, arguments, flags, N_FLAGS, 2,
                                          "shardwise checkpoint diff runs/x runs/y", &others,
                                          &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&verb, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (n_others > 2)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "%.100s: two folders are taken · shardwise checkpoint diff", others[2]);
    else if (as_json && in_short)
        status =
            sw_fail(err, SW_BAD_CONFIG,
                    "--json and --summary are both given · shardwise checkpoint diff · keep one");
    if (!status && access(others[0], F_OK) == 0 && access(others[1], F_OK) == 0)
        status = refuse_unlike(others, err);
    for (int i = 0; i < 2 && !status && !sw_weights_at(others[0]); i++)
        status = sw_checkpoint_at(others[i], &checkpoint[i], err);
    if (!status && sw_weights_at(others[0]) && access(others[1], F_OK))
        status = sw_cannot_read(others[1], errno, err);
    if (!status)
        status = compare(checkpoint, others, as_json, in_short, err);
done:
    for (int i = 0; i < 2; i++)
        sw_checkpoint_close(checkpoint[i]);
    free(others);
    return status;
}
