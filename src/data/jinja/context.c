/* context.c: what a template is given: JSON values, and the names that every template knows. */
#include "data/jinja/builtins.h"
#include "data/jinja/collection.h"
#include "data/jinja/execute.h"
#include "data/jinja/origin.h"
#include "data/jinja/text.h"

/* Text of JSON: data that is traced, or where it is. */
static jinja_text *text_of(jinja_run *run, const char *bytes, size_t n_bytes) {
    return run->origin ? sw_jinja_text_of_data(run, bytes, (int64_t)n_bytes, run->origin)
                       : sw_jinja_view(run, bytes, (int64_t)n_bytes);
}

static bool of_list(jinja_run *run, const json_t *json, jinja_value *out) {
    size_t n = json_array_size(json);
    jinja_value *items = sw_jinja_take(run, (int64_t)(n * sizeof *items));
    if (!items)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!sw_jinja_of_json(run, json_array_get(json, i), &items[i]))
            return false;
    return sw_jinja_give_list(sw_jinja_list(run, items, (int64_t)n), JINJA_LIST, out);
}

static bool of_object(jinja_run *run, const json_t *json, jinja_value *out) {
    json_t *object = (json_t *)json; /* iterating does not change it */
    jinja_dict *dict = sw_jinja_dict(run, (int64_t)json_object_size(json));
    if (!dict)
        return false;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        jinja_value key, value;
        if (!sw_jinja_give_text(
                text_of(run, json_object_iter_key(at), json_object_iter_key_len(at)), &key) ||
            !sw_jinja_of_json(run, json_object_iter_value(at), &value) ||
            !sw_jinja_set(run, dict, &key, &value))
            return false;
    }
    *out = sw_jinja_of_dict(dict);
    return true;
}

static bool of_json_within(jinja_run *run, const json_t *json, jinja_value *out) {
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return of_object(run, json, out);
    case JSON_ARRAY:
        return of_list(run, json, out);
    case JSON_STRING:
        return sw_jinja_give_text(text_of(run, json_string_value(json), json_string_length(json)),
                                  out);
    case JSON_INTEGER:
        *out = sw_jinja_integer(json_integer_value(json));
        return true;
    case JSON_REAL:
        *out = sw_jinja_real(json_real_value(json));
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = sw_jinja_bool(json_is_true(json));
        return true;
    default:
        *out = sw_jinja_none();
        return true;
    }
}

bool sw_jinja_of_json(jinja_run *run, const json_t *json, jinja_value *out) {
    bool is_done = sw_jinja_enter(run) && sw_jinja_spend(run, 1) && of_json_within(run, json, out);
    sw_jinja_leave(run);
    return is_done;
}

/* Letters, digits, _ and -: no control token is made of these alone. */
static bool is_role(const json_t *json) {
    const char *word = json_string_value(json);
    return word && strlen(word) == json_string_length(json) &&
           strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               strlen(word);
}

/* A message: what it says is of its own origin, its role is the template's. */
static bool of_message(jinja_run *run, const json_t *json, int64_t number, jinja_value *out) {
    const json_t *role = json_is_object(json) ? json_object_get(json, "role") : NULL;
    run->origin = number < UINT16_MAX - JINJA_ORIGIN_MESSAGE ? JINJA_ORIGIN_MESSAGE + (int)number
                                                             : JINJA_ORIGIN_DATA;
    if (!sw_jinja_of_json(run, json, out))
        return false;
    run->origin = JINJA_ORIGIN_OWN;
    if (!is_role(role))
        return true;
    jinja_value key, value;
    return sw_jinja_give_text(sw_jinja_words(run, "role"), &key) &&
           sw_jinja_of_json(run, role, &value) &&
           sw_jinja_set(run, (jinja_dict *)(uintptr_t)out->as.dict, &key, &value);
}

static bool of_messages(jinja_run *run, const json_t *json, jinja_value *out) {
    size_t n = json_array_size(json);
    jinja_value *items = sw_jinja_take(run, (int64_t)(n * sizeof *items));
    if (!items)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!of_message(run, json_array_get(json, i), (int64_t)i, &items[i]))
            return false;
    return sw_jinja_give_list(sw_jinja_list(run, items, (int64_t)n), JINJA_LIST, out);
}

static bool of_data(jinja_run *run, const jinja_text *word, const json_t *json, jinja_value *out) {
    if (json_is_array(json) && sw_jinja_is_word(word, "messages"))
        return of_messages(run, json, out);
    run->origin = JINJA_ORIGIN_DATA;
    bool is_done = sw_jinja_of_json(run, json, out);
    run->origin = JINJA_ORIGIN_OWN;
    return is_done;
}

bool sw_jinja_context(jinja_run *run, int32_t name, jinja_value *out) {
    jinja_value *known = &run->context[name];
    if (!run->is_asked[name]) {
        jinja_text *word = run->template->names[name];
        const json_t *data =
            json_object_getn(run->options.data, word->bytes, (size_t)word->n_bytes);
        const json_t *json =
            data ? NULL : json_object_getn(run->variables, word->bytes, (size_t)word->n_bytes);
        const jinja_builtin *function = data || json ? NULL : sw_jinja_function(word);
        *known = sw_jinja_missing();
        if (data && !of_data(run, word, data, known))
            return false;
        if (json && !sw_jinja_of_json(run, json, known))
            return false;
        if (function)
            *known = (jinja_value){.kind = JINJA_FUNCTION, .as.function = function};
        run->is_asked[name] = true;
    }
    *out = *known;
    return true;
}

bool sw_jinja_give_undefined(jinja_run *run, const char *owner, const jinja_value *name,
                             bool is_unsafe, jinja_value *out) {
    jinja_undefined *undefined = sw_jinja_take(run, sizeof *undefined);
    if (!undefined)
        return false;
    *undefined = (jinja_undefined){.owner = owner, .name = *name, .is_unsafe = is_unsafe};
    *out = (jinja_value){.kind = JINJA_UNDEFINED, .as.undefined = undefined};
    return true;
}

bool sw_jinja_give_hint(jinja_run *run, const char *hint, jinja_value *out) {
    jinja_value nameless = sw_jinja_missing();
    jinja_undefined *undefined = sw_jinja_give_undefined(run, NULL, &nameless, false, out)
                                     ? (jinja_undefined *)out->as.undefined
                                     : NULL;
    if (undefined)
        undefined->hint = hint;
    return undefined != NULL;
}
