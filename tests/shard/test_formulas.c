/* test_formulas.c: bytes of model states and bytes moved, against the formulas of ZeRO (Rajbhandari
 * et al. 2020, sections 5 and 7), with a model whose parameters need no padding; and with padding,
 * against the layout.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/program_case.h"
#include "support/small_models.h"

/* Blocks of 256 + 256 x 256 + 256 parameters, embedding and head of 32 x 256: multiples of 256 N
 * for N = 1, 2. */
enum { CHANNELS = 256, VOCABULARY = 32, BLOCKS = 5 };
static const stack UNPADDED = {STACK_PLAIN, BLOCKS, CHANNELS, VOCABULARY, false};
static const int64_t BLOCK = CHANNELS * CHANNELS + 2 * CHANNELS, ROOT = 2 * VOCABULARY * CHANNELS,
                     ALL = BLOCKS * BLOCK + ROOT;

static program_case unpadded(int n_ranks, int stage) {
    program_case c = program_graph(N_SMALL_MODELS);
    c.about = &UNPADDED;
    c.sharding = usual_sharding(n_ranks);
    c.sharding.stage = stage;
    return c;
}

static int64_t states_bytes(const built_program *b, sw_memory_class memory_class) {
    int64_t bytes = 0;
    for (int i = 0; i < b->states.buffers.n; i++)
        bytes += b->states.buffers.item[i].memory_class == memory_class
                     ? b->states.buffers.item[i].bytes
                     : 0;
    return bytes;
}

/* bf16, AdamW: the copy is 2 bytes, low half 2, moments 8, the gradient 4: 16 in all, as mixed
 * precision has, with fp32 gradients. */
static void stages_divide_what_their_names_say(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++)
        for (int stage = 0; stage < 4; stage++)
            for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
                program_case c = unpadded(n, stage);
                c.sharding.accumulate_sharded = is_sharded;
                built_program b;
                program_build(&c, &b);
                int64_t parameters = 2 * ALL / (stage == 3 ? n : 1),
                        optimizer = 10 * ALL / (stage >= 1 ? n : 1);
                int64_t whole = stage < 2 || !is_sharded ? 4 * ALL : 0,
                        own = is_sharded ? 4 * ALL / n : 0;
                holds(&b, -1, states_bytes(&b, SW_MEMORY_PARAMETERS) == parameters);
                holds(&b, -1, states_bytes(&b, SW_MEMORY_OPTIMIZER) == optimizer);
                holds(&b, -1, states_bytes(&b, SW_MEMORY_GRADIENTS) == whole + own);
                if (stage == 3 && is_sharded)
                    holds(&b, -1, parameters + optimizer + own == 16 * ALL / n);
                program_free(&b);
            }
}

/* fp32: the copy is the master, and there are no low halves. SGD has one moment, or none. */
static void precision_and_optimizer_choose_the_bytes_of_an_element(void **state) {
    (void)state;
    const struct {
        sw_dtype dtype;
        sw_optimizer_spec optimizer;
        int64_t parameters, optimizer_bytes;
    } rows[] = {{SW_F32, {.kind = SW_OPTIMIZER_ADAMW}, 4, 8},
                {SW_BF16, {.kind = SW_OPTIMIZER_SGD, .momentum = 0.9}, 2, 6},
                {SW_BF16, {.kind = SW_OPTIMIZER_SGD}, 2, 2},
                {SW_F32, {.kind = SW_OPTIMIZER_SGD}, 4, 0}};
    for (int i = 0; i < 4; i++) {
        program_case c = unpadded(2, 3);
        c.sharding.parameter_dtype = rows[i].dtype;
        c.sharding.optimizer = rows[i].optimizer;
        built_program b;
        program_build(&c, &b);
        holds(&b, -1, states_bytes(&b, SW_MEMORY_PARAMETERS) == rows[i].parameters * ALL / 2);
        holds(&b, -1, states_bytes(&b, SW_MEMORY_OPTIMIZER) == rows[i].optimizer_bytes * ALL / 2);
        program_free(&b);
    }
}

/* A frozen parameter costs its compute copy and nothing else. */
static void frozen_parameters_have_a_copy_alone(void **state) {
    (void)state;
    const stack about = {STACK_FROZEN_MATRICES, BLOCKS, CHANNELS, VOCABULARY, false};
    program_case c = unpadded(2, 3);
    c.about = &about;
    built_program b;
    program_build(&c, &b);
    int64_t trained =
        BLOCKS * 2 * CHANNELS; /* norms and biases: 512 in each block, 256 to each of 2 ranks */
    holds(&b, -1, states_bytes(&b, SW_MEMORY_PARAMETERS) == 2 * ALL / 2);
    holds(&b, -1, states_bytes(&b, SW_MEMORY_OPTIMIZER) == 10 * trained / 2);
    holds(&b, -1, states_bytes(&b, SW_MEMORY_GRADIENTS) == 4 * trained / 2);
    program_free(&b);
}

/* Elements that a rank receives in a step of G slots, times N / (N - 1). */
static void check_traffic(int stage, bool reshard, bool is_sharded, bool recompute, int64_t slots,
                          int64_t gathered, int64_t reduced) {
    for (int mode = 0; mode < 2; mode++) {
        program_case c = unpadded(2, stage);
        c.sharding.reshard_after_forward = reshard;
        c.sharding.accumulate_sharded = is_sharded;
        c.sharding.mode = (sw_shm_mode)mode;
        c.recompute = recompute;
        built_program b;
        program_build(&c, &b);
        int64_t gather_bytes, reduce_bytes,
            size = stage == 0 ? 4 : 2; /* stage 0 gathers gradients */
        sw_program_traffic(&b.program, (int)slots, &gather_bytes, &reduce_bytes);
        holds(&b, -1, gather_bytes == gathered * size / 2);
        holds(&b, -1, reduce_bytes == reduced * 4 / 2);
        program_free(&b);
    }
}

static void a_step_moves_what_zero_says_but_for_the_root_and_the_last_blocks(void **state) {
    (void)state;
    for (int64_t slots = 1; slots < 5; slots += 3)
        for (int recompute = 0; recompute < 2; recompute++) {
            for (int stage = 0; stage < 3;
                 stage++) { /* one gather a step; a reduction a slot, or one a step: 2 times all */
                check_traffic(stage, true, true, recompute, slots, ALL, slots * ALL);
                check_traffic(stage, true, false, recompute, slots, ALL, ALL);
            }
            /* 3 times all for each slot, less one gather of the root and, at prefetch 1, one of
             * each of the last two blocks */
            check_traffic(3, true, true, recompute, slots, slots * (2 * ALL - ROOT - 2 * BLOCK),
                          slots * ALL);
            check_traffic(3, true, false, recompute, slots, slots * (2 * ALL - ROOT - 2 * BLOCK),
                          ALL);
            check_traffic(3, false, true, recompute, slots, slots * ALL, slots * ALL);
            check_traffic(3, false, false, recompute, slots, slots * ALL, ALL);
        }
}

/* With padding: what moves is N - 1 shards of each group, and shards are larger than the parameters
 * need by less than a cut a rank and a block a parameter. */
static void check_padding(const built_program *b) {
    int64_t gather_bytes, reduce_bytes, expected = 0,
                                        size = sw_dtype_bytes(b->of->sharding.parameter_dtype);
    sw_program_traffic(&b->program, 1, &gather_bytes, &reduce_bytes);
    for (int g = 0; g < b->layout.n_groups; g++) {
        const sw_group *group = &b->layout.groups[g];
        int64_t padding = group->shard * b->layout.n_shards - group->n_elements;
        holds(b, -1,
              padding >= 0 && padding < group->n_parameters * SW_BLOCK +
                                            b->layout.n_shards * sw_sharding_cut(&b->of->sharding));
        if (group->is_trainable && !b->of->is_forward)
            expected += (b->layout.n_shards - 1) * group->shard * 4;
    }
    int64_t by_kind[2] = {0};                             /* gathers of parameters, of gradients */
    for (int i = 0; i < b->program.instructions.n; i++) { /* values that are shared count too */
        const sw_instruction *instruction = &b->program.instructions.item[i];
        if (instruction->kind == SW_DO_SHARE)
            *(instruction->share == SW_SHARE_GATHER ? &gather_bytes : &reduce_bytes) -=
                instruction->moved_bytes;
    }
    holds(b, -1, reduce_bytes == expected);
    for (int i = 0; i < b->program.instructions.n; i++) {
        const sw_instruction *instruction = &b->program.instructions.item[i];
        if (instruction->kind == SW_DO_GATHER)
            by_kind[instruction->is_gradient] += instruction->moved_bytes;
        if (instruction->kind == SW_DO_GATHER)
            holds(b, i,
                  instruction->moved_bytes == (b->layout.n_shards - 1) *
                                                  b->layout.groups[instruction->group].shard *
                                                  (instruction->is_gradient ? 4 : size));
    }
    holds(b, -1, gather_bytes == by_kind[0] + by_kind[1]);
    holds(b, -1, (by_kind[1] > 0) == (b->of->sharding.stage == 0 && expected > 0));
}

static void padding_is_less_than_a_block_a_parameter_and_a_cut_a_rank(void **state) {
    (void)state;
    for_each_program(check_padding);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_divide_what_their_names_say),
        cmocka_unit_test(precision_and_optimizer_choose_the_bytes_of_an_element),
        cmocka_unit_test(frozen_parameters_have_a_copy_alone),
        cmocka_unit_test(a_step_moves_what_zero_says_but_for_the_root_and_the_last_blocks),
        cmocka_unit_test(padding_is_less_than_a_block_a_parameter_and_a_cut_a_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
