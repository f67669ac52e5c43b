/* value.c: how each kind of option is read. */
#include "config/value.h"

#include <string.h>

#include "base/text.h"
#include "config/expansion.h"

enum { LONGEST_PATH = 4095 };

typedef struct reading {
    sw_settings *settings;
    const sw_option *option;
    void *field;
    sw_place place;
    sw_error *err;
} reading;

static sw_place place_of(const reading *in, const sw_yaml *value) {
    return (sw_place){in->place.name, in->place.line ? value->line : 0};
}

static sw_status no_memory(const reading *in) {
    return sw_fail(in->err, SW_NO_MEMORY, "no memory for settings · %s", in->place.name);
}

/* A value as a message shows it. */
static const char *shown(const sw_yaml *value, char *buffer, size_t bytes) {
    if (value->kind == SW_YAML_SCALAR)
        snprintf(buffer, bytes, value->is_plain ? "%s%.80s" : "%s\"%.80s\"",
                 *value->text || !value->is_plain ? "" : "nothing", value->text);
    else
        snprintf(buffer, bytes, "a %s", value->kind == SW_YAML_LIST ? "list" : "map");
    for (int i = 0; value->kind == SW_YAML_LIST && i < value->n && i < 3; i++) {
        char item[64];
        size_t used = strlen(buffer);
        if (value->item[i]->kind == SW_YAML_SCALAR && strlen(value->item[i]->text) < 24)
            snprintf(buffer + used, bytes - used, "%s%s", i ? ", " : " of ",
                     shown(value->item[i], item, sizeof item));
    }
    return buffer;
}

/* The kind of number that an option takes; false if it takes none. */
static bool takes_numbers(const sw_option *option, sw_numeral *kind) {
    switch (option->kind) {
    case SW_KIND_COUNT:
    case SW_KIND_COUNT_AUTO:
    case SW_KIND_WRAP:
        *kind = SW_NUMERAL_INTEGER;
        return true;
    case SW_KIND_BYTES:
        *kind = SW_NUMERAL_BYTES;
        return true;
    case SW_KIND_REAL:
    case SW_KIND_REAL_AUTO:
    case SW_KIND_PAIR:
    case SW_KIND_REALS:
    case SW_KIND_LIMIT:
        *kind = SW_NUMERAL_REAL;
        return true;
    default:
        return false;
    }
}

/* What to write in place of a number that is written as others write it; false if there is nothing
 * to say. Of a list or a map: of the first such number in it. */
static bool number_remedy(const sw_yaml *value, sw_numeral kind, char *buffer, size_t bytes) {
    for (int i = 0; value->kind != SW_YAML_SCALAR && i < value->n; i++)
        if (number_remedy(value->item[i], kind, buffer, bytes))
            return true;
    if (value->kind != SW_YAML_SCALAR || !*value->text)
        return false;
    sw_yaml plain = *value;
    double real;
    int64_t whole;
    plain.is_plain = true;
    bool is_number = kind == SW_NUMERAL_BYTES     ? sw_text_parse_bytes(value->text, &whole)
                     : kind == SW_NUMERAL_INTEGER ? sw_yaml_integer(&plain, &whole)
                                                  : sw_yaml_real(&plain, &real);
    if (is_number && !value->is_plain && kind != SW_NUMERAL_BYTES)
        snprintf(buffer, bytes, "remove the quotes");
    else if (is_number || !sw_numeral_remedy(value->text, kind, buffer, bytes))
        return false;
    return true;
}

/* The value that was meant, "" if none is near. */
static const char *meant_value(const sw_option *option, const sw_yaml *value, char *buffer,
                               size_t bytes) {
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    const char *text = value->kind == SW_YAML_SCALAR ? value->text : "", *rest = option->allowed,
               *word;
    *buffer = 0;
    if (option->kind == SW_KIND_BOOL)
        snprintf(buffer, bytes, "%s",
                 sw_text_nearest(text, yes, 3)  ? "true"
                 : sw_text_nearest(text, no, 3) ? "false"
                                                : "");
    if (option->kind == SW_KIND_CHOICE) {
        char words[16][32];
        const char *candidates[16], *nearest;
        int n = 0;
        for (size_t length; n < 16 && sw_take_word(&rest, &word, &length); n++) {
            snprintf(words[n], sizeof words[n], "%.*s", (int)length, word);
            candidates[n] = words[n];
        }
        if ((nearest = sw_text_nearest(text, candidates, n)))
            snprintf(buffer, bytes, "%s", nearest);
    }
    return buffer;
}

/* The value is of the wrong type, out of range, or not built yet. */
static sw_status refuse_value(const reading *in, const sw_yaml *value) {
    char text[128], remedy[400], described[300], meant[32];
    const sw_option *option = in->option;
    const char *what = sw_option_unbuilt(option, value);
    sw_setting_describe(option, described, sizeof described);
    if (what) {
        snprintf(remedy, sizeof remedy, "write %s", described);
        return sw_refuse(in->err, place_of(in, value), remedy, "%s.%s: %s is not built yet",
                         option->section, option->key, what);
    }
    sw_numeral kind;
    *remedy = 0;
    if (*meant_value(option, value, meant, sizeof meant))
        snprintf(remedy, sizeof remedy, "did you mean %s?", meant);
    else if (takes_numbers(option, &kind) && !number_remedy(value, kind, remedy, sizeof remedy))
        *remedy = 0;
    return sw_refuse(in->err, place_of(in, value), *remedy ? remedy : NULL,
                     "%s.%s takes %s, not %s", option->section, option->key, described,
                     shown(value, text, sizeof text));
}

static bool in_range(const sw_option *option, double value) {
    sw_range bounds = sw_range_of(option);
    return (!bounds.has_low || value > bounds.low ||
            (value == bounds.low && !bounds.excludes_low)) &&
           (!bounds.has_high || value < bounds.high ||
            (value == bounds.high && !bounds.excludes_high));
}

/* ---- one reader for each kind ---- */

/* Words that mean "none" or "off" elsewhere, and would be the name of a file here. */
static bool is_meant_as_none(const sw_yaml *value) {
    static const char *const words[] = {"none", "nil", "false", "no", "off", "true", "yes", "on"};
    for (size_t i = 0; value->is_plain && i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(value->text, words[i]))
            return true;
    return false;
}

static sw_status read_path_text(const reading *in, const sw_yaml *value, const char **path) {
    if (value->kind != SW_YAML_SCALAR || sw_yaml_is_null(value) || !*value->text)
        return refuse_value(in, value);
    if (is_meant_as_none(value)) {
        char remedy[300];
        snprintf(remedy, sizeof remedy, "write %s for none, or ./%s if a file is called so",
                 in->option->kind == SW_KIND_PATHS ? "[]" : "null", value->text);
        return sw_refuse(in->err, place_of(in, value), remedy, "%s.%s takes a path, not %s",
                         in->option->section, in->option->key, value->text);
    }
    sw_expansion found;
    if (sw_path_wants_expansion(value->text, in->settings->directory, &found)) {
        char remedy[1024];
        snprintf(remedy, sizeof remedy,
                 "write the whole path%s%s, or ./%.300s if a file is really called so",
                 *found.whole ? ": " : "", found.whole, value->text);
        return sw_refuse(in->err, place_of(in, value), remedy, "%s.%s: %s is not expanded",
                         in->option->section, in->option->key, found.word);
    }
    const char *relative = value->text;
    while (!strncmp(relative, "./", 2))
        relative += 2;
    *path = *value->text == '/' ? sw_arena_text(&in->settings->arena, value->text)
            : *relative
                ? sw_arena_format(&in->settings->arena, "%s/%s", in->settings->directory, relative)
                : sw_arena_text(&in->settings->arena, in->settings->directory);
    if (!*path)
        return no_memory(in);
    if (strlen(*path) > LONGEST_PATH)
        return sw_refuse(in->err, place_of(in, value), NULL,
                         "%s.%s: a path of %zu bytes is too long", in->option->section,
                         in->option->key, strlen(*path));
    return SW_OK;
}

static sw_status read_path(const reading *in, const sw_yaml *value) {
    const char *rest = in->option->allowed, *word;
    size_t length;
    *(const char **)in->field = NULL;
    while (value->kind == SW_YAML_SCALAR && *value->text && sw_take_word(&rest, &word, &length))
        if (strlen(value->text) == length && !memcmp(word, value->text, length)) {
            *(const char **)in->field = sw_arena_text(&in->settings->arena, value->text);
            return *(const char **)in->field ? SW_OK : no_memory(in);
        }
    return sw_yaml_is_null(value) ? SW_OK : read_path_text(in, value, in->field);
}

static sw_status read_count(const reading *in, const sw_yaml *value) {
    int64_t count;
    if (!sw_yaml_integer(value, &count) || !in_range(in->option, (double)count))
        return refuse_value(in, value);
    *(int64_t *)in->field = count;
    return SW_OK;
}

static bool is_word(const sw_yaml *value, const char *word) {
    return value->kind == SW_YAML_SCALAR && !strcmp(value->text, word);
}

static sw_status read_count_auto(const reading *in, const sw_yaml *value) {
    if (!is_word(value, "auto"))
        return read_count(in, value);
    *(int64_t *)in->field = SW_AUTO;
    return SW_OK;
}

static sw_status read_bytes(const reading *in, const sw_yaml *value) {
    int64_t bytes = 0;
    bool takes_null = !strcmp(in->option->fallback, "null");
    if (!(takes_null && sw_yaml_is_null(value))) {
        bool is_read = value->kind == SW_YAML_SCALAR &&
                       (sw_yaml_integer(value, &bytes) || sw_text_parse_bytes(value->text, &bytes));
        if (!is_read || !in_range(in->option, (double)bytes))
            return refuse_value(in, value);
    }
    *(int64_t *)in->field = bytes;
    return SW_OK;
}

static sw_status read_real(const reading *in, const sw_yaml *value) {
    double real;
    if (!sw_yaml_real(value, &real) || !in_range(in->option, real))
        return refuse_value(in, value);
    *(double *)in->field = real;
    return SW_OK;
}

static sw_status read_real_auto(const reading *in, const sw_yaml *value) {
    if (!is_word(value, "auto"))
        return read_real(in, value);
    *(double *)in->field = SW_AUTO;
    return SW_OK;
}

static sw_status read_limit(const reading *in, const sw_yaml *value) {
    *(double *)in->field = 0;
    return sw_yaml_is_null(value) ? SW_OK : read_real(in, value);
}

static sw_status read_bool(const reading *in, const sw_yaml *value) {
    return sw_yaml_boolean(value, in->field) ? SW_OK : refuse_value(in, value);
}

static sw_status read_choice(const reading *in, const sw_yaml *value) {
    const char *rest = in->option->allowed, *word;
    size_t length;
    const char *text = value->kind != SW_YAML_SCALAR ? ""
                       : sw_yaml_is_null(value)      ? "null"
                                                     : value->text;
    for (int i = 0; sw_take_word(&rest, &word, &length); i++)
        if (strlen(text) == length && !memcmp(word, text, length)) {
            *(int *)in->field = i;
            return SW_OK;
        }
    return refuse_value(in, value);
}

static sw_status read_texts(const reading *in, const sw_yaml *value, bool are_paths) {
    const sw_yaml *alone[] = {value};
    bool is_list = value->kind == SW_YAML_LIST;
    sw_texts texts = {.n = is_list ? value->n : 1};
    texts.item =
        sw_arena_take(&in->settings->arena, (size_t)(texts.n ? texts.n : 1) * sizeof *texts.item);
    if (!texts.item)
        return no_memory(in);
    for (int i = 0; i < texts.n; i++) {
        const sw_yaml *item = is_list ? value->item[i] : alone[i];
        if (item->kind != SW_YAML_SCALAR || sw_yaml_is_null(item) || !*item->text)
            return refuse_value(in, item);
        sw_status status = SW_OK;
        if (are_paths)
            status = read_path_text(in, item, &texts.item[i]);
        else if (!(texts.item[i] = sw_arena_text(&in->settings->arena, item->text)))
            status = no_memory(in);
        if (status)
            return status;
    }
    *(sw_texts *)in->field = texts;
    return SW_OK;
}

static sw_status read_paths(const reading *in, const sw_yaml *value) {
    if (sw_yaml_is_null(value)) {
        *(sw_texts *)in->field = (sw_texts){0};
        return SW_OK;
    }
    return read_texts(in, value, true);
}

static sw_status read_names(const reading *in, const sw_yaml *value) {
    bool is_empty = sw_yaml_is_null(value) || value->kind == SW_YAML_MAP ||
                    (value->kind == SW_YAML_LIST && !value->n);
    return is_empty ? refuse_value(in, value) : read_texts(in, value, false);
}

static sw_status read_train(const reading *in, const sw_yaml *value) {
    bool is_named = is_word(value, "all") || is_word(value, "lora"),
         is_list = value->kind == SW_YAML_LIST && value->n;
    return is_named || is_list ? read_texts(in, value, false) : refuse_value(in, value);
}

static sw_status read_pair(const reading *in, const sw_yaml *value) {
    double pair[2];
    if (value->kind != SW_YAML_LIST || value->n != 2)
        return refuse_value(in, value);
    for (int i = 0; i < 2; i++)
        if (!sw_yaml_real(value->item[i], &pair[i]) || !in_range(in->option, pair[i]))
            return refuse_value(in, value->item[i]);
    *(sw_pair *)in->field = (sw_pair){pair[0], pair[1]};
    return SW_OK;
}

static sw_status read_reals(const reading *in, const sw_yaml *value) {
    sw_reals *reals = in->field;
    *reals = (sw_reals){0};
    if (sw_yaml_is_null(value))
        return SW_OK;
    if (value->kind != SW_YAML_LIST || !value->n)
        return refuse_value(in, value);
    reals->item = sw_arena_take(&in->settings->arena, (size_t)value->n * sizeof *reals->item);
    if (!reals->item)
        return no_memory(in);
    for (; reals->n < value->n; reals->n++)
        if (!sw_yaml_real(value->item[reals->n], &reals->item[reals->n]) ||
            !in_range(in->option, reals->item[reals->n]))
            return refuse_value(in, value->item[reals->n]);
    return SW_OK;
}

static sw_status unknown_part(const reading *in, const sw_yaml *map, int i,
                              const char *const *parts, int n_parts) {
    char remedy[128];
    const char *meant = sw_text_nearest(map->key[i], parts, n_parts);
    snprintf(remedy, sizeof remedy, meant ? "did you mean %s?" : "it has %s",
             meant ? meant : parts[0]);
    sw_place place = {in->place.name, in->place.line ? map->key_line[i] : 0};
    return sw_refuse(in->err, place, remedy, "%s.%s has no key %.100s", in->option->section,
                     in->option->key, map->key[i]);
}

static sw_status read_wrap(const reading *in, const sw_yaml *value) {
    static const char *const parts[] = {"min_parameters"};
    if (is_word(value, "block")) {
        *(int64_t *)in->field = 0;
        return SW_OK;
    }
    for (int i = 0; value->kind == SW_YAML_MAP && i < value->n; i++)
        if (strcmp(value->key[i], parts[0]))
            return unknown_part(in, value, i, parts, 1);
    const sw_yaml *least = sw_yaml_get(value, parts[0]);
    int64_t n;
    if (!least || !sw_yaml_integer(least, &n) || n < 1)
        return refuse_value(in, least ? least : value);
    *(int64_t *)in->field = n;
    return SW_OK;
}

/* The parts of a map that are there; the others stay as they are. */
static sw_status read_parts(const reading *in, const sw_yaml *map) {
    int n_parts;
    const sw_option *parts = sw_option_parts(in->option, &n_parts);
    const char *names[SW_MOST_PARTS];
    sw_status status = SW_OK;
    if (map->kind != SW_YAML_MAP)
        return refuse_value(in, map);
    for (int part = 0; part < n_parts; part++)
        names[part] = parts[part].key;
    for (int i = 0; i < map->n && !status; i++) {
        int part = 0;
        while (part < n_parts && strcmp(names[part], map->key[i]))
            part++;
        if (part == n_parts)
            return unknown_part(in, map, i, names, n_parts);
        sw_place place = {in->place.name, in->place.line ? map->key_line[i] : 0};
        status = sw_setting_read(in->settings, &parts[part], map->item[i], place, in->err);
    }
    return status;
}

/* null is the default. */
static sw_status read_map(const reading *in, const sw_yaml *value) {
    if (!sw_yaml_is_null(value))
        return read_parts(in, value);
    sw_arena scratch = {0};
    sw_yaml *usual;
    sw_status status = sw_yaml_parse("default", in->option->fallback, strlen(in->option->fallback),
                                     &scratch, &usual, in->err);
    if (!status)
        status = read_parts(in, usual);
    sw_arena_free(&scratch);
    return status;
}

/* Every part of a map as its own line of the table has it. */
static sw_status read_usual_parts(const reading *in) {
    int n_parts;
    const sw_option *parts = sw_option_parts(in->option, &n_parts);
    sw_arena scratch = {0};
    sw_status status = SW_OK;
    for (int part = 0; part < n_parts && !status; part++) {
        sw_yaml *usual;
        status = sw_yaml_parse("default", parts[part].fallback, strlen(parts[part].fallback),
                               &scratch, &usual, in->err);
        if (!status)
            status = sw_setting_read(in->settings, &parts[part], usual, (sw_place){"default", 0},
                                     in->err);
    }
    sw_arena_free(&scratch);
    return status;
}

static sw_status read_text(const reading *in, const sw_yaml *value) {
    const char **text = in->field;
    *text = NULL;
    if (sw_yaml_is_null(value))
        return SW_OK;
    if (value->kind != SW_YAML_SCALAR || !*value->text)
        return refuse_value(in, value);
    *text = sw_arena_text(&in->settings->arena, value->text);
    return *text ? SW_OK : no_memory(in);
}

/* What the map does not name keeps its own name. */
static sw_status read_columns(const reading *in, const sw_yaml *value) {
    const char *first, *second;
    sw_status status = read_usual_parts(in);
    if (!status && !sw_yaml_is_null(value))
        status = read_parts(in, value);
    if (!status && sw_columns_are_one(in->field, &first, &second))
        status = sw_refuse(in->err, in->place, "map one of them",
                           "data.columns: %s and %s cannot be the same key", first, second);
    return status;
}

static sw_status read_spike(const reading *in, const sw_yaml *value) {
    sw_spike_settings *spike = in->field;
    const char *rest = in->option->allowed, *word;
    bool is_off = sw_yaml_is_null(value);
    for (size_t length; value->kind == SW_YAML_SCALAR && sw_take_word(&rest, &word, &length);)
        is_off = is_off || (strlen(value->text) == length && !memcmp(word, value->text, length));
    if (is_off) {
        *spike = (sw_spike_settings){0};
        return SW_OK;
    }
    sw_status status = spike->factor ? SW_OK : read_usual_parts(in);
    return status ? status : read_parts(in, value);
}

/* Each key to be forced is one that there is. */
static sw_status check_keys(const reading *in, const sw_yaml *value, const sw_texts *keys) {
    for (int i = 0; i < keys->n; i++) {
        char section[64], remedy[256];
        size_t n = strcspn(keys->item[i], ".");
        snprintf(section, sizeof section, "%.*s", (int)n, keys->item[i]);
        const char *key = keys->item[i][n] ? keys->item[i] + n + 1 : "";
        if (sw_option_find(section, key))
            continue;
        sw_option_suggest(NULL, *key ? key : section, remedy, sizeof remedy);
        return sw_refuse(in->err, place_of(in, value), remedy,
                         "%s.%s.force: there is no setting %.100s", in->option->section,
                         in->option->key, keys->item[i]);
    }
    return SW_OK;
}

static sw_status read_resume(const reading *in, const sw_yaml *value) {
    static const char *const parts[] = {"force"};
    sw_resume_settings *resume = in->field;
    *resume = (sw_resume_settings){.never = is_word(value, "never")};
    if (resume->never || is_word(value, "auto"))
        return SW_OK;
    for (int i = 0; value->kind == SW_YAML_MAP && i < value->n; i++)
        if (strcmp(value->key[i], parts[0]))
            return unknown_part(in, value, i, parts, 1);
    const sw_yaml *keys = sw_yaml_get(value, parts[0]);
    if (!keys || keys->kind == SW_YAML_MAP || sw_yaml_is_null(keys))
        return refuse_value(in, value);
    reading force = *in;
    force.field = &resume->force;
    sw_status status = read_texts(&force, keys, false);
    return status ? status : check_keys(in, keys, &resume->force);
}

static sw_status not_built(const reading *in, sw_place place, const char *part, const char *off) {
    char remedy[300];
    snprintf(remedy, sizeof remedy, "leave it out or write %s", off);
    return sw_refuse(in->err, place, remedy, "%s.%s%s%s: %s is not built yet", in->option->section,
                     in->option->key, part ? "." : "", part ? part : "", in->option->help);
}

/* Only the value that means off: the default, another spelling of it, or a map in which every key
 * that is there is off. */
static sw_status read_off(const reading *in, const sw_yaml *value) {
    const sw_option *option = in->option;
    if (value->kind == SW_YAML_SCALAR) {
        const char *rest = option->allowed, *word;
        size_t length;
        if (!strcmp(value->text, option->fallback))
            return SW_OK;
        while (sw_take_word(&rest, &word, &length)) {
            bool is_null = length == 4 && !memcmp(word, "null", 4);
            if (is_null ? sw_yaml_is_null(value)
                        : strlen(value->text) == length && !memcmp(word, value->text, length))
                return SW_OK;
        }
    }
    sw_arena scratch = {0};
    sw_yaml *off;
    sw_status status = sw_yaml_parse("default", option->fallback, strlen(option->fallback),
                                     &scratch, &off, in->err);
    if (!status && !sw_yaml_equal(value, off)) {
        bool is_whole = value->kind != SW_YAML_MAP || off->kind != SW_YAML_MAP;
        if (is_whole)
            status = not_built(in, place_of(in, value), NULL, option->fallback);
        for (int i = 0; !is_whole && !status && i < value->n; i++) {
            const sw_yaml *part = sw_yaml_get(off, value->key[i]);
            if (!part)
                status = unknown_part(in, value, i, off->key, off->n);
            else if (!sw_yaml_equal(part, value->item[i]) && !sw_yaml_is_null(value->item[i]))
                status = not_built(in, place_of(in, value->item[i]), value->key[i], part->text);
        }
    }
    sw_arena_free(&scratch);
    return status;
}

sw_status sw_setting_read(sw_settings *settings, const sw_option *option, const sw_yaml *value,
                          sw_place place, sw_error *err) {
    static sw_status (*const readers[])(const reading *, const sw_yaml *) = {
        [SW_KIND_REAL_AUTO] = read_real_auto, [SW_KIND_PATH] = read_path,
        [SW_KIND_COUNT] = read_count,         [SW_KIND_COUNT_AUTO] = read_count_auto,
        [SW_KIND_BYTES] = read_bytes,         [SW_KIND_REAL] = read_real,
        [SW_KIND_BOOL] = read_bool,           [SW_KIND_PATHS] = read_paths,
        [SW_KIND_CHOICE] = read_choice,       [SW_KIND_TRAIN] = read_train,
        [SW_KIND_PAIR] = read_pair,           [SW_KIND_REALS] = read_reals,
        [SW_KIND_WRAP] = read_wrap,           [SW_KIND_OFF] = read_off,
        [SW_KIND_NAMES] = read_names,         [SW_KIND_MAP] = read_map,
        [SW_KIND_SPIKE] = read_spike,         [SW_KIND_LIMIT] = read_limit,
        [SW_KIND_RESUME] = read_resume,       [SW_KIND_TEXT] = read_text,
        [SW_KIND_COLUMNS] = read_columns,
    };
    reading in = {settings, option, (char *)settings + option->offset, place, err};
    return readers[option->kind](&in, value);
}
