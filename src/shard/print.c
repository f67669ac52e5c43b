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

void sw_program_explain(void (*line)(void *to, const char *text), void *to) {
    static const char *const lines[] = {
        "the program of a step, which every rank goes through; one instruction on each line:",
        "  number   counted from 0; \"waits for 4\": begins only when instruction 4 is done",
        "  segment  prepare: before the first step; forward, backward: for each micro-batch;",
        "           reduce: gradients are added up over the ranks; update: once a step, at its end",
        "  lane     comp: the rank's computing threads; comm: a thread beside them that copies",
        "           between ranks",
        "  what     forward UNIT OPERATION, backward UNIT OPERATION: a computation",
        "           gather UNIT: bring the ranks' parts of its parameters together; reshard UNIT:",
        "           give that memory back",
        "           acquire, pad, post gradient buffer of UNIT: take a buffer for its gradients,",
        "           put zeros between them, let the other ranks read it; reduce UNIT: add up what",
        "           all ranks have there",
        "           decide: the ranks agree whether to update; update UNIT: the optimizer, on the",
        "           rank's own part; publish UNIT: the others may read the new values",
        "  group 1 over shard channel 2   the parameters of the unit, the ranks that share them,",
        "           and the number under which these ranks talk of them",
        "  moves N B   bytes that come from other ranks",
        "  [NAME +OFFSET CLASS@ADDRESS N B]   memory that is read or written: the buffer (%7: the",
        "           result of a computation), bytes from its start, where it lies in the rank's",
        "           memory of that class, and how much of it is used; \"shard*N\" after NAME: the",
        "           part of rank r begins r times N bytes further; \"-\": an operand that is not",
        "           given here; \"+\" behind: added to what is there",
        "  (a,b,...; x,...)   sizes and factors of the operation; 0 where it has fewer",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        line(to, lines[i]);
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
