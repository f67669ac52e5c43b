/* embed.c: what programs call: a run from settings that are a file or text, and what would become of one.
 *
 * Arguments are checked here, each by the function's name; settings and all else where the command's are.
 */
#include <shardwise/train.h>

#include "base/options.h"
#include "config/settings.h"
#include "device/cpu/cores.h"
#include "plan/plan.h"
#include "train/train.h"

/* A list that a caller hands in: n texts, none of them NULL. */
static sw_status check_texts(const char *function, const char *name, const char *const *texts, int n, sw_error *err) {
    if (n < 0)
        return sw_fail(err, SW_BAD_CONFIG, "%s: %s are %d; their number is 0 or more", function, name, n);
    for (int i = 0; i < n; i++)
        if (!texts || !texts[i])
            return sw_fail(err, SW_BAD_CONFIG, "%s: %s, of which there are %d, are NULL at %d", function, name, n, i);
    return SW_OK;
}

static sw_status check_arguments(const char *function, const char *const *overrides, int n_overrides,
                                 const sw_train_options *options, sw_train_options *known, sw_error *err) {
    *known = (sw_train_options)SW_TRAIN_OPTIONS_INIT;
    if (!options)
        return sw_fail(err, SW_BAD_CONFIG, "%s: options is NULL; start from SW_TRAIN_OPTIONS_INIT", function);
    sw_status status = sw_options_take(options, known, sizeof *known, "sw_train_options", "SW_TRAIN_OPTIONS_INIT", err);
    if (!status)
        status = check_texts(function, "overrides", overrides, n_overrides, err);
    return status ? status : check_texts(function, "sw_train_options.faults", known->faults, known->n_faults, err);
}

sw_status sw_train_file(const char *run_yaml, const char *const *overrides, int n_overrides, const sw_train_options *options,
                        sw_error *err) {
    sw_train_options known;
    sw_settings settings = {0};
    if (!run_yaml)
        return sw_fail(err, SW_BAD_CONFIG, "sw_train_file: run_yaml is NULL; name the file of settings");
    sw_status status = check_arguments("sw_train_file", overrides, n_overrides, options, &known, err);
    if (!status)
        status = sw_settings_read(run_yaml, overrides, n_overrides, &settings, err);
    if (!status)
        status = sw_train(&settings, &known, err);
    sw_settings_free(&settings);
    return status;
}

/* What functions take that have settings as text. */
static sw_status read_text(const char *function, const char *text, const char *directory, const char *const *overrides,
                           int n_overrides, const sw_train_options *options, sw_train_options *known, sw_settings *settings,
                           sw_error *err) {
    *settings = (sw_settings){0};
    if (!text)
        return sw_fail(err, SW_BAD_CONFIG, "%s: text is NULL; pass what a run.yaml would hold", function);
    sw_status status = check_arguments(function, overrides, n_overrides, options, known, err);
    return status ? status : sw_settings_read_text(text, directory, overrides, n_overrides, settings, err);
}

sw_status sw_train_text(const char *text, const char *directory, const char *const *overrides, int n_overrides,
                        const sw_train_options *options, sw_error *err) {
    sw_train_options known;
    sw_settings settings;
    sw_status status = read_text("sw_train_text", text, directory, overrides, n_overrides, options, &known, &settings, err);
    if (!status)
        status = sw_train(&settings, &known, err);
    sw_settings_free(&settings);
    return status;
}

sw_status sw_plan_text(const char *text, const char *directory, const char *const *overrides, int n_overrides,
                       const sw_train_options *options, char **json, sw_error *err) {
    sw_train_options known;
    sw_settings settings;
    sw_cores cores;
    sw_plan plan;
    if (json)
        *json = NULL;
    else
        return sw_fail(err, SW_BAD_CONFIG, "sw_plan_text: json is NULL, where the plan is put");
    sw_status status = read_text("sw_plan_text", text, directory, overrides, n_overrides, options, &known, &settings, err);
    sw_cores_find(&cores);
    if (!status && !(status = sw_plan_create(&settings, known.model, cores.n, &plan, err))) {
        *json = sw_plan_json(&plan, true);
        status = *json ? sw_plan_check_fit(&plan, err) : sw_fail(err, SW_NO_MEMORY, "no memory for the plan's text");
        sw_plan_free(&plan);
    }
    sw_settings_free(&settings);
    return status;
}
