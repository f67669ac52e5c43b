/* memory_map.c: an address for every buffer, before the first step.
 *
 * Each memory class has a section, but logits and scratch, which lie in that of activations: all
 * three are alive by use, and what one of them needs at one instruction, another has at the next. A
 * section holds first the persistent buffers of the states, in order, then the transient ones,
 * packed by lifetime: long ones first, each at the lowest address where no buffer that lives at the
 * same time lies. Some go into places of the gradient ring that are idle all their life
 * (shard/idle_rings.c). What a class needs is the end of its highest buffer; that figure is the
 * plan, and what executed operands touch must come out equal. See docs/design/memory-map.md.
 */
#include "shard/placement.h"

#include <stdlib.h>
#include <string.h>

static void touch(sw_program *program, int buffer, int instruction) {
    if (buffer < 0)
        return;
    sw_buffer *b = &program->buffers.item[buffer];
    if (b->first < 0)
        b->first = instruction;
    b->last = instruction;
}

static void keep(sw_program *program, int buffer, int first, int last) {
    if (buffer < 0)
        return;
    program->buffers.item[buffer].first = first;
    program->buffers.item[buffer].last = last;
}

static void find_lifetimes(sw_program *program) {
    int n = program->instructions.n;
    for (int i = 0; i < n; i++) {
        const sw_instruction *instruction = &program->instructions.item[i];
        if (instruction->kind == SW_DO_SHARE) /* after the post before it another lane may write */
            touch(program, instruction->operand[1].buffer, i - 1);
        for (int o = 0; o < instruction->n_operands; o++)
            touch(program, instruction->operand[o].buffer, i);
        touch(program, instruction->scratch.buffer, i);
    }
    for (int i = 0; i < n; i++) { /* constants outlive the segment that makes them */
        const sw_instruction *instruction = &program->instructions.item[i];
        if (instruction->segment == SW_SEGMENT_PREPARE)
            for (int o = 0; o < instruction->n_operands; o++)
                keep(program, instruction->operand[o].buffer, 0, n);
    }
    /* filled before a slot, or read after it */
    for (int p = 0; p < program->ports.n; p++)
        keep(program, program->ports.item[p].buffer, 0, n);
    for (int b = 0; b < program->buffers.n;
         b++) /* peers and the communication lane reach into rings at any time */
        if (program->buffers.item[b].memory_class == SW_MEMORY_REDUCE ||
            program->buffers.item[b].memory_class == SW_MEMORY_GATHER)
            keep(program, b, 0, n);
}

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* Activations first: logits and scratch, which live for one instruction, go on top, so that the
 * room of activations does not depend on what working space there is. Of one class what lives long
 * lies low, like a stack: values that forward keeps for backward. */
static int long_first(const void *a, const void *b) {
    const sw_placement *x = a, *y = b;
    if (x->memory_class != y->memory_class)
        return compare(x->memory_class, y->memory_class);
    int64_t mine = x->last - x->first, other = y->last - y->first;
    if (mine != other)
        return compare(other, mine);
    if (x->bytes != y->bytes)
        return compare(y->bytes, x->bytes);
    return x->first != y->first ? compare(x->first, y->first) : compare(x->buffer, y->buffer);
}

int64_t sw_count_alive(const sw_program *program, sw_memory_class section, int64_t *alive) {
    const int n = program->instructions.n;
    memset(alive, 0, ((size_t)n + 2) * sizeof *alive);
    for (int b = 0; b < program->buffers.n; b++) {
        const sw_buffer *buffer = &program->buffers.item[b];
        if (!sw_is_transient_in(buffer, section))
            continue;
        alive[buffer->first] += sw_buffer_aligned(buffer->bytes);
        alive[buffer->last + 1] -= sw_buffer_aligned(buffer->bytes);
    }
    int64_t most = alive[0];
    for (int i = 1; i <= n; i++) {
        alive[i] += alive[i - 1];
        most = larger(most, alive[i]);
    }
    return most;
}

int64_t sw_map_section(sw_program *program, sw_memory_class section, sw_placements *w) {
    int64_t floor = 0, highest = 0;
    w->n = 0;
    for (int b = 0; b < program->buffers.n; b++) {
        const sw_buffer *buffer = &program->buffers.item[b];
        if (sw_is_transient_in(buffer, section))
            w->item[w->n++] = sw_placement_of(buffer);
        else if (buffer->is_persistent && sw_memory_section(buffer->memory_class) == section)
            floor = larger(floor, sw_buffer_aligned(buffer->address + buffer->bytes));
    }
    qsort(w->item, (size_t)w->n, sizeof *w->item, long_first);
    sw_occupancy_clear(w->taken);
    for (int i = 0; i < w->n; i++) {
        const sw_placement *mine = &w->item[i];
        int64_t address = sw_occupancy_find(w->taken, mine->first, mine->last, mine->bytes);
        sw_occupancy_take(w->taken, mine->first, mine->last, address, mine->bytes);
        highest = larger(highest, address + mine->bytes);
        program->buffers.item[mine->buffer].address = floor + address;
    }
    return highest;
}

static bool take(sw_placements *w, const sw_program *program) {
    w->item = calloc((size_t)program->buffers.n + 1, sizeof *w->item);
    w->taken = sw_occupancy_create(program->instructions.n + 1);
    return w->item && w->taken;
}

static void give_back(sw_placements *w) {
    free(w->item);
    sw_occupancy_free(w->taken);
}

sw_status sw_program_map_memory(sw_program *program, sw_error *err) {
    sw_placements ring = {0}, rest = {0};
    int64_t *alive = calloc((size_t)program->instructions.n + 2, sizeof *alive);
    sw_status status = SW_OK;
    if (!take(&ring, program) || !take(&rest, program) || !alive)
        goto short_of_memory;
    find_lifetimes(program);
    (void)sw_map_section(program, SW_MEMORY_REDUCE, &rest);
    sw_idle_rings_lend(program, &ring, &rest, alive);
    for (int section = 0; section < SW_N_MEMORY_CLASSES; section++) {
        if (section == SW_MEMORY_REDUCE)
            continue;
        int64_t highest = sw_map_section(program, (sw_memory_class)section, &rest);
        if (section == SW_MEMORY_ACTIVATIONS)
            program->packing_arena = highest;
    }
    if (sw_occupancy_is_short(ring.taken) || sw_occupancy_is_short(rest.taken))
        goto short_of_memory;
    program->packing_live = sw_count_alive(program, SW_MEMORY_ACTIVATIONS, alive);
    for (int b = 0; b < program->buffers.n; b++) {
        const sw_buffer *buffer = &program->buffers.item[b];
        int64_t *end = &program->class_end[buffer->memory_class];
        if (buffer->is_persistent)
            *end = larger(*end, sw_buffer_aligned(buffer->address + buffer->bytes));
        else if (buffer->first >= 0)
            *end = larger(*end, buffer->address + buffer->bytes);
    }
    goto done;
short_of_memory:
    status = sw_fail(err, SW_NO_MEMORY, "no memory to lay out %d buffers", program->buffers.n);
done:
    give_back(&ring);
    give_back(&rest);
    free(alive);
    return status;
}
