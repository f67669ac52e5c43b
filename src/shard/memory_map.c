/* memory_map.c: an address for every buffer, before the first step.
 *
 * Each memory class has a section, but logits and scratch, which lie in that of activations: all three are alive by use, and what
 * one of them needs at one instruction, another has at the next. A section holds first the persistent buffers of the states, in
 * order, then the transient ones, packed by lifetime: long ones first, each at the lowest address where no buffer that lives at
 * the same time lies. What a class needs is the end of its highest buffer; that figure is the plan, and what executed operands
 * touch must come out equal. See docs/design/memory-map.md.
 */
#include "shard/program.h"

#include <stdlib.h>

#include "base/integer.h"

static int64_t aligned(int64_t n) {
    return round_up(n, SW_BUFFER_ALIGNMENT);
}

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
    keep(program, program->tokens, 0, n);
    keep(program, program->targets, 0, n);
    keep(program, program->documents, 0, n);
    keep(program, program->loss, 0, n);
    keep(program, program->logits, 0, n);
    keep(program, program->places, 0, n);
    keep(program, program->token_losses, 0, n);
    for (int b = 0; b < program->buffers.n; b++) /* peers and the communication lane reach into rings at any time */
        if (program->buffers.item[b].memory_class == SW_MEMORY_REDUCE ||
            program->buffers.item[b].memory_class == SW_MEMORY_GATHER)
            keep(program, b, 0, n);
}

/* A transient buffer of the section that is being packed. */
typedef struct placement {
    int buffer;
    sw_memory_class memory_class;
    int first, last; /* instructions */
    int64_t bytes;   /* with what is lost to alignment */
    int64_t address;
} placement;

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* Activations first: logits and scratch, which live for one instruction, go on top, so that the room of activations does not
 * depend on what working space there is. Of one class what lives long lies low, like a stack: values that forward keeps for
 * backward. */
static int long_first(const void *a, const void *b) {
    const placement *x = a, *y = b;
    if (x->memory_class != y->memory_class)
        return compare(x->memory_class, y->memory_class);
    int64_t mine = x->last - x->first, other = y->last - y->first;
    if (mine != other)
        return compare(other, mine);
    if (x->bytes != y->bytes)
        return compare(y->bytes, x->bytes);
    return x->first != y->first ? compare(x->first, y->first) : compare(x->buffer, y->buffer);
}

/* Give each of n buffers, in their order, an address from 0 on. `by_address` [n] is working space. Returns the highest end. */
static int64_t pack(placement *buffers, int n, placement **by_address) {
    int64_t highest = 0;
    for (int i = 0; i < n; i++) {
        placement *mine = &buffers[i];
        mine->address = 0;
        for (int k = 0; k < i; k++) {
            const placement *other = by_address[k];
            if (mine->first > other->last || other->first > mine->last)
                continue;
            if (other->address >= mine->address + mine->bytes)
                break;
            int64_t end = other->address + other->bytes;
            mine->address = end > mine->address ? end : mine->address;
        }
        int at = i;
        for (; at > 0 && by_address[at - 1]->address > mine->address; at--)
            by_address[at] = by_address[at - 1];
        by_address[at] = mine;
        highest = mine->address + mine->bytes > highest ? mine->address + mine->bytes : highest;
    }
    return highest;
}

/* The most bytes of n buffers that are alive at one instruction: what no placement can go below. change [instructions + 1] */
static int64_t most_alive(const placement *buffers, int n, int n_instructions, int64_t *change) {
    for (int i = 0; i <= n_instructions + 1; i++)
        change[i] = 0;
    for (int i = 0; i < n; i++) {
        change[buffers[i].first] += buffers[i].bytes;
        change[buffers[i].last + 1] -= buffers[i].bytes;
    }
    int64_t alive = 0, most = 0;
    for (int i = 0; i <= n_instructions; i++) {
        alive += change[i];
        most = alive > most ? alive : most;
    }
    return most;
}

typedef struct working_space {
    placement *buffers;     /* [n buffers] */
    placement **by_address; /* [n buffers] */
    int64_t *change;        /* [n instructions + 2] */
} working_space;

static void map_section(sw_program *program, sw_memory_class section, working_space *w) {
    int64_t floor = 0;
    int n = 0;
    for (int b = 0; b < program->buffers.n; b++) {
        const sw_buffer *buffer = &program->buffers.item[b];
        if (sw_memory_section(buffer->memory_class) != section)
            continue;
        if (buffer->is_persistent)
            floor = aligned(buffer->address + buffer->bytes) > floor ? aligned(buffer->address + buffer->bytes) : floor;
        else if (buffer->first >= 0)
            w->buffers[n++] = (placement){b, buffer->memory_class, buffer->first, buffer->last, aligned(buffer->bytes), 0};
    }
    qsort(w->buffers, (size_t)n, sizeof *w->buffers, long_first);
    int64_t highest = pack(w->buffers, n, w->by_address);
    for (int i = 0; i < n; i++)
        program->buffers.item[w->buffers[i].buffer].address = floor + w->buffers[i].address;
    if (section == SW_MEMORY_ACTIVATIONS) {
        program->packing_live = most_alive(w->buffers, n, program->instructions.n, w->change);
        program->packing_arena = highest;
    }
}

sw_status sw_program_map_memory(sw_program *program, sw_error *err) {
    find_lifetimes(program);
    size_t n = (size_t)program->buffers.n + 1;
    working_space w = {.buffers = calloc(n, sizeof *w.buffers),
                       .by_address = calloc(n, sizeof *w.by_address),
                       .change = calloc((size_t)program->instructions.n + 2, sizeof *w.change)};
    sw_status status = SW_OK;
    if (!w.buffers || !w.by_address || !w.change) {
        status = sw_fail(err, SW_NO_MEMORY, "no memory to lay out %d buffers", program->buffers.n);
        goto done;
    }
    for (int section = 0; section < SW_N_MEMORY_CLASSES; section++)
        map_section(program, (sw_memory_class)section, &w);
    for (int b = 0; b < program->buffers.n; b++) {
        const sw_buffer *buffer = &program->buffers.item[b];
        int64_t *end = &program->class_end[buffer->memory_class];
        if (buffer->is_persistent)
            *end = aligned(buffer->address + buffer->bytes) > *end ? aligned(buffer->address + buffer->bytes) : *end;
        else if (buffer->first >= 0)
            *end = buffer->address + buffer->bytes > *end ? buffer->address + buffer->bytes : *end;
    }
done:
    free(w.buffers);
    free(w.by_address);
    free(w.change);
    return status;
}
