/* arguments.c: flags and other arguments of a verb, from a table. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml.h"

static sw_status unknown_flag(const sw_verb *verb, const char *name, const sw_flag *flags,
                              int n_flags, sw_error *err) {
    const char *names[SW_MOST_FLAGS];
    int n = 0;
    for (; n < n_flags && n < SW_MOST_FLAGS; n++)
        names[n] = flags[n].name;
    const char *nearest = sw_text_nearest(name, names, n);
    if (nearest)
        return sw_fail(err, SW_BAD_CONFIG, "unknown flag %.100s · shardwise %s · did you mean %s?",
                       name, verb->name, nearest);
    if (strstr(verb->arguments, "section.key=value")) /* a setting, as other programs take them? */
        return sw_fail(err, SW_BAD_CONFIG,
                       "unknown flag %.100s · shardwise %s · a setting is written "
                       "section.key=value, without dashes: "
                       "train.steps=100; shardwise %s --help lists all of them",
                       name, verb->name, verb->name);
    return sw_fail(err, SW_BAD_CONFIG,
                   "unknown flag %.100s · shardwise %s · shardwise %s --help lists its flags", name,
                   verb->name, verb->name);
}

static sw_status set_flag(const sw_verb *verb, const sw_flag *flag, const char *text,
                          sw_error *err) {
    sw_yaml number = {.kind = SW_YAML_SCALAR, .is_plain = true, .text = text};
    bool is_taken = true;
    double real = 0;
    int64_t count = 0;
    switch (flag->kind) {
    case SW_FLAG_SWITCH:
        *(bool *)flag->value = true;
        break;
    case SW_FLAG_TEXT:
        *(const char **)flag->value = text;
        break;
    case SW_FLAG_TEXTS: {
        sw_flag_texts *texts = flag->value;
        if (texts->n == SW_MOST_FLAG_TEXTS)
            return sw_fail(err, SW_BAD_CONFIG, "%s is given more than %d times · shardwise %s",
                           flag->name, SW_MOST_FLAG_TEXTS, verb->name);
        texts->item[texts->n++] = text;
        break;
    }
    case SW_FLAG_COUNT:
        is_taken = sw_yaml_integer(&number, &count) && (double)count >= flag->low &&
                   (double)count <= flag->high;
        if (is_taken)
            *(int64_t *)flag->value = count;
        break;
    case SW_FLAG_REAL:
        is_taken = sw_yaml_real(&number, &real) && real >= flag->low && real <= flag->high;
        if (is_taken)
            *(double *)flag->value = real;
        break;
    }
    if (is_taken)
        return SW_OK;
    char remedy[128];
    bool has_remedy =
        sw_numeral_remedy(text, flag->kind == SW_FLAG_COUNT ? SW_NUMERAL_INTEGER : SW_NUMERAL_REAL,
                          remedy, sizeof remedy);
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s takes a %s from %.10g to %.10g, not %.100s · shardwise %s%s%s", flag->name,
                   flag->kind == SW_FLAG_COUNT ? "whole number" : "number", flag->low, flag->high,
                   text, verb->name, has_remedy ? " · " : "", has_remedy ? remedy : "");
}

sw_status sw_arguments_sort(const sw_verb *verb, int n_arguments, char **arguments,
                            const sw_flag *flags, int n_flags, const char **others, int *n_others,
                            sw_error *err) {
    uint64_t given = 0;
    bool are_flags_over = false;
    *n_others = 0;
    for (int i = 0; i < n_arguments; i++) {
        const char *argument = arguments[i];
        if (are_flags_over || argument[0] != '-' || !argument[1]) {
            others[(*n_others)++] = argument;
            continue;
        }
        if (!strcmp(argument, "--")) {
            are_flags_over = true;
            continue;
        }
        char name[64];
        size_t n_name = strcspn(argument, "=");
        snprintf(name, sizeof name, "%.*s", (int)(n_name < 63 ? n_name : 63), argument);
        if (!strcmp(name, "-h"))
            snprintf(name, sizeof name, "--help");
        int found = 0;
        while (found < n_flags && strcmp(flags[found].name, name))
            found++;
        if (found == n_flags)
            return unknown_flag(verb, name, flags, n_flags, err);
        if (given & UINT64_C(1) << found && flags[found].kind != SW_FLAG_TEXTS)
            return sw_fail(err, SW_BAD_CONFIG, "%s is given twice · shardwise %s · remove one",
                           name, verb->name);
        given |= UINT64_C(1) << found;
        const char *text = argument[n_name] ? argument + n_name + 1 : NULL;
        if (flags[found].kind == SW_FLAG_SWITCH && text)
            return sw_fail(err, SW_BAD_CONFIG, "%s takes no value · shardwise %s", name,
                           verb->name);
        if (flags[found].kind != SW_FLAG_SWITCH && !text && ++i < n_arguments)
            text = arguments[i];
        if (flags[found].kind != SW_FLAG_SWITCH && !text)
            return sw_fail(err, SW_BAD_CONFIG, "%s needs a value · shardwise %s · write %s %s",
                           name, verb->name, name, flags[found].value_name);
        sw_status status = set_flag(verb, &flags[found], text, err);
        if (status)
            return status;
    }
    return SW_OK;
}

sw_status sw_arguments_size(const char *verb, const char *flag, const char *text, int64_t *bytes,
                            sw_error *err) {
    char remedy[128];
    if (sw_text_parse_bytes(text, bytes) && *bytes >= 1)
        return SW_OK;
    bool has_remedy = sw_numeral_remedy(text, SW_NUMERAL_BYTES, remedy, sizeof remedy);
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s takes a size such as 512MiB or 5GiB, not %.100s · shardwise %s%s%s", flag,
                   text, verb, has_remedy ? " · " : "", has_remedy ? remedy : "");
}

void sw_arguments_help(const sw_verb *verb, const sw_flag *flags, int n_flags) {
    printf("shardwise %s %s\n\n%s\n\n", verb->name, verb->arguments, verb->about);
    int width = 20;
    for (int i = 0; i < n_flags; i++) {
        int needed = (int)(strlen(flags[i].name) +
                           (flags[i].value_name ? 1 + strlen(flags[i].value_name) : 0));
        width = needed > width ? needed : width;
    }
    for (int i = 0; i < n_flags; i++) {
        char flag[128];
        snprintf(flag, sizeof flag, "%s%s%s", flags[i].name, flags[i].value_name ? " " : "",
                 flags[i].value_name ? flags[i].value_name : "");
        printf("  %-*s %s\n", width, flag, flags[i].about);
    }
}

sw_status sw_arguments_begin(const sw_verb *verb, int n_arguments, char **arguments,
                             const sw_flag *flags, int n_flags, int n_least, const char *example,
                             const char ***others, int *n_others, bool *goes_on, sw_error *err) {
    *goes_on = false;
    *others = calloc((size_t)n_arguments + 1, sizeof **others);
    if (!*others)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the arguments · shardwise %s", verb->name);
    sw_status status =
        sw_arguments_sort(verb, n_arguments, arguments, flags, n_flags, *others, n_others, err);
    if (status)
        return status;
    if (*(const bool *)flags[n_flags - 1].value)
        return SW_OK;
    if (*n_others < n_least)
        return sw_fail(err, SW_BAD_CONFIG,
                       "an argument is missing · shardwise %s · for example: %s", verb->name,
                       example);
    *goes_on = true;
    return SW_OK;
}
