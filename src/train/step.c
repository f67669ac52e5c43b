/* step.c: one training step on one rank: rows in, the decision that all ranks share, metrics out.
 * Nothing here allocates. */
#include "train/training.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "optim/clip.h"

sw_status sw_training_fill(sw_training *t, int program, sw_dataset *data, int64_t first,
                           int64_t end, sw_error *err) {
    const int64_t n_rows = t->run->plan.assembly.choice.micro_batch_size,
                  n_tokens = t->run->settings->data.sequence_length;
    int32_t *tokens = sw_executor_port(t->executor, program, SW_PORT_TOKENS);
    int32_t *targets = sw_executor_port(t->executor, program, SW_PORT_TARGETS);
    int32_t *documents = sw_executor_port(t->executor, program, SW_PORT_DOCUMENTS);
    if (documents)
        memset(documents, 0, (size_t)(n_rows * n_tokens) * sizeof *documents);
    for (int64_t r = 0; r < n_rows; r++, tokens += n_tokens, targets += n_tokens) {
        if (first + r < end) {
            sw_status status = sw_dataset_row(data, first + r, tokens, targets,
                                              documents ? documents + r * n_tokens : NULL, err);
            if (status)
                return status;
            continue;
        }
        memset(tokens, 0, (size_t)n_tokens * sizeof *tokens);
        memset(targets, 0xff, (size_t)n_tokens * sizeof *targets); /* -1: no target */
    }
    return SW_OK;
}

static sw_status fill(void *self, int slot, sw_scalars *scalars, sw_error *err) {
    sw_training *t = self;
    const sw_assembly *a = &t->run->plan.assembly;
    int64_t micro = a->choice.micro_batch_size, k = sw_training_micro_batch(t, slot);
    scalars->first_row = t->first_row + k * micro;
    t->check.slot = slot;
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step + 1, slot, 0, "reading data");
    return sw_training_fill(t, SW_PROGRAM_TRAIN, t->run->data, scalars->first_row,
                            t->first_row + t->n_rows, err);
}

static sw_status collect(void *self, int slot, sw_error *err) {
    sw_training *t = self;
    (void)slot;
    (void)err;
    const double *loss = sw_executor_port(t->executor, SW_PROGRAM_TRAIN, SW_PORT_LOSS);
    sw_wide_sum_add(&t->loss_sum, *loss);
    sw_verify_loss(t, *loss);
    return SW_OK;
}

/* What every rank must know before anyone touches a parameter. */
typedef struct verdict {
    sw_wide_sum loss, squares;
    int stop_signal;
    uint32_t n_saves_asked;
    sw_saving_stage saving;
    sw_limit_seen limit; /* rank 0's counts: clocks differ */
} verdict;

_Static_assert(sizeof(verdict) <= SW_PAYLOAD_BYTES, "verdicts are exchanged");

static sw_status decide(void *self, const sw_wide_sum *squares, sw_scalars *scalars,
                        sw_error *err) {
    sw_training *t = self;
    const sw_settings *s = t->run->settings;
    verdict mine = {.loss = t->loss_sum,
                    .squares = *squares,
                    .stop_signal = sw_stop_requested(t->comm),
                    .n_saves_asked = sw_saves_requested(t->comm),
                    .saving = t->saving ? sw_saving_look(t->saving) : SW_SAVING_NOTHING,
                    .limit = t->limit_seen},
            *all = t->all;
    sw_status status = sw_exchange(t->comm, &mine, all, sizeof mine, err);
    if (status)
        return status;
    const sw_layout *layout = &t->run->plan.assembly.compiled->layout;
    for (int r = 1; r < t->comm->n_ranks; r++) {
        if (sw_mesh_counts(&layout->mesh, SW_DATA_AXES, r))
            sw_wide_sum_merge(&all[0].loss, &all[r].loss);
        if (sw_mesh_counts(&layout->mesh, layout->cut_over, r))
            sw_wide_sum_merge(&all[0].squares, &all[r].squares);
        all[0].stop_signal = all[0].stop_signal ? all[0].stop_signal : all[r].stop_signal;
        all[0].n_saves_asked = all[0].n_saves_asked > all[r].n_saves_asked ? all[0].n_saves_asked
                                                                           : all[r].n_saves_asked;
    }
    t->stop_signal = all[0].stop_signal;
    t->n_saves_asked = all[0].n_saves_asked;
    t->first_saving = all[0].saving;
    t->all_have_written = true;
    t->some_saving_failed = false;
    for (int r = 0; r < t->comm->n_ranks; r++) {
        t->all_have_written = t->all_have_written && all[r].saving == SW_SAVING_WRITTEN;
        t->some_saving_failed = t->some_saving_failed || all[r].saving == SW_SAVING_FAILED;
    }
    sw_guard_reach(t, &all[0].limit);
    t->loss = t->n_supervised ? sw_wide_sum_value(&all[0].loss) * scalars->loss_scale
                              : NAN; /* of nothing there is none */
    t->grad_norm = sqrt(sw_wide_sum_value(&all[0].squares));
    scalars->clip_factor = sw_clip_factor(t->grad_norm, s->optimizer.clip_norm);
    t->grad_norm_clipped = t->grad_norm * scalars->clip_factor;
    t->skipped = t->n_supervised == 0      ? "no token of the step has a target"
                 : !isfinite(t->loss)      ? "the loss is not finite"
                 : !isfinite(t->grad_norm) ? "the gradient is not finite"
                                           : NULL;
    t->is_spike = !t->skipped && sw_guard_is_spike(&t->guard, s->guard.loss_spike.factor, t->loss);
    if (t->is_spike)
        t->skipped = "the loss is a spike (guard.loss_spike)";
    if (t->check.is_due)
        status = sw_verify_compare(t, err);
    scalars->proceed = !t->skipped && !t->check.finding;
    return status;
}

typedef struct memory_of_rank {
    int64_t peak[SW_N_MEMORY_CLASSES], sum, resident;
} memory_of_rank;

_Static_assert(sizeof(memory_of_rank) <= SW_PAYLOAD_BYTES, "figures of memory are exchanged");

sw_status sw_training_memory(sw_training *t, int64_t *worst, int64_t *resident, int *rank,
                             sw_error *err) {
    memory_of_rank mine = {.sum = 0}, *all = t->all;
    sw_resident now;
    sw_memory_figures(sw_executor_count(t->executor)->peak, mine.peak);
    mine.peak[SW_MEMORY_TRANSPORT] = t->run->plan.planned[SW_MEMORY_TRANSPORT];
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        mine.sum += mine.peak[c];
    mine.resident = sw_resident_read(0, &now, NULL) ? 0
                    : now.proportional > 0          ? now.proportional
                                                    : now.resident;
    sw_status status = sw_exchange(t->comm, &mine, all, sizeof mine, err);
    if (status)
        return status;
    *rank = 0;
    for (int r = 1; r < t->comm->n_ranks; r++)
        if (all[r].sum > all[*rank].sum ||
            (all[r].sum == all[*rank].sum && all[r].resident > all[*rank].resident))
            *rank = r;
    memcpy(worst, all[*rank].peak, sizeof mine.peak);
    *resident = all[*rank].resident;
    return SW_OK;
}

/* Before the optimizer writes a group, what a save wants of it has been read. */
static sw_status before_update(void *self, int group, sw_error *err) {
    sw_training *t = self;
    return t->saving ? sw_saving_wait_for_group(t->saving, group, err) : SW_OK;
}

static double sum_of_waits(const sw_lane_counts *lane) {
    double sum = 0;
    for (int kind = 0; kind < SW_N_WAIT_KINDS; kind++)
        sum += lane->wait_seconds[kind];
    return sum;
}

/* `counts`: of the step itself, for an evaluation after it counts anew. */
static sw_status tell(sw_training *t, const sw_scalars *scalars, const sw_executor_counts *counts,
                      double seconds, sw_error *err) {
    const sw_settings *s = t->run->settings;
    const double *waits = counts->lane[SW_LANE_COMPUTE].wait_seconds;
    bool is_last = t->step == t->n_steps || t->stop_signal || t->limit;
    bool is_logged = t->step % s->log.every == 0 || is_last || t->has_validation || t->skipped;
    sw_step_metrics m = {.step = t->step,
                         .loss = t->loss,
                         .grad_norm = t->grad_norm,
                         .grad_norm_clipped = t->grad_norm_clipped,
                         .learning_rate = scalars->learning_rate,
                         .tokens = t->n_rows * s->data.sequence_length,
                         .supervised_tokens = t->n_supervised,
                         .step_seconds = seconds,
                         .compute_seconds = counts->compute_seconds,
                         .wait_seconds = counts->wait_seconds,
                         .gather_wait_seconds = waits[SW_WAITS_FOR_GATHER],
                         .reduce_wait_seconds = waits[SW_WAITS_FOR_REDUCE],
                         .decide_wait_seconds = waits[SW_WAITS_FOR_DECISION],
                         .moving_seconds = counts->moving_seconds,
                         .communication_wait_seconds =
                             sum_of_waits(&counts->lane[SW_LANE_COMMUNICATION]),
                         .gather_bytes = counts->gather_bytes,
                         .reduce_bytes = counts->reduce_bytes,
                         .flops_per_second = counts->flops / seconds,
                         .has_validation_loss = t->has_validation,
                         .validation_loss = t->validation_loss,
                         .skipped = t->skipped};
    m.tokens_per_second = (double)m.tokens / seconds;
    sw_status status = SW_OK;
    if (is_logged) {
        memcpy(m.memory.planned, t->run->plan.planned, sizeof m.memory.planned);
        status = sw_training_memory(t, m.memory.peak, &m.memory.resident, &m.memory.rank, err);
    }
    if (status || t->comm->rank != 0)
        return status;
    sw_json_line line;
    sw_progress progress = {.step = t->step,
                            .n_steps = t->n_steps,
                            .loss = t->loss,
                            .grad_norm = t->grad_norm,
                            .learning_rate = scalars->learning_rate,
                            .tokens_per_second = m.tokens_per_second,
                            .seconds = t->seconds_before + sw_seconds_now() - t->begin,
                            .memory_bytes = m.memory.resident,
                            .is_logged = is_logged,
                            .has_validation = t->has_validation,
                            .validation_loss = t->validation_loss,
                            .skipped = t->skipped};
    if (is_logged) {
        sw_metrics_format(&m, &line);
        line.text[line.n - 1] = 0; /* the newline */
        progress.metrics = line.text;
        sw_training_log(t, &m);
    }
    if (t->run->options->listener.step)
        t->run->options->listener.step(t->run->options->listener.to, &progress);
    if (t->skipped) {
        sw_detail detail = sw_detail_integer("in_a_row", t->n_skipped_in_a_row);
        sw_training_event(t, "skip", t->step, t->skipped, &detail, 1);
    }
    return SW_OK;
}

/* Rows that a run of epochs has left may be fewer than a batch. */
static int64_t rows_of_step(const sw_training *t) {
    int64_t batch = t->run->settings->train.batch_size,
            left = t->run->n_rows - sw_training_rows_taken(t);
    return left > 0 && left < batch ? left : batch;
}

static sw_status begin_step(sw_training *t, sw_scalars *scalars, sw_error *err) {
    const sw_run *run = t->run;
    const sw_settings *s = run->settings;
    sw_schedule schedule = run->schedule;
    schedule.n_steps = t->n_steps;
    t->first_row = t->next_row;
    t->n_rows = rows_of_step(t);
    memset(&t->loss_sum, 0, sizeof t->loss_sum);
    sw_status status =
        sw_dataset_supervised(run->data, t->first_row, t->n_rows, &t->n_supervised, err);
    *scalars = (sw_scalars){
        .seed = (uint64_t)s->train.seed,
        .step = t->step,
        .loss_scale = t->n_supervised ? 1 / (double)t->n_supervised : 0,
        .learning_rate = sw_learning_rate(&schedule, t->step),
        .bias_correction1 = sw_bias_correction(s->optimizer.betas.first, t->n_updates + 1),
        .bias_correction2 = sw_bias_correction(s->optimizer.betas.second, t->n_updates + 1)};
    return status;
}

/* The step is done: count it. */
static void end_step(sw_training *t) {
    t->step++;
    t->next_row += t->n_rows;
    t->n_updates += !t->skipped;
    t->n_skipped_in_a_row = t->skipped ? t->n_skipped_in_a_row + 1 : 0;
    t->first_loss = t->step == 1 ? t->loss : t->first_loss;
    t->last_loss = t->loss;
    if (!t->skipped)
        sw_guard_remember(&t->guard, t->loss);
}

/* Does a step that changed nothing end the run? */
static sw_status judge_skipped(sw_training *t, sw_error *err) {
    const sw_settings *s = t->run->settings;
    if (!t->skipped)
        return SW_OK;
    bool is_blank = t->n_supervised == 0; /* which is no failure of numbers */
    bool stops = t->is_spike ? s->guard.loss_spike.action == SW_SPIKE_STOP
                             : s->guard.nonfinite == SW_NONFINITE_STOP && !is_blank;
    if (stops)
        return sw_fail(err, SW_GUARD,
                       "step %lld was stopped by guard.%s: %s; parameters are those of the step "
                       "before; lower the "
                       "learning rate, or set guard.%s",
                       (long long)t->step, t->is_spike ? "loss_spike" : "nonfinite", t->skipped,
                       t->is_spike ? "loss_spike.action=rollback" : "nonfinite=skip");
    if (t->n_skipped_in_a_row >= s->guard.patience)
        return sw_fail(err, SW_GUARD, "%d %s skipped (guard.patience), %s because %s; %s",
                       t->n_skipped_in_a_row,
                       sw_text_noun(t->n_skipped_in_a_row, "step was", "steps in a row were"),
                       t->n_skipped_in_a_row == 1 ? "this one" : "the last", t->skipped,
                       is_blank ? "check which tokens of the data are targets (data.labels_mask, "
                                  "conversations), or shuffle the rows"
                                : "lower the learning rate or look at the data");
    return SW_OK;
}

sw_status sw_training_step(sw_training *t, sw_error *err) {
    const sw_settings *s = t->run->settings;
    sw_step_hooks hooks = {.self = t,
                           .fill = fill,
                           .collect = collect,
                           .decide = decide,
                           .before_update = before_update};
    sw_scalars scalars;
    sw_status status = begin_step(t, &scalars, err);
    t->check.finding = SW_FOUND_NOTHING;
    t->check.is_due = s->guard.verify_every && (t->step + 1) % s->guard.verify_every == 0;
    if (!status && t->check.is_due) {
        hooks.gradient = sw_verify_gradient;
        status = sw_verify_begin(t, err);
    }
    double begin = sw_seconds_now();
    int64_t micro = t->run->plan.assembly.choice.micro_batch_size;
    if (!status)
        status = sw_executor_step(t->executor, SW_PROGRAM_TRAIN, (t->n_rows + micro - 1) / micro,
                                  &scalars, &hooks, err);
    if (!status && t->check.finding)
        status = sw_verify_judge(t, err);
    if (status)
        return status;
    double seconds = sw_seconds_now() - begin;
    sw_executor_counts counts = *sw_executor_count(t->executor);
    end_step(t);
    bool is_due = t->step == t->n_steps ||
                  (s->train.validate_every > 0 && t->step % s->train.validate_every == 0);
    t->has_validation = false;
    if (t->run->validation && is_due && !t->stop_signal) /* who asks to stop is not made to wait */
        status = sw_training_evaluate(t, &t->validation_loss, err);
    sw_guard_look(t, seconds);
    sw_comm_enter(t->comm, SW_LANE_COMPUTE, t->step, 0, 0, "telling of the step");
    if (!status)
        status = tell(t, &scalars, &counts, seconds, err);
    if (!status)
        status = judge_skipped(t, err);
    if (!status && t->is_spike && s->guard.loss_spike.action == SW_SPIKE_ROLLBACK)
        return sw_training_roll_back(t, err);
    return status ? status : sw_training_tend_saving(t, err);
}
