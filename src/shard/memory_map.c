/* memory_map.c: an address for every buffer, before the first step.
 *
 * Each memory class is a section of its own: first the persistent buffers of the states, in order, then the transient ones,
 * packed by lifetime: large ones first, each at the lowest address where no buffer that lives at the same time lies. What a class
 * needs is the end of its highest buffer; that figure is the plan, and what executed operands touch must come out equal. See
 * docs/design/memory-map.md.
 */
#include "shard/program.h"

#include <stdlib.h>

static int64_t round_up(int64_t n) {
    return (n + SW_BUFFER_ALIGNMENT - 1) / SW_BUFFER_ALIGNMENT * SW_BUFFER_ALIGNMENT;
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

typedef struct placement {
    int buffer;
    int64_t bytes;
    int first;
} placement;

static int large_first(const void *a, const void *b) {
    const placement *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/* Place one buffer among those of its class that are placed, which `placed` lists by address. */
static void place(sw_program *program, int *placed, int *n_placed, int64_t floor, int buffer) {
    sw_buffer *mine = &program->buffers.item[buffer];
    int64_t address = floor;
    for (int i = 0; i < *n_placed; i++) {
        const sw_buffer *other = &program->buffers.item[placed[i]];
        bool together = mine->first <= other->last && other->first <= mine->last;
        if (!together)
            continue;
        if (other->address >= address + mine->bytes)
            break;
        int64_t end = round_up(other->address + other->bytes);
        address = end > address ? end : address;
    }
    mine->address = address;
    int at = *n_placed;
    while (at > 0 && program->buffers.item[placed[at - 1]].address > address) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = buffer;
    ++*n_placed;
}

/* The most transient bytes that are alive at one instruction: what no placement can go below. */
static int64_t most_alive(const sw_program *program, int64_t *change) {
    for (int i = 0; i <= program->instructions.n + 1; i++)
        change[i] = 0;
    for (int b = 0; b < program->buffers.n; b++) {
        const sw_buffer *buffer = &program->buffers.item[b];
        if (buffer->is_persistent || buffer->first < 0)
            continue;
        change[buffer->first] += buffer->bytes;
        change[buffer->last + 1] -= buffer->bytes;
    }
    int64_t alive = 0, most = 0;
    for (int i = 0; i <= program->instructions.n; i++) {
        alive += change[i];
        most = alive > most ? alive : most;
    }
    return most;
}

sw_status sw_program_map_memory(sw_program *program, sw_error *err) {
    find_lifetimes(program);
    size_t n = (size_t)program->buffers.n;
    placement *order = calloc(n + 1, sizeof *order);
    int *placed = calloc(n + 1, sizeof *placed);
    int64_t *change = calloc((size_t)program->instructions.n + 2, sizeof *change);
    sw_status status = SW_OK;
    if (!order || !placed || !change) {
        status = sw_fail(err, SW_NO_MEMORY, "no memory to lay out %zu buffers", n);
        goto done;
    }
    for (int class = 0; class < SW_N_MEMORY_CLASSES; class ++) {
        int64_t floor = 0;
        int n_order = 0, n_placed = 0;
        for (int b = 0; b < program->buffers.n; b++) {
            const sw_buffer *buffer = &program->buffers.item[b];
            if (buffer->memory_class != (sw_memory_class) class)
                continue;
            if (buffer->is_persistent)
                floor = round_up(buffer->address + buffer->bytes) > floor ? round_up(buffer->address + buffer->bytes) : floor;
            else if (buffer->first >= 0)
                order[n_order++] = (placement){b, buffer->bytes, buffer->first};
        }
        qsort(order, (size_t)n_order, sizeof *order, large_first);
        for (int i = 0; i < n_order; i++)
            place(program, placed, &n_placed, floor, order[i].buffer);
        int64_t end = floor;
        for (int i = 0; i < n_placed; i++) {
            const sw_buffer *buffer = &program->buffers.item[placed[i]];
            end = buffer->address + buffer->bytes > end ? buffer->address + buffer->bytes : end;
        }
        program->class_bytes[class] = end;
    }
    program->packing_live = most_alive(program, change);
done:
    free(order);
    free(placed);
    free(change);
    return status;
}
