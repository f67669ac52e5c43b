/* embed.c: what programs call: a run from settings that are a file or text, and what would become
 * of one.
 *
 * Arguments are checked here, each by the function's name; settings and all else where the
 * command's are.
 */
#include <shardwise/train.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "config/settings.h"
#include "device/cpu/cores.h"
#include "embed/of_run.h"
#include "infer/generate.h"
#include "plan/plan.h"
#include "train/train.h"

/* A list that a caller hands in: n texts, none of them NULL. */
static sw_status check_texts(const char *function, const char *name, const char *const *texts,
                             int n, sw_error *err) {
    if (n < 0)
        return sw_fail(err, SW_BAD_CONFIG, "%s: %s are %d; their number is 0 or more", function,
                       name, n);
    for (int i = 0; i < n; i++)
        if (!texts || !texts[i])
            return sw_fail(err, SW_BAD_CONFIG, "%s: %s, of which there are %d, are NULL at %d",
                           function, name, n, i);
    return SW_OK;
}

static sw_status check_arguments(const char *function, const char *const *overrides,
                                 int n_overrides, const sw_train_options *options,
                                 sw_train_options *known, sw_error *err) {
    *known = (sw_train_options)SW_TRAIN_OPTIONS_INIT;
    if (!options)
        return sw_fail(err, SW_BAD_CONFIG, "%s: options is NULL; start from SW_TRAIN_OPTIONS_INIT",
                       function);
    sw_status status = sw_options_take(options, known, sizeof *known, "sw_train_options",
                                       "SW_TRAIN_OPTIONS_INIT", err);
    if (!status)
        status = check_texts(function, "overrides", overrides, n_overrides, err);
    return status ? status
                  : check_texts(function, "sw_train_options.faults", known->faults, known->n_faults,
                                err);
}

sw_status sw_train_file(const char *run_yaml, const char *const *overrides, int n_overrides,
                        const sw_train_options *options, sw_error *err) {
    sw_train_options known;
    sw_settings settings = {0};
    if (!run_yaml)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_train_file: run_yaml is NULL; name the file of settings");
    sw_status status =
        check_arguments("sw_train_file", overrides, n_overrides, options, &known, err);
    if (!status)
        status = sw_settings_read(run_yaml, overrides, n_overrides, &settings, err);
    if (!status)
        status = sw_train(&settings, &known, NULL, err);
    sw_settings_free(&settings);
    return status;
}

/* What functions take that have settings as text. */
static sw_status read_text(const char *function, const char *text, const char *directory,
                           const char *const *overrides, int n_overrides,
                           const sw_train_options *options, sw_train_options *known,
                           sw_settings *settings, sw_error *err) {
    *settings = (sw_settings){0};
    if (!text)
        return sw_fail(err, SW_BAD_CONFIG, "%s: text is NULL; pass what a run.yaml would hold",
                       function);
    sw_status status = check_arguments(function, overrides, n_overrides, options, known, err);
    return status ? status
                  : sw_settings_read_text(text, directory, overrides, n_overrides, settings, err);
}

sw_status sw_train_text(const char *text, const char *directory, const char *const *overrides,
                        int n_overrides, const sw_train_options *options, sw_error *err) {
    sw_train_options known;
    sw_settings settings;
    sw_status status = read_text("sw_train_text", text, directory, overrides, n_overrides, options,
                                 &known, &settings, err);
    if (!status)
        status = sw_train(&settings, &known, NULL, err);
    sw_settings_free(&settings);
    return status;
}

sw_status sw_plan_text(const char *text, const char *directory, const char *const *overrides,
                       int n_overrides, const sw_train_options *options, char **json,
                       sw_error *err) {
    sw_train_options known;
    sw_settings settings;
    sw_cores cores;
    sw_plan plan;
    if (json)
        *json = NULL;
    else
        return sw_fail(err, SW_BAD_CONFIG, "sw_plan_text: json is NULL, where the plan is put");
    sw_status status = read_text("sw_plan_text", text, directory, overrides, n_overrides, options,
                                 &known, &settings, err);
    sw_cores_find(&cores);
    if (!status && !(status = sw_plan_create(&settings, known.model, cores.n, &plan, err))) {
        *json = sw_plan_json(&plan, true);
        status = *json ? sw_plan_check_fit(&plan, err)
                       : sw_fail(err, SW_NO_MEMORY, "no memory for the plan's text");
        sw_plan_free(&plan);
    }
    sw_settings_free(&settings);
    return status;
}

/* As many as the run has. */
static int ranks_of(const sw_settings *settings) {
    sw_cores cores;
    sw_assembly_choice choice;
    sw_cores_find(&cores);
    sw_assembly_choose(settings, cores.n, &choice, NULL, 0);
    return choice.n_ranks;
}

static sw_status evaluate(const sw_settings *settings, const sw_train_options *known, double *loss,
                          int64_t *n_tokens, sw_error *err) {
    char folder[SW_PATH_BYTES], day[SW_CHAT_TIME_BYTES];
    sw_score_options options = {.model = {.custom = known->model, .by_settings = true},
                                .n_ranks = ranks_of(settings),
                                .parameter_dtype = sw_settings_parameter_dtype(settings),
                                .as_threads = known->as_threads,
                                .tell = known->listener.line,
                                .told = known->listener.to,
                                .stop_signal = known->stop_signal};
    sw_choices_score none;
    sw_status status = sw_score_of_run(settings, folder, day, &options, err);
    if (!status && !options.n_paths)
        status =
            sw_fail(err, SW_BAD_CONFIG, "%s: there is nothing to evaluate · write data.validation",
                    settings->name);
    sw_source_score *scores = status ? NULL : calloc((size_t)options.n_paths, sizeof *scores);
    if (!status && !scores)
        status =
            sw_fail(err, SW_NO_MEMORY, "no memory for the scores of %d sources", options.n_paths);
    if (!status)
        status = sw_score(&options, scores, &none, err);
    double sum = 0;
    int64_t n = 0;
    for (int i = 0; i < options.n_paths && !status; i++) {
        sum += scores[i].loss;
        n += scores[i].n_targets;
    }
    if (!status)
        *loss = n ? sum / (double)n : NAN;
    if (!status && n_tokens)
        *n_tokens = n;
    free(scores);
    return status;
}

sw_status sw_evaluate_text(const char *text, const char *directory, const char *const *overrides,
                           int n_overrides, const sw_train_options *options, double *loss,
                           int64_t *n_tokens, sw_error *err) {
    sw_train_options known;
    sw_settings settings;
    if (!loss)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_evaluate_text: loss is NULL, where the result is put");
    sw_status status = read_text("sw_evaluate_text", text, directory, overrides, n_overrides,
                                 options, &known, &settings, err);
    if (!status)
        status = evaluate(&settings, &known, loss, n_tokens, err);
    sw_settings_free(&settings);
    return status;
}

/* Who takes the text, in the shape that generation gives it. */
static sw_status pass_text(void *to, int64_t text, const char *bytes, size_t n_bytes,
                           sw_error *err) {
    const sw_writing_options *how = to;
    (void)text;
    (void)err;
    how->text(how->to, bytes, n_bytes);
    return SW_OK;
}

static sw_status generate(const sw_settings *settings, const sw_train_options *known,
                          const char *prompt, sw_writing_options *how, sw_error *err) {
    char folder[SW_PATH_BYTES];
    const sw_prompt given = {.text = prompt, .n_bytes = strlen(prompt)};
    sw_generate_options options = {.model = {.custom = known->model, .by_settings = true},
                                   .prompts = &given,
                                   .n_prompts = 1,
                                   .max_tokens = how->max_tokens,
                                   .temperature = how->temperature,
                                   .top_k = how->top_k,
                                   .top_p = how->top_p,
                                   .seed = how->seed,
                                   .n_ranks = ranks_of(settings),
                                   .parameter_dtype = sw_settings_parameter_dtype(settings),
                                   .as_threads = known->as_threads,
                                   .sink = {.to = how, .text = pass_text},
                                   .stop_signal = known->stop_signal};
    sw_status status = sw_model_of_run(settings, folder, &options.model, err);
    return status ? status : sw_generate(&options, err);
}

sw_status sw_generate_text(const char *text, const char *directory, const char *const *overrides,
                           int n_overrides, const sw_train_options *options, const char *prompt,
                           const sw_writing_options *how, sw_error *err) {
    sw_train_options known;
    sw_writing_options known_how = SW_WRITING_OPTIONS_INIT;
    sw_settings settings;
    if (!prompt || !how)
        return sw_fail(err, SW_BAD_CONFIG, "sw_generate_text: %s",
                       !prompt ? "prompt is NULL; give a text to go on from"
                               : "how is NULL; start from SW_WRITING_OPTIONS_INIT");
    sw_status status = sw_options_take(how, &known_how, sizeof known_how, "sw_writing_options",
                                       "SW_WRITING_OPTIONS_INIT", err);
    if (!status && !known_how.text)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "sw_generate_text: sw_writing_options.text is NULL, which takes what is written");
    if (status)
        return status;
    status = read_text("sw_generate_text", text, directory, overrides, n_overrides, options, &known,
                       &settings, err);
    if (!status)
        status = generate(&settings, &known, prompt, &known_how, err);
    sw_settings_free(&settings);
    return status;
}
