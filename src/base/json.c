/* json.c: strictness and messages over jansson, which parses. */
#include "base/json.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_format.h"

struct sw_json {
    json_t *root;
    char *name;
};

sw_status sw_json_begin(const char *name, const char **text, int64_t *bytes, sw_error *err) {
    sw_status status = sw_file_expect(name, *text, *bytes, *bytes, SW_FILE_JSON, err);
    sw_text_skip_mark(text, bytes);
    return status;
}

static sw_status parse(const char *name, const char *text, int64_t bytes, size_t flags,
                       sw_json **document, sw_error *err) {
    sw_status status = SW_OK;
    json_error_t error;
    sw_json *json = calloc(1, sizeof *json);
    if (!json)
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", name);
    json->name = strdup(name);
    if (!json->name) {
        status = sw_fail(err, SW_NO_MEMORY, "%s: no memory", name);
        goto done;
    }
    if ((status = sw_json_begin(name, &text, &bytes, err)) != SW_OK)
        goto done;
    /* Without DECODE_ANY a root that is text or a number would be a syntax error; it is a wrong
     * type. */
    json->root =
        json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | flags, &error);
    if (!json->root) {
        status = json_error_code(&error) == json_error_out_of_memory
                     ? sw_fail(err, SW_NO_MEMORY, "%s: no memory", name)
                     : sw_fail(err, SW_BAD_FILE, "%s: line %d, column %d: not valid JSON: %s", name,
                               error.line, error.column, error.text);
        goto done;
    }
    if (!json_is_object(json->root)) {
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: holds no JSON object ({...}); is it the right file?", name);
        goto done;
    }
    *document = json;
    json = NULL;
done:
    sw_json_free(json);
    return status;
}

sw_status sw_json_parse(const char *name, const char *text, int64_t bytes, sw_json **document,
                        sw_error *err) {
    return parse(name, text, bytes, 0, document, err);
}

static sw_status read_and_parse(const char *path, int64_t max_bytes, size_t flags,
                                sw_json **document, sw_error *err) {
    char *text;
    int64_t bytes;
    sw_status status = sw_file_read(path, max_bytes, &text, &bytes, err);
    if (status != SW_OK)
        return status;
    status = parse(path, text, bytes, flags, document, err);
    free(text);
    return status;
}

sw_status sw_json_read(const char *path, int64_t max_bytes, sw_json **document, sw_error *err) {
    return read_and_parse(path, max_bytes, 0, document, err);
}

sw_status sw_json_read_without_integers(const char *path, int64_t max_bytes, sw_json **document,
                                        sw_error *err) {
    return read_and_parse(path, max_bytes, JSON_DECODE_INT_AS_REAL, document, err);
}

void sw_json_free(sw_json *document) {
    if (!document)
        return;
    json_decref(document->root);
    free(document->name);
    free(document);
}

sw_json_object sw_json_root(const sw_json *document) {
    return (sw_json_object){document, document->root, ""};
}

const char *sw_json_name(const sw_json_object *object) {
    return object->document->name;
}

const char *sw_json_type_words(const void *value) {
    switch (json_typeof((const json_t *)value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a fraction";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

/* The value of a key; NULL with SW_OK when an optional one is absent. */
static sw_status find(const sw_json_object *object, const char *key, sw_json_need need,
                      const json_t **value, sw_error *err) {
    *value = json_object_get(object->value, key);
    if (json_is_null(*value))
        *value = NULL;
    if (!*value && need == SW_JSON_REQUIRED)
        return sw_fail(err, SW_BAD_FILE, "%s: %s%s is missing", object->document->name,
                       object->path, key);
    return SW_OK;
}

static sw_status wrong_type(const sw_json_object *object, const char *key, const json_t *value,
                            const char *needed, sw_error *err) {
    return sw_fail(err, SW_BAD_FILE, "%s: %s%s is %s, %s is needed", object->document->name,
                   object->path, key, sw_json_type_words(value), needed);
}

sw_status sw_json_integer(const sw_json_object *object, const char *key, sw_json_need need,
                          int64_t *value, sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, need, &found, err);
    if (!found)
        return status;
    if (!json_is_integer(found))
        return wrong_type(object, key, found, "an integer", err);
    *value = json_integer_value(found);
    return SW_OK;
}

sw_status sw_json_real(const sw_json_object *object, const char *key, sw_json_need need,
                       double *value, sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, need, &found, err);
    if (!found)
        return status;
    if (!json_is_number(found))
        return wrong_type(object, key, found, "a number", err);
    *value = json_number_value(found);
    return SW_OK;
}

sw_status sw_json_bool(const sw_json_object *object, const char *key, sw_json_need need,
                       bool *value, sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, need, &found, err);
    if (!found)
        return status;
    if (!json_is_boolean(found))
        return wrong_type(object, key, found, "true or false", err);
    *value = json_is_true(found);
    return SW_OK;
}

sw_status sw_json_text(const sw_json_object *object, const char *key, sw_json_need need,
                       const char **value, sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, need, &found, err);
    if (!found)
        return status;
    if (!json_is_string(found))
        return wrong_type(object, key, found, "a string", err);
    *value = json_string_value(found);
    return SW_OK;
}

sw_status sw_json_child(const sw_json_object *object, const char *key, sw_json_object *child,
                        sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, SW_JSON_REQUIRED, &found, err);
    if (status != SW_OK)
        return status;
    if (!json_is_object(found))
        return wrong_type(object, key, found, "an object", err);
    child->document = object->document;
    child->value = found;
    snprintf(child->path, sizeof child->path, "%.40s%.40s.", object->path, key);
    return SW_OK;
}

sw_status sw_json_integers(const sw_json_object *object, const char *key, int64_t *values,
                           int capacity, int *n, sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, SW_JSON_REQUIRED, &found, err);
    if (status != SW_OK)
        return status;
    if (!json_is_array(found))
        return wrong_type(object, key, found, "a list of integers", err);
    size_t length = json_array_size(found);
    for (size_t i = 0; i < length; i++) {
        const json_t *item = json_array_get(found, i);
        if (!json_is_integer(item))
            return sw_fail(err, SW_BAD_FILE, "%s: %s%s holds %s, integers are needed",
                           object->document->name, object->path, key, sw_json_type_words(item));
        if (i < (size_t)capacity)
            values[i] = json_integer_value(item);
    }
    *n = length > INT32_MAX ? INT32_MAX : (int)length;
    return SW_OK;
}

sw_status sw_json_reals(const sw_json_object *object, const char *key, double *values, int capacity,
                        int *n, sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, SW_JSON_REQUIRED, &found, err);
    if (status != SW_OK)
        return status;
    if (!json_is_array(found))
        return wrong_type(object, key, found, "a list of numbers", err);
    size_t length = json_array_size(found);
    for (size_t i = 0; i < length; i++) {
        const json_t *item = json_array_get(found, i);
        if (!json_is_number(item))
            return sw_fail(err, SW_BAD_FILE, "%s: %s%s holds %s, numbers are needed",
                           object->document->name, object->path, key, sw_json_type_words(item));
        if (i < (size_t)capacity)
            values[i] = json_number_value(item);
    }
    *n = length > INT32_MAX ? INT32_MAX : (int)length;
    return SW_OK;
}

sw_status sw_json_texts(const sw_json_object *object, const char *key, const char **values,
                        int capacity, int *n, sw_error *err) {
    const json_t *found;
    sw_status status = find(object, key, SW_JSON_REQUIRED, &found, err);
    if (status != SW_OK)
        return status;
    if (!json_is_array(found))
        return wrong_type(object, key, found, "a list of strings", err);
    size_t length = json_array_size(found);
    for (size_t i = 0; i < length; i++) {
        const json_t *item = json_array_get(found, i);
        if (!json_is_string(item))
            return sw_fail(err, SW_BAD_FILE, "%s: %s%s holds %s, strings are needed",
                           object->document->name, object->path, key, sw_json_type_words(item));
        if (i < (size_t)capacity)
            values[i] = json_string_value(item);
    }
    *n = length > INT32_MAX ? INT32_MAX : (int)length;
    return SW_OK;
}

bool sw_json_has(const sw_json_object *object, const char *key) {
    const json_t *value = json_object_get(object->value, key);
    return value && !json_is_null(value);
}

bool sw_json_is_list(const sw_json_object *object, const char *key) {
    return json_is_array(json_object_get(object->value, key));
}

bool sw_json_is_null(const sw_json_object *object, const char *key) {
    return json_is_null(json_object_get(object->value, key));
}

char *sw_json_words(const sw_json_object *object, const char *key, char *text, size_t bytes) {
    const json_t *value = json_object_get(object->value, key);
    char *whole = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const bool is_long = whole && strlen(whole) >= bytes;
    snprintf(text, bytes, "%.*s%s", (int)bytes - 4,
             whole   ? whole
             : value ? "(a value)"
                     : "nothing",
             is_long ? "..." : "");
    free(whole);
    return text;
}

const char *sw_json_next_key(const sw_json_object *object, void **at) {
    /* jansson's iterators take a non-const object and change nothing. */
    json_t *value = (json_t *)(uintptr_t)object->value;
    *at = *at ? json_object_iter_next(value, *at) : json_object_iter(value);
    return *at ? json_object_iter_key(*at) : NULL;
}

size_t sw_json_quote_bytes(const char *text, size_t n_bytes, char *out) {
    char *to = out;
    *to++ = '"';
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            *to++ = '\\', *to++ = (char)c;
        else if (c < 0x20)
            to += sprintf(to, "\\u%04x", c);
        else
            *to++ = (char)c;
    }
    *to++ = '"';
    *to = 0;
    return (size_t)(to - out);
}

size_t sw_json_quote(const char *text, char *out) {
    return sw_json_quote_bytes(text, strlen(text), out);
}
