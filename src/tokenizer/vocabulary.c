/* vocabulary.c: reading tokens with their ids. */
#include "tokenizer/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>

static int compare_ids(const void *left, const void *right) {
    const sw_token_text *a = left, *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Room for n tokens of n_bytes altogether. */
static bool take_room(sw_vocabulary *v, size_t n, size_t n_bytes) {
    v->by_id = calloc(n + 1, sizeof *v->by_id);
    v->is_control = calloc(n + 1, sizeof *v->is_control);
    v->texts = malloc(n_bytes + n + 1);
    return v->by_id && v->is_control && v->texts && sw_token_map_create(&v->by_text, n);
}

/* Add a token; its text, with a NUL, comes to *at, which moves on. */
static void add(sw_vocabulary *v, char **at, const char *text, size_t n_bytes, int32_t id) {
    memcpy(*at, text, n_bytes + 1);
    v->by_id[v->n++] = (sw_token_text){*at, (uint32_t)n_bytes, id};
    sw_token_map_put(&v->by_text, *at, n_bytes, id);
    *at += n_bytes + 1;
}

sw_status sw_vocabulary_read(const sw_part *part, const char *key, sw_vocabulary *vocabulary,
                             sw_error *err) {
    sw_part object;
    sw_status status = sw_part_child(part, key, SW_NEEDED, &object, err);
    if (status)
        return status;
    const char *text;
    json_t *value;
    size_t n_bytes = 0, n_text;
    json_object_keylen_foreach(object.object, text, n_text, value) n_bytes += n_text;
    if (json_object_size(object.object) > INT32_MAX / 2 ||
        !take_room(vocabulary, json_object_size(object.object), n_bytes))
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    char *at = vocabulary->texts;
    json_object_keylen_foreach(object.object, text, n_text, value) {
        if (!json_is_integer(value))
            return sw_fail(err, SW_BAD_FILE, "%s: %s: the id of token \"%.64s\" is no integer",
                           part->file, object.where, text);
        int64_t id = json_integer_value(value);
        if (id < 0 || id >= INT32_MAX)
            return sw_fail(err, SW_BAD_FILE,
                           "%s: %s: the id of token \"%.64s\" is %" PRId64 "; ids are 0 to %d",
                           part->file, object.where, text, id, INT32_MAX - 1);
        add(vocabulary, &at, text, n_text, (int32_t)id);
    }
    qsort(vocabulary->by_id, (size_t)vocabulary->n, sizeof *vocabulary->by_id, compare_ids);
    return SW_OK;
}

sw_status sw_vocabulary_read_scored(const sw_part *part, const char *key, sw_vocabulary *vocabulary,
                                    double **scores, sw_error *err) {
    json_t *list, *row;
    size_t i, n_bytes = 0;
    sw_status status = sw_part_list(part, key, SW_NEEDED, &list, err);
    if (status)
        return status;
    json_array_foreach(list, i, row) {
        const json_t *text = json_array_get(row, 0), *score = json_array_get(row, 1);
        if (json_array_size(row) != 2 || !json_is_string(text) || !json_is_number(score))
            return sw_fail(err, SW_BAD_FILE, "%s: %s.%s[%zu] is no pair of a token and its score",
                           part->file, part->where, key, i);
        n_bytes += json_string_length(text);
    }
    *scores = malloc((json_array_size(list) + 1) * sizeof **scores);
    if (!*scores || json_array_size(list) > INT32_MAX / 2 ||
        !take_room(vocabulary, json_array_size(list), n_bytes))
        return sw_fail(err, SW_NO_MEMORY, "%s: no memory", part->file);
    char *at = vocabulary->texts;
    json_array_foreach(list, i, row) {
        const json_t *text = json_array_get(row, 0);
        (*scores)[i] = json_number_value(json_array_get(row, 1));
        add(vocabulary, &at, json_string_value(text), json_string_length(text), (int32_t)i);
    }
    return SW_OK;
}

void sw_vocabulary_free(sw_vocabulary *vocabulary) {
    free(vocabulary->by_id);
    free(vocabulary->is_control);
    free(vocabulary->texts);
    sw_token_map_free(&vocabulary->by_text);
    *vocabulary = (sw_vocabulary){0};
}

const sw_token_text *sw_vocabulary_find(const sw_vocabulary *vocabulary, int32_t id) {
    if (id >= 0 && id < vocabulary->n && vocabulary->by_id[id].id == id) /* ids without gaps */
        return &vocabulary->by_id[id];
    const sw_token_text key = {.id = id};
    if (!vocabulary->n)
        return NULL;
    return bsearch(&key, vocabulary->by_id, (size_t)vocabulary->n, sizeof key, compare_ids);
}

bool sw_vocabulary_is_control(const sw_vocabulary *vocabulary, int32_t id) {
    const sw_token_text *found = sw_vocabulary_find(vocabulary, id);
    return found && vocabulary->is_control[found - vocabulary->by_id];
}
