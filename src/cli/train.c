/* train.c: shardwise train: read RUN.yaml, show it, run it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "config/settings.h"

typedef struct train_flags {
    bool help, as_markdown, print_config;
} train_flags;

static void print_line(void *to, const char *text) {
    fprintf(to, "%s\n", text);
}

static void print_help(const train_flags *given, const sw_flag *flags, int n_flags) {
    if (given->as_markdown) {
        sw_settings_reference(print_line, stdout, true);
        return;
    }
    sw_arguments_help(&sw_verb_train, flags, n_flags);
    printf(
        "\nKeys of RUN.yaml with their defaults. On the command line: section.key=value, the value as in YAML; relative paths\n"
        "count from the folder of RUN.yaml in both.\n\n");
    sw_settings_reference(print_line, stdout, false);
}

static sw_status print_config(const sw_settings *settings, sw_error *err) {
    char *text = sw_settings_yaml(settings);
    if (!text)
        return sw_fail(err, SW_NO_MEMORY, "no memory for printing the settings · shardwise train");
    fputs(text, stdout);
    free(text);
    return SW_OK;
}

static sw_status train(int n_arguments, char **arguments, sw_error *err) {
    train_flags given = {0};
    const sw_flag flags[] = {
        {"--print-config", NULL, "print all settings with their defaults, and stop", SW_FLAG_SWITCH, &given.print_config},
        {"--markdown", NULL, "with --help: the keys as the page docs/reference.md", SW_FLAG_SWITCH, &given.as_markdown},
        {"--help", NULL, "this text", SW_FLAG_SWITCH, &given.help},
    };
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    sw_settings settings = {0};
    int n_others;
    const char **others = calloc((size_t)n_arguments + 1, sizeof *others);
    sw_status status = others ? sw_arguments_sort(&sw_verb_train, n_arguments, arguments, flags, N_FLAGS, others, &n_others, err)
                              : sw_fail(err, SW_NO_MEMORY, "no memory for the arguments · shardwise train");
    if (status)
        goto done;
    if (given.help) {
        print_help(&given, flags, N_FLAGS);
        goto done;
    }
    if (!n_others) {
        status = sw_fail(err, SW_BAD_CONFIG, "no RUN.yaml is named · shardwise train · for example: shardwise train RUN.yaml");
        goto done;
    }
    status = sw_settings_read(others[0], others + 1, n_others - 1, &settings, err);
    if (!status && given.print_config)
        status = print_config(&settings, err);
    else if (!status)
        status = sw_settings_complete(&settings, others[0], true, err);
    if (!status && !given.print_config)
        status = sw_fail(err, SW_BAD_CONFIG, "training is not built yet · shardwise train · --print-config shows the settings");
done:
    sw_settings_free(&settings);
    free(others);
    return status;
}

const sw_verb sw_verb_train = {"train", "RUN.yaml [section.key=value ...]", "train or fine-tune a model", train};
