/* restore.c: a rank takes up what a checkpoint holds.
 *
 * Rank 0 proposes checkpoints, the newest first; every rank reads its own part, whose checksums are
 * compared on the way; one that is damaged anywhere is left by all for the one before. Frozen
 * parameters come from where they came from at the beginning.
 */
#include "train/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "checkpoint/load.h"
#include "checkpoint/steps.h"
#include "hf/adapter.h"
#include "hf/model_files.h"

/* ---- the beginning ---- */

/* Values on their way into masters, and what rank 0 says about them while they come from files. */
typedef struct loading {
    sw_masters masters;
    sw_comm *comm;
    const sw_run *run;
    const char *from;
    bool tells;
    int64_t n_done, n_all; /* values; n_all: of this rank's share */
    double last_told;
} loading;

static const double seconds_between_lines = 2;

static void tell_of(loading *l, int64_t n) {
    double now = sw_seconds_now();
    l->n_done += n;
    if (!l->tells || now - l->last_told < seconds_between_lines)
        return;
    char done[SW_TEXT_NUMBER_BYTES], all[SW_TEXT_NUMBER_BYTES];
    l->last_told = now;
    sw_report_line(l->run, "loading %s: %s of the %s values that rank 0 reads", l->from,
                   sw_text_count((double)l->n_done, done, sizeof done),
                   sw_text_count((double)l->n_all, all, sizeof all));
}

static sw_status put_parameter(void *to, int group, const sw_piece *piece, int64_t first, int64_t n,
                               float *values, sw_error *err) {
    loading *l = to;
    tell_of(l, n);
    return sw_masters_put(&l->masters, group, piece, first, n, values, err);
}

static int64_t n_share(const sw_training *t, bool is_of_model) {
    const sw_layout *layout = &t->run->plan.assembly.compiled->layout;
    int64_t n = 0;
    int first, end;
    sw_masters_owners(t->run->plan.assembly.compiled, t->comm->rank, &first, &end);
    for (int owner = first; owner < end; owner++)
        for (int group = 0; group < layout->n_groups; group++) {
            sw_piece piece;
            for (int at = 0; sw_layout_next_piece(layout, group, owner, &at, &piece);)
                n += is_of_model && piece.parameter->is_adapter ? 0 : piece.length;
        }
    return n;
}

/* The values that the run begins with. */
static sw_status load_first_values(sw_training *t, sw_error *err) {
    const sw_run *run = t->run;
    const sw_settings *s = run->settings;
    const sw_assembly *a = &run->plan.assembly;
    loading l = {.comm = t->comm,
                 .run = run,
                 .from = s->model.path,
                 .tells = t->comm->rank == 0,
                 .n_all = n_share(t, true),
                 .last_told = sw_seconds_now()};
    sw_status status = SW_OK;
    int first, end;
    sw_masters_owners(t->run->plan.assembly.compiled, t->comm->rank, &first, &end);
    for (int owner = first; owner < end && !status; owner++) {
        sw_masters masters = l.masters = (sw_masters){t->executor, &a->compiled->states, owner};
        if (s->model.path)
            status = sw_model_files_load(s->model.path, sw_assembly_files_config(a),
                                         &a->compiled->layout, owner, put_parameter, &l, NULL, err);
        else
            status = sw_masters_initialise(&masters, (uint64_t)s->train.seed, false, t->values,
                                           SW_PIECE_ELEMENTS, err);
        if (!status && a->lora.rank && s->model.lora.adapter)
            status = sw_adapter_files_load(s->model.lora.adapter, &a->model, &a->compiled->layout,
                                           owner, sw_masters_put, &masters, err);
        else if (!status && a->lora.rank)
            status = sw_masters_initialise(&masters, (uint64_t)s->train.seed, true, t->values,
                                           SW_PIECE_ELEMENTS, err);
    }
    return status;
}

/* ---- a checkpoint ---- */

static sw_status put_state(void *to, sw_state_kind kind, int group, const sw_piece *piece,
                           int64_t first, int64_t n, float *values, sw_error *err) {
    loading *l = to;
    if (kind == SW_STATE_MASTER && !piece->parameter->is_trainable)
        return SW_OK; /* it is there already */
    if (kind == SW_STATE_MASTER)
        return put_parameter(to, group, piece, first, n, values, err);
    tell_of(l, n);
    sw_masters_put_state(&l->masters, sw_state_of_optimizer(kind), group, piece, first, n, values);
    return sw_comm_check_stop(l->comm, "loading", err);
}

static sw_status load_checkpoint(sw_training *t, const char *path, sw_error *err) {
    const sw_assembly *a = &t->run->plan.assembly;
    unsigned kinds = sw_state_kinds_of(&a->sharding.optimizer);
    sw_checkpoint *checkpoint;
    int first, end;
    sw_masters_owners(t->run->plan.assembly.compiled, t->comm->rank, &first, &end);
    sw_status status = sw_checkpoint_open(path, &checkpoint, err);
    if (status)
        return status;
    loading l = {.comm = t->comm,
                 .run = t->run,
                 .from = path,
                 .tells = t->comm->rank == 0,
                 .n_all = __builtin_popcount(kinds) * n_share(t, false),
                 .last_told = sw_seconds_now()};
    status = sw_checkpoint_compare(checkpoint, a->graph, kinds, err);
    for (int owner = first; owner < end && !status; owner++) {
        l.masters = (sw_masters){t->executor, &a->compiled->states, owner};
        status = sw_checkpoint_load(checkpoint, &a->compiled->layout, owner, kinds, put_state, &l,
                                    NULL, err);
    }
    if (!status)
        status = sw_training_state_read(t, checkpoint, err);
    sw_checkpoint_close(checkpoint);
    return status;
}

/* What a rank says of the checkpoint that was proposed. */
typedef struct opinion {
    sw_status status;
    char message[SW_PAYLOAD_BYTES - sizeof(sw_status)];
} opinion;

/* Is the checkpoint good on all ranks? Then SW_OK; SW_BAD_FILE with the first message if it is
 * damaged somewhere; any other failure is its rank's own and ends the run. */
static sw_status agree_on(sw_training *t, sw_status status, const sw_error *own, sw_error *err) {
    opinion mine = {.status = status}, *all = t->all;
    if (status && status != SW_BAD_FILE)
        return sw_fail(err, status, "%s", own->message);
    if (status)
        snprintf(mine.message, sizeof mine.message, "%.1023s", own->message);
    sw_status exchanged = sw_exchange(t->comm, &mine, all, sizeof mine, err);
    for (int r = 0; r < t->comm->n_ranks && !exchanged; r++)
        if (all[r].status)
            exchanged = sw_fail(err, all[r].status, "%s", all[r].message);
    return exchanged;
}

/* The i-th newest checkpoint, as rank 0 sees it: -1 when there are no more. */
static sw_status propose(sw_training *t, const sw_steps *steps, int i, int64_t *step,
                         sw_error *err) {
    int64_t mine = i < steps->n ? steps->item[i].step : -1, *all = t->all;
    sw_status status = sw_exchange(t->comm, &mine, all, sizeof mine, err);
    *step = status ? -1 : all[0];
    return status;
}

static void tell_of_damage(sw_training *t, int64_t step, const char *message) {
    if (t->comm->rank != 0)
        return;
    sw_report_warning(t->run, "the checkpoint of step %" PRId64 " is skipped: %s", step, message);
    sw_training_event(t, "fallback", step, message, NULL, 0);
}

/* *step: of the checkpoint that was loaded; -1: there is none. */
static sw_status load_newest_good(sw_training *t, int64_t *step, sw_error *err) {
    const char *folder = t->run->settings->checkpoint.path;
    sw_steps steps = {.n = 0};
    sw_error damage = {.message = ""};
    sw_status status = t->comm->rank == 0 ? sw_steps_list(folder, &steps, err) : SW_OK;
    for (int i = 0; !status; i++) {
        char path[SW_PATH_BYTES];
        sw_error own;
        status = propose(t, &steps, i, step, err);
        if (status || *step < 0)
            break;
        status = sw_step_path(folder, *step, path, err);
        if (status)
            break;
        sw_status mine = load_checkpoint(t, path, &own);
        /* A link, or a folder of another step: right in itself, and not the run's. */
        if (!mine && t->comm->rank == 0 && !steps.item[i].is_whole)
            mine = sw_fail(&own, SW_BAD_FILE, "%s: %s", path, steps.item[i].reason);
        status = agree_on(t, mine, &own, &damage);
        if (!status)
            break;
        if (status == SW_BAD_FILE) {
            tell_of_damage(t, *step, damage.message);
            status = SW_OK;
        } else
            *err = damage;
    }
    sw_steps_free(&steps);
    if (!status && *step < 0 && damage.message[0])
        return sw_fail(err, SW_BAD_FILE,
                       "the run cannot continue from any checkpoint of %s; the last one tried: %s",
                       folder, damage.message);
    return status;
}

/* ---- both ---- */

sw_status sw_training_restore_again(sw_training *t, int64_t *step, sw_error *err) {
    *step = t->saved_step;
    if (*step < 0)
        return SW_OK;
    sw_status status = sw_executor_reopen(t->executor, err);
    if (!status)
        status = load_newest_good(t, step, err);
    if (!status && *step < 0)
        status = sw_fail(err, SW_BAD_FILE, "%s: its checkpoints have disappeared",
                         t->run->settings->checkpoint.path);
    t->saved_step = *step;
    t->n_steps = sw_run_length(t->run, t->step, sw_training_rows_taken(t));
    if (!status && t->comm->rank == 0) {
        if (t->saving)
            sw_saving_forget_after(t->saving, *step);
        status = sw_steps_remove_after(sw_storage_system(), t->run->settings->checkpoint.path,
                                       *step, err);
    }
    return status ? status : sw_executor_publish(t->executor, err);
}

sw_status sw_training_restore(sw_training *t, sw_error *err) {
    const sw_assembly *a = &t->run->plan.assembly;
    int64_t step = -1;
    sw_status status = SW_OK;
    bool has_frozen = a->n_trainable < a->n_parameters;
    if (has_frozen)
        status = load_first_values(t, err);
    if (!status && t->run->goes_on)
        status = load_newest_good(t, &step, err);
    if (!status && step < 0 && !has_frozen)
        status = load_first_values(t, err);
    t->saved_step = step;
    t->n_steps = sw_run_length(t->run, t->step, sw_training_rows_taken(t));
    if (!status) /* who asked for an end so far does not wait for a step */
        status = sw_comm_check_stop(t->comm, "loading", err);
    /* Those that were passed over are no part of the run any more. */
    if (!status && step >= 0 && t->comm->rank == 0)
        status = sw_steps_remove_after(sw_storage_system(), t->run->settings->checkpoint.path, step,
                                       err);
    return status ? status : sw_executor_publish(t->executor, err);
}
