/* print.c: settings as run.yaml, and the reference of all options, both from the table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/check.h"
#include "config/settings.h"
#include "config/table.h"
#include "config/value.h"

/* Why the value is what it is, where nobody gave it; NULL otherwise. */
static const char *reason_of(const sw_settings *settings, sw_option_id id) {
    return id == SW_OPTION_optimizer_learning_rate  ? settings->chosen.learning_rate
           : id == SW_OPTION_optimizer_weight_decay ? settings->chosen.weight_decay
           : id == SW_OPTION_optimizer_warmup_steps ? settings->chosen.warmup_steps
                                                    : NULL;
}

char *sw_settings_yaml(const sw_settings *settings) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    bool is_done = true;
    const char *section = "";
    for (int i = 0; i < SW_N_OPTIONS; i++) {
        const sw_option *option = &sw_option_table[i];
        if (strcmp(section, option->section))
            fprintf(out, "%s:\n", option->section);
        section = option->section;
        fprintf(out, "  %s: ", option->key);
        is_done = sw_setting_print(settings, option, out) && is_done;
        const char *reason = reason_of(settings, (sw_option_id)i);
        fprintf(out, "%s%s\n", reason ? "  # auto: " : "", reason ? reason : "");
    }
    is_done = sw_text_close(out, &text) && is_done;
    if (!is_done) {
        free(text);
        return NULL;
    }
    return text;
}

void sw_settings_tell(const sw_settings *settings, void (*line)(void *to, const char *text),
                      void *to) {
    for (int section = 0; sw_option_section(section); section++) {
        char *text = NULL;
        size_t bytes = 0;
        int n = 0;
        FILE *out = open_memstream(&text, &bytes);
        for (int i = 0; out && i < SW_N_OPTIONS; i++) {
            const sw_option *option = &sw_option_table[i];
            if (strcmp(option->section, sw_option_section(section)) ||
                option->kind == SW_KIND_OFF ||
                (sw_settings_is_dimension((sw_option_id)i) &&
                 settings->model.architecture == SW_ARCHITECTURE_UNSET))
                continue;
            fprintf(out, "%s%s%s ", n ? "" : option->section, n ? ", " : ": ", option->key);
            n++;
            sw_setting_print(settings, option, out);
        }
        if (sw_text_close(out, &text) && n)
            line(to, text);
        free(text);
    }
}

static const char *const about_sections[] = {
    "the model: an existing one, or the dimensions of a new one",
    "what the model is trained on",
    "how long to train, and how many rows at a time",
    "how gradients change the parameters",
    "how the model is split over ranks",
    "other ways to split",
    "the run's folder, and how a run that was stopped continues",
    "what to do when training goes wrong, and when to stop",
    "what is written during training",
};

static bool has_built_option(const char *section) {
    for (int i = 0; i < SW_N_OPTIONS; i++)
        if (!strcmp(sw_option_table[i].section, section) && sw_option_table[i].kind != SW_KIND_OFF)
            return true;
    return false;
}

static void reference_section(int i_section, void (*line)(void *to, const char *text), void *to,
                              bool as_markdown) {
    const char *section = sw_option_section(i_section);
    char text[1024], takes[300];
    if (as_markdown) {
        snprintf(text, sizeof text, "## %s", section);
        line(to, text);
        line(to, "");
        snprintf(text, sizeof text, "%c%s.", about_sections[i_section][0] - 'a' + 'A',
                 about_sections[i_section] + 1);
        line(to, text);
        line(to, "");
        line(to, "| key | default | takes | |");
        line(to, "|---|---|---|---|");
    } else {
        snprintf(text, sizeof text, "%s: %s", section, about_sections[i_section]);
        line(to, text);
    }
    for (int i = 0; i < SW_N_OPTIONS; i++) {
        const sw_option *option = &sw_option_table[i];
        if (strcmp(option->section, section) || option->kind == SW_KIND_OFF)
            continue;
        sw_setting_describe(option, takes, sizeof takes);
        char setting[160];
        snprintf(setting, sizeof setting, "%s: %s", option->key, option->fallback);
        if (as_markdown)
            snprintf(text, sizeof text, "| `%s` | `%s` | %s | %s |", option->key, option->fallback,
                     takes, option->help);
        else
            snprintf(text, sizeof text, "  %-29s %s [%s]", setting, option->help, takes);
        line(to, text);
    }
    line(to, "");
}

/* The keys that take their off-value only: a page can say so; --help shows what there is. */
static void reference_off(void (*line)(void *to, const char *text), void *to) {
    line(to, "## Not built yet");
    line(to, "");
    line(to, "These keys are reserved. The only value that they take now is the one shown, which "
             "is also their default.");
    line(to, "");
    line(to, "| key | value | what it will be for |");
    line(to, "|---|---|---|");
    for (int i = 0; i < SW_N_OPTIONS; i++) {
        const sw_option *option = &sw_option_table[i];
        char text[512];
        if (option->kind != SW_KIND_OFF)
            continue;
        snprintf(text, sizeof text, "| `%s.%s` | `%s` | %s |", option->section, option->key,
                 option->fallback, option->help);
        line(to, text);
    }
}

void sw_settings_reference(void (*line)(void *to, const char *text), void *to, bool as_markdown) {
    if (as_markdown) {
        line(to, "# Settings");
        line(to, "");
        line(to, "The settings of a RUN.yaml. This page is printed by `shardwise train --help "
                 "--markdown`. On the command line a "
                 "setting is");
        line(to, "written `section.key=value`, the value as in YAML: `train.steps=100`, "
                 "`data.train=[a.txt, b.txt]`. If a setting is");
        line(to, "given twice there, the last one counts.");
        line(to, "");
        line(to, "Relative paths are relative to the folder of RUN.yaml, also on the command line. "
                 "If RUN.yaml comes through a "
                 "pipe of");
        line(to, "the shell (`<(command)`, `command | shardwise train /dev/stdin`), they are "
                 "relative to the working directory.");
        line(to, "Numbers are decimal (`32`, `0.5`, `1e-5`, `1e9`). What different versions of "
                 "YAML read differently, such as `010`,");
        line(to, "`0x10`, `1_000` or `1:30`, is refused. The only booleans are true and false.");
        line(to, "");
    }
    for (int i = 0; sw_option_section(i); i++)
        if (has_built_option(sw_option_section(i)))
            reference_section(i, line, to, as_markdown);
    if (as_markdown)
        reference_off(line, to);
}
