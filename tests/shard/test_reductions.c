/* test_reductions.c: over every graph and setting: each trainable group's gradient is acquired,
 * filled, posted and summed in this order, in every slot or once a step, and two buffers are enough
 * for blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/schedule.h"
#include "support/program_case.h"
#include "support/small_models.h"

typedef struct reduction {
    int acquire, pad, post, sum; /* instructions, -1 */
    int first_write, last_write; /* kernels that write gradients of the group */
    int buffer;
} reduction;

static void set_once(const built_program *b, int i, int *where) {
    holds(b, i, *where < 0);
    *where = i;
}

static void note_kernel(const built_program *b, int i, const sw_op *op, reduction *r) {
    for (int k = 0; k < op->n_operands; k++) {
        const sw_reference *reference = &b->program.instructions.item[i].operand[k];
        if (op->operand[k].kind != SW_OPERAND_GRADIENT) {
            for (int g = 0; g < b->layout.n_groups && reference->buffer >= 0; g++)
                holds(b, i, r[g].buffer != reference->buffer);
            holds(b, i,
                  reference->buffer < 0 ||
                      b->program.buffers.item[reference->buffer].memory_class !=
                          SW_MEMORY_GRADIENTS);
            continue;
        }
        const sw_slot_of_parameter *slot = &b->layout.parameters[op->operand[k].parameter->id];
        reduction *of = &r[slot->group];
        holds(b, i,
              of->acquire >= 0 && of->pad >= 0 && of->post < 0 && reference->buffer == of->buffer);
        holds(b, i,
              reference->offset == slot->offset * 4 &&
                  reference->bytes == slot->parameter->n_elements * 4);
        of->first_write = of->first_write < 0 ? i : of->first_write;
        of->last_write = i;
        /* what a slot does not add to its own, it adds to the slot before when slots are summed
         * here */
        bool adds_later = b->program.instructions.item[i].accumulate_later_slots >> k & 1;
        bool adds = b->program.instructions.item[i].accumulate >> k & 1;
        holds(b, i, adds == (op->operand[k].access == SW_UPDATE));
        holds(b, i, adds_later == (!adds && !b->of->sharding.accumulate_sharded));
    }
}

/* Walk over the program once: [n_groups]. Ownership: free(). */
static reduction *reductions_of(const built_program *b) {
    reduction *r = malloc(((size_t)b->layout.n_groups + 1) * sizeof *r);
    for (int g = 0; g < b->layout.n_groups; g++)
        r[g] = (reduction){-1, -1, -1, -1, -1, -1, -1};
    int n_ops, at = 0;
    const sw_op **ops = program_ops(b, &n_ops);
    for (int i = 0; i < b->program.instructions.n; i++) {
        const sw_instruction *instruction = &b->program.instructions.item[i];
        reduction *of = instruction->group >= 0 ? &r[instruction->group] : NULL;
        int buffer = instruction->operand[0].buffer;
        if (instruction->share) /* of a value */
            continue;
        switch (instruction->kind) {
        case SW_DO_KERNEL:
            note_kernel(b, i, ops[at++], r);
            break;
        case SW_DO_REDUCE_ACQUIRE:
            set_once(b, i, &of->acquire);
            of->buffer = buffer;
            break;
        case SW_DO_PAD:
            set_once(b, i, &of->pad);
            break;
        case SW_DO_REDUCE_POST:
            set_once(b, i, &of->post);
            break;
        case SW_DO_REDUCE_SUM:
            set_once(b, i, &of->sum);
            break;
        default:
            continue;
        }
        holds(b, i, !of || buffer == of->buffer);
    }
    free(ops);
    return r;
}

static void check_order_of_group(const built_program *b, const reduction *r) {
    bool is_sharded = b->of->sharding.accumulate_sharded;
    const sw_instruction *all = b->program.instructions.item;
    holds(b, r->sum,
          r->acquire >= 0 && r->acquire < r->pad && r->pad < r->first_write &&
              r->last_write < r->post && r->post < r->sum);
    holds(b, r->acquire,
          all[r->acquire].segment == SW_SEGMENT_FORWARD ||
              all[r->acquire].segment == SW_SEGMENT_BACKWARD);
    holds(b, r->post,
          all[r->post].segment == (is_sharded ? SW_SEGMENT_BACKWARD : SW_SEGMENT_REDUCE));
    holds(b, r->sum, all[r->sum].segment == all[r->post].segment);
    holds(b, r->sum,
          all[r->sum].lane ==
              (b->of->sharding.mode == SW_SHM_COPY ? SW_LANE_COMMUNICATION : SW_LANE_COMPUTE));
    holds(b, r->post,
          all[r->post].channel == all[r->acquire].channel &&
              all[r->sum].channel == all[r->acquire].channel);
}

/* Its own slice of the sum: where the optimizer reads it. */
static void check_sum(const built_program *b, int group, const reduction *r) {
    const sw_instruction *sum = &b->program.instructions.item[r->sum];
    int64_t slice = 4 * b->layout.groups[group].shard;
    holds(b, r->sum,
          sum->operand[0].bytes == slice * b->layout.n_shards && sum->operand[1].bytes == slice);
    holds(b, r->sum, sum->moved_bytes == slice * (b->layout.n_shards - 1));
    if (b->of->sharding.accumulate_sharded)
        holds(b, r->sum,
              sum->operand[1].buffer == b->states.gradient[group] &&
                  sum->operand[1].own_stride[SW_AXIS_SHARD] == 0);
    else
        holds(b, r->sum,
              sum->operand[1].buffer == sum->operand[0].buffer &&
                  sum->operand[1].own_stride[SW_AXIS_SHARD] == slice);
    if (b->of->sharding.accumulate_sharded)
        holds(b, r->sum, sum->accumulate_later_slots == 2);
}

static void check_reductions(const built_program *b) {
    reduction *r = reductions_of(b);
    int last_post = -1;
    for (int g = 0; g < b->layout.n_groups; g++)
        last_post = r[g].post > last_post ? r[g].post : last_post;
    for (int g = 0; g < b->layout.n_groups; g++) {
        if (!b->layout.groups[g].is_trainable || b->of->is_forward) {
            holds(b, r[g].acquire,
                  r[g].acquire < 0 && r[g].post < 0 && r[g].sum < 0 && r[g].first_write < 0);
            continue;
        }
        check_order_of_group(b, &r[g]);
        check_sum(b, g, &r[g]);
        bool is_after_next_post = r[g].post == last_post; /* the last one has no next */
        for (int h = 0; h < b->layout.n_groups; h++) {
            is_after_next_post =
                is_after_next_post || (r[h].post > r[g].post && r[h].post < r[g].sum);
            /* a buffer has one group at a time, from acquire to sum */
            holds(b, r[h].acquire,
                  h == g || r[h].buffer < 0 || r[h].buffer != r[g].buffer ||
                      r[h].sum < r[g].acquire || r[g].sum < r[h].acquire);
            holds(b, r[h].acquire,
                  h == g || r[h].buffer < 0 ||
                      (b->program.instructions.item[r[h].acquire].channel ==
                       b->program.instructions.item[r[g].acquire].channel) ==
                          (r[h].buffer == r[g].buffer));
        }
        holds(b, r[g].sum, is_after_next_post);
    }
    free(r);
}

static void gradients_are_acquired_filled_posted_and_summed_after_the_next_post(void **state) {
    (void)state;
    for_each_program(check_reductions);
}

/* Two buffers of the largest block and one of the root, however many blocks: one fills, one is in
 * flight. */
static void two_buffers_are_enough_for_blocks(void **state) {
    (void)state;
    for (int blocks = 1; blocks < 8; blocks++)
        for (int recompute = 0; recompute < 2; recompute++) {
            const stack about = {STACK_PLAIN, blocks, 32, 13, false};
            program_case c = program_graph(N_SMALL_MODELS);
            c.about = &about;
            c.sharding.mesh = sw_mesh_flat(4);
            c.recompute = recompute;
            built_program b;
            program_build(&c, &b);
            /* in elements: norm 256, weight 1024, bias 256 in 4 x 512; embedding and head 512
             * each */
            holds(&b, -1,
                  b.program.class_end[SW_MEMORY_REDUCE] ==
                      4 * ((blocks > 1 ? 2 : 1) * 2048 + 1024));
            program_free(&b);
        }
}

/* Parameters that no loss reaches have a gradient, of zeros, that is reduced with the others of
 * their unit. */
static void unused_parameters_do_not_hold_buffers_longer(void **state) {
    (void)state;
    program_case c = program_graph(N_SMALL_MODELS + STACK_UNUSED_PARAMETER);
    built_program b;
    program_build(&c, &b);
    int n_channels = 0, n_zeros = 0; /* a ring's place has one */
    for (int i = 0; i < b.program.instructions.n; i++) {
        int channel = b.program.instructions.item[i].channel - 3 * b.layout.n_groups + 1;
        n_channels = channel > n_channels ? channel : n_channels;
        n_zeros += b.program.instructions.item[i].kernel == SW_KERNEL_ZERO &&
                   b.program.instructions.item[i].kind == SW_DO_KERNEL;
    }
    holds(&b, -1, n_channels == 3 && n_zeros == 4);
    program_free(&b);
}

/* Forward and backward per slot, then reduce (unsharded) and update once; nothing in it knows a
 * rank, so ranks without a micro-batch go through every collective. */
static void the_schedule_is_the_same_for_ranks_with_and_without_micro_batches(void **state) {
    (void)state;
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        program_case c = program_graph(0);
        c.sharding.accumulate_sharded = is_sharded;
        built_program b;
        program_build(&c, &b);
        sw_turn turn;
        int i = 0;
        for (; i < 6; i++) {
            assert_true(sw_schedule_turn(&b.program, 3, i, &turn));
            assert_int_equal(turn.segment, i % 2 ? SW_SEGMENT_BACKWARD : SW_SEGMENT_FORWARD);
            assert_int_equal(turn.slot, i / 2);
        }
        if (!is_sharded) {
            assert_true(sw_schedule_turn(&b.program, 3, i++, &turn));
            assert_int_equal(turn.segment, SW_SEGMENT_REDUCE);
            assert_int_equal(turn.slot, 2);
        }
        assert_true(sw_schedule_turn(&b.program, 3, i++, &turn));
        assert_int_equal(turn.segment, SW_SEGMENT_UPDATE);
        assert_int_equal(turn.slot,
                         2); /* what belongs to the whole step is said to belong to its last slot */
        assert_false(sw_schedule_turn(&b.program, 3, i, &turn));
        program_free(&b);
    }
    program_case c = program_graph(0);
    c.is_forward = true;
    built_program b;
    program_build(&c, &b);
    sw_turn turn;
    for (int i = 0; i < 3; i++) {
        assert_true(sw_schedule_turn(&b.program, 3, i, &turn));
        assert_int_equal(turn.segment, SW_SEGMENT_FORWARD);
        assert_int_equal(turn.slot, i);
    }
    assert_false(sw_schedule_turn(&b.program, 3, 3, &turn));
    program_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_acquired_filled_posted_and_summed_after_the_next_post),
        cmocka_unit_test(two_buffers_are_enough_for_blocks),
        cmocka_unit_test(unused_parameters_do_not_hold_buffers_longer),
        cmocka_unit_test(the_schedule_is_the_same_for_ranks_with_and_without_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
