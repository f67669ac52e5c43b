/* small_models.c: models small enough to be run whole in a test. */
#include "support/small_models.h"

#define COMMON                                                                                \
    .hidden = 12, .vocabulary = SMALL_MODEL_VOCABULARY, .max_positions = 9, .init_std = 0.02, \
    .bos_token = -1, .eos_token = -1

const sw_model_config SMALL_MODELS[N_SMALL_MODELS] = {
    {COMMON, .architecture = SW_LLAMA, .layers = 2, .heads = 2, .kv_heads = 2, .head_channels = 6,
     .ffn = 20, .rope_theta = 100, .norm_epsilon = 1e-5},
    {COMMON, .architecture = SW_LLAMA, .layers = 3, .heads = 6, .kv_heads = 2, .head_channels = 2,
     .ffn = 9, .tied = true, .rope_theta = 10, .norm_epsilon = 1e-2},
    {COMMON, .architecture = SW_LLAMA, .layers = 2, .heads = 3, .kv_heads = 1, .head_channels = 6,
     .ffn = 16, .tied = true, .rope_theta = 100, .norm_epsilon = 1e-5,
     .dropout = {.attention = 0.2}},
    {COMMON, .architecture = SW_GPT2, .layers = 2, .heads = 3, .kv_heads = 3, .head_channels = 4,
     .ffn = 20, .tied = true, .norm_epsilon = 1e-5},
    {COMMON, .architecture = SW_GPT2, .layers = 1, .heads = 1, .kv_heads = 1, .head_channels = 12,
     .ffn = 48, .norm_epsilon = 1e-5},
    {COMMON, .architecture = SW_GPT2, .layers = 2, .heads = 2, .kv_heads = 2, .head_channels = 6,
     .ffn = 11, .tied = true, .norm_epsilon = 1e-5,
     .dropout = {.embedding = 0.2, .residual = 0.1, .attention = 0.3}},
    {COMMON, .architecture = SW_MISTRAL, .layers = 2, .heads = 2, .kv_heads = 1, .head_channels = 4,
     .ffn = 10, .rope_theta = 100, .norm_epsilon = 1e-5, .span = 2, .qkv_bias = true,
     .o_bias = true, .mlp_bias = true, .rope = {.type = SW_ROPE_LINEAR, .factor = 4}},
    {COMMON, .architecture = SW_QWEN3, .layers = 2, .heads = 4, .kv_heads = 2, .head_channels = 4,
     .ffn = 10, .rope_theta = 100, .norm_epsilon = 1e-3, .qk_norm = true, .span = 3,
     .full_layers = 1, .tied = true,
     .rope = {.type = SW_ROPE_YARN,
              .factor = 8,
              .original_positions = 4,
              .beta_fast = 32,
              .beta_slow = 1}},
    {COMMON, .architecture = SW_QWEN2, .layers = 2, .heads = 3, .kv_heads = 1, .head_channels = 4,
     .ffn = 10, .rope_theta = 100, .norm_epsilon = 1e-5, .qkv_bias = true,
     .keeps_documents_apart = true},
    {COMMON, .architecture = SW_GPT2, .layers = 2, .heads = 3, .kv_heads = 3, .head_channels = 4,
     .ffn = 20, .tied = true, .norm_epsilon = 1e-5, .activation = SW_GELU,
     .unscaled_attention = true, .scales_by_layer = true, .keeps_documents_apart = true},
    {COMMON, .architecture = SW_QWEN3, .layers = 2, .heads = 4, .kv_heads = 2, .head_channels = 4,
     .ffn = 10, .rope_theta = 100, .norm_epsilon = 1e-3, .qk_norm = true, .span = 2,
     .full_layers = 1, .tied = true, .mask = SW_MASK_FULL, .keeps_documents_apart = true,
     .dropout = {.attention = 0.1}},
};

const char *const SMALL_MODEL_NAMES[N_SMALL_MODELS] = {"llama, untied",
                                                       "llama, tied, grouped queries",
                                                       "llama, tied, dropout",
                                                       "gpt2, tied",
                                                       "gpt2, untied",
                                                       "gpt2, tied, dropout",
                                                       "mistral",
                                                       "qwen3",
                                                       "qwen2, documents",
                                                       "gpt2, documents",
                                                       "qwen3, full mask, dropout"};

void small_model_record(sw_graph *graph, const void *about) {
    sw_model_trace(about, SW_ENDS_IN_LOSS, graph, NULL); /* the graph keeps the error */
}
