/* executor.c: memory and addresses: what a program's references mean on this rank.
 *
 * A buffer's address is an offset into the section of its class. Private buffers lie in one private
 * mapping per section, window buffers at the same offset of the rank's part of a shared one; the
 * two leave holes for each other, which are never touched and cost nothing. Slices of a group lie
 * side by side in one shared object, so that a gathered group is a view of it.
 */
#include "execute/executor_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/page.h"
#include "base/reason.h"

static sw_status map_sections(sw_executor *e, sw_error *err) {
    int64_t window_bytes[SW_N_MEMORY_CLASSES] = {0}, slice_bytes = 0;
    for (int p = 0; p < e->n_programs; p++)
        for (int i = 0; i < e->programs[p]->buffers.n; i++) {
            const sw_buffer *b = &e->programs[p]->buffers.item[i];
            int64_t end = b->address + b->bytes;
            if (!b->is_persistent && b->first < 0)
                continue;
            sw_memory_class section = sw_memory_section(b->memory_class);
            int64_t *most = b->kind == SW_BUFFER_PRIVATE  ? &e->private_bytes[section]
                            : b->kind == SW_BUFFER_WINDOW ? &window_bytes[section]
                                                          : &slice_bytes;
            *most = end > *most ? end : *most;
        }
    for (int c = 0; c < SW_N_MEMORY_CLASSES; c++) {
        if (e->private_bytes[c]) {
            /* All of it will be used, unless windows leave holes; nor moments, which loading would
             * then clear together with the low halves between them. */
            e->private_base[c] = e->device->take(e->device, e->private_bytes[c],
                                                 !window_bytes[c] && c != SW_MEMORY_OPTIMIZER);
            if (!e->private_base[c])
                return sw_fail_call(err, SW_CALL_MEMORY, errno,
                                    "rank %d: %" PRId64 " bytes for %s could not be mapped",
                                    e->comm->rank, e->private_bytes[c],
                                    sw_memory_class_name((sw_memory_class)c));
        }
        if (!window_bytes[c])
            continue;
        e->window_stride[c] = sw_round_to_page(window_bytes[c]);
        sw_status status = e->comm->vtable->window_create(
            e->comm, sw_memory_class_name((sw_memory_class)c),
            e->comm->n_ranks * e->window_stride[c], &e->window[c], err);
        if (status)
            return status;
    }
    return slice_bytes ? e->comm->vtable->window_create(
                             e->comm, "parameters", e->comm->n_ranks * slice_bytes, &e->slices, err)
                       : SW_OK;
}

char *sw_executor_base(const sw_executor *e, const sw_buffer *b, int rank) {
    switch (b->kind) {
    case SW_BUFFER_PRIVATE:
        return e->private_base[sw_memory_section(b->memory_class)] + b->address;
    case SW_BUFFER_WINDOW:
        return e->window[b->memory_class].base + rank * e->window_stride[b->memory_class] +
               b->address;
    case SW_BUFFER_SHARED_SLICE:
        return e->slices.base + e->comm->n_ranks * b->address;
    }
    return NULL;
}

/* Where this rank's own slice begins. */
static int64_t own_offset(const sw_executor *e, const sw_reference *reference) {
    int64_t offset = 0;
    for (int axis = 0; axis < SW_N_AXES; axis++)
        offset += reference->own_stride[axis] *
                  sw_mesh_coordinate(&e->states->sharding.mesh, (sw_axis)axis, e->comm->rank);
    return offset;
}

static bool is_own_slice(const sw_reference *reference) {
    bool is_own = false;
    for (int axis = 0; axis < SW_N_AXES; axis++)
        is_own |= reference->own_stride[axis] != 0;
    return is_own;
}

static void *resolve(const sw_executor *e, const sw_program *program,
                     const sw_reference *reference) {
    if (reference->buffer < 0)
        return NULL;
    return sw_executor_base(e, &program->buffers.item[reference->buffer], e->comm->rank) +
           reference->offset + own_offset(e, reference);
}

void *sw_executor_address(sw_executor *e, int index, int buffer) {
    if (buffer < 0)
        return NULL;
    const sw_buffer *b = &e->programs[index]->buffers.item[buffer];
    return sw_executor_base(e, b, e->comm->rank) +
           (b->kind == SW_BUFFER_SHARED_SLICE ? e->comm->rank * b->bytes : 0);
}

void *sw_executor_port(sw_executor *e, int index, const char *port) {
    const sw_program *program = e->programs[index];
    if (e->device->is_host)
        return sw_executor_address(e, index, sw_program_buffer_of(program, port));
    for (int i = 0; i < program->ports.n; i++)
        if (strcmp(program->ports.item[i].name, port) == 0)
            return e->ports[index][i];
    return NULL;
}

void sw_executor_move_ports(sw_executor *e, int index, bool are_outputs) {
    const sw_program *program = e->programs[index];
    for (int i = 0; i < program->ports.n && !e->device->is_host; i++) {
        const sw_program_port *port = &program->ports.item[i];
        void *device = sw_executor_address(e, index, port->buffer), *host = e->ports[index][i];
        if (device && port->is_output == are_outputs)
            e->device->copy(e->device, are_outputs ? host : device, are_outputs ? device : host,
                            program->buffers.item[port->buffer].bytes);
    }
}

const void *sw_executor_view(const sw_executor *e, const void *memory, void *room, int64_t *bytes) {
    if (e->device->is_host)
        return memory;
    *bytes = *bytes < SW_VIEW_BYTES ? *bytes : SW_VIEW_BYTES;
    e->device->copy(e->device, room, memory, *bytes);
    return room;
}

/* The highest byte of its class that this operand touches in this rank's own memory. */
static void bind_peak(sw_bound *bound, const sw_program *program, const sw_reference *reference) {
    if (reference->buffer < 0)
        return;
    const sw_buffer *b = &program->buffers.item[reference->buffer];
    int64_t end = b->kind == SW_BUFFER_SHARED_SLICE ? (is_own_slice(reference) ? b->bytes : 0) : 0;
    if (b->kind == SW_BUFFER_PRIVATE || (b->kind == SW_BUFFER_WINDOW && !is_own_slice(reference)))
        end = reference->offset + reference->bytes;
    else if (b->kind == SW_BUFFER_WINDOW)
        end =
            b->bytes; /* own slices tile the buffer; what ranks write there in turn is all of it */
    if (end)
        bound->peaks[bound->n_peaks].memory_class = (int)b->memory_class,
        bound->peaks[bound->n_peaks++].end = b->address + end;
}

static sw_status short_of_memory(const sw_executor *e, sw_error *err) {
    return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for the instructions of a step",
                   e->comm->rank);
}

/* Gaps between the parameters of a group's flat buffer, its tail included. */
static sw_status bind_padding(sw_executor *e, sw_bound *bound, sw_error *err) {
    const sw_layout *layout = e->states->layout;
    const sw_group *group = &layout->groups[bound->instruction->group];
    sw_stripe *stripes =
        sw_arena_take(&e->arena, ((size_t)group->n_parameters + 1) * sizeof *stripes);
    if (!stripes)
        return short_of_memory(e, err);
    for (int i = 0; i < group->n_parameters; i++) {
        const sw_slot_of_parameter *slot = &layout->parameters[group->parameters[i]];
        int64_t begin = slot->offset + slot->parameter->n_elements;
        int64_t end = i + 1 < group->n_parameters
                          ? layout->parameters[group->parameters[i + 1]].offset
                          : layout->n_shards * group->shard;
        if (begin < end)
            stripes[bound->n_stripes++] = (sw_stripe){begin, end - begin, false};
    }
    bound->stripes = stripes;
    return SW_OK;
}

/* Whole blocks of the updated elements by weight decay: a block belongs to one parameter, as
 * offsets are multiples of a block. */
static sw_status bind_stripes(sw_executor *e, sw_bound *bound, sw_error *err) {
    const sw_layout *layout = e->states->layout;
    const sw_group *group = &layout->groups[bound->instruction->group];
    int64_t begin = e->states->sharding.stage == 0
                        ? 0
                        : sw_layout_owner(layout, e->comm->rank) * group->shard,
            n = bound->instruction->dim[0];
    sw_stripe *stripes =
        sw_arena_take(&e->arena, ((size_t)group->n_parameters + 1) * sizeof *stripes);
    if (!stripes)
        return short_of_memory(e, err);
    for (int i = 0; i < group->n_parameters; i++) {
        const sw_slot_of_parameter *slot = &layout->parameters[group->parameters[i]];
        int64_t first = slot->offset,
                last = i + 1 < group->n_parameters
                           ? layout->parameters[group->parameters[i + 1]].offset
                           : INT64_MAX;
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
    bool is_parameters = !instruction->is_gradient &&
                         (instruction->kind == SW_DO_GATHER || instruction->kind == SW_DO_PUBLISH);
    sw_collective *c = &bound->collective;
    *c = (sw_collective){.channel = e->first_channel + instruction->channel,
                         .lane = instruction->lane,
                         .unit = instruction->unit,
                         .unit_name = layout->units[instruction->unit].name};
    const sw_reference *source = &instruction->operand[0];
    const sw_buffer *buffer = &program->buffers.item[source->buffer];
    const sw_mesh *mesh = &e->states->sharding.mesh;
    c->line = sw_mesh_line(mesh, instruction->axis, e->comm->rank);
    assert(c->line.n > 0);
    c->share = instruction->share;
    if (c->share) {
        c->dtype = sw_activation_type(e->numbers);
        c->shard_bytes = source->bytes / (c->share == SW_SHARE_SUM_SLICE ? c->line.n : 1);
    } else {
        c->dtype = is_parameters ? e->states->sharding.parameter_dtype : SW_F32;
        c->shard_bytes = layout->groups[instruction->group].shard * sw_dtype_bytes(c->dtype);
    }
    c->window = sw_executor_base(e, buffer, c->line.first); /* the first rank's part */
    c->offset = source->offset;
    c->rank_stride = source->own_stride[instruction->axis] +
                     (buffer->kind == SW_BUFFER_WINDOW
                          ? mesh->stride[instruction->axis] * e->window_stride[buffer->memory_class]
                          : 0);
    bound->accumulates_later = e->states->sharding.accumulate_sharded && !c->share;
    c->destination = instruction->n_operands > 1 ? bound->call.operand[1] : NULL;
}

static sw_status bind(sw_executor *e, int index, sw_error *err) {
    const sw_program *program = e->programs[index];
    e->bound[index] =
        sw_arena_take(&e->arena, ((size_t)program->instructions.n + 1) * sizeof **e->bound);
    if (!e->bound[index])
        return short_of_memory(e, err);
    for (int i = 0; i < program->instructions.n; i++) {
        const sw_instruction *instruction = &program->instructions.item[i];
        sw_bound *bound = &e->bound[index][i];
        bound->instruction = instruction;
        sw_kernel kernel = instruction->kind == SW_DO_PAD ? SW_KERNEL_ZERO : instruction->kernel;
        bound->fn = sw_device_kernel(e->device, e->numbers, kernel);
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

/* Those of parameters, which are also gathered and published outside of programs, and those that
 * instructions name. */
static sw_status open_channels(const sw_executor *e, sw_error *err) {
    sw_status status = SW_OK;
    for (int g = 0; g < e->states->layout->n_groups && !status; g++)
        status =
            e->comm->vtable->channel_open(e->comm, e->first_channel + g, SW_CHANNEL_GATHERS, err);
    for (int p = 0; p < e->n_programs; p++)
        for (int i = 0; i < e->programs[p]->instructions.n && !status; i++) {
            const sw_instruction *instruction = &e->programs[p]->instructions.item[i];
            bool gathers = instruction->kind == SW_DO_GATHER || instruction->kind == SW_DO_PUBLISH;
            if (instruction->channel >= 0)
                status = e->comm->vtable->channel_open(
                    e->comm, e->first_channel + instruction->channel,
                    gathers ? SW_CHANNEL_GATHERS : SW_CHANNEL_REDUCES, err);
        }
    return status;
}

/* Where the device's memory is not the host's: the host's side of ports, and room to pass values
 * through. */
static sw_status take_host_side(sw_executor *e, sw_error *err) {
    if (e->device->is_host)
        return SW_OK;
    e->staging = e->device->take(e->device, SW_STAGED_VALUES * (int64_t)sizeof(float), true);
    e->ports = sw_arena_take(&e->arena, (size_t)e->n_programs * sizeof *e->ports);
    if (!e->staging || !e->ports)
        return short_of_memory(e, err);
    for (int p = 0; p < e->n_programs; p++) {
        const sw_program *program = e->programs[p];
        e->ports[p] = sw_arena_take(&e->arena, ((size_t)program->ports.n + 1) * sizeof **e->ports);
        for (int i = 0; e->ports[p] && i < program->ports.n; i++)
            if (program->ports.item[i].buffer >= 0 &&
                !(e->ports[p][i] = sw_arena_take(
                      &e->arena,
                      (size_t)program->buffers.item[program->ports.item[i].buffer].bytes)))
                return short_of_memory(e, err);
        if (!e->ports[p])
            return short_of_memory(e, err);
    }
    return SW_OK;
}

sw_status sw_executor_create(sw_comm *comm, const sw_device *device, const sw_states *states,
                             const sw_program *const *programs, int n_programs,
                             sw_executor **executor, sw_error *err) {
    int n_channels = 0;
    *executor = NULL;
    for (int p = 0; p < n_programs; p++)
        n_channels = programs[p]->n_channels > n_channels ? programs[p]->n_channels : n_channels;
    if (n_channels > SW_MAX_CHANNELS - comm->n_channels)
        return sw_fail(err, SW_BAD_CONFIG,
                       "%d units need %d channels between the ranks, and %d are left; take fewer, "
                       "larger units (of a run by shard.wrap: {min_parameters: N})",
                       states->layout->n_units, n_channels, SW_MAX_CHANNELS - comm->n_channels);
    sw_executor *e = calloc(1, sizeof *e);
    if (!e)
        return sw_fail(err, SW_NO_MEMORY, "rank %d: no memory for what runs the program of a step",
                       comm->rank);
    *e = (sw_executor){.comm = comm,
                       .device = device,
                       .states = states,
                       .programs = programs,
                       .n_programs = n_programs,
                       .last_program = -1,
                       .numbers = sw_sharding_numbers(&states->sharding)};
    e->n_lanes = sw_sharding_lanes(&states->sharding);
    pthread_mutex_init(&e->staging_lock, NULL);
    sw_positions_forget(&e->positions);
    e->first_channel = comm->n_channels;
    comm->n_channels += n_channels;
    e->bound = sw_arena_take(&e->arena, (size_t)n_programs * sizeof *e->bound);
    sw_status status = e->bound ? map_sections(e, err) : short_of_memory(e, err);
    if (!status)
        status = take_host_side(e, err);
    for (int p = 0; p < n_programs && !status; p++)
        status = bind(e, p, err);
    if (!status)
        status = sw_lanes_start(e, err);
    if (!status) /* last: what has been opened is not given back */
        status = open_channels(e, err);
    if (status) {
        comm->n_channels -= n_channels; /* none of them has been used */
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
            e->device->give(e->device, e->private_base[c], e->private_bytes[c]);
    if (e->staging)
        e->device->give(e->device, e->staging, SW_STAGED_VALUES * (int64_t)sizeof(float));
    pthread_mutex_destroy(&e->staging_lock);
    sw_arena_free(&e->arena);
    free(e);
}
