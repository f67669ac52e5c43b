/* train_rank.c: the life of a rank: open the device, agree with the others, load, train, save. */
#include "run/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/adapter.h"
#include "checkpoint/model_files.h"
#include "run/agree.h"
#include "run/rank_device.h"

static void program_line(const void *self, int64_t i, char *line, size_t bytes) {
    sw_instruction_print(self, (int)i, line, bytes);
}

/* The i-th line of a text. */
static void text_line(const void *self, int64_t i, char *line, size_t bytes) {
    const char *text = self;
    for (; i > 0 && text; i--) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    snprintf(line, bytes, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
}

static sw_status agree_on_text(sw_comm *comm, const char *what, const char *text, sw_error *err) {
    int64_t n_lines = 1;
    for (const char *c = text; *c; c++)
        n_lines += *c == '\n';
    return sw_agree(comm, what, n_lines, text_line, text, err);
}

/* Nothing runs before all ranks are about to do the same: settings, kernels, programs. */
static sw_status agree(const sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    char kernels[256];
    char *yaml = sw_settings_yaml(run->settings);
    if (!yaml)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for the settings' text", t->comm->rank);
    snprintf(kernels, sizeof kernels, "kernels %s, matrix products by %s", t->device->kernel_set, t->device->gemm);
    sw_status status = agree_on_text(t->comm, "settings", yaml, err);
    free(yaml);
    if (!status)
        status = agree_on_text(t->comm, "choice of kernels", kernels, err);
    if (!status)
        status = sw_agree(t->comm, "program", run->assembly.program.instructions.n, program_line, &run->assembly.program, err);
    if (!status && run->validation)
        status = sw_agree(t->comm, "evaluation program", run->assembly.evaluation.instructions.n, program_line,
                          &run->assembly.evaluation, err);
    return status;
}

/* Values on their way into masters, and what rank 0 says about them while they come from files. */
typedef struct loading {
    sw_masters masters;
    const sw_run *run;
    bool tells;
    int64_t n_done, n_all; /* parameters; n_all: of this rank's share */
    double last_told;
} loading;

static const double seconds_between_lines = 2;

static sw_status put_and_tell(void *to, int group, const sw_piece *piece, int64_t first, int64_t n, float *values,
                              sw_error *err) {
    loading *l = to;
    double now = sw_seconds_now();
    l->n_done += n;
    if (l->tells && now - l->last_told >= seconds_between_lines) {
        char done[SW_TEXT_NUMBER_BYTES], all[SW_TEXT_NUMBER_BYTES];
        l->last_told = now;
        sw_report_line(l->run, "loading %s: %s of the %s parameters that rank 0 reads", l->run->settings->model.path,
                       sw_text_count((double)l->n_done, done, sizeof done), sw_text_count((double)l->n_all, all, sizeof all));
    }
    return sw_masters_put(&l->masters, group, piece, first, n, values, err);
}

/* The model's own parameters in a rank's shards. */
static int64_t n_share(const sw_layout *layout, int rank) {
    int64_t n = 0;
    for (int group = 0; group < layout->n_groups; group++) {
        sw_piece piece;
        for (int at = 0; sw_layout_next_piece(layout, group, rank, &at, &piece);)
            n += piece.parameter->is_adapter ? 0 : piece.length;
    }
    return n;
}

/* Put the first values where this rank keeps them: its own slices, or at stage 0 everyone's. */
static sw_status load(sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    const sw_settings *s = run->settings;
    const sw_assembly *a = &run->assembly;
    bool all = a->sharding.stage == 0;
    int first = all ? 0 : t->comm->rank, end = all ? t->comm->n_ranks : t->comm->rank + 1;
    loading l = {.run = run, .tells = t->comm->rank == 0, .last_told = sw_seconds_now()};
    sw_status status = SW_OK;
    for (int owner = first; owner < end; owner++)
        l.n_all += n_share(&a->layout, owner);
    for (int owner = first; owner < end && !status; owner++) {
        sw_masters masters = l.masters = (sw_masters){t->executor, &a->states, owner};
        if (s->model.path && !run->options->model)
            status = sw_model_files_load(s->model.path, &a->model, &a->layout, owner, put_and_tell, &l, NULL, err);
        else
            status =
                sw_masters_initialise(&masters, t->device, (uint64_t)s->train.seed, false, t->values, SW_PIECE_ELEMENTS, err);
        if (!status && a->lora.rank && s->model.lora.adapter)
            status = sw_adapter_files_load(s->model.lora.adapter, &a->model, &a->layout, owner, sw_masters_put, &masters, err);
        else if (!status && a->lora.rank)
            status = sw_masters_initialise(&masters, t->device, (uint64_t)s->train.seed, true, t->values, SW_PIECE_ELEMENTS, err);
    }
    return status ? status : sw_executor_publish(t->executor, err);
}

/* Rank 0 lays the final files out. */
static sw_status begin_files(const sw_run *run, const char *folder, sw_model_output output, sw_error *err) {
    char *adapter_config = NULL;
    sw_status status = SW_OK;
    if (output.is_adapter)
        status = sw_adapter_config_write(&run->assembly.lora, &run->assembly.lora_layers, run->settings->model.path,
                                         &adapter_config, err);
    if (adapter_config)
        output.config_json = adapter_config;
    if (!status)
        status = sw_model_files_begin(folder, &output, err);
    free(adapter_config);
    return status;
}

/* The final weights, or adapters, written by all ranks side by side. What a failure leaves is removed when no rank writes any
 * more. */
static sw_status save(sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    const sw_assembly *a = &run->assembly;
    sw_model_output output = sw_run_folder_output(run);
    sw_masters masters = {t->executor, &a->states, t->comm->rank};
    char folder[SW_PATH_BYTES];
    sw_status status = sw_path_join(folder, run->settings->checkpoint.path, "model", err);
    if (!status && t->comm->rank == 0)
        status = begin_files(run, folder, output, err);
    if (!status)
        status = sw_barrier(t->comm, err);
    if (!status)
        status = sw_model_files_write(folder, &a->layout, t->comm->rank, output.dtype, sw_masters_fetch, &masters, err);
    if (!status)
        status = sw_barrier(t->comm, err);
    if (!status && t->comm->rank == 0)
        status = sw_model_files_finish(folder, err);
    return status ? status : sw_barrier(t->comm, err);
}

static sw_status open_files(sw_training *t, sw_error *err) {
    const sw_settings *s = t->run->settings;
    char path[SW_PATH_BYTES];
    if (t->comm->rank != 0)
        return SW_OK;
    sw_status status = sw_path_join(path, s->checkpoint.path, "events.jsonl", err);
    if (!status)
        status = sw_events_open(path, &t->events, err);
    if (!status && s->log.metrics)
        status = sw_path_join(path, s->checkpoint.path, "metrics.jsonl", err);
    if (!status && s->log.metrics)
        status = sw_metrics_open(path, &t->metrics, err);
    return status;
}

static sw_status event(sw_training *t, const char *name, const char *reason, sw_error *err) {
    sw_detail details[] = {sw_detail_integer("ranks", t->comm->n_ranks), sw_detail_integer("threads", t->device->n_threads),
                           sw_detail_text("kernels", t->device->kernel_set), sw_detail_text("gemm", t->device->gemm)};
    return t->events ? sw_events_write(t->events, name, t->step, reason, details, 4, err) : SW_OK;
}

static sw_status prepare(sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, 0, 0, 0, "opening the device");
    t->values = malloc(SW_PIECE_ELEMENTS * sizeof *t->values);
    t->all = calloc((size_t)t->comm->n_ranks, SW_PAYLOAD_BYTES);
    if (!t->values || !t->all)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory to load pieces of the model", t->comm->rank);
    sw_status status =
        sw_rank_device_open(t->comm, &run->assembly.sharding, &run->cores, run->kernel_set, run->gemm.kind, &t->device, err);
    if (!status)
        status = agree(t, err);
    if (!status)
        status = sw_executor_create(t->comm, t->device, &run->assembly.states, run->assembly.programs,
                                    run->validation ? SW_N_PROGRAMS : 1, &t->executor, err);
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, 0, 0, 0, "loading the model");
    if (!status)
        status = load(t, err);
    if (!status)
        status = open_files(t, err);
    return status ? status : event(t, "start", "a new run", err);
}

static sw_status finish(sw_training *t, sw_error *err) {
    int64_t worst[SW_N_MEMORY_CLASSES], resident;
    int rank;
    const char *reason = t->stop_signal == SIGTERM ? "SIGTERM" : t->stop_signal ? "SIGINT" : "all steps are done";
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, 0, 0, "saving the model");
    sw_status status = save(t, err);
    if (!status)
        status = sw_training_memory(t, worst, &resident, &rank, err);
    if (!status)
        status = event(t, "stop", reason, err);
    if (status || t->comm->rank != 0)
        return status;
    const char *path = t->run->settings->checkpoint.path;
    sw_report_line(t->run, "loss: %.4f at step 1, %.4f at step %" PRId64, t->first_loss, t->last_loss, t->step);
    sw_report_memory(t->run, worst);
    sw_report_line(t->run, "model: %s/model", path);
    return SW_OK;
}

sw_status sw_train_rank(sw_comm *comm, void *run, sw_error *err) {
    sw_training t = {.run = run, .comm = comm};
    sw_status status = prepare(&t, err);
    t.begin = sw_seconds_now();
    while (!status && t.step < t.run->n_steps && !t.stop_signal)
        status = sw_training_step(&t, err);
    if (status && t.events && status != SW_ABORTED)
        (void)sw_events_write(t.events, "stop", t.step, err->message, NULL, 0, NULL);
    if (!status)
        status = finish(&t, err);
    if (!status && t.stop_signal)
        status = sw_fail(err, t.stop_signal == SIGTERM ? SW_TERMINATED : SW_INTERRUPTED,
                         "stopped by %s after step %" PRId64 "; the model so far is saved in %s/model",
                         t.stop_signal == SIGTERM ? "SIGTERM" : "Ctrl-C", t.step, t.run->settings->checkpoint.path);
    sw_metrics_close(t.metrics);
    sw_events_close(t.events);
    sw_executor_free(t.executor);
    if (t.device)
        t.device->close(t.device);
    free(t.values);
    free(t.all);
    return status;
}
