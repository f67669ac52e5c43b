/* test_gathers.c: stage 3, over every graph and setting: what a kernel reads is gathered, nothing
 * is gathered over what is still held, and as often as the formula of ZeRO says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/program_case.h"
#include "support/small_models.h"

/* What is gathered at a point of the program. */
typedef struct gathered {
    int instruction; /* the gather; -1: not gathered */
    int buffer;      /* copy mode */
    int64_t offset, bytes;
} gathered;

static bool is_copy(const built_program *b) {
    return b->of->sharding.mode == SW_SHM_COPY;
}

static int64_t whole_bytes(const built_program *b, int group) {
    return b->layout.groups[group].shard * b->layout.n_shards *
           sw_dtype_bytes(b->of->sharding.parameter_dtype);
}

/* The last RESHARD before `i` that gave `buffer` back, -1 if none. */
static int last_reshard_of(const sw_program *p, int i, int buffer) {
    while (--i >= 0)
        if (p->instructions.item[i].kind == SW_DO_RESHARD &&
            p->instructions.item[i].operand[0].buffer == buffer)
            return i;
    return -1;
}

static void gather(const built_program *b, int i, gathered *state) {
    const sw_instruction *gather = &b->program.instructions.item[i];
    const sw_reference *own = &gather->operand[0], *to = &gather->operand[1];
    int g = gather->group;
    int64_t slice = whole_bytes(b, g) / b->layout.n_shards;
    holds(b, i, state[g].instruction < 0);
    holds(b, i,
          own->buffer == b->states.copy[g] && own->offset == 0 &&
              own->own_stride[SW_AXIS_SHARD] == slice && own->bytes == slice);
    holds(b, i, gather->by_step == b->layout.groups[g].is_trainable);
    if (is_copy(b)) {
        const sw_buffer *buffer = &b->program.buffers.item[to->buffer];
        holds(b, i,
              gather->lane == SW_LANE_COMMUNICATION && buffer->memory_class == SW_MEMORY_GATHER);
        holds(b, i,
              to->bytes == whole_bytes(b, g) && to->offset >= 0 &&
                  to->offset + to->bytes <= buffer->bytes);
        for (int other = 0; other < b->layout.n_groups; other++)
            holds(b, i,
                  state[other].instruction < 0 || state[other].buffer != to->buffer ||
                      state[other].offset + state[other].bytes <= to->offset ||
                      to->offset + to->bytes <= state[other].offset);
        int before = last_reshard_of(&b->program, i, to->buffer);
        int awaited = before < 0
                          ? last_reshard_of(&b->program, b->program.instructions.n, to->buffer)
                          : before;
        holds(b, i, gather->n_waits == 1 && awaited >= 0 && gather->wait[0].instruction == awaited);
        holds(b, i,
              before < 0 ? gather->wait[0].when == SW_SLOT_BEFORE
                         : gather->wait[0].when == SW_THIS_SLOT);
    } else
        holds(b, i, gather->lane == SW_LANE_COMPUTE && to->buffer < 0);
    state[g] = (gathered){i, to->buffer, to->offset, whole_bytes(b, g)};
}

static void reshard(const built_program *b, int i, gathered *state) {
    const sw_shard_unit *unit = &b->layout.units[b->program.instructions.item[i].unit];
    int groups[] = {unit->trainable_group, unit->frozen_group};
    for (int k = 0; k < 2; k++)
        if (groups[k] >= 0) {
            holds(b, i, state[groups[k]].instruction >= 0);
            holds(b, i,
                  !is_copy(b) ||
                      state[groups[k]].buffer == b->program.instructions.item[i].operand[0].buffer);
            state[groups[k]].instruction = -1;
        }
}

/* `waited`: the furthest instruction of the communication lane that the compute lane has waited
 * for. */
static void kernel(const built_program *b, int i, const sw_op *op, const gathered *state,
                   int waited) {
    int64_t size = sw_dtype_bytes(b->of->sharding.parameter_dtype);
    for (int k = 0; k < op->n_operands; k++) {
        const sw_reference *reference = &b->program.instructions.item[i].operand[k];
        bool is_parameter = op->operand[k].kind == SW_OPERAND_PARAMETER;
        if (reference->buffer >= 0 && !is_parameter) {
            sw_memory_class memory_class = b->program.buffers.item[reference->buffer].memory_class;
            holds(b, i, memory_class != SW_MEMORY_GATHER && memory_class != SW_MEMORY_PARAMETERS);
        }
        if (!is_parameter)
            continue;
        const sw_slot_of_parameter *slot = &b->layout.parameters[op->operand[k].parameter->id];
        const gathered *there = &state[slot->group];
        holds(b, i, there->instruction >= 0);
        holds(b, i,
              reference->buffer == (is_copy(b) ? there->buffer : b->states.copy[slot->group]) &&
                  !reference->own_stride[SW_AXIS_SHARD]);
        holds(b, i, reference->offset == (is_copy(b) ? there->offset : 0) + slot->offset * size);
        holds(b, i, reference->bytes == slot->parameter->n_elements * size);
        holds(b, i, !is_copy(b) || waited >= there->instruction);
    }
}

static void check_windows(const built_program *b) {
    if (b->of->sharding.stage != 3)
        return;
    int n_ops, at = 0, waited = -1;
    const sw_op **ops = program_ops(b, &n_ops);
    gathered *state = calloc((size_t)b->layout.n_groups + 1, sizeof *state);
    for (int g = 0; g < b->layout.n_groups; g++)
        state[g].instruction = -1;
    for (int i = 0; i < b->program.instructions.n; i++) {
        const sw_instruction *instruction = &b->program.instructions.item[i];
        for (int w = 0; w < instruction->n_waits && instruction->lane == SW_LANE_COMPUTE; w++)
            if (instruction->wait[w].when == SW_THIS_SLOT &&
                instruction->wait[w].instruction > waited)
                waited = instruction->wait[w].instruction;
        if (instruction->kind == SW_DO_GATHER) {
            holds(b, i, is_collective_of_slot(instruction));
            gather(b, i, state);
        } else if (instruction->kind == SW_DO_RESHARD)
            reshard(b, i, state);
        else if (instruction->kind == SW_DO_KERNEL) {
            holds(b, i, at < n_ops && ops[at]->kernel == instruction->kernel);
            kernel(b, i, ops[at++], state, waited);
        }
    }
    holds(b, -1, at == n_ops);
    for (int g = 0; g < b->layout.n_groups; g++)
        holds(b, -1, state[g].instruction < 0);
    free(state);
    free(ops);
}

static void what_a_kernel_reads_is_gathered_there_and_held(void **state) {
    (void)state;
    for_each_program(check_windows);
}

static int n_gathers_of(const built_program *b, int group) {
    int n = 0;
    for (int i = 0; i < b->program.instructions.n; i++)
        n += b->program.instructions.item[i].kind == SW_DO_GATHER &&
             b->program.instructions.item[i].group == group;
    return n;
}

/* Blocks are gathered for forward and for backward, recompute included; the root and the blocks
 * that forward leaves last, as many as the ring has places, once; without resharding every unit
 * once. */
static void blocks_are_gathered_twice_and_root_and_last_blocks_once(void **state) {
    (void)state;
    for (int g = 0; g < N_SMALL_MODELS + 1; g++)
        for (int i = 0; i < 3 * 4 * 2 * 2; i++) {
            program_case c = program_graph(g);
            c.sharding.mode = (sw_shm_mode)(i % 3);
            c.sharding.prefetch = i / 3 % 4;
            c.sharding.reshard_after_forward = i / 12 % 2;
            c.recompute = i / 24;
            built_program b;
            program_build(&c, &b);
            for (int unit = 0; unit < b.layout.n_units; unit++) {
                bool once = !c.sharding.reshard_after_forward || unit == 0 ||
                            unit >= b.layout.n_units - 1 - c.sharding.prefetch;
                holds(&b, -1,
                      n_gathers_of(&b, b.layout.units[unit].trainable_group) == (once ? 1 : 2));
            }
            program_free(&b);
        }
}

/* Prefetch is a number of buffers: (depth + 1) of the largest block and one of the root; a view
 * needs none. */
static void gather_memory_is_depth_plus_one_blocks_and_the_root(void **state) {
    (void)state;
    const stack about = {STACK_PLAIN, 6, 32, 13, false};
    for (int depth = 0; depth < 5; depth++)
        for (int mode = 0; mode < 3; mode++)
            for (int recompute = 0; recompute < 2; recompute++) {
                program_case c = program_graph(N_SMALL_MODELS);
                c.about = &about;
                c.sharding = usual_sharding(4);
                c.sharding.prefetch = depth;
                c.sharding.mode = (sw_shm_mode)mode;
                c.recompute = recompute;
                built_program b;
                program_build(&c, &b);
                /* norm 256, weight 1024, bias 256 of 4 x 512 = 2048 elements; embedding and head
                 * 512 each; of 2 bytes */
                int64_t block = 2 * 2048, root = 2 * 1024;
                holds(&b, -1,
                      b.program.class_end[SW_MEMORY_GATHER] ==
                          (mode == SW_SHM_COPY ? (depth + 1) * block + root : 0));
                program_free(&b);
            }
}

/* Gathers of `depth` units are under way while a unit computes: when a block's first kernel runs,
 * that many later ones are issued. */
static void a_prefetch_of_two_is_two_blocks_ahead(void **state) {
    (void)state;
    const stack about = {STACK_PLAIN, 6, 32, 13, false};
    program_case c = program_graph(N_SMALL_MODELS);
    c.about = &about;
    c.sharding.prefetch = 2;
    built_program b;
    program_build(&c, &b);
    int issued = 0, n_checked = 0;
    for (int i = 0, last = -1; i < b.program.segment_first[SW_SEGMENT_BACKWARD]; i++) {
        const sw_instruction *instruction = &b.program.instructions.item[i];
        if (instruction->kind == SW_DO_GATHER && instruction->unit > issued)
            issued = instruction->unit;
        if (instruction->kind != SW_DO_KERNEL || instruction->unit == last ||
            instruction->unit == 0)
            continue;
        last = instruction->unit;
        n_checked++;
        holds(&b, i, issued == (last + 2 < 6 ? last + 2 : 6));
    }
    holds(&b, -1, n_checked == 6);
    program_free(&b);
}

/* A unit inside another holds a second buffer beside its parent's: the ring grows for what must
 * run, not for what is ahead. */
static void nested_units_are_gathered_beside_their_parents(void **state) {
    (void)state;
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        program_case c = program_graph(N_SMALL_MODELS + STACK_NESTED);
        c.sharding.prefetch = prefetch;
        built_program b;
        program_build(&c, &b);
        int n_places = 0;
        for (int i = 0; i < b.program.buffers.n; i++)
            n_places += b.program.buffers.item[i].memory_class == SW_MEMORY_GATHER;
        holds(&b, -1, n_places == 1 + 2);
        program_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_kernel_reads_is_gathered_there_and_held),
        cmocka_unit_test(blocks_are_gathered_twice_and_root_and_last_blocks_once),
        cmocka_unit_test(gather_memory_is_depth_plus_one_blocks_and_the_root),
        cmocka_unit_test(a_prefetch_of_two_is_two_blocks_ahead),
        cmocka_unit_test(nested_units_are_gathered_beside_their_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
