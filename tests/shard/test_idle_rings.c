/* test_idle_rings.c: a place of the gradient ring that is not filled yet holds what backward is
 * done with by then: at stages 2 and 3, where there is a ring, a step takes less memory by at least
 * a chunk of logits. That nothing meets is tried in test_memory_map.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/program_case.h"
#include "support/small_models.h"

static const sw_model_config GPT2 = {.architecture = SW_GPT2,
                                     .layers = 12,
                                     .hidden = 768,
                                     .heads = 12,
                                     .kv_heads = 12,
                                     .head_channels = 64,
                                     .ffn = 3072,
                                     .vocabulary = 50257,
                                     .max_positions = 1024,
                                     .tied = true,
                                     .norm_epsilon = 1e-5,
                                     .init_std = 0.02,
                                     .bos_token = -1,
                                     .eos_token = -1};
enum { BLOCK_ELEMENTS = 12 * 768 * 768 + 13 * 768, CHUNK = 128 };

static program_case gpt2(int stage, bool accumulate_sharded, sw_shm_mode mode) {
    program_case c = {.name = "GPT-2 124M",
                      .record = small_model_record,
                      .about = &GPT2,
                      .n_rows = 2,
                      .n_tokens = 512,
                      .recompute = 2,
                      .sharding = usual_sharding(2)};
    c.sharding.stage = stage;
    c.sharding.accumulate_sharded = accumulate_sharded;
    c.sharding.mode = mode;
    return c;
}

static const sw_buffer *logits_of(const built_program *b) {
    for (int i = 0; i < b->program.instructions.n; i++)
        if (b->program.instructions.item[i].kernel == SW_KERNEL_CROSS_ENTROPY_GRAD)
            return &b->program.buffers.item[b->program.instructions.item[i].operand[3].buffer];
    return NULL;
}

/* What the section of activations takes, and the ring. */
static void room_of(const built_program *b, int64_t *activations, int64_t *ring) {
    int64_t figures[SW_N_MEMORY_CLASSES];
    sw_memory_figures(b->program.class_end, figures);
    *activations =
        figures[SW_MEMORY_ACTIVATIONS] + figures[SW_MEMORY_LOGITS] + figures[SW_MEMORY_SCRATCH];
    *ring = figures[SW_MEMORY_REDUCE];
}

static void where_there_is_a_ring_a_chunk_of_logits_takes_no_room(void **state) {
    (void)state;
    const int64_t logits = INT64_C(4) * CHUNK * GPT2.vocabulary;
    const int64_t root =
        INT64_C(4) * ((GPT2.vocabulary + GPT2.max_positions) * INT64_C(768) + 2 * 768);
    for (int mode = 0; mode < 3; mode++) {
        int64_t room[4], ring[4];
        for (int stage = 1; stage < 4; stage++) {
            program_case c = gpt2(stage, true, (sw_shm_mode)mode);
            built_program b;
            program_build(&c, &b);
            room_of(&b, &room[stage], &ring[stage]);
            holds(&b, -1, logits_of(&b)->bytes == logits);
            holds(&b, -1, (logits_of(&b)->memory_class == SW_MEMORY_REDUCE) == (stage > 1));
            holds(&b, -1,
                  logits_of(&b)->memory_class == SW_MEMORY_REDUCE ||
                      logits_of(&b)->memory_class == SW_MEMORY_LOGITS);
            program_free(&b);
        }
        assert_int_equal(ring[1], 0);
        for (int stage = 2; stage < 4;
             stage++) { /* the ring is no larger than gradients need, padding apart */
            assert_true(ring[stage] >= root + 2 * 4 * BLOCK_ELEMENTS &&
                        ring[stage] < root + 2 * 4 * BLOCK_ELEMENTS + (1 << 20));
            assert_true(room[1] - room[stage] >= logits);
        }
    }
}

/* A whole gradient that adds up over slots is never idle, and a program that computes no gradient
 * has no ring. */
static void without_a_ring_nothing_is_lent(void **state) {
    (void)state;
    for (int is_forward = 0; is_forward < 2; is_forward++) {
        program_case c = gpt2(3, is_forward, SW_SHM_VIEW);
        c.is_forward = is_forward;
        c.recompute = is_forward ? 0 : 2;
        built_program b;
        program_build(&c, &b);
        for (int i = 0; i < b.program.buffers.n; i++)
            holds(&b, -1, b.program.buffers.item[i].memory_class != SW_MEMORY_REDUCE);
        program_free(&b);
    }
}

/* Peers may still read what was posted from a place in the slot before: from the first loan on it
 * is acquired. */
static void a_place_is_acquired_before_anything_is_lent(void **state) {
    (void)state;
    program_case c = gpt2(3, true, SW_SHM_VIEW);
    built_program b;
    program_build(&c, &b);
    const sw_buffer *logits = logits_of(&b);
    int n_acquired = 0;
    for (int i = 0; i < b.program.instructions.n; i++) {
        const sw_instruction *instruction = &b.program.instructions.item[i];
        const sw_buffer *touched = instruction->n_operands
                                       ? &b.program.buffers.item[instruction->operand[0].buffer]
                                       : NULL;
        if (instruction->kind == SW_DO_REDUCE_ACQUIRE &&
            touched->address < logits->address + logits->bytes &&
            logits->address < touched->address + touched->bytes)
            n_acquired++;
        if (instruction->kernel == SW_KERNEL_CROSS_ENTROPY_GRAD)
            break;
    }
    holds(&b, -1, n_acquired >= 1);
    program_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_there_is_a_ring_a_chunk_of_logits_takes_no_room),
        cmocka_unit_test(without_a_ring_nothing_is_lent),
        cmocka_unit_test(a_place_is_acquired_before_anything_is_lent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
