/* train_rank.c: the life of a rank: open the device, agree with the others, load or take up a
 * checkpoint, train, save. */
#include "train/training.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/stop_signal.h"
#include "base/text.h"
#include "checkpoint/steps.h"
#include "execute/agree.h"
#include "execute/rank_device.h"
#include "faults/faults.h"
#include "hf/adapter.h"
#include "hf/model_files.h"

static size_t program_line(const void *self, int64_t i, char *line, size_t bytes) {
    return sw_instruction_print(self, (int)i, line, bytes);
}

/* The i-th line of a text. */
static size_t text_line(const void *self, int64_t i, char *line, size_t bytes) {
    const char *text = self;
    for (; i > 0 && text; i--) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return (size_t)snprintf(line, bytes, "%.*s", text ? (int)strcspn(text, "\n") : 0,
                            text ? text : "");
}

static sw_status agree_on_text(sw_comm *comm, const char *what, const char *text, sw_error *err) {
    int64_t n_lines = 1;
    for (const char *c = text; *c; c++)
        n_lines += *c == '\n';
    return sw_agree(comm, NULL, what, n_lines, text_line, text, err);
}

/* Nothing runs before all ranks are about to do the same: settings, kernels, and within a class
 * programs. */
static sw_status agree(const sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    char kernels[256];
    const sw_rank_class class =
        sw_mesh_class(&run->plan.assembly.sharding.mesh, SW_PROGRAM_AXES, t->comm->rank);
    char *yaml = sw_settings_yaml(run->settings);
    if (!yaml)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for the settings' text",
                       t->comm->rank);
    snprintf(kernels, sizeof kernels, "kernels %s, matrix products by %s", t->device->kernel_set,
             t->device->gemm);
    sw_status status = agree_on_text(t->comm, "settings", yaml, err);
    free(yaml);
    if (!status)
        status = agree_on_text(t->comm, "choice of kernels", kernels, err);
    if (!status)
        status = sw_agree(t->comm, &class, "program", run->plan.assembly.program->instructions.n,
                          program_line, run->plan.assembly.program, err);
    if (!status && run->validation)
        status = sw_agree(t->comm, &class, "evaluation program",
                          run->plan.assembly.evaluation->instructions.n, program_line,
                          run->plan.assembly.evaluation, err);
    return status;
}

/* Rank 0 lays the final files out. */
static sw_status begin_files(const sw_run *run, const char *folder, sw_model_output output,
                             sw_error *err) {
    char *adapter_config = NULL;
    sw_status status = SW_OK;
    if (output.is_adapter)
        status = sw_adapter_config_write(&run->plan.assembly.lora, &run->plan.assembly.lora_layers,
                                         run->settings->model.path, &adapter_config, err);
    if (adapter_config)
        output.config_json = adapter_config;
    if (!status)
        status = sw_model_files_begin(folder, &output, err);
    free(adapter_config);
    return status;
}

/* The final weights, or adapters, written by all ranks side by side. What a failure leaves is
 * removed when no rank writes any more. */
static sw_status write_model(sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    const sw_assembly *a = &run->plan.assembly;
    sw_model_output output = sw_run_folder_output(run);
    sw_masters masters = sw_masters_own(t->executor, a->compiled, t->comm->rank);
    char folder[SW_PATH_BYTES];
    sw_status status = sw_path_join(folder, run->settings->checkpoint.path, "model", err);
    if (!status && t->comm->rank == 0)
        status = sw_run_folder_set_model_aside(run, err);
    if (!status && t->comm->rank == 0)
        status = begin_files(run, folder, output, err);
    if (!status)
        status = sw_barrier(t->comm, err);
    if (!status && sw_mesh_counts(&a->sharding.mesh, a->compiled->layout.cut_over, t->comm->rank))
        status = sw_model_files_write(folder, &a->compiled->layout, masters.owner, output.dtype,
                                      sw_masters_fetch, &masters, err);
    if (!status)
        status = sw_barrier(t->comm, err);
    if (!status && t->comm->rank == 0)
        status = sw_model_files_finish(folder, err);
    return status ? status : sw_barrier(t->comm, err);
}

static sw_status open_events(sw_training *t, sw_error *err) {
    char path[SW_PATH_BYTES];
    if (t->comm->rank != 0)
        return SW_OK;
    sw_status status = sw_path_join(path, t->run->settings->checkpoint.path, "events.jsonl", err);
    return status ? status : sw_events_open(path, &t->events, err);
}

/* Steps that will be taken again are told of again. */
static sw_status open_metrics(sw_training *t, sw_error *err) {
    const sw_settings *s = t->run->settings;
    char path[SW_PATH_BYTES];
    if (t->comm->rank != 0 || !s->log.metrics)
        return SW_OK;
    sw_status status = sw_path_join(path, s->checkpoint.path, "metrics.jsonl", err);
    if (!status && t->run->goes_on)
        status = sw_metrics_cut(path, t->step, err);
    return status ? status : sw_json_lines_open(path, &t->metrics, err);
}

/* load_seconds: in which the model or the checkpoint was loaded; NAN where nothing was. */
static void event(sw_training *t, const char *name, const char *reason, double load_seconds) {
    sw_detail details[] = {sw_detail_integer("ranks", t->comm->n_ranks),
                           sw_detail_integer("threads", t->device->n_threads),
                           sw_detail_text("kernels", t->device->kernel_set),
                           sw_detail_text("gemm", t->device->gemm),
                           sw_detail_real("load_seconds", load_seconds)};
    sw_training_event(t, name, t->step, reason, details, isnan(load_seconds) ? 4 : 5);
}

/* Where the run begins, for the reader. */
static sw_status tell_of_beginning(sw_training *t, double load_seconds, sw_error *err) {
    char path[SW_PATH_BYTES], reason[SW_PATH_BYTES + 32] = "no checkpoint yet: from the beginning";
    if (!t->run->goes_on) {
        event(t, "start", "a new run", load_seconds);
        return SW_OK;
    }
    if (t->saved_step >= 0) {
        sw_status status =
            sw_step_path(t->run->settings->checkpoint.path, t->saved_step, path, err);
        if (status)
            return status;
        snprintf(reason, sizeof reason, "from %s", path);
    }
    if (t->comm->rank == 0)
        sw_report_line(t->run, "resume: %s", reason);
    event(t, "resume", reason, load_seconds);
    return SW_OK;
}

static sw_status prepare(sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, 0, 0, 0, "opening the device");
    t->values = malloc(SW_PIECE_ELEMENTS * sizeof *t->values);
    t->all = calloc((size_t)t->comm->n_ranks, SW_PAYLOAD_BYTES);
    if (!t->values || !t->all)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory to load pieces of the model",
                       t->comm->rank);
    sw_status status =
        sw_rank_device_open(t->comm, &run->plan.assembly.sharding, &run->cores,
                            run->plan.kernel_set, run->plan.gemm.kind, &t->device, err);
    if (!status)
        status = agree(t, err);
    if (!status)
        status = sw_executor_create(t->comm, t->device, &run->plan.assembly.compiled->states,
                                    run->plan.assembly.compiled->readable,
                                    run->validation ? SW_N_PROGRAMS : 1, &t->executor, err);
    if (!status)
        status = sw_rank_faults_watch(t->faults, t->executor, err);
    if (!status)
        status = open_events(t, err);
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, 0, 0, 0, "loading the model");
    double begin = sw_seconds_now();
    if (!status)
        status = sw_training_restore(t, err);
    double load_seconds = sw_seconds_now() - begin;
    if (!status)
        status = open_metrics(t, err);
    if (!status && run->settings->checkpoint.every)
        status = sw_training_open_saving(t, err);
    return status ? status : tell_of_beginning(t, load_seconds, err);
}

/* A run that is asked to end leaves a checkpoint; one that is done leaves its model too. */
static sw_status finish(sw_training *t, sw_error *err) {
    const char *path = t->run->settings->checkpoint.path;
    int64_t worst[SW_N_MEMORY_CLASSES], resident;
    int rank;
    sw_error unsaved = {.status = SW_OK};
    bool is_done = t->step >= t->n_steps;
    const char *reason = t->stop_signal ? sw_stop_name(t->stop_signal)
                         : t->limit     ? t->limit
                                        : "all steps are done";
    sw_status status = t->saving ? sw_training_save_last(t, &unsaved, err) : SW_OK;
    bool writes_model = is_done || !t->saving;
    if (!status && writes_model) {
        sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, 0, 0, "saving the model");
        status = write_model(t, err);
    }
    if (!status)
        status = sw_training_memory(t, worst, &resident, &rank, err);
    if (!status)
        event(t, "stop", reason, NAN);
    if (!status && t->comm->rank == 0) {
        char first[SW_TEXT_NUMBER_BYTES], last[SW_TEXT_NUMBER_BYTES];
        sw_report_line(t->run, "loss: %s at step 1, %s at step %" PRId64,
                       sw_text_loss(t->first_loss, first, sizeof first),
                       sw_text_loss(t->last_loss, last, sizeof last), t->step);
        sw_report_memory(t->run, worst);
        if (t->saved_step >= 0)
            sw_report_line(t->run, "checkpoint: %s/steps/%08" PRId64, path, t->saved_step);
        if (writes_model)
            sw_report_line(t->run, "model: %s/model", path);
    }
    if (status || !unsaved.status)
        return status;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, 0, 0, "saving the last checkpoint");
    if (t->comm->rank !=
        sw_saving_failed_rank(t->saving)) /* who could not save ends the run, and is named */
        return sw_barrier(t->comm, err);
    return sw_fail(err, unsaved.status, "%s", unsaved.message);
}

/* The status of a run that ended well, but not because all steps are done. */
static sw_status early_end(const sw_training *t, sw_error *err) {
    const char *path = t->run->settings->checkpoint.path;
    char left[SW_PATH_BYTES + 96];
    if (t->saving)
        snprintf(left, sizeof left,
                 "%s/steps/%08" PRId64 " is saved, and the same command continues from there", path,
                 t->saved_step);
    else
        snprintf(left, sizeof left, "the model so far is saved in %s/model", path);
    if (t->stop_signal)
        return sw_fail(err, sw_stop_status(t->stop_signal),
                       "stopped by %s after step %" PRId64 "; %s", sw_stop_words(t->stop_signal),
                       t->step, left);
    return t->limit ? sw_fail(err, SW_GUARD,
                              "the run was ended after step %" PRId64 " by guard.limits: %s; %s",
                              t->step, t->limit, left)
                    : SW_OK;
}

sw_status sw_train_rank(sw_comm *comm, void *run, sw_error *err) {
    sw_training t = {.run = run, .comm = comm, .saved_step = -1};
    sw_status status =
        sw_rank_faults_open(t.run->faults, t.run->settings->checkpoint.path, comm, &t.faults, err);
    if (!status)
        status = prepare(&t, err);
    t.begin = sw_seconds_now();
    while (!status && t.step < t.n_steps && !t.stop_signal && !t.limit)
        status = sw_training_step(&t, err);
    if (status == SW_GUARD || sw_status_is_stop(status)) /* of all else the supervisor knows best */
        sw_training_event(&t, "stop", t.step, err->message, NULL, 0);
    if (!status)
        status = finish(&t, err);
    if (!status)
        status = early_end(&t, err);
    if (!status)
        status = sw_training_check_lines(&t, err);
    sw_training_tell_unsaved(&t);
    sw_training_tell_unwritten(&t);
    sw_saving_close(t.saving);
    free(t.model_config);
    sw_json_lines_close(t.metrics);
    sw_json_lines_close(t.events);
    sw_executor_free(t.executor);
    sw_rank_faults_close(t.faults);
    if (t.device)
        t.device->close(t.device);
    free(t.values);
    free(t.all);
    return status;
}
