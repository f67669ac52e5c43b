/* plan.c: shardwise plan: what a run would need, without running it. */
#include <stdlib.h>

#include "cli/command.h"
#include "device/cpu/cores.h"
#include "plan/plan.h"
#include "shard/program.h"

static void print_line(void *to, const char *text) {
    fprintf(to, "%s\n", text);
}

/* Told first, and then refused if it does not fit. */
static sw_status tell(const sw_settings *settings, bool print_program, bool as_json,
                      sw_error *err) {
    sw_cores cores;
    sw_plan plan;
    sw_cores_find(&cores);
    sw_status status = sw_plan_create(settings, NULL, cores.n, &plan, err);
    if (status)
        return status;
    char line[2048], *json = as_json ? sw_plan_json(&plan, false) : NULL;
    if (json)
        print_line(stdout, json);
    else if (as_json)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the plan's text");
    else
        sw_plan_tell(&plan, print_line, stdout);
    const sw_program *program = plan.assembly.program;
    if (print_program)
        sw_program_explain(print_line, stdout);
    for (int i = 0; i < program->instructions.n && print_program; i++) {
        sw_instruction_print(program, i, line, sizeof line);
        print_line(stdout, line);
    }
    if (!status)
        status = sw_plan_check_fit(&plan, err);
    free(json);
    sw_plan_free(&plan);
    return status;
}

static sw_status plan(int n_arguments, char **arguments, sw_error *err) {
    bool help = false, print_program = false, as_json = false, goes_on;
    const sw_flag flags[] = {
        {"--print-program", NULL,
         "print every instruction of a step, and what stands in such a line", SW_FLAG_SWITCH,
         &print_program},
        {"--json", NULL, "print the plan as one JSON object", SW_FLAG_SWITCH, &as_json},
        {"--help", NULL, "print this help", SW_FLAG_SWITCH, &help},
    };
    sw_settings settings = {0};
    enum { N_FLAGS = sizeof flags / sizeof *flags };
    const char **others;
    int n_others;
    sw_status status =
        sw_arguments_begin(&sw_verb_plan, n_arguments, arguments, flags, N_FLAGS, 1,
                           "shardwise plan RUN.yaml", &others, &n_others, &goes_on, err);
    if (!status && help)
        sw_arguments_help(&sw_verb_plan, flags, N_FLAGS);
    if (status || !goes_on)
        goto done;
    if (print_program && as_json)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "--print-program and --json are both given · shardwise plan · keep one of them");
    if (!status)
        status = sw_settings_read(others[0], others + 1, n_others - 1, &settings, err);
    if (!status)
        status = tell(&settings, print_program, as_json, err);
done:
    sw_settings_free(&settings);
    free(others);
    return status;
}

const sw_verb sw_verb_plan = {"plan", "RUN.yaml [section.key=value ...]",
                              "memory and work of a step before it runs: does it fit?", plan};
