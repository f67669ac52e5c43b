/* test_packing.c: of the memory that activations, logits and scratch are given, at least 97 % is
 * alive at one instruction: in models as they are trained, whatever is recomputed, at every stage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/program_case.h"
#include "support/small_models.h"

typedef struct packed_model {
    const char *name;
    sw_model_config config;
    int64_t n_rows, n_tokens;
} packed_model;

#define LLAMA(...)                                                                             \
    {                                                                                          \
        .architecture = SW_LLAMA, .rope_theta = 10000, .norm_epsilon = 1e-5, .init_std = 0.02, \
        .bos_token = -1, .eos_token = -1, __VA_ARGS__                                          \
    }
#define GPT2(...)                                                                         \
    {                                                                                     \
        .architecture = SW_GPT2, .norm_epsilon = 1e-5, .init_std = 0.02, .bos_token = -1, \
        .eos_token = -1, __VA_ARGS__                                                      \
    }

static const packed_model MODELS[] = {
    {"SmolLM2-135M",
     LLAMA(.layers = 30, .hidden = 576, .heads = 9, .kv_heads = 3, .head_channels = 64, .ffn = 1536,
           .vocabulary = 49152, .max_positions = 2048, .tied = true),
     2, 512},
    {"GPT-2 124M",
     GPT2(.layers = 12, .hidden = 768, .heads = 12, .kv_heads = 12, .head_channels = 64,
          .ffn = 3072, .vocabulary = 50257, .max_positions = 1024, .tied = true),
     2, 512},
    {"GPT-2 with dropout",
     GPT2(.layers = 6, .hidden = 256, .heads = 4, .kv_heads = 4, .head_channels = 64, .ffn = 1024,
          .vocabulary = 5000, .max_positions = 256, .dropout = {0.1, 0.1, 0.1}),
     4, 256},
    {"a small Llama",
     LLAMA(.layers = 6, .hidden = 256, .heads = 8, .kv_heads = 4, .head_channels = 32, .ffn = 688,
           .vocabulary = 4096, .max_positions = 256, .tied = true),
     4, 256},
    {"a Llama over bytes",
     LLAMA(.layers = 4, .hidden = 128, .heads = 4, .kv_heads = 4, .head_channels = 32, .ffn = 352,
           .vocabulary = 256, .max_positions = 128),
     8, 128},
};

static void activations_logits_and_scratch_are_packed(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++)
        for (int recompute = 0; recompute < 3; recompute++)
            for (int i = 0; i < 4 * 2 * 2; i++) {
                program_case c = {.name = MODELS[m].name,
                                  .record = small_model_record,
                                  .about = &MODELS[m].config,
                                  .n_rows = MODELS[m].n_rows,
                                  .n_tokens = MODELS[m].n_tokens,
                                  .recompute = recompute,
                                  .sharding = usual_sharding(2)};
                c.sharding.stage = i % 4;
                c.sharding.mode = i / 4 % 2 ? SW_SHM_COPY : SW_SHM_VIEW;
                c.sharding.parameter_dtype = i / 8 ? SW_BF16 : SW_F32;
                built_program b;
                program_build(&c, &b);
                double packing = (double)b.program.packing_live / (double)b.program.packing_arena;
                holds(&b, -1, packing >= 0.97);
                program_free(&b);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(activations_logits_and_scratch_are_packed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
