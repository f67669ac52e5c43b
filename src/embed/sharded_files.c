/* sharded_files.c: what a caller's own parameters leave on the disk, which are checkpoints as a
 * run's are. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/load.h"
#include "checkpoint/saving.h"
#include "execute/masters.h"
#include "execute/sharded_internal.h"
#include "train/saved_state.h"

/* Both need the state between two steps. */
static sw_status check(const sw_sharded *s, const char *what, const char *folder, sw_error *err) {
    if (!s || !folder)
        return sw_fail(err, SW_BAD_CONFIG, "%s: %s is NULL", what, !s ? "sharded" : "folder");
    if (!s->is_committed)
        return sw_fail(err, SW_BAD_CONFIG, "%s is called before sw_sharded_commit has succeeded",
                       what);
    for (int u = 0; u < s->compiled->layout.n_units; u++) {
        const sw_sharded_unit_state *unit = &s->units[u];
        if (unit->is_gathered || unit->buffer >= 0 || unit->n_reduced)
            return sw_fail(err, SW_BAD_CONFIG, "%s: unit \"%s\" %s; call it between steps", what,
                           s->compiled->layout.units[u].name,
                           unit->is_gathered ? "is gathered" : "has gradients since the last step");
    }
    return SW_OK;
}

/* ---- save ---- */

sw_status sw_sharded_save(sw_sharded *s, const char *folder, sw_error *err) {
    sw_status status = check(s, "sw_sharded_save", folder, err);
    if (status)
        return status;
    char state[96];
    sw_cores cores;
    sw_saving *saving = NULL;
    sw_error reason = {SW_OK, ""};
    int64_t saved;
    const sw_storage *storage = sw_storage_system();
    sw_masters masters = sw_masters_own(s->executor, s->compiled, s->comm->rank);
    sw_cores_find(&cores);
    const sw_saving_options options = {
        .save = {.storage = storage,
                 .folder = folder,
                 .graph = s->graph,
                 .layout = &s->compiled->layout,
                 .owner = masters.owner,
                 .kinds = sw_state_kinds_of(&s->compiled->sharding.optimizer),
                 .leaves_out_frozen = true,
                 .fetch = sw_saved_state_fetch,
                 .from = &masters},
        .cores = &cores};
    snprintf(state, sizeof state, "{\"step\": %" PRId64 ", \"updates\": %" PRId64 "}", s->step,
             s->n_updates);
    const sw_save_facts facts = {.state = state, .validation_loss = NAN};
    sw_comm_enter(s->comm, SW_LANE_COMPUTE, s->step, 0, s->n_calls++, "saving");
    int made = s->comm->rank == 0 ? storage->make_folder(storage->self, folder) : 0;
    if (made < 0 && made != -EEXIST)
        return sw_storage_fail(err, folder, -1, made);
    status = sw_barrier(s->comm, err);
    if (!status)
        status = sw_saving_open(&options, s->comm, &saving, err);
    if (!status) {
        sw_saving_begin(saving, s->step, &facts);
        status = sw_saving_settle(saving, &saved, &reason, err);
    }
    sw_saving_close(saving);
    return status || !reason.status ? status : sw_fail(err, reason.status, "%s", reason.message);
}

/* ---- load ---- */

typedef struct loading {
    sw_masters masters;
    sw_comm *comm;
} loading;

/* sw_put_state_fn */
static sw_status put(void *to, sw_state_kind kind, int group, const sw_piece *piece, int64_t first,
                     int64_t n, float *values, sw_error *err) {
    const loading *l = to;
    const sw_masters *masters = &l->masters;
    if (kind == SW_STATE_MASTER)
        sw_masters_write(masters, group, piece, first, n, values);
    else
        sw_masters_put_state(masters, sw_state_of_optimizer(kind), group, piece, first, n, values);
    return sw_comm_check(l->comm, err);
}

/* What the rank that looks tells the others. */
typedef struct found {
    sw_status status;
    int64_t step;
    char message[SW_EXCHANGE_BYTES / 4];
} found;

/* The newest whole checkpoint, as rank 0 sees it: all load the same. */
static sw_status find_newest(const sw_sharded *s, const char *folder, int64_t *step,
                             sw_error *err) {
    found mine = {.step = -1};
    found *all = calloc((size_t)s->comm->n_ranks, sizeof *all);
    sw_steps steps = {0};
    sw_error own = {SW_OK, ""};
    if (!all)
        return sw_fail(err, SW_NO_MEMORY, "no memory to look for checkpoints");
    if (s->comm->rank == 0) {
        mine.status = sw_steps_list(folder, &steps, &own);
        mine.step = mine.status ? -1 : sw_steps_newest_whole(&steps);
        if (!mine.status && mine.step < 0)
            mine.status =
                sw_fail(&own, SW_BAD_FILE,
                        "%s: there is no whole checkpoint in it; is the path right?", folder);
        snprintf(mine.message, sizeof mine.message, "%.1000s", own.message);
        sw_steps_free(&steps);
    }
    sw_status status = sw_exchange(s->comm, &mine, all, sizeof mine, err);
    if (!status && all[0].status)
        status = sw_fail(err, all[0].status, "%s", all[0].message);
    *step = status ? -1 : all[0].step;
    free(all);
    return status;
}

static sw_status read_counts(sw_sharded *s, const sw_checkpoint *checkpoint, sw_error *err) {
    const char *text = sw_checkpoint_state(checkpoint);
    sw_json *document;
    int64_t step = 0, n_updates = 0;
    sw_status status =
        sw_json_parse(sw_checkpoint_path(checkpoint), text, (int64_t)strlen(text), &document, err);
    if (status)
        return status;
    sw_json_object root = sw_json_root(document);
    status = sw_json_integer(&root, "step", SW_JSON_REQUIRED, &step, err);
    if (!status)
        status = sw_json_integer(&root, "updates", SW_JSON_REQUIRED, &n_updates, err);
    sw_json_free(document);
    if (!status && (step != sw_checkpoint_step(checkpoint) || n_updates < 0 || n_updates > step))
        status = sw_fail(err, SW_BAD_FILE,
                         "%s: its state is of step %" PRId64 " with %" PRId64 " updates",
                         sw_checkpoint_path(checkpoint), step, n_updates);
    if (!status)
        s->step = step, s->n_updates = n_updates;
    return status;
}

static sw_status load(sw_sharded *s, const sw_checkpoint *checkpoint, sw_error *err) {
    const unsigned kinds = sw_state_kinds_of(&s->compiled->sharding.optimizer);
    int first, end;
    sw_masters_owners(s->compiled, s->comm->rank, &first, &end);
    sw_status status = sw_checkpoint_compare(checkpoint, s->graph, kinds, err);
    if (!status)
        status = sw_executor_reopen(s->executor, err);
    for (int owner = first; owner < end && !status; owner++) {
        loading l = {{s->executor, &s->compiled->states, owner}, s->comm};
        status =
            sw_checkpoint_load(checkpoint, &s->compiled->layout, owner, kinds, put, &l, NULL, err);
    }
    if (!status)
        status = read_counts(s, checkpoint, err);
    return status ? status : sw_executor_publish(s->executor, err);
}

sw_status sw_sharded_load(sw_sharded *s, const char *folder, int64_t step, int64_t *loaded,
                          sw_error *err) {
    char path[SW_PATH_BYTES];
    sw_checkpoint *checkpoint = NULL;
    sw_status status = check(s, "sw_sharded_load", folder, err);
    if (!status && step < -1)
        status = sw_fail(
            err, SW_BAD_CONFIG,
            "sw_sharded_load: step is %" PRId64 "; it is 0 or more, or -1 for the newest", step);
    if (status)
        return status;
    sw_comm_enter(s->comm, SW_LANE_COMPUTE, s->step, 0, s->n_calls++, "loading");
    if (step < 0)
        status = find_newest(s, folder, &step, err);
    if (!status)
        status = sw_step_path(folder, step, path, err);
    if (!status)
        status = sw_checkpoint_open(path, &checkpoint, err);
    if (!status)
        status = load(s, checkpoint, err);
    sw_checkpoint_close(checkpoint);
    if (!status && loaded)
        *loaded = step;
    return status;
}
