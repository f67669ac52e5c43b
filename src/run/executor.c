/* executor.c: memory and addresses: what a program's references mean on this rank.
 *
 * A buffer's address is an offset into the section of its class. Private buffers lie in one private mapping per class, window
 * buffers at the same offset of the rank's part of a shared one; the two leave holes for each other, which are never touched and
 * cost nothing. Slices of a group lie side by side in one shared object, so that a gathered group is a view of it.
 */
#include "run/executor_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int64_t round_to_page(int64_t n) {
    int64_t page = sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

static sw_status map_sections(sw_executor *e, sw_error *err) {
    int64_t window_bytes[SW_N_MEMORY_CLASSES] = {0}, slice_bytes = 0;
    for (int p = 0; p < e->n_programs; p++)
        for (int i = 0; i < e->programs[p]->buffers.n; i++) {
            const sw_buffer *b = &e->programs[p]->buffers.item[i];
            int64_t end = b->address + b->bytes;
            if (!b->is_persistent && b->first < 0)
                continue;
            int64_t *most = b->kind == SW_BUFFER_PRIVATE  ? &e->private_bytes[b->memory_class]
                            : b->kind == SW_BUFFER_WINDOW ? &window_bytes[b->memory_class]
                                                          : &slice_bytes;
            *most = end > *most ? end : *most;
        }
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++) {
        if (e->private_bytes[c]) {
            void *base = mmap(NULL, (size_t)e->private_bytes[c], PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (base == MAP_FAILED)
                return sw_fail(err, SW_NO_MEMORY,
                               "rank %d: %" PRId64 " bytes for %s could not be mapped; try more ranks or a smaller micro-batch",
                               e->comm->rank, e->private_bytes[c], sw_memory_class_name((sw_memory_class)c));
            e->private_base[c] = base;
        }
        if (!window_bytes[c])
            continue;
        e->window_stride[c] = round_to_page(window_bytes[c]);
        sw_status status = e->comm->vtable->window_create(e->comm, sw_memory_class_name((sw_memory_class)c),
                                                          e->comm->n_ranks * e->window_stride[c], &e->window[c], err);
        if (status)
            return status;
    }
    return slice_bytes ? e->comm->vtable->window_create(e->comm, "parameters", e->comm->n_ranks * slice_bytes, &e->slices, err)
                       : SW_OK;
}

/* Base of a buffer as `rank` sees its own; for shared slices the base of the whole group. */
static char *base_of(const sw_executor *e, const sw_buffer *b, int rank) {
    switch (b->kind) {
    case SW_BUFFER_PRIVATE:
        return e->private_base[b->memory_class] + b->address;
    case SW_BUFFER_WINDOW:
        return e->window[b->memory_class].base + rank * e->window_stride[b->memory_class] + b->address;
    case SW_BUFFER_SHARED_SLICE:
        return e->slices.base + e->comm->n_ranks * b->address;
    }
    return NULL;
}

static void *resolve(const sw_executor *e, const sw_program *program, const sw_reference *reference) {
    if (reference->buffer < 0)
        return NULL;
    return base_of(e, &program->buffers.item[reference->buffer], e->comm->rank) + reference->offset +
           e->comm->rank * reference->own_stride;
}

void *sw_executor_address(sw_executor *e, int index, int buffer) {
    if (buffer < 0)
        return NULL;
    const sw_buffer *b = &e->programs[index]->buffers.item[buffer];
    return base_of(e, b, e->comm->rank) + (b->kind == SW_BUFFER_SHARED_SLICE ? e->comm->rank * b->bytes : 0);
}

/* The highest byte of its class that this operand touches in this rank's own memory. */
static void bind_peak(sw_bound *bound, const sw_program *program, const sw_reference *reference) {
    if (reference->buffer < 0)
        return;
    const sw_buffer *b = &program->buffers.item[reference->buffer];
    int64_t end = b->kind == SW_BUFFER_SHARED_SLICE ? (reference->own_stride ? b->bytes : 0) : 0;
    if (b->kind == SW_BUFFER_PRIVATE || (b->kind == SW_BUFFER_WINDOW && !reference->own_stride))
        end = reference->offset + reference->bytes;
    else if (b->kind == SW_BUFFER_WINDOW)
        end = b->bytes; /* own slices tile the buffer; what ranks write there in turn is all of it */
    if (end)
        bound->peaks[bound->n_peaks].memory_class = (int)b->memory_class, bound->peaks[bound->n_peaks++].end = b->address + end;
}

static sw_status short_of_memory(const sw_executor *e, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory to bind the program", e->comm->rank);
}

/* Gaps between the parameters of a group's flat buffer, its tail included. */
static sw_status bind_padding(sw_executor *e, sw_bound *bound, sw_error *err) {
    const sw_layout *layout = e->states->layout;
    const sw_group *group = &layout->groups[bound->instruction->group];
    sw_stripe *stripes = sw_arena_take(&e->arena, ((size_t)group->n_parameters + 1) * sizeof *stripes);
    if (!stripes)
        return short_of_memory(e, err);
    for (int i = 0; i < group->n_parameters; i++) {
        const sw_slot_of_parameter *slot = &layout->parameters[group->parameters[i]];
        int64_t begin = slot->offset + slot->parameter->n_elements;
        int64_t end =
            i + 1 < group->n_parameters ? layout->parameters[group->parameters[i + 1]].offset : layout->n_ranks * group->shard;
        if (begin < end)
            stripes[bound->n_stripes++] = (sw_stripe){begin, end - begin, false};
    }
    bound->stripes = stripes;
    return SW_OK;
}

/* Whole blocks of the updated elements by weight decay: a block belongs to one parameter, as offsets are multiples of a block. */
static sw_status bind_stripes(sw_executor *e, sw_bound *bound, sw_error *err) {
    const sw_layout *layout = e->states->layout;
    const sw_group *group = &layout->groups[bound->instruction->group];
    int64_t begin = e->states->sharding.stage == 0 ? 0 : e->comm->rank * group->shard, n = bound->instruction->dim[0];
    sw_stripe *stripes = sw_arena_take(&e->arena, ((size_t)group->n_parameters + 1) * sizeof *stripes);
    if (!stripes)
        return short_of_memory(e, err);
    for (int i = 0; i < group->n_parameters; i++) {
        const sw_slot_of_parameter *slot = &layout->parameters[group->parameters[i]];
        int64_t first = slot->offset,
                last = i + 1 < group->n_parameters ? layout->parameters[group->parameters[i + 1]].offset : INT64_MAX;
        first = first > begin ? first : begin;
        last = last < begin + n ? last : begin + n;
        if (first >= last)
            continue;
        bool decays = slot->parameter->decays;
        if (bound->n_stripes && stripes[bound->n_stripes - 1].decays == decays)
            stripes[bound->n_stripes - 1].n += last - first;
        else
            stripes[bound->n_stripes++] = (sw_stripe){first - begin, last - first, decays};
    }
    bound->stripes = stripes;
    return SW_OK;
}

static void bind_collective(sw_executor *e, const sw_program *program, sw_bound *bound) {
    const sw_instruction *instruction = bound->instruction;
    const sw_layout *layout = e->states->layout;
    const sw_group *group = &layout->groups[instruction->group];
    bool is_parameters = !instruction->is_gradient && (instruction->kind == SW_DO_GATHER || instruction->kind == SW_DO_PUBLISH);
    sw_collective *c = &bound->collective;
    *c = (sw_collective){.channel = e->first_channel + instruction->channel,
                         .lane = instruction->lane,
                         .unit = instruction->unit,
                         .unit_name = layout->units[instruction->unit].name};
    c->dtype = is_parameters ? e->states->sharding.parameter_dtype : SW_F32;
    c->shard_bytes = group->shard * sw_dtype_bytes(c->dtype);
    const sw_reference *source = &instruction->operand[0];
    const sw_buffer *buffer = &program->buffers.item[source->buffer];
    c->window = base_of(e, buffer, 0);
    c->offset = source->offset;
    c->rank_stride = source->own_stride + (buffer->kind == SW_BUFFER_WINDOW ? e->window_stride[buffer->memory_class] : 0);
    bound->accumulates_later = e->states->sharding.accumulate_sharded;
    c->destination = instruction->n_operands > 1 ? bound->call.operand[1] : NULL;
}

static sw_status bind(sw_executor *e, int index, sw_error *err) {
    const sw_program *program = e->programs[index];
    e->bound[index] = sw_arena_take(&e->arena, ((size_t)program->instructions.n + 1) * sizeof **e->bound);
    if (!e->bound[index])
        return short_of_memory(e, err);
    for (int i = 0; i < program->instructions.n; i++) {
        const sw_instruction *instruction = &program->instructions.item[i];
        sw_bound *bound = &e->bound[index][i];
        bound->instruction = instruction;
        bound->fn = sw_device_kernel(e->device, e->numbers, instruction->kernel);
        for (int o = 0; o < instruction->n_operands; o++) {
            bound->call.operand[o] = resolve(e, program, &instruction->operand[o]);
            bind_peak(bound, program, &instruction->operand[o]);
        }
        bound->call.scratch = resolve(e, program, &instruction->scratch);
        bind_peak(bound, program, &instruction->scratch);
        memcpy(bound->call.dim, instruction->dim, sizeof bound->call.dim);
        memcpy(bound->call.attribute, instruction->attribute, sizeof bound->call.attribute);
        sw_status status = SW_OK;
        if (instruction->channel >= 0)
            bind_collective(e, program, bound);
        if (instruction->kind == SW_DO_PAD)
            status = bind_padding(e, bound, err);
        else if (instruction->kind == SW_DO_UPDATE)
            status = bind_stripes(e, bound, err);
        if (status)
            return status;
    }
    return SW_OK;
}

sw_status sw_executor_create(sw_comm *comm, const sw_device *device, const sw_states *states, const sw_program *const *programs,
                             int n_programs, sw_executor **executor, sw_error *err) {
    int n_channels = 0;
    *executor = NULL;
    for (int p = 0; p < n_programs; p++)
        n_channels = programs[p]->n_channels > n_channels ? programs[p]->n_channels : n_channels;
    if (n_channels > SW_MAX_CHANNELS - comm->n_channels)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%d units need %d channels, the transport has %d left; try shard.wrap: {min_parameters: N}",
                       states->layout->n_units, n_channels, SW_MAX_CHANNELS - comm->n_channels);
    sw_executor *e = calloc(1, sizeof *e);
    if (!e)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for the executor", comm->rank);
    *e = (sw_executor){.comm = comm,
                       .device = device,
                       .states = states,
                       .programs = programs,
                       .n_programs = n_programs,
                       .last_program = -1,
                       .numbers = sw_sharding_numbers(&states->sharding)};
    e->has_lane = states->sharding.mode == SW_SHM_COPY;
    e->first_channel = comm->n_channels;
    comm->n_channels += n_channels;
    e->bound = sw_arena_take(&e->arena, (size_t)n_programs * sizeof *e->bound);
    sw_status status = e->bound ? map_sections(e, err) : short_of_memory(e, err);
    for (int p = 0; p < n_programs && !status; p++)
        status = bind(e, p, err);
    if (!status)
        status = sw_lanes_start(e, err);
    if (status) {
        sw_executor_free(e);
        return status;
    }
    *executor = e;
    return SW_OK;
}

void sw_executor_free(sw_executor *e) {
    if (!e)
        return;
    sw_lanes_stop(e);
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++)
        if (e->private_base[c])
            munmap(e->private_base[c], (size_t)e->private_bytes[c]);
    sw_arena_free(&e->arena);
    free(e);
}

const sw_executor_counts *sw_executor_count(const sw_executor *e) {
    return &e->counts;
}

/* A gather of a group's parameters as they are now; frozen ones are published once and never again. */
static sw_collective collective_of_parameters(const sw_executor *e, int group_id) {
    const sw_group *group = &e->states->layout->groups[group_id];
    const sw_buffer *copy = &e->states->buffers.item[e->states->copy[group_id]];
    int64_t slice = group->shard * sw_dtype_bytes(e->states->sharding.parameter_dtype);
    return (sw_collective){.channel = e->first_channel + group_id,
                           .lane = SW_LANE_COMPUTE,
                           .epoch = group->is_trainable ? e->epoch : 1,
                           .unit = group->unit,
                           .unit_name = e->states->layout->units[group->unit].name,
                           .dtype = e->states->sharding.parameter_dtype,
                           .shard_bytes = slice,
                           .window = base_of(e, copy, 0),
                           .rank_stride = slice + (copy->kind == SW_BUFFER_WINDOW ? e->window_stride[copy->memory_class] : 0)};
}

/* Parameters were put here without an instruction; those that are frozen meet no other that touches them to the end. */
static void count_parameters(sw_executor *e) {
    int64_t *peak = &e->counts.peak[SW_MEMORY_PARAMETERS];
    for (int g = 0; g < e->states->layout->n_groups; g++) {
        const sw_buffer *copy = &e->states->buffers.item[e->states->copy[g]];
        *peak = copy->address + copy->bytes > *peak ? copy->address + copy->bytes : *peak;
    }
}

/* Publish every group, fill what is replicated. */
sw_status sw_executor_publish(sw_executor *e, sw_error *err) {
    const sw_layout *layout = e->states->layout;
    bool is_first = e->epoch++ == 0;
    count_parameters(e);
    if (e->states->sharding.stage == 0)
        return SW_OK; /* every rank holds everything and put it itself */
    for (int pass = 0; pass < 2; pass++)
        for (int g = 0; g < layout->n_groups; g++) {
            const sw_buffer *copy = &e->states->buffers.item[e->states->copy[g]];
            if (!is_first && !layout->groups[g].is_trainable)
                continue;
            sw_collective c = collective_of_parameters(e, g);
            c.destination = copy->kind == SW_BUFFER_WINDOW ? base_of(e, copy, e->comm->rank) : NULL;
            sw_status status = pass == 0                        ? e->comm->vtable->gather_publish(e->comm, &c, err)
                               : copy->kind == SW_BUFFER_WINDOW ? e->comm->vtable->gather(e->comm, &c, err)
                                                                : SW_OK;
            if (!status && pass == 1)
                status = sw_lane_protect(e, g, false, false, err);
            if (status)
                return status;
        }
    return SW_OK;
}

sw_status sw_executor_reopen(sw_executor *e, sw_error *err) {
    sw_status status = sw_barrier(e->comm, err);
    for (int g = 0; g < e->states->layout->n_groups && !status; g++)
        if (e->states->layout->groups[g].is_trainable)
            status = sw_lane_protect(e, g, false, true, err);
    return status;
}

sw_status sw_executor_gather(sw_executor *e, int group, void *destination, const void **whole, sw_error *err) {
    sw_collective c = collective_of_parameters(e, group);
    c.destination = destination;
    sw_status status = e->comm->vtable->gather(e->comm, &c, err);
    *whole = destination ? destination : c.window;
    return status ? status : sw_lane_protect(e, group, true, false, err);
}

sw_status sw_executor_reshard(sw_executor *e, int group, sw_error *err) {
    return sw_lane_protect(e, group, false, false, err);
}

static sw_status run_segment(sw_executor *e, int index, sw_segment segment, int slot, bool is_active, sw_error *err) {
    sw_segment_run run = {.program = index,
                          .segment = segment,
                          .slot = slot,
                          .is_active = is_active,
                          .base = e->position,
                          .n_contributors = e->scalars.n_contributors,
                          .step = e->scalars.step,
                          .epoch = e->epoch};
    e->segment_base[segment] = e->position;
    memcpy(run.segment_base, e->segment_base, sizeof run.segment_base);
    e->position += e->programs[index]->segment_count[segment];
    return sw_lanes_run(e, &run, err);
}

/* Constants of the program that ran last may lie where those of this one do. */
static sw_status prepare(sw_executor *e, int index, sw_error *err) {
    if (e->last_program == index)
        return SW_OK;
    e->last_program = index;
    return run_segment(e, index, SW_SEGMENT_PREPARE, 0, true, err);
}

/* The other lane may be waiting for peers that wait for this one. */
static sw_status settle(sw_executor *e, sw_status status, sw_error *err) {
    sw_error other;
    if (!status)
        return sw_lanes_settle(e, err);
    sw_lanes_abort(e, SW_LANE_COMPUTE, err);
    (void)sw_lanes_settle(e, &other);
    return status;
}

sw_status sw_executor_forward(sw_executor *e, int index, bool is_active, sw_scalars *scalars, sw_error *err) {
    e->scalars = *scalars;
    e->scalars.n_contributors = e->comm->n_ranks;
    sw_status status = prepare(e, index, err);
    if (!status)
        status = run_segment(e, index, SW_SEGMENT_FORWARD, 0, is_active, err);
    return settle(e, status, err);
}

sw_status sw_executor_step(sw_executor *e, int index, int64_t n_micro_batches, sw_scalars *scalars, const sw_step_hooks *hooks,
                           sw_error *err) {
    const sw_program *program = e->programs[index];
    int n = e->comm->n_ranks, rank = e->comm->rank, slot;
    int n_slots = (int)((n_micro_batches + n - 1) / n);
    sw_segment segment;
    sw_status status = SW_OK;
    e->scalars = *scalars;
    e->hooks = hooks;
    memset(&e->squares, 0, sizeof e->squares);
    e->counts.gather_bytes = e->counts.reduce_bytes = 0;
    e->counts.compute_seconds = e->counts.wait_seconds = e->counts.flops = 0;
    if ((status = prepare(e, index, err)))
        return status;
    for (int i = 0; !status && sw_schedule_step(program, n_slots, i, &segment, &slot); i++) {
        int64_t present = n_micro_batches - (int64_t)slot * n;
        bool is_active = present > rank || segment == SW_SEGMENT_UPDATE;
        e->scalars.slot = slot;
        e->scalars.n_contributors = (int)(present < n ? present : n);
        if (segment == SW_SEGMENT_REDUCE) {
            e->scalars.n_contributors = (int)(n_micro_batches < n ? n_micro_batches : n);
            is_active = rank < e->scalars.n_contributors;
        }
        if (segment == SW_SEGMENT_FORWARD && is_active && hooks && hooks->fill)
            status = hooks->fill(hooks->self, slot, &e->scalars, err);
        if (!status)
            status = run_segment(e, index, segment, slot, is_active, err);
        bool is_last =
            segment == SW_SEGMENT_BACKWARD || (segment == SW_SEGMENT_FORWARD && !program->segment_count[SW_SEGMENT_BACKWARD]);
        if (!status && is_last && is_active && hooks && hooks->collect)
            status = hooks->collect(hooks->self, slot, err);
    }
    status = settle(e, status, err);
    e->epoch += program->segment_count[SW_SEGMENT_UPDATE] > 0; /* which has published new ones */
    *scalars = e->scalars;
    return status;
}
