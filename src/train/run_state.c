/* run_state.c: what the next step depends on beside parameters and moments, as the text of a JSON
 * object in a checkpoint.
 *
 * Random numbers are functions of the seed and of logical indices, and the learning rate is one of
 * the step, so there is no more to them than these counts.
 */
#include "train/training.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

void sw_training_state_text(const sw_training *t, sw_json_line *text) {
    sw_json_line_begin(text);
    sw_json_line_integer(text, "step", t->step);
    sw_json_line_integer(text, "updates", t->n_updates);
    sw_json_line_integer(text, "next_row", t->next_row);
    sw_json_line_integer(text, "rows_left_out", t->n_rows_left_out);
    sw_json_line_integer(text, "skipped_in_a_row", t->n_skipped_in_a_row);
    sw_json_line_real(text, "first_loss", t->first_loss);
    sw_json_line_real(text, "last_loss", t->last_loss);
    sw_json_line_real(text, "seconds", t->seconds_before + sw_seconds_now() - t->begin);
    sw_json_line_integer(text, "rollbacks", t->guard.n_rollbacks);
    sw_json_line_reals(text, "good_losses", t->guard.losses, t->guard.n_losses);
    sw_json_line_end(text);
    text->text[text->n - 1] = 0; /* the newline */
}

/* A count from 0 to `most` that the checkpoint must have. */
static sw_status count(const sw_json_object *object, const char *key, int64_t most, int64_t *value,
                       sw_error *err) {
    sw_status status = sw_json_integer(object, key, SW_JSON_REQUIRED, value, err);
    if (!status && (*value < 0 || *value > most))
        status = sw_fail(err, SW_BAD_FILE, "%s: %s is %" PRId64, sw_json_name(object), key, *value);
    return status;
}

sw_status sw_training_state_read(sw_training *t, const sw_checkpoint *checkpoint, sw_error *err) {
    const char *text = sw_checkpoint_state(checkpoint);
    sw_json *document;
    sw_status status =
        sw_json_parse(sw_checkpoint_path(checkpoint), text, (int64_t)strlen(text), &document, err);
    if (status)
        return status;
    sw_json_object root = sw_json_root(document);
    int64_t skipped = 0, rollbacks = 0;
    t->first_loss = t->last_loss = NAN;
    const struct {
        const char *key;
        int64_t most, *value;
    } counts[] = {{"step", INT64_MAX / 4, &t->step},
                  {"updates", INT64_MAX / 4, &t->n_updates},
                  {"next_row", INT64_MAX / 4, &t->next_row},
                  {"rows_left_out", INT64_MAX / 4, &t->n_rows_left_out},
                  {"skipped_in_a_row", INT_MAX, &skipped},
                  {"rollbacks", INT_MAX, &rollbacks}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !status; i++)
        status = count(&root, counts[i].key, counts[i].most, counts[i].value, err);
    if (!status && t->step != sw_checkpoint_step(checkpoint))
        status = sw_fail(err, SW_BAD_FILE, "%s: the state is that of step %" PRId64,
                         sw_checkpoint_path(checkpoint), t->step);
    if (!status)
        status = sw_json_real(&root, "first_loss", SW_JSON_OPTIONAL, &t->first_loss, err);
    if (!status)
        status = sw_json_real(&root, "last_loss", SW_JSON_OPTIONAL, &t->last_loss, err);
    if (!status)
        status = sw_json_real(&root, "seconds", SW_JSON_OPTIONAL, &t->seconds_before, err);
    if (!status)
        status = sw_json_reals(&root, "good_losses", t->guard.losses, SW_GUARD_LOSSES,
                               &t->guard.n_losses, err);
    if (!status && t->guard.n_losses > SW_GUARD_LOSSES)
        status = sw_fail(err, SW_BAD_FILE, "%s: %d good_losses", sw_checkpoint_path(checkpoint),
                         t->guard.n_losses);
    t->n_skipped_in_a_row = (int)skipped;
    t->guard.n_rollbacks = (int)rollbacks;
    sw_json_free(document);
    return status;
}
