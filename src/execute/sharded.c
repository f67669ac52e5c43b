/* sharded.c: parameters of a caller who computes: from registration to slices.
 *
 * A graph without operations declares units and parameters; then all is as in training: the layout
 * cuts them, the states say what memory a slice needs, and the program, which has no forward and no
 * backward, is an update. What the executor does for a program's gathers and reductions, the caller
 * asks for in sharded_step.c.
 */
#include "execute/sharded_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/options.h"
#include "base/page.h"
#include "base/reason.h"
#include "device/cpu/open.h"
#include "execute/agree.h"
#include "execute/masters.h"

enum { MAX_GRADIENT_BUFFERS = 256, FILL_ELEMENTS = 1 << 16 /* a multiple of SW_BLOCK */ };

/* ---- options ---- */

static bool is_share(double value) {
    return value >= 0 && value < 1;
}

static sw_status check_options(const sw_sharded_options *o, sw_error *err) {
    if (o->optimizer != SW_SHARDED_ADAMW && o->optimizer != SW_SHARDED_SGD)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "sw_sharded_options: optimizer %d is none of SW_SHARDED_ADAMW, SW_SHARDED_SGD",
            (int)o->optimizer);
    if (!is_share(o->beta1) || !is_share(o->beta2) || !is_share(o->momentum))
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_options: beta1 %g, beta2 %g and momentum %g must each be at "
                       "least 0 and below 1",
                       o->beta1, o->beta2, o->momentum);
    if (!(o->epsilon > 0) || !(o->weight_decay >= 0) || !(o->clip_norm >= 0) ||
        !isfinite(o->epsilon) || !isfinite(o->weight_decay) || !isfinite(o->clip_norm))
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_options: epsilon %g must be above 0, weight_decay %g and "
                       "clip_norm %g at least 0 (0 is off), all finite",
                       o->epsilon, o->weight_decay, o->clip_norm);
    if (o->n_gradient_buffers < 1 || o->n_gradient_buffers > MAX_GRADIENT_BUFFERS)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_options: n_gradient_buffers is %d; 1 to %d are possible",
                       o->n_gradient_buffers, MAX_GRADIENT_BUFFERS);
    if (o->stage < 0 || o->stage > 3)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_options: stage is %d; 0 to 3 are possible",
                       o->stage);
    if (o->parameter_dtype != SW_SHARDED_FP32 && o->parameter_dtype != SW_SHARDED_BF16)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "sw_sharded_options: parameter_dtype %d is none of SW_SHARDED_FP32, SW_SHARDED_BF16",
            (int)o->parameter_dtype);
    if (o->n_threads < 1 || o->n_threads > SW_MAX_THREADS)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_options: n_threads is %d; 1 to %d are possible", o->n_threads,
                       SW_MAX_THREADS);
    return SW_OK;
}

sw_status sw_sharded_create(sw_comm *comm, const sw_sharded_options *options, sw_sharded **sharded,
                            sw_error *err) {
    if (sharded)
        *sharded = NULL;
    if (!comm || !options || !sharded)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_create: %s is NULL",
                       !comm      ? "comm"
                       : !options ? "options"
                                  : "sharded, where the new object is put,");
    sw_sharded_options known = SW_SHARDED_OPTIONS_INIT;
    sw_status status = sw_options_take(options, &known, sizeof known, "sw_sharded_options",
                                       "SW_SHARDED_OPTIONS_INIT", err);
    if (status == SW_OK)
        status = check_options(&known, err);
    if (status != SW_OK)
        return status;
    sw_sharded *s = calloc(1, sizeof *s);
    if (!s)
        return sw_fail(err, SW_NO_MEMORY, "no memory for sharded parameters");
    s->comm = comm;
    s->options = known;
    status = sw_graph_create(1, 1, &s->graph, err);
    if (status == SW_OK) {
        sw_unit_declare(s->graph, NULL, "root");
        status = sw_graph_status(s->graph, err);
    }
    if (status != SW_OK) {
        sw_sharded_free(s);
        return status;
    }
    *sharded = s;
    return SW_OK;
}

void sw_sharded_free(sw_sharded *s) {
    if (!s)
        return;
    sw_executor_free(s->executor);
    if (s->compiled && s->compiled->n_programs)
        s->graph = NULL; /* which goes with it */
    sw_compiled_free(s->compiled);
    sw_graph_free(s->graph);
    if (s->device)
        s->device->close(s->device);
    if (s->copies)
        munmap(s->copies, (size_t)s->copies_bytes);
    sw_arena_free(&s->arena);
    free(s);
}

/* ---- registration ---- */

/* Pointers are compared and not followed: what the caller hands in may be anything. */
sw_status sw_sharded_own_unit(const sw_sharded *s, const char *what, const sw_unit *unit,
                              sw_error *err) {
    for (int i = 1; i < s->graph->units.n; i++)
        if (s->graph->units.item[i] == unit)
            return SW_OK;
    return sw_fail(
        err, SW_BAD_CONFIG,
        "%s: the unit is none of the %d of this object; pass what its sw_sharded_add_unit gave",
        what, s->graph->units.n - 1);
}

sw_status sw_sharded_own_parameter(const sw_sharded *s, const char *what,
                                   const sw_parameter *parameter, sw_error *err) {
    for (int i = 0; i < s->graph->parameters.n; i++)
        if (s->graph->parameters.item[i] == parameter)
            return SW_OK;
    return sw_fail(err, SW_BAD_CONFIG,
                   "%s: the parameter is none of the %d of this object; pass what its "
                   "sw_sharded_add_parameter gave",
                   what, s->graph->parameters.n);
}

sw_status sw_sharded_add_unit(sw_sharded *s, const char *name, sw_unit **unit, sw_error *err) {
    if (unit)
        *unit = NULL;
    if (!s || !name || !unit)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_add_unit: %s is NULL",
                       !s      ? "sharded"
                       : !name ? "name"
                               : "unit, where the new one is put,");
    if (s->is_committed)
        return sw_fail(err, SW_BAD_CONFIG,
                       "unit \"%s\" is added after sw_sharded_commit; add everything before it",
                       name);
    for (int i = 1; i < s->graph->units.n; i++)
        if (!strcmp(s->graph->units.item[i]->name, name))
            return sw_fail(err, SW_BAD_CONFIG,
                           "unit \"%s\" is added twice; names of units are used once", name);
    *unit = sw_unit_declare(s->graph, s->graph->units.item[0], name);
    return sw_graph_status(s->graph, err);
}

sw_status sw_sharded_add_parameter(sw_sharded *s, sw_unit *unit, const char *name, int n_dimensions,
                                   const int64_t *dimensions, sw_initial initial,
                                   sw_parameter **parameter, sw_error *err) {
    if (parameter)
        *parameter = NULL;
    if (!s || !name || !dimensions || !parameter)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_add_parameter: %s is NULL",
                       !s            ? "sharded"
                       : !name       ? "name"
                       : !dimensions ? "dimensions"
                                     : "parameter, where the new one is put,");
    if (s->is_committed)
        return sw_fail(
            err, SW_BAD_CONFIG,
            "parameter \"%s\" is added after sw_sharded_commit; add everything before it", name);
    sw_status status = sw_sharded_own_unit(s, "sw_sharded_add_parameter", unit, err);
    if (status != SW_OK)
        return status;
    sw_initial *grown = sw_arena_grow(&s->arena, s->initials.item, s->initials.n,
                                      &s->initials.capacity, sizeof *grown);
    if (!grown)
        return sw_fail(err, SW_NO_MEMORY, "no memory for parameter \"%s\"", name);
    s->initials.item = grown;
    *parameter = sw_parameter_declare(s->graph, unit, name, n_dimensions, dimensions,
                                      initial.initializer, initial.std);
    if (*parameter)
        grown[s->initials.n++] = initial;
    return sw_graph_status(s->graph, err);
}

/* ---- commit ---- */

/* What ranks compare: a line of options, then one for each unit, then one for each parameter. */
static size_t registration_line(const void *self, int64_t i, char *line, size_t bytes) {
    const sw_sharded *s = self;
    const sw_sharded_options *o = &s->options;
    if (i == 0) {
        return (size_t)snprintf(
            line, bytes,
            "optimizer %d, beta1 %.17g, beta2 %.17g, epsilon %.17g, momentum %.17g, weight decay "
            "%.17g, clip norm %.17g, "
            "seed %" PRIu64 ", gradient buffers %d, stage %d, dtype %d, threads %d, kernels %s",
            (int)o->optimizer, o->beta1, o->beta2, o->epsilon, o->momentum, o->weight_decay,
            o->clip_norm, o->seed, o->n_gradient_buffers, o->stage, (int)o->parameter_dtype,
            o->n_threads, s->device->kernel_set);
    }
    if (i < s->graph->units.n)
        return (size_t)snprintf(line, bytes, "unit \"%s\"", s->graph->units.item[i]->name);
    const sw_parameter *p = s->graph->parameters.item[i - s->graph->units.n];
    const sw_initial *initial = &s->initials.item[p->id];
    char shape[SW_MAX_DIMENSIONS * 24] = "";
    for (int d = 0, n = 0; d < p->n_dimensions; d++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, " %" PRId64, p->dimension[d]);
    return (size_t)snprintf(
        line, bytes, "parameter \"%s\" of unit \"%s\"%s, %s %d std %.17g, shape%s", p->name,
        p->unit->name, p->is_trainable ? "" : ", frozen", initial->fill ? "filled," : "initializer",
        (int)initial->initializer, initial->std, shape);
}

static sw_status plan(sw_sharded *s, sw_error *err) {
    const sw_sharded_options *o = &s->options;
    sw_sharding sharding = {
        .mesh = sw_mesh_flat(s->comm->n_ranks),
        .n_threads = o->n_threads,
        .stage = o->stage == 1 ? 2 : o->stage, /* gradients are written into buffers that are
                                                  reduced: nothing whole is kept */
        .reshard_after_forward = true,
        .accumulate_sharded = true,
        .parameter_dtype = o->parameter_dtype == SW_SHARDED_BF16 ? SW_BF16 : SW_F32,
        .mode = s->comm->mode == SW_SHM_TRAP
                    ? SW_SHM_TRAP
                    : SW_SHM_VIEW, /* in copy mode the caller gathers, on the caller's thread */
        .optimizer = {.kind =
                          o->optimizer == SW_SHARDED_SGD ? SW_OPTIMIZER_SGD : SW_OPTIMIZER_ADAMW,
                      .beta1 = o->beta1,
                      .beta2 = o->beta2,
                      .epsilon = o->epsilon,
                      .weight_decay = o->weight_decay,
                      .momentum = o->momentum},
    };
    sw_status status = sw_compiled_create(&sharding, &s->compiled, err);
    return status ? status : sw_compile(s->compiled, s->graph, SW_COMPILE_UPDATE, NULL, err);
}

/* Gradient buffers, each as large as the largest unit, and in copy mode room for what is
 * gathered. */
static sw_status take_memory(sw_sharded *s, sw_error *err) {
    const sw_layout *layout = &s->compiled->layout;
    int n_buffers = s->options.n_gradient_buffers;
    s->units = sw_arena_take(&s->arena, (size_t)layout->n_units * sizeof *s->units);
    s->gathered = sw_arena_take(&s->arena, ((size_t)layout->n_groups + 1) * sizeof *s->gathered);
    s->copy_offset =
        sw_arena_take(&s->arena, ((size_t)layout->n_groups + 1) * sizeof *s->copy_offset);
    s->buffers = sw_arena_take(&s->arena, (size_t)n_buffers * sizeof *s->buffers);
    s->votes = sw_arena_take(&s->arena, (size_t)s->comm->n_ranks * SW_SHARDED_VOTE_BYTES);
    if (!s->units || !s->gathered || !s->copy_offset || !s->buffers || !s->votes)
        return sw_fail(err, SW_NO_MEMORY, "no memory for the state of %d units",
                       layout->n_units - 1);
    for (int u = 0; u < layout->n_units; u++)
        s->units[u].buffer = -1;
    for (int g = 0; g < layout->n_groups; g++) {
        int64_t n = layout->groups[g].shard * layout->n_shards,
                bytes = sw_round_to_page(n * (int64_t)sizeof(float));
        s->copy_offset[g] = s->copies_bytes;
        s->copies_bytes += sw_round_to_page(n * sw_held_bytes(&s->compiled->states, SW_HELD_COPY));
        if (layout->groups[g].is_trainable && bytes > s->buffer_bytes)
            s->buffer_bytes = bytes;
    }
    if (s->comm->mode == SW_SHM_COPY && s->options.stage == 3) {
        void *base = mmap(NULL, (size_t)s->copies_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            return sw_fail_call(err, SW_CALL_MEMORY, errno,
                                "%" PRId64 " bytes for gathered parameters could not be mapped",
                                s->copies_bytes);
        s->copies = base;
    }
    if (n_buffers > SW_MAX_CHANNELS - s->comm->n_channels)
        return sw_fail(err, SW_BAD_CONFIG,
                       "n_gradient_buffers is %d, and each needs a channel between the ranks, of "
                       "which %d are left; lower it, or take fewer, larger units",
                       n_buffers, SW_MAX_CHANNELS - s->comm->n_channels);
    s->first_channel = s->comm->n_channels;
    s->comm->n_channels += n_buffers;
    sw_status status = SW_OK;
    for (int b = 0; b < n_buffers && !status; b++)
        status =
            s->comm->vtable->channel_open(s->comm, s->first_channel + b, SW_CHANNEL_REDUCES, err);
    return status ? status
                  : s->comm->vtable->window_create(s->comm, "gradients",
                                                   s->comm->n_ranks * n_buffers * s->buffer_bytes,
                                                   &s->window, err);
}

/* Initial values of some elements of a piece. */
static sw_status fill_some(const sw_sharded *s, const sw_piece *piece, int64_t first, int64_t n,
                           float *values, sw_error *err) {
    const sw_initial *initial = &s->initials.item[piece->parameter->id];
    if (!initial->fill) {
        sw_masters_draw(s->executor, piece->parameter, s->options.seed, first, n, values);
        return SW_OK;
    }
    sw_status status = initial->fill(initial->self, piece->parameter->name, first, n, values, err);
    if ((unsigned)status >= SW_N_STATUSES)
        status = sw_fail(err, SW_BAD_CONFIG,
                         "parameter \"%s\": its fill function returned %d, which is no sw_status",
                         piece->parameter->name, (int)status);
    return status;
}

/* Initial values of all that this rank holds and no other gives it. */
static sw_status fill(sw_sharded *s, sw_error *err) {
    const sw_layout *layout = &s->compiled->layout;
    int first_owner, end;
    float *values = malloc(FILL_ELEMENTS * sizeof *values);
    sw_status status = values ? SW_OK : sw_fail(err, SW_NO_MEMORY, "no memory to fill parameters");
    sw_masters_owners(s->compiled, s->comm->rank, &first_owner, &end);
    for (int owner = first_owner; owner < end; owner++)
        for (int g = 0; g < layout->n_groups; g++) {
            const sw_masters masters = {s->executor, &s->compiled->states, owner};
            sw_piece piece;
            for (int at = 0; sw_layout_next_piece(layout, g, owner, &at, &piece);)
                for (int64_t done = 0; done < piece.length && !status; done += FILL_ELEMENTS) {
                    int64_t n =
                        piece.length - done < FILL_ELEMENTS ? piece.length - done : FILL_ELEMENTS;
                    status = fill_some(s, &piece, piece.first + done, n, values, err);
                    if (!status)
                        sw_masters_write(&masters, g, &piece, done, n, values);
                }
        }
    free(values);
    return status;
}

/* Nothing is pinned: the caller's own threads want the cores between calls. */
static sw_status open_device(sw_sharded *s, sw_error *err) {
    const sw_cpu_options options = {.set = sw_kernel_set_best(), .n_threads = s->options.n_threads};
    return sw_cpu_open(&options, &s->device, err);
}

/* After a commit that failed: memory is given back at once and not when the object is freed, as the
 * caller may well make another one first. The graph stays, which names units and parameters. */
static void take_back(sw_sharded *s) {
    sw_executor_free(s->executor);
    s->executor = NULL;
    if (s->copies)
        munmap(s->copies, (size_t)s->copies_bytes);
    s->copies = NULL;
}

sw_status sw_sharded_commit(sw_sharded *s, sw_error *err) {
    if (!s)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_commit: sharded is NULL");
    if (s->is_committed)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_commit is called twice");
    if (s->has_failed)
        return sw_fail(err, SW_BAD_CONFIG,
                       "sw_sharded_commit has failed before; free this object and make a new one");
    sw_status status = sw_graph_status(s->graph, err);
    if (status != SW_OK)
        return status;
    if (s->graph->parameters.n == 0)
        return sw_fail(err, SW_BAD_CONFIG, "sw_sharded_commit: no parameter was added");
    sw_comm_enter(s->comm, SW_LANE_COMPUTE, 0, 0, 0, "commit");
    if (s->device || (status = open_device(s, err)) == SW_OK)
        status = sw_agree(s->comm, NULL, "sharded parameters",
                          s->graph->units.n + s->graph->parameters.n, registration_line, s, err);
    if (status != SW_OK)
        return status;
    const int n_channels = s->comm->n_channels;
    status = plan(s, err);
    if (status == SW_OK)
        status = sw_executor_create(s->comm, s->device, &s->compiled->states, s->compiled->readable,
                                    1, &s->executor, err);
    if (status == SW_OK)
        status = take_memory(s, err);
    if (status == SW_OK)
        status = fill(s, err);
    if (status != SW_OK)
        s->comm->n_channels = n_channels; /* none of those above has been used */
    else
        status = sw_executor_publish(s->executor, err);
    s->is_committed = status == SW_OK;
    s->has_failed = status != SW_OK;
    if (status != SW_OK)
        take_back(s);
    return status;
}
