/* settings_read.c: defaults, then the file, then the command line from left to right, each laid
 * over the one before; then the checks between options.
 *
 * All three are YAML and go through the same readers (value.c), so a default is written as a user
 * would write it.
 */
#include "config/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml.h"
#include "config/check.h"
#include "config/settings_text.h"
#include "config/table.h"
#include "config/value.h"

typedef struct reader {
    const char *name; /* of the file */
    sw_settings *settings;
    sw_place written[SW_N_OPTIONS +
                     1]; /* where each option was written; the last is the file as a whole */
    sw_arena scratch;    /* trees and names that are not needed afterwards */
    sw_error *err;
} reader;

static const char command_line[] = "command line";

static sw_status no_memory(reader *in) {
    return sw_fail(in->err, SW_NO_MEMORY, "no memory for settings · %s", in->name);
}

/* The defaults as one YAML list in the order of the table. */
#define DEFAULT_ITEM(section, name, kind, fallback, allowed, help) "- " fallback "\n"
#define DEFAULT_ITEMS(section, OPTIONS) OPTIONS(DEFAULT_ITEM)
static const char defaults[] = SW_SECTIONS(DEFAULT_ITEMS);

static sw_status read_defaults(reader *in) {
    sw_yaml *list;
    sw_status status =
        sw_yaml_parse("defaults", defaults, sizeof defaults - 1, &in->scratch, &list, in->err);
    for (int i = 0; !status && i < SW_N_OPTIONS; i++)
        if (sw_option_table[i].kind != SW_KIND_OFF) /* those have no field to fill */
            status = sw_setting_read(in->settings, &sw_option_table[i], list->item[i],
                                     (sw_place){"defaults", list->item[i]->line}, in->err);
    return status;
}

static sw_status read_option(reader *in, const char *section, const char *key, const sw_yaml *value,
                             sw_place place) {
    const sw_option *option = sw_option_find(section, key);
    if (!option) {
        char remedy[256];
        sw_option_suggest(section, key, remedy, sizeof remedy);
        return sw_refuse(in->err, place, remedy, "section %s has no key %.100s", section, key);
    }
    in->written[option - sw_option_table] = place;
    return sw_setting_read(in->settings, option, value, place, in->err);
}

static bool is_section(const char *name) {
    for (int i = 0; sw_option_section(i); i++)
        if (!strcmp(sw_option_section(i), name))
            return true;
    return false;
}

static sw_status refuse_section(reader *in, const char *name, sw_place place) {
    char remedy[256];
    const char *names[16], *section;
    int n = 0;
    while (n < 16 && (section = sw_option_section(n)))
        names[n++] = section;
    const char *nearest = sw_text_nearest(name, names, n);
    if (nearest)
        snprintf(remedy, sizeof remedy, "did you mean %s?", nearest);
    else
        sw_option_suggest(NULL, name, remedy, sizeof remedy);
    return sw_refuse(in->err, place, remedy, "there is no section %.100s", name);
}

static sw_status read_section(reader *in, const char *section, const sw_yaml *map) {
    if (sw_yaml_is_null(map))
        return SW_OK;
    if (map->kind != SW_YAML_MAP)
        return sw_refuse(in->err, (sw_place){in->name, map->line},
                         "write its keys below it, indented",
                         "section %s has keys, not a value of its own", section);
    sw_status status = SW_OK;
    for (int i = 0; !status && i < map->n; i++)
        status = read_option(in, section, map->key[i], map->item[i],
                             (sw_place){in->name, map->key_line[i]});
    return status;
}

static sw_status read_document(reader *in, const char *text, size_t bytes) {
    sw_yaml *root;
    sw_status status = sw_yaml_parse(in->name, text, bytes, &in->scratch, &root, in->err);
    if (status || sw_yaml_is_null(root))
        return status;
    if (root->kind != SW_YAML_MAP)
        return sw_refuse(
            in->err, (sw_place){in->name, root->line},
            "it begins with a section, such as model:", "this is not a file of settings");
    for (int i = 0; !status && i < root->n; i++) {
        sw_place place = {in->name, root->key_line[i]};
        status = is_section(root->key[i]) ? read_section(in, root->key[i], root->item[i])
                                          : refuse_section(in, root->key[i], place);
    }
    return status;
}

/* The value of an override, which stands for {part: value} where the key has a third level. */
static sw_status override_value(reader *in, const char *key, const char *part, const char *text,
                                sw_yaml **value) {
    char name[128];
    snprintf(name, sizeof name, "%s, %.80s", command_line, key);
    sw_status status = sw_yaml_parse(name, text, strlen(text), &in->scratch, value, in->err);
    if (status || !part)
        return status;
    sw_yaml *map = sw_arena_take(&in->scratch, sizeof *map);
    sw_yaml **item = sw_arena_take(&in->scratch, sizeof *item);
    const char **parts = sw_arena_take(&in->scratch, sizeof *parts);
    int *line = sw_arena_take(&in->scratch, sizeof *line);
    if (!map || !item || !parts || !line)
        return no_memory(in);
    *item = *value;
    *parts = part;
    *map = (sw_yaml){.kind = SW_YAML_MAP, .n = 1, .key = parts, .key_line = line, .item = item};
    *value = map;
    return SW_OK;
}

/* section.key=value or section.key.part=value */
static sw_status read_override(reader *in, const char *override) {
    sw_place place = {command_line, 0};
    size_t name_bytes = strcspn(override, "=");
    char *section = sw_arena_text(&in->scratch, override);
    if (!section)
        return no_memory(in);
    if (!override[name_bytes] || !sw_text_is_utf8(override, strlen(override)))
        return sw_refuse(in->err, place, "write section.key=value, such as train.steps=100",
                         "%.100s is not a setting", override);
    section[name_bytes] = 0;
    const char *text = override + name_bytes + 1;
    char *key = strchr(section, '.');
    if (!key) {
        char remedy[256] = "write section.key=value, such as train.steps=100";
        if (!is_section(section))
            sw_option_suggest(NULL, section, remedy, sizeof remedy);
        return sw_refuse(in->err, place, remedy, "%.100s has no section", section);
    }
    *key++ = 0;
    char *part = strchr(key, '.');
    if (part)
        *part++ = 0;
    if (!is_section(section))
        return refuse_section(in, section, place);
    sw_yaml *value;
    sw_status status = override_value(in, key, part, text, &value);
    return status ? status : read_option(in, section, key, value, place);
}

bool sw_settings_is_bytes(const sw_settings *settings) {
    return settings->data.tokenizer && !strcmp(settings->data.tokenizer, "bytes");
}

sw_dtype sw_settings_parameter_dtype(const sw_settings *settings) {
    return settings->shard.param_dtype == SW_PARAM_BF16 ? SW_BF16 : SW_F32;
}

sw_status sw_settings_parse(const char *name, const char *directory, const char *text,
                            const char *const *overrides, int n_overrides, sw_settings *settings,
                            sw_error *err) {
    memset(settings, 0, sizeof *settings);
    reader in = {.name = name, .settings = settings, .err = err};
    in.written[SW_N_OPTIONS].name = name;
    settings->directory = sw_arena_text(&settings->arena, directory);
    settings->name = sw_arena_text(&settings->arena, name);
    sw_status status = settings->directory && settings->name ? read_defaults(&in) : no_memory(&in);
    const sw_settings untouched = *settings;
    if (!status)
        status = read_document(&in, text, strlen(text));
    for (int i = 0; !status && i < n_overrides; i++)
        status = read_override(&in, overrides[i]);
    if (!status)
        status = sw_settings_check(settings, &untouched, in.written, err);
    sw_arena_free(&in.scratch);
    if (status)
        sw_settings_free(settings);
    return status;
}

sw_status sw_settings_read(const char *path, const char *const *overrides, int n_overrides,
                           sw_settings *settings, sw_error *err) {
    char *text, *folder;
    memset(settings, 0, sizeof *settings);
    sw_status status = sw_settings_text(path, &text, &folder, err);
    if (!status)
        status = sw_settings_parse(path, folder, text, overrides, n_overrides, settings, err);
    free(folder);
    free(text);
    return status;
}

sw_status sw_settings_read_text(const char *text, const char *directory,
                                const char *const *overrides, int n_overrides,
                                sw_settings *settings, sw_error *err) {
    char *folder;
    memset(settings, 0, sizeof *settings);
    sw_status status = sw_settings_folder(directory, &folder, err);
    if (!status)
        status = sw_settings_parse("the settings' text", folder, text, overrides, n_overrides,
                                   settings, err);
    free(folder);
    return status;
}

void sw_settings_free(sw_settings *settings) {
    sw_arena_free(&settings->arena);
    memset(settings, 0, sizeof *settings);
}
