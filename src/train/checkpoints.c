/* checkpoints.c: when a training run saves, and what it says of it. All ranks come to the same
 * decisions: they follow from the step, and from what the exchange of the step's decision has
 * told. */
#include "train/training.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/reason.h"
#include "hf/model_files.h"
#include "train/saved_state.h"

sw_status sw_training_open_saving(sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    const sw_assembly *a = &run->plan.assembly;
    sw_saving_options options = {.save = sw_assembly_save_options(a, t->comm->rank),
                                 .cores = &run->cores,
                                 .records = {t->metrics, t->events}};
    t->saved_masters = sw_masters_own(t->executor, a->compiled, t->comm->rank);
    options.save.fetch = sw_saved_state_fetch;
    options.save.from = &t->saved_masters;
    options.save.settings = run->record.item;
    options.save.n_settings = run->record.n;
    sw_status status =
        a->custom ? SW_OK : sw_model_config_write(&a->model, SW_F32, &t->model_config, err);
    options.save.model_config = t->model_config;
    return status ? status : sw_saving_open(&options, t->comm, &t->saving, err);
}

static void tell_saved(sw_training *t, int64_t step) {
    t->saved_step = step;
    if (t->comm->rank != 0)
        return;
    const sw_save_options saves = sw_assembly_save_options(&t->run->plan.assembly, t->comm->rank);
    const sw_saving_time took = sw_saving_took(t->saving);
    sw_detail details[] = {sw_detail_real("seconds", took.seconds),
                           sw_detail_real("waited_seconds", took.waited_seconds),
                           sw_detail_integer("bytes", sw_save_file_bytes(&saves))};
    const char *remark = sw_saving_remark(t->saving);
    if (*remark)
        sw_report_warning(t->run, "the checkpoint of step %" PRId64 " is saved, but %s", step,
                          remark);
    sw_training_event(t, "save", step, t->why_saved, details, 3);
}

/* The run goes on: the next save tries again, and a cause that is known already is not told
 * again. */
static void tell_unsaved(sw_training *t, int64_t step, bool is_last, const sw_error *reason) {
    if (t->comm->rank != 0)
        return;
    if (!is_last &&
        !sw_is_same_cause(t->unsaved, reason->message)) /* the last one's failure is the run's */
        sw_report_warning(t->run,
                          "the checkpoint of step %" PRId64
                          " could not be saved: %s (the run goes on; the next save tries again)",
                          step, reason->message);
    t->n_unsaved++;
    snprintf(t->unsaved, sizeof t->unsaved, "%s", reason->message);
    sw_training_event(t, "save_failed", step, reason->message, NULL, 0);
}

void sw_training_tell_unsaved(const sw_training *t) {
    if (t->n_unsaved > 1)
        sw_report_warning(t->run,
                          "%" PRId64 " of %" PRId64
                          " checkpoints could not be saved; %s/events.jsonl says why",
                          t->n_unsaved, t->n_saves, t->run->settings->checkpoint.path);
}

/* A full disk is what a run has an option for. */
static void advise(sw_error *reason) {
    if (strstr(reason->message, strerror(ENOSPC)) || strstr(reason->message, strerror(EDQUOT)))
        (void)sw_fail(reason, reason->status, "%s, or keep fewer checkpoints (checkpoint.keep)",
                      reason->message);
}

/* *reason: of the failure, if it failed. */
static sw_status settle(sw_training *t, bool is_last, sw_error *reason, sw_error *err) {
    int64_t wanted = sw_saving_step(t->saving), saved;
    sw_status status = sw_saving_settle(t->saving, &saved, reason, err);
    if (status || wanted < 0)
        return status;
    if (saved >= 0)
        tell_saved(t, saved);
    else {
        advise(reason);
        tell_unsaved(t, wanted, is_last, reason);
    }
    return SW_OK;
}

sw_status sw_training_settle_saving(sw_training *t, sw_error *err) {
    sw_error reason;
    return settle(t, false, &reason, err);
}

/* The step that was just taken. */
static void begin(sw_training *t, const char *why) {
    sw_json_line state;
    t->guard.n_rollbacks = 0;
    t->why_saved = why;
    t->n_saves++;
    t->n_saves_begun = t->n_saves_asked;
    sw_training_state_text(t, &state);
    sw_save_facts facts = {.state = state.text,
                           .validation_loss = t->has_validation ? t->validation_loss : NAN};
    sw_saving_begin(t->saving, t->step, &facts);
}

/* What the last decision has told of the save that is running. */
static sw_status go_on(sw_training *t, sw_error *err) {
    int64_t step = sw_saving_step(t->saving);
    if (step < 0)
        return SW_OK;
    if (t->some_saving_failed)
        return sw_training_settle_saving(t, err);
    if (t->first_saving == SW_SAVING_PUBLISHED) {
        sw_saving_end(t->saving);
        tell_saved(t, step);
        return SW_OK;
    }
    if (t->all_have_written && t->comm->rank == 0)
        sw_saving_publish(t->saving);
    return SW_OK;
}

/* A run without checkpoints that is asked to save says that it does not. */
static sw_status refuse_to_save(sw_training *t) {
    if (t->n_saves_asked != t->n_saves_begun && t->comm->rank == 0)
        sw_report_warning(t->run, "SIGUSR1: nothing is saved, as checkpoint.every is 0");
    t->n_saves_begun = t->n_saves_asked;
    return SW_OK;
}

sw_status sw_training_tend_saving(sw_training *t, sw_error *err) {
    const sw_settings *s = t->run->settings;
    if (!t->saving)
        return refuse_to_save(t);
    bool is_last =
        t->step >= t->n_steps || t->stop_signal || t->limit; /* sw_training_save_last comes then */
    bool is_due = t->step % s->checkpoint.every == 0 || t->n_saves_asked != t->n_saves_begun;
    sw_status status = go_on(t, err);
    if (status || is_last || !is_due)
        return status;
    status = sw_training_settle_saving(t, err);
    if (!status)
        begin(t, t->step % s->checkpoint.every == 0 ? "checkpoint.every" : "SIGUSR1 asked for it");
    return status || s->checkpoint.async ? status : sw_training_settle_saving(t, err);
}

sw_status sw_training_save_rollback(sw_training *t, sw_error *err) {
    sw_json_line state;
    if (t->comm->rank != 0)
        return SW_OK; /* no step is over before rank 0 takes part in it again */
    sw_training_state_text(t, &state);
    return sw_saving_replace_state(t->saving, t->step, state.text, err);
}

sw_status sw_training_save_last(sw_training *t, sw_error *unsaved, sw_error *err) {
    sw_status status = settle(t, false, unsaved, err);
    if (status || t->saved_step == t->step)
        return status;
    begin(t, "the run ends here");
    return settle(t, true, unsaved, err);
}
