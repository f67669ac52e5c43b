/* sharded_step.c: what the caller of sharded parameters asks for in a step.
 *
 *   unit      sharded --gather--> gathered --release--> sharded
 *   gradient  closed --gradient--> open: a buffer of the ring, zeroed --reduce--> closed: summed
 *             into own slices
 *
 * A call out of turn is refused before anything is waited for. The update runs as the executor's
 * program.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dtype.h"
#include "execute/sharded_internal.h"
#include "optim/clip.h"
#include "optim/schedule.h"

/* What each rank must know before anyone touches a parameter. */
typedef struct vote {
    sw_wide_sum squares;
    double learning_rate; /* to compare */
} vote;

_Static_assert(sizeof(vote) <= SW_SHARDED_VOTE_BYTES, "room for votes is taken in sharded.c");

/* Say what this rank does, for whoever reports on it. */
static void enter(sw_sharded *s, const char *verb, const char *name) {
    char label[SW_LABEL_BYTES];
    snprintf(label, sizeof label, "%s %s", verb, name);
    sw_comm_enter(s->comm, SW_LANE_COMPUTE, s->step + 1, 0, s->n_calls++, label);
}

static sw_status check_committed(const sw_sharded *s, const char *what, sw_error *err) {
    if (!s)
        return sw_fail(err, SW_BAD_CONFIG, "%s: sharded is NULL", what);
    return s->is_committed ? SW_OK
                           : sw_fail(err, SW_BAD_CONFIG,
                                     "%s is called before sw_sharded_commit has succeeded", what);
}

static sw_status check_unit(const sw_sharded *s, const char *what, const sw_unit *unit,
                            sw_error *err) {
    sw_status status = check_committed(s, what, err);
    return status ? status : sw_sharded_own_unit(s, what, unit, err);
}

static sw_status check_parameter(const sw_sharded *s, const char *what,
                                 const sw_parameter *parameter, sw_error *err) {
    sw_status status = check_committed(s, what, err);
    return status ? status : sw_sharded_own_parameter(s, what, parameter, err);
}

/* ---- parameters ---- */

/* Of a value as it is gathered. */
static int64_t element_bytes(const sw_sharded *s) {
    return sw_held_bytes(&s->compiled->states, SW_HELD_COPY);
}

static sw_status gather_group(sw_sharded *s, int group, sw_error *err) {
    if (group < 0)
        return SW_OK;
    const void *whole;
    if (s->options.stage < 3) { /* which is here, and new since the last step */
        s->gathered[group] = sw_executor_address(s->executor, 0, s->compiled->states.copy[group]);
        return SW_OK;
    }
    void *destination = s->copies ? s->copies + s->copy_offset[group] : NULL;
    sw_status status = sw_executor_gather(s->executor, group, destination, &whole, err);
    s->gathered[group] = status ? NULL : whole;
    return status;
}

static sw_status release_group(sw_sharded *s, int group, sw_error *err) {
    if (group < 0)
        return SW_OK;
    s->gathered[group] = NULL;
    if (s->options.stage < 3)
        return SW_OK;
    const sw_group *g = &s->compiled->layout.groups[group];
    if (s->copies)
        madvise(s->copies + s->copy_offset[group],
                (size_t)(g->shard * s->compiled->layout.n_shards * element_bytes(s)),
                MADV_DONTNEED);
    return sw_executor_reshard(s->executor, group, err);
}

static sw_status gather(sw_sharded *s, int unit, sw_error *err) {
    enter(s, "gather", s->compiled->layout.units[unit].name);
    sw_status status = gather_group(s, s->compiled->layout.units[unit].trainable_group, err);
    return status ? status : gather_group(s, s->compiled->layout.units[unit].frozen_group, err);
}

static sw_status release(sw_sharded *s, int unit, sw_error *err) {
    sw_status status = release_group(s, s->compiled->layout.units[unit].trainable_group, err);
    return status ? status : release_group(s, s->compiled->layout.units[unit].frozen_group, err);
}

sw_status sw_sharded_gather(sw_sharded *s, const sw_unit *unit, sw_error *err) {
    sw_status status = check_unit(s, "sw_sharded_gather", unit, err);
    if (status)
        return status;
    if (s->units[unit->id].is_gathered)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_gather: unit \"%s\" is gathered already; release it first",
                       unit->name);
    status = gather(s, unit->id, err);
    s->units[unit->id].is_gathered = !status;
    return status;
}

static const void *values_of(const sw_sharded *s, const sw_parameter *parameter) {
    const sw_slot_of_parameter *slot = &s->compiled->layout.parameters[parameter->id];
    return s->gathered[slot->group] + slot->offset * element_bytes(s);
}

static sw_status check_values(const sw_sharded *s, const char *what, const sw_parameter *parameter,
                              sw_sharded_dtype dtype, sw_error *err) {
    sw_status status = check_parameter(s, what, parameter, err);
    if (!status && s->options.parameter_dtype != dtype)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "%s: parameter_dtype of this object is the other one; call sw_sharded_values%s", what,
            dtype == SW_SHARDED_FP32 ? "_bf16" : "");
    if (!status && !s->units[parameter->unit->id].is_gathered)
        return sw_fail(err, SW_BAD_CONFIG, "%s: unit \"%s\" of parameter \"%s\" is not gathered",
                       what, parameter->unit->name, parameter->name);
    return status;
}

sw_status sw_sharded_values(const sw_sharded *s, const sw_parameter *parameter,
                            const float **values, sw_error *err) {
    if (!values)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_values: values is NULL, where they are put");
    sw_status status = check_values(s, "sw_sharded_values", parameter, SW_SHARDED_FP32, err);
    *values = status ? NULL : values_of(s, parameter);
    return status;
}

sw_status sw_sharded_values_bf16(const sw_sharded *s, const sw_parameter *parameter,
                                 const uint16_t **values, sw_error *err) {
    if (!values)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_values_bf16: values is NULL, where they are put");
    sw_status status = check_values(s, "sw_sharded_values_bf16", parameter, SW_SHARDED_BF16, err);
    *values = status ? NULL : values_of(s, parameter);
    return status;
}

sw_status sw_sharded_release(sw_sharded *s, const sw_unit *unit, sw_error *err) {
    sw_status status = check_unit(s, "sw_sharded_release", unit, err);
    if (status)
        return status;
    if (!s->units[unit->id].is_gathered)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_release: unit \"%s\" is not gathered",
                       unit->name);
    s->units[unit->id].is_gathered = false;
    return release(s, unit->id, err);
}

sw_status sw_sharded_fetch(sw_sharded *s, const sw_parameter *parameter, float *values,
                           sw_error *err) {
    if (!values)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_fetch: values is NULL, where they are put");
    sw_status status = check_parameter(s, "sw_sharded_fetch", parameter, err);
    if (status)
        return status;
    int unit = parameter->unit->id;
    bool is_gathered = s->units[unit].is_gathered;
    if (!is_gathered)
        status = gather(s, unit, err);
    if (status)
        return status;
    const void *gathered = values_of(s, parameter);
    if (s->options.parameter_dtype == SW_SHARDED_FP32)
        memcpy(values, gathered, (size_t)parameter->n_elements * sizeof *values);
    for (int64_t i = 0; s->options.parameter_dtype == SW_SHARDED_BF16 && i < parameter->n_elements;
         i++)
        values[i] = sw_bf16_to_float(((const uint16_t *)gathered)[i]);
    return is_gathered ? SW_OK : release(s, unit, err);
}

/* ---- gradients ---- */

static sw_collective reduction(const sw_sharded *s, int unit) {
    const sw_group *group =
        &s->compiled->layout.groups[s->compiled->layout.units[unit].trainable_group];
    return (sw_collective){
        .channel = s->first_channel + s->units[unit].buffer,
        .lane = SW_LANE_COMPUTE,
        .unit = unit,
        .unit_name = s->compiled->layout.units[unit].name,
        .dtype = SW_F32,
        .shard_bytes = group->shard * (int64_t)sizeof(float),
        .window = s->window.base,
        .offset = s->units[unit].buffer * s->buffer_bytes,
        .rank_stride = s->options.n_gradient_buffers * s->buffer_bytes,
        .destination = sw_executor_address(s->executor, 0, s->compiled->states.gradient[group->id]),
        .n_contributors = s->comm->n_ranks,
        .accumulate = s->units[unit].n_reduced > 0};
}

/* This rank's gradient buffer of the unit. */
static float *own_gradients(const sw_sharded *s, int unit) {
    int64_t place = (int64_t)s->comm->rank * s->options.n_gradient_buffers + s->units[unit].buffer;
    return (float *)(s->window.base + place * s->buffer_bytes);
}

static sw_status open_gradients(sw_sharded *s, const sw_unit *unit, sw_error *err) {
    int place = -1;
    for (int i = 0; i < s->options.n_gradient_buffers; i++)
        if (!s->buffers[i].is_taken &&
            (place < 0 || s->buffers[i].last_taken < s->buffers[place].last_taken))
            place = i;
    if (place < 0)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "sw_sharded_gradient: unit \"%s\" cannot have gradients yet: %d units have some that "
            "are not reduced; reduce one of them first, or raise n_gradient_buffers",
            unit->name, s->options.n_gradient_buffers);
    enter(s, "open gradients of", unit->name);
    s->buffers[place] = (sw_sharded_buffer){true, ++s->n_taken};
    s->units[unit->id].buffer = place;
    sw_collective c = reduction(s, unit->id);
    sw_status status = s->comm->vtable->reduce_acquire(s->comm, &c, err);
    if (!status)
        memset(own_gradients(s, unit->id), 0, (size_t)(c.shard_bytes * s->comm->n_ranks));
    return status;
}

sw_status sw_sharded_gradient(sw_sharded *s, const sw_parameter *parameter, float **gradient,
                              sw_error *err) {
    if (!gradient)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_gradient: gradient is NULL, where it is put");
    *gradient = NULL;
    sw_status status = check_parameter(s, "sw_sharded_gradient", parameter, err);
    if (status)
        return status;
    const sw_slot_of_parameter *slot = &s->compiled->layout.parameters[parameter->id];
    if (!s->compiled->layout.groups[slot->group].is_trainable)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_gradient: parameter \"%s\" is frozen and has no gradient",
                       parameter->name);
    if (s->units[parameter->unit->id].buffer < 0)
        status = open_gradients(s, parameter->unit, err);
    if (!status)
        *gradient = own_gradients(s, parameter->unit->id) + slot->offset;
    return status;
}

sw_status sw_sharded_reduce(sw_sharded *s, const sw_unit *unit, sw_error *err) {
    sw_status status = check_unit(s, "sw_sharded_reduce", unit, err);
    if (status)
        return status;
    sw_sharded_unit_state *state = &s->units[unit->id];
    if (state->buffer < 0)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_reduce: unit \"%s\" has no open gradients: %s; a rank without "
                       "data asks for them and leaves the zeros",
                       unit->name,
                       state->n_reduced ? "it is reduced already" : "none was asked for");
    enter(s, "reduce", unit->name);
    sw_collective c = reduction(s, unit->id);
    state->squares = (sw_wide_sum){0};
    c.squares = &state->squares;
    status = s->comm->vtable->reduce_post(s->comm, &c, err);
    if (!status)
        status = s->comm->vtable->reduce_sum(s->comm, &c, s->device, SW_NUMBERS_F32, err);
    if (status)
        return status;
    s->buffers[state->buffer].is_taken = false;
    state->buffer = -1;
    state->n_reduced++;
    return SW_OK;
}

/* ---- step ---- */

/* The program has no reductions of its own: the caller's have left the squares with their units. */
static sw_status decide(void *self, const sw_wide_sum *squares, sw_scalars *scalars,
                        sw_error *err) {
    (void)squares;
    sw_sharded *s = self;
    vote mine = {.learning_rate = scalars->learning_rate}, *all = s->votes;
    for (int u = 0; u < s->compiled->layout.n_units; u++)
        sw_wide_sum_merge(&mine.squares, &s->units[u].squares);
    sw_status status = sw_exchange(s->comm, &mine, all, sizeof mine, err);
    if (status)
        return status;
    for (int r = 1; r < s->comm->n_ranks; r++) {
        sw_wide_sum_merge(&all[0].squares, &all[r].squares);
        if (all[r].learning_rate != all[0].learning_rate)
            return sw_fail(err, SW_MISMATCH,
                           "sw_sharded_step: the learning rate is %.17g on rank 0 and %.17g on "
                           "rank %d; it must be the same",
                           all[0].learning_rate, all[r].learning_rate, r);
    }
    s->norm = sqrt(sw_wide_sum_value(&all[0].squares));
    scalars->clip_factor = sw_clip_factor(s->norm, s->options.clip_norm);
    scalars->proceed = isfinite(s->norm);
    return SW_OK;
}

static sw_status check_step(const sw_sharded *s, double learning_rate, sw_error *err) {
    sw_status status = check_committed(s, "sw_sharded_step", err);
    if (status)
        return status;
    if (!isfinite(learning_rate) || learning_rate < 0)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "sw_sharded_step: the learning rate is %g; it must be finite and not below 0",
            learning_rate);
    for (int u = 0; u < s->compiled->layout.n_units; u++) {
        const char *name = s->compiled->layout.units[u].name;
        if (s->units[u].is_gathered)
            return sw_fail(err, SW_BAD_CONFIG,
                           "sw_sharded_step: unit \"%s\" is still gathered, and its values are "
                           "about to change; release it first",
                           name);
        if (s->units[u].buffer >= 0)
            return sw_fail(
                err, SW_BAD_CONFIG,
                "sw_sharded_step: unit \"%s\" has gradients that were not reduced; reduce it first",
                name);
        if (s->compiled->layout.units[u].trainable_group >= 0 && !s->units[u].n_reduced)
            return sw_fail(err, SW_BAD_CONFIG,
                           "sw_sharded_step: unit \"%s\" was not reduced since the last step, so "
                           "it would not learn; reduce it, "
                           "or freeze its parameters",
                           name);
    }
    return SW_OK;
}

sw_status sw_sharded_step(sw_sharded *s, double learning_rate, double *norm, sw_error *err) {
    sw_error unseen = {0};
    err = err ? err : &unseen;
    sw_status status = check_step(s, learning_rate, err);
    if (status)
        return status;
    const sw_step_hooks hooks = {.self = s, .decide = decide};
    sw_scalars scalars = {
        .step = s->step,
        .learning_rate = learning_rate,
        .bias_correction1 = sw_bias_correction(s->options.beta1, s->n_updates + 1),
        .bias_correction2 = sw_bias_correction(s->options.beta2, s->n_updates + 1)};
    status = sw_executor_step(s->executor, 0, 0, &scalars, &hooks, err);
    if (status)
        return status;
    for (int u = 0; u < s->compiled->layout.n_units; u++)
        s->units[u].n_reduced = 0;
    s->step++;
    s->n_updates += scalars.proceed;
    s->n_calls = 0;
    if (norm)
        *norm = s->norm;
    return SW_OK;
}
