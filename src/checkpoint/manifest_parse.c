/* manifest_parse.c: a manifest is believed when its bytes are those that were written, and what they say holds together. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/manifest.h"
#include "checkpoint/manifest_format.h"

typedef struct parser {
    const char *name; /* of the file */
    sw_manifest *manifest;
    sw_error *err;
} parser;

static sw_status refuse(const parser *p, const char *what, const char *reason) {
    return sw_fail(p->err, SW_BAD_FILE, "%s: %s %s; it was not made by this program, restore the checkpoint from a copy", p->name,
                   what, reason);
}

static sw_status no_memory(const parser *p) {
    return sw_fail(p->err, SW_NO_MEMORY, "%s: no memory to read it", p->name);
}

/* Exactly 16 digits 0-9a-f: one way to write a checksum. */
static bool parse_checksum(const char *digits, int64_t n, uint64_t *checksum) {
    *checksum = 0;
    if (n != SW_CHECKSUM_DIGITS)
        return false;
    for (int i = 0; i < SW_CHECKSUM_DIGITS; i++) {
        char c = digits[i];
        unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
        if (digit > 15)
            return false;
        *checksum = *checksum << 4 | digit;
    }
    return true;
}

/* Is the text what was written? Its end has one form, and vouches for all before it. */
static sw_status check_text(const parser *p, const char *text, int64_t bytes) {
    static const char before[] = SW_MANIFEST_BEFORE_CHECKSUM, after[] = SW_MANIFEST_AFTER_CHECKSUM;
    enum { BEFORE = sizeof before - 1, AFTER = sizeof after - 1 };
    int64_t digits = bytes - AFTER - SW_CHECKSUM_DIGITS;
    uint64_t checksum;
    if (digits < BEFORE || memcmp(text + digits - BEFORE, before, BEFORE) != 0 ||
        memcmp(text + bytes - AFTER, after, AFTER) != 0 || !parse_checksum(text + digits, SW_CHECKSUM_DIGITS, &checksum))
        return sw_fail(p->err, SW_BAD_FILE, "%s: does not end with its checksum: it was cut or changed; take another checkpoint",
                       p->name);
    if (checksum != sw_checksum(text, digits))
        return sw_fail(p->err, SW_BAD_FILE, "%s: its checksum is wrong: it was changed or damaged; take another checkpoint",
                       p->name);
    return SW_OK;
}

static bool get_count(const json_t *value, int64_t *count) {
    *count = json_is_integer(value) ? json_integer_value(value) : -1;
    return *count >= 0;
}

static sw_status parse_head(parser *p, const json_t *root) {
    sw_manifest *m = p->manifest;
    const char *format = json_string_value(json_object_get(root, "format"));
    int64_t version;
    if (!format || strcmp(format, SW_MANIFEST_FORMAT) != 0)
        return refuse(p, "format", "is not \"" SW_MANIFEST_FORMAT "\"");
    if (!get_count(json_object_get(root, "version"), &version) || version < 1)
        return refuse(p, "version", "is no positive integer");
    if (version > SW_MANIFEST_VERSION)
        return sw_fail(p->err, SW_BAD_FILE,
                       "%s: has version %" PRId64
                       " of the format, and %d is read; use the shardwise that wrote it or a newer one",
                       p->name, version, SW_MANIFEST_VERSION);
    if (json_object_size(root) != 11)
        return refuse(p, "the object", "has not the 11 members of version 1");
    if (!get_count(json_object_get(root, "step"), &m->step))
        return refuse(p, "step", "is no count");
    const json_t *loss = json_object_get(root, "validation_loss"), *config = json_object_get(root, "model_config");
    if (!json_is_number(loss) && !json_is_null(loss))
        return refuse(p, "validation_loss", "is neither a number nor null");
    m->validation_loss = json_is_number(loss) ? json_number_value(loss) : NAN;
    if (!json_is_string(config) && !json_is_null(config))
        return refuse(p, "model_config", "is neither text nor null");
    if (json_is_string(config) && !(m->model_config = sw_arena_text(&m->arena, json_string_value(config))))
        return no_memory(p);
    const json_t *state = json_object_get(root, "state");
    if (!json_is_object(state))
        return refuse(p, "state", "is no object");
    char *text = json_dumps(state, JSON_PRESERVE_ORDER);
    m->state = text ? sw_arena_text(&m->arena, text) : NULL;
    free(text);
    return m->state ? SW_OK : no_memory(p);
}

static sw_status parse_settings(parser *p, json_t *root) {
    sw_manifest *m = p->manifest;
    json_t *settings = json_object_get(root, "settings"), *value;
    const char *key;
    if (!json_is_object(settings) || json_object_size(settings) > 10000)
        return refuse(p, "settings", "is no object of settings");
    sw_setting_text *list = sw_arena_take(&m->arena, (json_object_size(settings) + 1) * sizeof *list);
    if (!list)
        return no_memory(p);
    m->setting = list;
    json_object_foreach(settings, key, value) {
        if (!json_is_string(value))
            return refuse(p, "settings", "has a value that is no text");
        sw_setting_text *setting = &list[m->n_settings++];
        setting->key = sw_arena_text(&m->arena, key);
        setting->value = sw_arena_text(&m->arena, json_string_value(value));
        if (!setting->key || !setting->value)
            return no_memory(p);
    }
    const json_t *hash = json_object_get(root, "settings_hash");
    uint64_t checksum;
    if (!json_is_string(hash) || !parse_checksum(json_string_value(hash), (int64_t)json_string_length(hash), &checksum) ||
        checksum != sw_manifest_settings_hash(m))
        return refuse(p, "settings_hash", "is not that of the settings");
    return SW_OK;
}

static sw_status parse_parameter(parser *p, const json_t *from, sw_state_parameter *to) {
    const json_t *name = json_object_get(from, "name"), *shape = json_object_get(from, "shape");
    const json_t *is_trainable = json_object_get(from, "trainable"), *is_left_out = json_object_get(from, "left_out");
    if (json_object_size(from) != (is_left_out ? 4 : 3) ||
        (is_left_out && (!json_is_true(is_left_out) || !json_is_false(is_trainable))) || !json_is_string(name) ||
        !json_string_length(name) || !json_is_array(shape) || json_array_size(shape) > 4 || !json_is_boolean(is_trainable))
        return refuse(p, "parameters", "has one that is not {name, shape, trainable}");
    *to = (sw_state_parameter){.name = sw_arena_text(&p->manifest->arena, json_string_value(name)),
                               .n_dimensions = (int)json_array_size(shape),
                               .n_elements = 1,
                               .is_trainable = json_is_true(is_trainable),
                               .is_left_out = is_left_out};
    if (!to->name)
        return no_memory(p);
    for (int d = 0; d < to->n_dimensions; d++)
        if (!get_count(json_array_get(shape, (size_t)d), &to->dimension[d]) ||
            __builtin_mul_overflow(to->n_elements, to->dimension[d], &to->n_elements) || to->n_elements > INT64_C(1) << 56)
            return refuse(p, "parameters", "has a shape that no model has");
    return SW_OK;
}

static sw_status parse_parameters(parser *p, const json_t *root) {
    sw_manifest *m = p->manifest;
    const json_t *list = json_object_get(root, "parameters");
    if (!json_is_array(list) || json_array_size(list) > INT32_MAX)
        return refuse(p, "parameters", "is no list");
    sw_state_parameter *parameters = sw_arena_take(&m->arena, (json_array_size(list) + 1) * sizeof *parameters);
    if (!parameters)
        return no_memory(p);
    m->parameter = parameters;
    sw_status status = SW_OK;
    for (size_t i = 0; i < json_array_size(list) && status == SW_OK; i++, m->n_parameters++)
        status = parse_parameter(p, json_array_get(list, i), &parameters[i]);
    return status;
}

/* Ranges lie one behind the other, none is empty or too long, and together they are the file. */
static sw_status parse_ranges(parser *p, const json_t *list, sw_manifest_file *file) {
    int64_t n = (int64_t)json_array_size(list), end = 0;
    file->range = sw_arena_take(&p->manifest->arena, (size_t)(n + 1) * sizeof *file->range);
    if (!file->range)
        return no_memory(p);
    for (int64_t i = 0; i < n; i++) {
        const json_t *from = json_array_get(list, (size_t)i);
        sw_file_range *to = &file->range[i];
        const json_t *checksum = json_array_get(from, 2);
        if (json_array_size(from) != 3 || !get_count(json_array_get(from, 0), &to->offset) ||
            !get_count(json_array_get(from, 1), &to->bytes) || !json_is_string(checksum) ||
            !parse_checksum(json_string_value(checksum), (int64_t)json_string_length(checksum), &to->checksum))
            return refuse(p, "ranges", "has one that is not [offset, bytes, checksum]");
        if (to->offset != end || to->bytes < 1 || to->bytes > SW_RANGE_BYTES || __builtin_add_overflow(end, to->bytes, &end))
            return refuse(p, "ranges", "are not one behind the other");
    }
    if (end != file->bytes)
        return refuse(p, "ranges", "do not cover their file");
    file->n_ranges = n;
    return SW_OK;
}

static sw_status parse_file(parser *p, const json_t *from) {
    const json_t *ranges = json_object_get(from, "ranges");
    const char *name = json_string_value(json_object_get(from, "name"));
    int64_t bytes;
    if (json_object_size(from) != 3 || !name || !json_is_array(ranges) || !get_count(json_object_get(from, "bytes"), &bytes))
        return refuse(p, "files", "has one that is not {name, bytes, ranges}");
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        sw_manifest_file *file = &p->manifest->file[kind];
        if (strcmp(name, sw_state_file_name((sw_state_kind)kind)) != 0)
            continue;
        if (file->is_there)
            return refuse(p, "files", "has a name twice");
        *file = (sw_manifest_file){.is_there = true, .bytes = bytes};
        return parse_ranges(p, ranges, file);
    }
    return refuse(p, "files", "has a name that no checkpoint has"); /* names lead nowhere else */
}

static sw_status parse_files(parser *p, const json_t *root) {
    const json_t *list = json_object_get(root, "files");
    sw_status status = SW_OK;
    if (!json_is_array(list))
        return refuse(p, "files", "is no list");
    for (size_t i = 0; i < json_array_size(list) && status == SW_OK; i++)
        status = parse_file(p, json_array_get(list, i));
    if (status == SW_OK && !p->manifest->file[SW_STATE_MASTER].is_there)
        return refuse(p, "files", "has no parameters.safetensors");
    return status;
}

sw_status sw_manifest_parse(const char *name, const char *text, int64_t bytes, sw_manifest *manifest, sw_error *err) {
    parser p = {name, manifest, err};
    json_error_t error;
    *manifest = (sw_manifest){.validation_loss = NAN};
    sw_status status = check_text(&p, text, bytes);
    if (status != SW_OK)
        return status;
    json_t *root = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return json_error_code(&error) == json_error_out_of_memory ? no_memory(&p) : refuse(&p, "the text", "is not valid JSON");
    if (!json_is_object(root))
        status = refuse(&p, "the text", "is no JSON object");
    if (status == SW_OK)
        status = parse_head(&p, root);
    if (status == SW_OK)
        status = parse_settings(&p, root);
    if (status == SW_OK)
        status = parse_parameters(&p, root);
    if (status == SW_OK)
        status = parse_files(&p, root);
    json_decref(root);
    return status;
}

void sw_manifest_free(sw_manifest *manifest) {
    sw_arena_free(&manifest->arena);
    *manifest = (sw_manifest){0};
}
