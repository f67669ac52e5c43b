/* fields.c: typed access to the parts of a tokenizer.json. */
#include "tokenizer/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

/* "where.key", or one of them. */
static void name_place(const sw_part *part, const char *key, char *place, size_t n_place) {
    snprintf(place, n_place, "%s%s%s", part->where, *part->where ? "." : "", key);
}

/* The value of a key that is there and not null and has the right type; NULL with SW_OK when it may
 * be absent. */
static sw_status find(const sw_part *part, const char *key, sw_need need, json_type type,
                      const char *wanted, json_t **value, sw_error *err) {
    char place[192];
    name_place(part, key, place, sizeof place);
    *value = json_object_get(part->object, key);
    if (json_is_null(*value))
        *value = NULL;
    if (!*value)
        return need == SW_NEEDED ? sw_fail(err, SW_BAD_FILE, "%s: %s is missing; %s is needed",
                                           part->file, place, wanted)
                                 : SW_OK;
    if (json_typeof(*value) != type)
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %s; %s is needed", part->file, place,
                       sw_json_type_words(*value), wanted);
    return SW_OK;
}

sw_status sw_part_text(const sw_part *part, const char *key, sw_need need, sw_text_span *value,
                       sw_error *err) {
    json_t *found;
    sw_status status = find(part, key, need, JSON_STRING, "a string", &found, err);
    if (!status && found)
        *value = (sw_text_span){json_string_value(found), json_string_length(found)};
    return status;
}

sw_status sw_part_bool(const sw_part *part, const char *key, sw_need need, bool *value,
                       sw_error *err) {
    json_t *found = json_object_get(part->object, key);
    char place[192];
    name_place(part, key, place, sizeof place);
    if (!found || json_is_null(found))
        return need == SW_NEEDED
                   ? sw_fail(err, SW_BAD_FILE, "%s: %s is missing; true or false is needed",
                             part->file, place)
                   : SW_OK;
    if (!json_is_boolean(found))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %s; true or false is needed", part->file, place,
                       sw_json_type_words(found));
    *value = json_is_true(found);
    return SW_OK;
}

sw_status sw_part_integer(const sw_part *part, const char *key, sw_need need, int64_t low,
                          int64_t high, int64_t *value, sw_error *err) {
    json_t *found;
    sw_status status = find(part, key, need, JSON_INTEGER, "an integer", &found, err);
    if (status || !found)
        return status;
    int64_t number = json_integer_value(found);
    char place[192];
    name_place(part, key, place, sizeof place);
    if (number < low || number > high)
        return sw_fail(err, SW_BAD_FILE,
                       "%s: %s is %" PRId64 "; %" PRId64 " to %" PRId64 " is possible", part->file,
                       place, number, low, high);
    *value = number;
    return SW_OK;
}

sw_status sw_part_list(const sw_part *part, const char *key, sw_need need, json_t **value,
                       sw_error *err) {
    return find(part, key, need, JSON_ARRAY, "a list", value, err);
}

sw_status sw_part_child(const sw_part *part, const char *key, sw_need need, sw_part *child,
                        sw_error *err) {
    char place[192];
    *child = (sw_part){.file = part->file};
    name_place(part, key, place, sizeof place);
    snprintf(child->where, sizeof child->where, "%.95s", place);
    return find(part, key, need, JSON_OBJECT, "an object", &child->object, err);
}

sw_status sw_part_element(const sw_part *part, const char *key, json_t *list, size_t i,
                          sw_part *child, sw_error *err) {
    *child = (sw_part){.file = part->file, .object = json_array_get(list, i)};
    char place[192];
    name_place(part, key, place, sizeof place);
    snprintf(child->where, sizeof child->where, "%.80s[%zu]", place, i);
    if (!json_is_object(child->object))
        return sw_fail(err, SW_BAD_FILE, "%s: %s is %s; an object is needed", part->file,
                       child->where, sw_json_type_words(child->object));
    return SW_OK;
}

sw_status sw_part_type(const sw_part *part, const char **type, sw_error *err) {
    sw_text_span text = {0};
    sw_status status = sw_part_text(part, "type", SW_NEEDED, &text, err);
    *type = text.text;
    return status;
}

static sw_status read_steps(const sw_part *part, int depth, const char *list_key,
                            sw_part_read_fn read, void *into, sw_error *err) {
    enum { MAX_DEPTH = 16 };
    const char *type = NULL;
    json_t *list = NULL;
    sw_status status = sw_part_type(part, &type, err);
    if (status || strcmp(type, "Sequence"))
        return status ? status : read(part, type, into, err);
    if (depth == MAX_DEPTH)
        return sw_fail(err, SW_BAD_FILE, "%s: %s is nested too deeply", part->file, part->where);
    status = sw_part_list(part, list_key, SW_NEEDED, &list, err);
    for (size_t i = 0; !status && i < json_array_size(list); i++) {
        sw_part child;
        status = sw_part_element(part, list_key, list, i, &child, err);
        if (!status)
            status = read_steps(&child, depth + 1, list_key, read, into, err);
    }
    return status;
}

sw_status sw_part_steps(const sw_part *part, const char *list_key, sw_part_read_fn read, void *into,
                        sw_error *err) {
    return read_steps(part, 0, list_key, read, into, err);
}

sw_status sw_part_unknown(const sw_part *part, const char *kind, const char *type, sw_error *err) {
    return sw_fail(err, SW_BAD_FILE,
                   "%s: %s: %s \"%.64s\" is not known to shardwise; a newer version may know it",
                   part->file, part->where, kind, type);
}

sw_status sw_part_step_kind(const sw_part *part, const char *what, const char *type,
                            const char *const *names, int n_kinds, int n_steps, int most, int *kind,
                            sw_error *err) {
    *kind = 0;
    while (*kind < n_kinds && strcmp(type, names[*kind]) != 0)
        ++*kind;
    if (*kind == n_kinds)
        return sw_part_unknown(part, what, type, err);
    if (n_steps == most)
        return sw_fail(err, SW_BAD_FILE, "%s: more than %d %ss", part->file, most, what);
    return SW_OK;
}

sw_status sw_part_choice(const sw_part *part, const char *key, sw_text_span text,
                         const char *const *words, int n_words, int *choice, sw_error *err) {
    char known[256] = "";
    for (int i = 0; i < n_words; i++) {
        if (!strcmp(words[i], text.text)) {
            *choice = i;
            return SW_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", words[i]);
    }
    char place[192];
    name_place(part, key, place, sizeof place);
    return sw_fail(err, SW_BAD_FILE, "%s: %s is \"%.64s\"; one of %s is possible", part->file,
                   place, text.text, known);
}
