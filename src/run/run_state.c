/* run_state.c: what the next step depends on beside parameters and moments, as the text of a JSON object in a checkpoint.
 *
 * Random numbers are functions of the seed and of logical indices, and the learning rate is one of the step, so there is no more
 * to them than these counts.
 */
#include "run/training.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

static json_t *real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

sw_status sw_training_state_text(const sw_training *t, char *text, size_t bytes, sw_error *err) {
    json_t *losses = json_array();
    for (int i = 0; i < t->guard.n_losses; i++)
        json_array_append_new(losses, real(t->guard.losses[i]));
    json_t *state = json_pack(
        "{s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o, s:i, s:o}", "step", (json_int_t)t->step, "updates", (json_int_t)t->n_updates,
        "next_row", (json_int_t)t->next_row, "rows_left_out", (json_int_t)t->n_rows_left_out, "skipped_in_a_row",
        t->n_skipped_in_a_row, "first_loss", real(t->first_loss), "last_loss", real(t->last_loss), "seconds",
        real(t->seconds_before + sw_seconds_now() - t->begin), "rollbacks", t->guard.n_rollbacks, "good_losses", losses);
    char *written = state ? json_dumps(state, 0) : NULL;
    json_decref(state);
    sw_status status = SW_OK;
    if (!written)
        status = sw_fail(err, SW_NO_MEMORY, "no memory for the state of the run");
    else if (strlen(written) >= bytes)
        status = sw_fail(err, SW_BUG, "the state of the run has %zu bytes, there is room for %zu", strlen(written), bytes);
    else
        memcpy(text, written, strlen(written) + 1);
    free(written);
    return status;
}

/* A count from 0 on that the checkpoint must have. */
static sw_status count(const sw_json_object *object, const char *key, int64_t *value, sw_error *err) {
    sw_status status = sw_json_integer(object, key, SW_JSON_REQUIRED, value, err);
    if (!status && (*value < 0 || *value > INT64_MAX / 4))
        status = sw_fail(err, SW_BAD_FILE, "%s: %s is %" PRId64, sw_json_name(object), key, *value);
    return status;
}

sw_status sw_training_state_read(sw_training *t, const sw_checkpoint *checkpoint, sw_error *err) {
    const char *text = sw_checkpoint_state(checkpoint);
    sw_json *document;
    sw_status status = sw_json_parse(sw_checkpoint_path(checkpoint), text, (int64_t)strlen(text), &document, err);
    if (status)
        return status;
    sw_json_object root = sw_json_root(document);
    int64_t skipped = 0, rollbacks = 0;
    t->first_loss = t->last_loss = NAN;
    const struct {
        const char *key;
        int64_t *value;
    } counts[] = {{"step", &t->step},
                  {"updates", &t->n_updates},
                  {"next_row", &t->next_row},
                  {"rows_left_out", &t->n_rows_left_out},
                  {"skipped_in_a_row", &skipped},
                  {"rollbacks", &rollbacks}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !status; i++)
        status = count(&root, counts[i].key, counts[i].value, err);
    if (!status && t->step != sw_checkpoint_step(checkpoint))
        status = sw_fail(err, SW_BAD_FILE, "%s: the state is that of step %" PRId64, sw_checkpoint_path(checkpoint), t->step);
    if (!status)
        status = sw_json_real(&root, "first_loss", SW_JSON_OPTIONAL, &t->first_loss, err);
    if (!status)
        status = sw_json_real(&root, "last_loss", SW_JSON_OPTIONAL, &t->last_loss, err);
    if (!status)
        status = sw_json_real(&root, "seconds", SW_JSON_OPTIONAL, &t->seconds_before, err);
    if (!status)
        status = sw_json_reals(&root, "good_losses", t->guard.losses, SW_GUARD_LOSSES, &t->guard.n_losses, err);
    if (!status && t->guard.n_losses > SW_GUARD_LOSSES)
        status = sw_fail(err, SW_BAD_FILE, "%s: %d good_losses", sw_checkpoint_path(checkpoint), t->guard.n_losses);
    t->n_skipped_in_a_row = (int)skipped;
    t->guard.n_rollbacks = (int)rollbacks;
    sw_json_free(document);
    return status;
}
