/* manifest_parse.c: a manifest is believed when its bytes are those that were written, and what
 * they say holds together.
 *
 * Members come in the one order in which they are written, so reading is a walk: the text is copied
 * once, strings are unescaped where they stand, and nothing else is allocated but the lists of
 * ranges and parameters.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/manifest_format.h"
#include "formats/scanner.h"

typedef struct parser {
    const char *name; /* of the file */
    sw_scanner at;    /* its messages are not used: they speak of another format */
    sw_manifest *manifest;
    sw_error *err;
} parser;

static sw_status refuse(const parser *p, const char *what, const char *reason) {
    return sw_fail(p->err, SW_BAD_FILE,
                   "%s: %s %s; it was not made by this program, restore the checkpoint from a copy",
                   p->name, what, reason);
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
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
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
        memcmp(text + bytes - AFTER, after, AFTER) != 0 ||
        !parse_checksum(text + digits, SW_CHECKSUM_DIGITS, &checksum))
        return sw_fail(
            p->err, SW_BAD_FILE,
            "%s: does not end with its checksum: it was cut or changed; take another checkpoint",
            p->name);
    if (checksum != sw_checksum(text, digits))
        return sw_fail(
            p->err, SW_BAD_FILE,
            "%s: its checksum is wrong: it was changed or damaged; take another checkpoint",
            p->name);
    return SW_OK;
}

/* ---- words ---- */

static bool pass(parser *p, char c) {
    return sw_scan_pass(&p->at, c);
}

static bool pass_word(parser *p, const char *word) {
    size_t n = strlen(word);
    sw_scan_blanks(&p->at);
    if ((size_t)(p->at.end - p->at.at) < n || memcmp(p->at.at, word, n) != 0)
        return false;
    p->at.at += n;
    return true;
}

static bool get_text(parser *p, const char **text) {
    char *found = NULL;
    bool is_there = sw_scan_string(&p->at, "", &found) == SW_OK;
    *text = found;
    return is_there;
}

static bool get_count(parser *p, int64_t *count) {
    return sw_scan_integer(&p->at, "", count) == SW_OK;
}

/* The key of the next member, which must be this one. */
static bool pass_key(parser *p, const char *key) {
    const char *found;
    return get_text(p, &found) && strcmp(found, key) == 0 && pass(p, ':');
}

static bool get_checksum(parser *p, uint64_t *checksum) {
    const char *digits;
    return get_text(p, &digits) && parse_checksum(digits, (int64_t)strlen(digits), checksum);
}

/* One more item in a list of the arena's; NULL when memory is short. */
static void *add_item(parser *p, void **items, int n, int *capacity, size_t item_bytes) {
    void *grown = sw_arena_grow(&p->manifest->arena, *items, n, capacity, item_bytes);
    if (!grown)
        return NULL;
    *items = grown;
    return (char *)grown + (size_t)n * item_bytes;
}

/* ---- members ---- */

static sw_status parse_head(parser *p) {
    sw_manifest *m = p->manifest;
    const char *format;
    int64_t version;
    if (!pass(p, '{') || !pass_key(p, "format") || !get_text(p, &format) ||
        strcmp(format, SW_MANIFEST_FORMAT) != 0)
        return refuse(p, "format", "is not \"" SW_MANIFEST_FORMAT "\"");
    if (!pass(p, ',') || !pass_key(p, "version") || !get_count(p, &version) || version < 1)
        return refuse(p, "version", "is no positive integer");
    if (version > SW_MANIFEST_VERSION)
        return sw_fail(
            p->err, SW_BAD_CONFIG,
            "%s: has version %" PRId64
            " of the format, and %d is read; use the shardwise that wrote it or a newer one",
            p->name, version, SW_MANIFEST_VERSION);
    if (!pass(p, ',') || !pass_key(p, "step") || !get_count(p, &m->step))
        return refuse(p, "step", "is no count");
    return SW_OK;
}

static sw_status parse_loss(parser *p) {
    char number[64];
    size_t n = 0;
    if (!pass(p, ',') || !pass_key(p, "validation_loss"))
        return refuse(p, "validation_loss", "is missing");
    p->manifest->validation_loss = NAN;
    if (pass_word(p, "null"))
        return SW_OK;
    for (; n < sizeof number - 1 && p->at.at < p->at.end && strchr("+-.0123456789eE", *p->at.at);
         n++)
        number[n] = *p->at.at++;
    number[n] = 0;
    return sw_text_parse_real(number, &p->manifest->validation_loss)
               ? SW_OK
               : refuse(p, "validation_loss", "is neither a number nor null");
}

/* The caller's object, as it stands. */
static sw_status parse_state(parser *p) {
    if (!pass(p, ',') || !pass_key(p, "state"))
        return refuse(p, "state", "is missing");
    sw_scan_blanks(&p->at);
    const char *end = sw_manifest_object_end(p->at.at, p->at.end);
    if (!end)
        return refuse(p, "state", "is no object");
    size_t bytes = (size_t)(end - p->at.at);
    char *state = sw_arena_take(&p->manifest->arena, bytes + 1);
    if (!state)
        return no_memory(p);
    memcpy(state, p->at.at, bytes);
    p->manifest->state = state;
    p->at.at += bytes;
    return SW_OK;
}

static sw_status parse_config(parser *p) {
    if (!pass(p, ',') || !pass_key(p, "model_config") ||
        (!pass_word(p, "null") && !get_text(p, &p->manifest->model_config)))
        return refuse(p, "model_config", "is neither text nor null");
    return SW_OK;
}

static sw_status parse_settings(parser *p) {
    sw_manifest *m = p->manifest;
    void *list = NULL;
    int capacity = 0;
    uint64_t hash;
    if (!pass(p, ',') || !pass_key(p, "settings") || !pass(p, '{'))
        return refuse(p, "settings", "is no object");
    while (!pass(p, '}')) {
        sw_setting_text *setting = add_item(p, &list, m->n_settings, &capacity, sizeof *setting);
        if (!setting)
            return no_memory(p);
        if ((m->n_settings && !pass(p, ',')) || !get_text(p, &setting->key) || !pass(p, ':') ||
            !get_text(p, &setting->value))
            return refuse(p, "settings", "has one that is not a key and text");
        m->n_settings++;
        m->setting = list;
    }
    if (!pass(p, ',') || !pass_key(p, "settings_hash") || !get_checksum(p, &hash) ||
        hash != sw_manifest_settings_hash(m))
        return refuse(p, "settings_hash", "is not that of the settings");
    return SW_OK;
}

static sw_status parse_parameter(parser *p, sw_state_parameter *parameter) {
    *parameter = (sw_state_parameter){.n_elements = 1};
    if (!pass(p, '{') || !pass_key(p, "name") || !get_text(p, &parameter->name) ||
        !*parameter->name || !pass(p, ',') || !pass_key(p, "shape") || !pass(p, '['))
        return refuse(p, "parameters", "has one that is not {name, shape, trainable}");
    while (!pass(p, ']')) {
        int d = parameter->n_dimensions++;
        if (d == 4 || (d && !pass(p, ',')) || !get_count(p, &parameter->dimension[d]) ||
            __builtin_mul_overflow(parameter->n_elements, parameter->dimension[d],
                                   &parameter->n_elements) ||
            parameter->n_elements > INT64_C(1) << 56)
            return refuse(p, "parameters", "has a shape that no model has");
    }
    if (!pass(p, ',') || !pass_key(p, "trainable"))
        return refuse(p, "parameters", "has one that is not {name, shape, trainable}");
    parameter->is_trainable = pass_word(p, "true");
    bool is_frozen = !parameter->is_trainable && pass_word(p, "false");
    parameter->is_left_out = is_frozen && pass(p, ',');
    if ((!parameter->is_trainable && !is_frozen) ||
        (parameter->is_left_out && (!pass_key(p, "left_out") || !pass_word(p, "true"))) ||
        !pass(p, '}'))
        return refuse(p, "parameters", "has one that is not {name, shape, trainable}");
    return SW_OK;
}

static sw_status parse_parameters(parser *p) {
    sw_manifest *m = p->manifest;
    void *list = NULL;
    int capacity = 0;
    if (!pass(p, ',') || !pass_key(p, "parameters") || !pass(p, '['))
        return refuse(p, "parameters", "is no list");
    while (!pass(p, ']')) {
        sw_state_parameter *parameter =
            add_item(p, &list, m->n_parameters, &capacity, sizeof *parameter);
        if (!parameter)
            return no_memory(p);
        if (m->n_parameters && !pass(p, ','))
            return refuse(p, "parameters", "is no list");
        sw_status status = parse_parameter(p, parameter);
        if (status != SW_OK)
            return status;
        m->n_parameters++;
        m->parameter = list;
    }
    return SW_OK;
}

/* Ranges lie one behind the other, none is empty or too long, and together they are the file. */
static sw_status parse_ranges(parser *p, sw_manifest_file *file) {
    void *list = NULL;
    int capacity = 0;
    int64_t end = 0;
    while (!pass(p, ']')) {
        sw_file_range *range =
            file->n_ranges < INT32_MAX / 2
                ? add_item(p, &list, (int)file->n_ranges, &capacity, sizeof *range)
                : NULL;
        if (!range)
            return no_memory(p);
        if ((file->n_ranges && !pass(p, ',')) || !pass(p, '[') || !get_count(p, &range->offset) ||
            !pass(p, ',') || !get_count(p, &range->bytes) || !pass(p, ',') ||
            !get_checksum(p, &range->checksum) || !pass(p, ']'))
            return refuse(p, "ranges", "has one that is not [offset, bytes, checksum]");
        if (range->offset != end || range->bytes < 1 || range->bytes > SW_RANGE_BYTES ||
            __builtin_add_overflow(end, range->bytes, &end))
            return refuse(p, "ranges", "are not one behind the other");
        file->n_ranges++;
        file->range = list;
    }
    return end == file->bytes ? SW_OK : refuse(p, "ranges", "do not cover their file");
}

static sw_status parse_file(parser *p) {
    const char *name;
    int64_t bytes;
    if (!pass(p, '{') || !pass_key(p, "name") || !get_text(p, &name) || !pass(p, ',') ||
        !pass_key(p, "bytes") || !get_count(p, &bytes) || !pass(p, ',') || !pass_key(p, "ranges") ||
        !pass(p, '['))
        return refuse(p, "files", "has one that is not {name, bytes, ranges}");
    for (int kind = 0; kind < SW_N_STATE_KINDS; kind++) {
        sw_manifest_file *file = &p->manifest->file[kind];
        if (strcmp(name, sw_state_file_name((sw_state_kind)kind)) != 0)
            continue;
        if (file->is_there)
            return refuse(p, "files", "has a name twice");
        *file = (sw_manifest_file){.is_there = true, .bytes = bytes};
        sw_status status = parse_ranges(p, file);
        return status != SW_OK || pass(p, '}')
                   ? status
                   : refuse(p, "files", "has one that is not {name, bytes, ranges}");
    }
    return refuse(p, "files", "has a name that no checkpoint has"); /* names lead nowhere else */
}

/* Then nothing follows but the checksum. */
static sw_status parse_files(parser *p) {
    sw_status status = SW_OK;
    if (!pass(p, ',') || !pass_key(p, "files") || !pass(p, '['))
        return refuse(p, "files", "is no list");
    for (int n = 0; !pass(p, ']') && status == SW_OK; n++)
        status = n && !pass(p, ',') ? refuse(p, "files", "is no list") : parse_file(p);
    if (status == SW_OK && !p->manifest->file[SW_STATE_MASTER].is_there)
        return refuse(p, "files", "has no parameters.safetensors");
    if (status == SW_OK && p->at.at != p->at.end)
        return refuse(p, "the list of files", "is not the last member");
    return status;
}

sw_status sw_manifest_parse(const char *name, const char *text, int64_t bytes,
                            sw_manifest *manifest, sw_error *err) {
    static sw_status (*const members[])(parser *) = {parse_head,   parse_loss,     parse_state,
                                                     parse_config, parse_settings, parse_parameters,
                                                     parse_files};
    parser p = {.name = name, .manifest = manifest, .err = err};
    *manifest = (sw_manifest){.validation_loss = NAN};
    sw_status status = check_text(&p, text, bytes);
    if (status != SW_OK)
        return status;
    if (!sw_text_is_utf8(text, (size_t)bytes) || memchr(text, 0, (size_t)bytes))
        return refuse(&p, "the text", "is not UTF-8, or holds a NUL");
    char *copy = sw_arena_take(&manifest->arena, (size_t)bytes + 1);
    if (!copy)
        return no_memory(&p);
    memcpy(copy, text, (size_t)bytes);
    int64_t end = bytes - (int64_t)(sizeof SW_MANIFEST_BEFORE_CHECKSUM - 1 + SW_CHECKSUM_DIGITS +
                                    sizeof SW_MANIFEST_AFTER_CHECKSUM - 1);
    copy[end] = 0;
    p.at = (sw_scanner){.path = name, .text = copy, .at = copy, .end = copy + end};
    for (size_t i = 0; i < sizeof members / sizeof *members && status == SW_OK; i++)
        status = members[i](&p);
    return status;
}

void sw_manifest_free(sw_manifest *manifest) {
    sw_arena_free(&manifest->arena);
    *manifest = (sw_manifest){0};
}
