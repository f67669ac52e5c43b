/* plan.c: shardwise plan: what a run would need, without running it. */
#include <stdlib.h>

#include "cli/command.h"
#include "plan/plan.h"

static void print_line(void *to, const char *text) {
    fprintf(to, "%s\n", text);
}

static sw_status plan(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, goes_on;
    sw_plan_options options = {.line = print_line, .to = stdout};
    const sw_flag flags[] = {
        {"--print-program", NULL, "print every instruction of a step", SW_FLAG_SWITCH, &options.print_program},
        {"--json", NULL, "print the plan as one JSON object", SW_FLAG_SWITCH, &options.as_json},
        {"--help", NULL, "this text", SW_FLAG_SWITCH, &help},
    };
    sw_settings settings = {0};
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_status status = sw_arguments_begin(&sw_verb_plan, n_arguments, arguments, flags, N_FLAGS, 1, "shardwise plan RUN.yaml",
                                          &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_verb_plan, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (options.print_program && options.as_json)
        status = sw_fail(err, SW_BAD_CONFIG, "--print-program and --json are both given · shardwise plan · keep one of them");
    if (!status)
        status = sw_settings_read(others[0], others + 1, n_others - 1, &settings, err);
    if (!status)
        status = sw_settings_name_model(&settings, others[0], err);
    if (!status)
        status = sw_settings_find_models(&settings, others[0], err);
    if (!status)
        status = sw_plan(&settings, &options, err);
done:
    sw_settings_free(&settings);
    free(others);
    return status;
}

const sw_verb sw_verb_plan = {"plan", "RUN.yaml [section.key=value ...]",
                              "does it fit? memory and work of a step, before it runs", plan};
