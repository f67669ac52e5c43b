/* builder.c: from a step graph to a program: the order of the passes, and the list that they write
 * to. */
#include "shard/builder.h"
#include "shard/schedule.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *sw_builder_fail(sw_builder *b, sw_status status, const char *format, ...) {
    if (!b->status) {
        char text[SW_MESSAGE_BYTES / 2];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        b->status = sw_fail(b->err, status, "%s", text);
    }
    return NULL;
}

sw_instruction *sw_builder_append(sw_builder *b, sw_instruction_kind kind, sw_segment segment,
                                  sw_lane lane, int unit, const char *format, ...) {
    sw_program *p = b->program;
    char label[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(label, sizeof label, format, arguments);
    va_end(arguments);
    sw_instruction *grown = sw_arena_grow(&p->arena, p->instructions.item, p->instructions.n,
                                          &p->instructions.capacity, sizeof(sw_instruction));
    if (grown)
        p->instructions.item = grown;
    char *text = sw_arena_text(&p->arena, label);
    if (!grown || !text)
        return sw_builder_fail(b, SW_NO_MEMORY, "no memory for the program's %d instructions",
                               p->instructions.n);
    sw_instruction *instruction = &grown[p->instructions.n++];
    *instruction = (sw_instruction){.kind = kind,
                                    .segment = segment,
                                    .lane = lane,
                                    .unit = unit,
                                    .group = -1,
                                    .channel = -1,
                                    .scratch = {.buffer = -1},
                                    .label = text};
    for (int i = 0; i < SW_MAX_OPERANDS; i++)
        instruction->operand[i].buffer = -1;
    p->segment_count[segment]++;
    return instruction;
}

static void add_wait(sw_builder *b, sw_instruction *instruction, sw_wait wait) {
    if (instruction->n_waits == SW_MAX_WAITS)
        sw_builder_fail(b, SW_BUG, "%s waits for more than %d", instruction->label, SW_MAX_WAITS);
    else
        instruction->wait[instruction->n_waits++] = wait;
}

void sw_builder_wait(sw_builder *b, sw_instruction *instruction, sw_when when,
                     int for_instruction) {
    add_wait(b, instruction,
             (sw_wait){when, b->program->instructions.item[for_instruction].lane, for_instruction});
}

void sw_builder_wait_for_all(sw_builder *b, sw_instruction *instruction) {
    for (int lane = 0; lane < sw_sharding_lanes(&b->sharding); lane++)
        if (lane != (int)instruction->lane)
            add_wait(b, instruction, (sw_wait){SW_ALL_BEFORE, (sw_lane)lane, -1});
}

int sw_builder_buffer(sw_builder *b, const char *name, sw_memory_class memory_class,
                      sw_buffer_kind kind, int64_t bytes) {
    sw_program *p = b->program;
    sw_buffer *grown = sw_arena_grow(&p->arena, p->buffers.item, p->buffers.n, &p->buffers.capacity,
                                     sizeof(sw_buffer));
    if (grown)
        p->buffers.item = grown;
    if (!grown || !name) {
        sw_builder_fail(b, SW_NO_MEMORY, "no memory for the program's %d buffers", p->buffers.n);
        return -1;
    }
    int id = p->buffers.n++;
    grown[id] = (sw_buffer){.id = id,
                            .name = name,
                            .memory_class = memory_class,
                            .kind = kind,
                            .bytes = bytes,
                            .first = -1,
                            .last = -1};
    return id;
}

int sw_ring_take(sw_builder *b, sw_ring *ring, bool is_root, int holder, bool grow) {
    for (int i = 0; i < ring->places.n; i++)
        if (ring->places.item[i].is_root == is_root && ring->places.item[i].holder < 0) {
            ring->places.item[i].holder = holder;
            return i;
        }
    if (!grow)
        return -1;
    sw_ring_place *grown = sw_arena_grow(&b->program->arena, ring->places.item, ring->places.n,
                                         &ring->places.capacity, sizeof(sw_ring_place));
    if (grown)
        ring->places.item = grown;
    const char *name = sw_arena_format(&b->program->arena, "%s %s%d", ring->name,
                                       is_root ? "root " : "", ring->places.n);
    int buffer = sw_builder_buffer(b, name, ring->memory_class, ring->kind, ring->bytes[is_root]);
    if (!grown || buffer < 0) {
        sw_builder_fail(b, SW_NO_MEMORY, "no memory for a ring of buffers");
        return -1;
    }
    int place = ring->places.n++;
    grown[place] =
        (sw_ring_place){.buffer = buffer, .is_root = is_root, .holder = holder, .last_touch = -1};
    return place;
}

int64_t sw_whole_elements(const sw_layout *layout, int group) {
    return layout->groups[group].shard * layout->n_shards;
}

sw_reference sw_parameter_reference(const sw_builder *b, int group, int64_t element, int64_t n) {
    int64_t size = sw_dtype_bytes(b->sharding.parameter_dtype);
    int stretch = b->sharding.stage == 3 && sw_has_two_lanes(b)
                      ? b->open_gather[b->layout->groups[group].unit]
                      : -1;
    if (stretch < 0)
        return (sw_reference){b->states->copy[group], element * size, n * size};
    const sw_shard_unit *unit = &b->layout->units[b->layout->groups[group].unit];
    int64_t before = group == unit->frozen_group && unit->trainable_group >= 0
                         ? sw_whole_elements(b->layout, unit->trainable_group)
                         : 0;
    return (sw_reference){b->gather_ring.places.item[b->gather_place[stretch]].buffer,
                          (before + element) * size, n * size};
}

sw_reference sw_gradient_reference(const sw_builder *b, int group, int64_t element, int64_t n) {
    int buffer = b->states->whole_gradient[group];
    if (buffer < 0)
        buffer = b->reduce_ring.places.item[b->reduce_place[b->layout->groups[group].unit]].buffer;
    return (sw_reference){buffer, element * 4, n * 4};
}

/* Places of the rings are as large as the largest unit that uses them. */
static void size_rings(sw_builder *b) {
    b->gather_ring =
        (sw_ring){.memory_class = SW_MEMORY_GATHER, .kind = SW_BUFFER_PRIVATE, .name = "gathered"};
    b->reduce_ring =
        (sw_ring){.memory_class = SW_MEMORY_REDUCE, .kind = SW_BUFFER_WINDOW, .name = "to reduce"};
    int64_t size = sw_dtype_bytes(b->sharding.parameter_dtype);
    for (int u = 0; u < b->layout->n_units; u++) {
        const sw_shard_unit *unit = &b->layout->units[u];
        int64_t trainable =
            unit->trainable_group >= 0 ? sw_whole_elements(b->layout, unit->trainable_group) : 0;
        int64_t frozen =
            unit->frozen_group >= 0 ? sw_whole_elements(b->layout, unit->frozen_group) : 0;
        int64_t *gather = &b->gather_ring.bytes[unit->is_root],
                *reduce = &b->reduce_ring.bytes[unit->is_root];
        *gather = *gather > (trainable + frozen) * size ? *gather : (trainable + frozen) * size;
        *reduce = *reduce > trainable * 4 ? *reduce : trainable * 4;
    }
}

static int *take_ints(sw_builder *b, int n) {
    int *items = sw_arena_take(&b->program->arena, ((size_t)n + 1) * sizeof *items);
    for (int i = 0; items && i < n; i++)
        items[i] = -1;
    return items ? items : sw_builder_fail(b, SW_NO_MEMORY, "no memory for the program");
}

/* Units, beside the root, that stay gathered from forward to backward: as many as the ring of
 * gathered units holds anyway. */
static int n_staying(const sw_builder *b) {
    return b->sharding.reshard_after_forward ? b->sharding.prefetch + 1 : b->layout->n_units;
}

/* Room for the lists, near enough, so that they need not grow by doubling: an instruction for each
 * operation, and for each group those that move it. */
static void reserve_lists(sw_builder *b) {
    sw_program *p = b->program;
    int64_t n_instructions = b->graph->ops.n + INT64_C(8) * b->layout->n_groups + 16;
    int64_t n_buffers = b->states->buffers.n + (int64_t)b->graph->values.n + 16;
    if (n_instructions > INT32_MAX / 2 || n_buffers > INT32_MAX / 2)
        return;
    p->instructions.item =
        sw_arena_take(&p->arena, (size_t)n_instructions * sizeof *p->instructions.item);
    p->buffers.item = sw_arena_take(&p->arena, (size_t)n_buffers * sizeof *p->buffers.item);
    if (!p->instructions.item || !p->buffers.item) {
        sw_builder_fail(b, SW_NO_MEMORY, "no memory for a program of %d operations",
                        b->graph->ops.n);
        return;
    }
    p->instructions.capacity = (int)n_instructions;
    p->buffers.capacity = (int)n_buffers;
}

static sw_status begin(sw_builder *b) {
    sw_program *p = b->program;
    reserve_lists(b);
    if (b->status)
        return b->status;
    for (int i = 0; i < b->states->buffers.n; i++) { /* ids of states hold here too */
        const sw_buffer *s = &b->states->buffers.item[i];
        int id = sw_builder_buffer(b, s->name, s->memory_class, s->kind, s->bytes);
        if (id >= 0)
            p->buffers.item[id] = *s;
    }
    b->status = b->status ? b->status
                          : sw_stretches_find(b->graph, b->layout, n_staying(b), &p->arena,
                                              &b->stretches, b->err);
    b->buffer_of_value = take_ints(b, b->graph->values.n);
    b->share_of_value = take_ints(b, b->graph->values.n);
    b->gather_place = take_ints(b, b->stretches.n_gathers);
    b->gather_instruction = take_ints(b, b->stretches.n_gathers);
    b->open_gather = take_ints(b, b->layout->n_units);
    b->reduce_place = take_ints(b, b->layout->n_units);
    size_rings(b);
    p->n_channels =
        3 *
        b->layout
            ->n_groups; /* parameters, gradients of stage 0, whole gradients; rings come after */
    if (!b->status)
        sw_shares_begin(b);
    return b->status;
}

static void emit_all(sw_builder *b) {
    const sw_graph *graph = b->graph;
    for (int i = 0; i < graph->ops.n && !b->status; i++)
        if (graph->ops.item[i]->phase == SW_PHASE_PREPARE && !graph->ops.item[i]->is_dropped)
            sw_lower_op(b, graph->ops.item[i], SW_SEGMENT_PREPARE);
    bool is_trained = graph->is_differentiated;
    for (int i = 0; i < b->stretches.n_ops && !b->status; i++) {
        sw_segment segment = i < b->stretches.n_forward ? SW_SEGMENT_FORWARD : SW_SEGMENT_BACKWARD;
        if (b->sharding.stage == 3)
            sw_gathers_before(b, i, segment);
        if (is_trained)
            sw_reductions_before(b, i);
        const sw_op *op = b->stretches.ops[i];
        if (!b->status)
            (op->share ? sw_share_emit : sw_lower_op)(b, op, segment);
        if (b->sharding.stage == 3)
            sw_gathers_after(b, i, segment);
        if (is_trained)
            sw_reductions_after(b, i);
    }
    sw_gathers_end(b);
    if (is_trained && !b->status) {
        sw_reductions_end(b);
        sw_updates_emit(b);
    }
}

static void number_segments(sw_program *p) {
    for (int s = 0, first = 0; s < SW_N_SEGMENTS; s++) {
        p->segment_first[s] = first;
        first += p->segment_count[s];
    }
}

/* A port that no instruction touches has no buffer. */
static void find_ports(sw_builder *b) {
    sw_program *p = b->program;
    p->ports.item =
        sw_arena_take(&p->arena, ((size_t)b->graph->ports.n + 1) * sizeof *p->ports.item);
    for (int i = 0; p->ports.item && i < b->graph->ports.n; i++) {
        const sw_port *port = &b->graph->ports.item[i];
        p->ports.item[p->ports.n++] = (sw_program_port){
            port->name, port->is_output, b->buffer_of_value[port->value->storage->id]};
    }
    if (!p->ports.item)
        sw_builder_fail(b, SW_NO_MEMORY, "no memory for the program's %d ports", b->graph->ports.n);
}

int sw_program_buffer_of(const sw_program *program, const char *port) {
    for (int i = 0; i < program->ports.n; i++)
        if (!strcmp(program->ports.item[i].name, port))
            return program->ports.item[i].buffer;
    return -1;
}

sw_status sw_program_create(const sw_graph *graph, const sw_states *states, sw_program *program,
                            sw_error *err) {
    *program = (sw_program){.sharding = states->sharding, .layout = states->layout};
    sw_builder b = {.graph = graph,
                    .layout = states->layout,
                    .states = states,
                    .sharding = states->sharding,
                    .program = program,
                    .err = err,
                    .posted = -1,
                    .waited = -1};
    if (graph->n_states != states->n_kept)
        sw_builder_fail(&b, SW_BUG,
                        "the graph has %d values that live across runs, its states have %d",
                        graph->n_states, states->n_kept);
    else if (!begin(&b))
        emit_all(&b);
    if (!b.status) {
        find_ports(&b);
        b.status = b.status ? b.status : sw_program_map_memory(program, err);
        number_segments(program);
        sw_schedule_accumulation(program);
        sw_costs_count(program);
    }
    if (b.status)
        sw_program_free(program);
    return b.status;
}

void sw_program_free(sw_program *program) {
    sw_arena_free(&program->arena);
    *program = (sw_program){0};
}
