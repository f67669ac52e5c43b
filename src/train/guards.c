/* guards.c: losses that jump, and limits that end a run.
 *
 * A spike is a loss above guard.loss_spike.factor times the median of the last 32 good losses (of 8
 * at least). The median does not follow a single outlier, and a spike is no good loss, so what came
 * before is what counts. It is seen at the step's decision, before anything was updated.
 */
#include "train/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { LEAST_LOSSES = 8, MOST_ROLLBACKS = 3 };

static double median(const sw_guard_state *guard) {
    double sorted[SW_GUARD_LOSSES];
    for (int i = 0; i < guard->n_losses; i++) { /* by insertion */
        int at = i;
        for (; at > 0 && sorted[at - 1] > guard->losses[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = guard->losses[i];
    }
    int n = guard->n_losses;
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

bool sw_guard_is_spike(const sw_guard_state *guard, double factor, double loss) {
    return factor > 0 && guard->n_losses >= LEAST_LOSSES && loss > factor * median(guard);
}

void sw_guard_remember(sw_guard_state *guard, double loss) {
    if (guard->n_losses == SW_GUARD_LOSSES)
        memmove(guard->losses, guard->losses + 1, --guard->n_losses * sizeof *guard->losses);
    guard->losses[guard->n_losses++] = loss;
}

/* ---- limits ---- */

static double tokens_per_second(const sw_training *t) {
    double seconds = 0;
    for (int i = 0; i < SW_GUARD_SPEED_STEPS; i++)
        seconds += t->step_seconds[i];
    return SW_GUARD_SPEED_STEPS *
           (double)(t->run->settings->train.batch_size * t->run->settings->data.sequence_length) /
           seconds;
}

void sw_guard_look(sw_training *t, double seconds) {
    const sw_limit_settings *limits = &t->run->settings->guard.limits;
    t->step_seconds[t->n_step_seconds++ % SW_GUARD_SPEED_STEPS] = seconds;
    double hours = (t->seconds_before + sw_seconds_now() - t->begin) / 3600;
    if (limits->min_tokens_per_s > 0 && t->n_step_seconds >= SW_GUARD_SPEED_STEPS &&
        tokens_per_second(t) < limits->min_tokens_per_s)
        t->limit_seen = (sw_limit_seen){SW_LIMIT_SPEED, tokens_per_second(t)};
    if (limits->max_hours > 0 && hours > limits->max_hours)
        t->limit_seen = (sw_limit_seen){SW_LIMIT_HOURS, hours};
    if (limits->max_validation_loss > 0 && t->has_validation &&
        !(t->validation_loss <= limits->max_validation_loss)) {
        snprintf(t->limit_text, sizeof t->limit_text,
                 "max_validation_loss is %g, the validation loss %g", limits->max_validation_loss,
                 t->validation_loss);
        t->limit = t->limit_text;
    }
}

void sw_guard_reach(sw_training *t, const sw_limit_seen *seen) {
    const sw_limit_settings *limits = &t->run->settings->guard.limits;
    if (seen->kind == SW_LIMIT_SPEED)
        snprintf(t->limit_text, sizeof t->limit_text,
                 "min_tokens_per_s is %g, the last %d steps had %.4g", limits->min_tokens_per_s,
                 SW_GUARD_SPEED_STEPS, seen->value);
    if (seen->kind == SW_LIMIT_HOURS)
        snprintf(t->limit_text, sizeof t->limit_text,
                 "max_hours is %g, the run has trained for %.4g", limits->max_hours, seen->value);
    if (seen->kind != SW_LIMIT_NONE)
        t->limit = t->limit_text;
}

/* ---- back to a checkpoint ---- */

/* What rank 0 says of it. `guard` and `step` are those of before, with which the spike was seen. */
static void tell_of_rollback(sw_training *t, const sw_guard_state *guard, int64_t from_step,
                             double loss, bool is_back, int64_t first_row) {
    sw_report_warning(
        t->run,
        "step %" PRId64 ": the loss %g is more than %g times the median %g of the last %d: %s",
        from_step, loss, t->run->settings->guard.loss_spike.factor, median(guard), guard->n_losses,
        is_back ? "returning to the newest checkpoint and continuing with the rows after these"
                : "the update is skipped, as there is no checkpoint to go back to");
    sw_detail details[] = {sw_detail_integer("from_step", from_step), sw_detail_real("loss", loss),
                           sw_detail_real("median", median(guard)),
                           sw_detail_integer("first_row_left_out", first_row),
                           sw_detail_integer("last_row_left_out", t->next_row - 1)};
    sw_training_event(t, "rollback", t->step, "the loss is a spike (guard.loss_spike)", details, 5);
    sw_training_cut_log(t);
}

sw_status sw_training_roll_back(sw_training *t, sw_error *err) {
    const sw_guard_state guard = t->guard;
    int64_t from_step = t->step, next_row = t->next_row, step;
    double loss = t->loss, seconds_before = t->seconds_before;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, 0, 0, "rolling back");
    sw_status status = t->saving ? sw_training_settle_saving(t, err) : SW_OK;
    if (!status && guard.n_rollbacks >= MOST_ROLLBACKS)
        return sw_fail(
            err, SW_GUARD,
            "step %" PRId64
            ": the loss is %g, and the run was rolled back %d times since its last checkpoint "
            "(guard.loss_spike) · look at the data, or set guard.loss_spike.action=skip",
            t->step, t->loss, guard.n_rollbacks);
    if (!status)
        status = sw_training_restore_again(t, &step, err);
    if (status)
        return status;
    if (step >= 0) {
        t->n_rows_left_out += next_row - t->next_row;
        t->seconds_before = seconds_before;
        t->guard.n_rollbacks = guard.n_rollbacks + 1;
    }
    int64_t first_row = step >= 0 ? t->next_row : t->first_row;
    t->next_row = next_row;
    if (t->comm->rank == 0)
        tell_of_rollback(t, &guard, from_step, loss, step >= 0, first_row);
    return step < 0 || !t->saving ? status : sw_training_save_rollback(t, err);
}
