/* plan.h: what a run would need, without running it. */
#ifndef SW_PLAN_PLAN_H
#define SW_PLAN_PLAN_H

#include "config/settings.h"

typedef struct sw_plan_options {
    bool print_program;
    bool as_json;
    void (*line)(void *to, const char *text);
    void *to;
} sw_plan_options;

/* Build the run's program and tell its price: memory per class, bytes moved and arithmetic of a step; with print_program every
 * instruction. Errors: as training's before its start, SW_NO_MEMORY included (after the plan has been told). */
sw_status sw_plan(const sw_settings *settings, const sw_plan_options *options, sw_error *err);

#endif
