/* print.c: the program for people, and its hash. The hash is over what is printed, so that a
 * difference can be shown. */
#include "shard/program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"

typedef struct writer {
    char *line;
    size_t bytes, used; /* used: of the whole line, which may have more than `bytes` */
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(writer *w, const char *format, ...) {
    bool has_room = w->used < w->bytes;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(has_room ? w->line + w->used : NULL, has_room ? w->bytes - w->used : 0,
                      format, arguments);
    va_end(arguments);
    w->used += n > 0 ? (size_t)n : 0;
}

static void put_reference(writer *w, const sw_program *program, const sw_reference *reference) {
    if (reference->buffer < 0) {
        put(w, " -");
        return;
    }
    const sw_buffer *buffer = &program->buffers.item[reference->buffer];
    put(w, " [%s", buffer->name);
    for (int axis = 0; axis < SW_N_AXES; axis++)
        if (reference->own_stride[axis])
            put(w, " %s*%" PRId64, sw_axis_name((sw_axis)axis), reference->own_stride[axis]);
    if (reference->offset)
        put(w, " +%" PRId64, reference->offset);
    put(w, " %s@%" PRId64 " %" PRId64 " B]", sw_memory_class_name(buffer->memory_class),
        buffer->address, reference->bytes);
}

size_t sw_instruction_print(const sw_program *program, int index, char *line, size_t bytes) {
    static const char *const segments[] = {"prepare", "forward", "backward", "reduce", "update"};
    const sw_instruction *instruction = &program->instructions.item[index];
    writer w = {line, bytes, 0};
    put(&w, "%5d %-8s %-4s %s", index, segments[instruction->segment],
        instruction->lane == SW_LANE_COMPUTE ? "comp" : "comm", instruction->label);
    if (instruction->group >= 0)
        put(&w, " group %d", instruction->group);
    if (instruction->channel >= 0)
        put(&w, " over %s channel %d", sw_axis_name(instruction->axis), instruction->channel);
    for (int i = 0; i < instruction->n_waits; i++) {
        const sw_wait *wait = &instruction->wait[i];
        if (wait->when == SW_ALL_BEFORE)
            put(&w, " waits for all before");
        else
            put(&w, " waits for %d%s", wait->instruction,
                wait->when == SW_SLOT_BEFORE ? " of the slot before" : "");
    }
    if (instruction->moved_bytes)
        put(&w, " moves %" PRId64 " B", instruction->moved_bytes);
    for (int i = 0; i < instruction->n_operands; i++) {
        put_reference(&w, program, &instruction->operand[i]);
        if (instruction->accumulate >> i & 1)
            put(&w, "+");
        if (instruction->accumulate_later_slots >> i & 1)
            put(&w, "+ after slot 0");
    }
    if (instruction->scratch.buffer >= 0)
        put_reference(&w, program, &instruction->scratch);
    bool has_dimensions = instruction->kind == SW_DO_KERNEL || instruction->kind == SW_DO_UPDATE;
    for (int i = 0; i < SW_MAX_DIMENSIONS && has_dimensions; i++)
        put(&w, "%s%" PRId64, i ? "," : " (", instruction->dim[i]);
    for (int i = 0; i < SW_MAX_ATTRIBUTES && has_dimensions; i++)
        put(&w, "%s%.17g", i ? "," : "; ", instruction->attribute[i]);
    put(&w, "%s", has_dimensions ? ")" : "");
    return w.used;
}

uint64_t sw_program_hash(const sw_program *program) {
    uint64_t hash = SW_HASH_START;
    char line[2048];
    for (int i = 0; i < program->instructions.n; i++) {
        sw_instruction_print(program, i, line, sizeof line);
        hash = sw_hash_text(hash, line);
    }
    return hash;
}
