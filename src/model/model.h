/* model.h: architectures. From dimensions, or from a Hugging Face config.json, to a traced graph
 * whose parameters bear the names of the model's file.
 */
#ifndef SW_MODEL_MODEL_H
#define SW_MODEL_MODEL_H

#include <shardwise/graph.h>

#include "base/dtype.h"

typedef enum sw_architecture {
    SW_LLAMA,
    SW_GPT2,
    SW_MISTRAL,
    SW_QWEN2,
    SW_QWEN3,
    SW_N_ARCHITECTURES
} sw_architecture;

/* How rotary frequencies are stretched for rows longer than those of the first training;
 * `rope_type` of config.json. `dynamic` leaves them alone up to max_positions, beyond which no row
 * goes. */
typedef enum sw_rope_type {
    SW_ROPE_DEFAULT,
    SW_ROPE_LINEAR,
    SW_ROPE_DYNAMIC,
    SW_ROPE_LLAMA3,
    SW_ROPE_YARN,
    SW_N_ROPE_TYPES
} sw_rope_type;

typedef struct sw_rope_scaling {
    sw_rope_type type;
    double factor;                  /* all but default */
    int64_t original_positions;     /* llama3, yarn */
    double low_factor, high_factor; /* llama3: turns within the original positions between which
                                       frequencies blend */
    double beta_fast, beta_slow;    /* yarn: the same */
    double attention_factor, mscale, mscale_all; /* yarn; 0: not given */
    bool is_exact; /* yarn: the ramp's ends are not rounded to whole pairs ("truncate": false) */
} sw_rope_scaling;

/* Shares that are zeroed while training: of the embedding and of what is added to the residual
 * (gpt2 alone), of attention's weights. */
typedef struct sw_model_dropout {
    double embedding, residual, attention;
} sw_model_dropout;

typedef struct sw_model_config {
    sw_architecture architecture;
    int64_t layers, hidden, heads, kv_heads, head_channels, ffn, vocabulary, max_positions;
    bool tied;
    double rope_theta, norm_epsilon, init_std;
    int64_t bos_token, eos_token; /* -1: none; carried into the written config.json */
    /* What families differ in; zero is plain Llama and plain GPT-2. */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;        /* queries and keys are normed, each head by itself */
    int64_t span;        /* of keys that a query sees, itself included; 0: all */
    int64_t full_layers; /* with a span: the first layers, which have none */
    sw_rope_scaling rope;
    sw_activation activation; /* gpt2 */
    bool unscaled_attention;  /* gpt2: scores are not divided by sqrt(head_channels) */
    bool scales_by_layer;     /* gpt2: scores of layer i, from 0, are divided by i + 1 */
    bool upcasts_attention;   /* gpt2: scores in fp32, which they always are here; carried into the
                                 written config.json */
    bool has_pad_token;
    int64_t pad_token;        /* all but gpt2: looking up its embedding teaches it nothing */
    sw_model_dropout dropout; /* while training */
    sw_attention_mask mask;
    bool keeps_documents_apart; /* not of the model: rows hold pieces of documents, told by the
                                   input sw_documents */
} sw_model_config;

/* Every layer is traced before its tensors are looked for; no model comes near. The limit of
 * model.layers in run.yaml too. */
enum { SW_MOST_LAYERS = 2048 };

/* Check that dimensions fit together (heads divide, an even head size for rotary, positive and
 * within 2^31 ...); the message names the setting by the words of `spelling`: run.yaml's or
 * config.json's. */
typedef enum sw_config_spelling { SW_SPELL_RUN_YAML, SW_SPELL_HUGGING_FACE } sw_config_spelling;
sw_status sw_model_config_check(const sw_model_config *config, sw_config_spelling spelling,
                                sw_error *err);

/* What training asks besides: shares that can be zeroed, from 0 to below 1. */
sw_status sw_model_config_check_training(const sw_model_config *config, sw_config_spelling spelling,
                                         sw_error *err);

/* One share for all that the architecture drops: model.dropout of run.yaml. */
void sw_model_drop(sw_model_config *config, double share);

/* Read DIR/config.json. Whatever changes the arithmetic and is not built is refused by name
 * (SW_BAD_FILE); keys without effect on training are passed over. Both spellings of rotary settings
 * (rope_theta, rope_parameters). Hugging Face's defaults hold. */
sw_status sw_model_config_read(const char *directory, sw_model_config *config, sw_error *err);
/* The same from the text of a config.json, which messages call `name`. */
sw_status sw_model_config_parse(const char *name, const char *text, int64_t bytes,
                                sw_model_config *config, sw_error *err);

/* The keys of DIR/config.json that have no effect here, in the order of the file: "use_cache,
 * transformers_version"; "" when there are none; cut when n_bytes are too few. Errors: as of
 * sw_model_config_read. */
sw_status sw_model_config_unread(const char *directory, char *keys, size_t n_bytes, sw_error *err);

/* The config.json that `transformers` reads. `dtype`: of the saved weights. Ownership: free() the
 * text. */
sw_status sw_model_config_write(const sw_model_config *config, sw_dtype dtype, char **json_text,
                                sw_error *err);

/* Record the forward pass into an empty graph, without dropout where sw_model_config_check_training
 * would refuse its shares. SW_ENDS_IN_LOSS: cross-entropy over targets; SW_ENDS_IN_LOGITS:
 * sw_logits_at_position. */
typedef enum sw_model_end { SW_ENDS_IN_LOSS, SW_ENDS_IN_LOGITS } sw_model_end;
sw_status sw_model_trace(const sw_model_config *config, sw_model_end end, sw_graph *graph,
                         sw_error *err);

/* The rotary frequencies of a model that has them. */
sw_rotary_scaling sw_model_rotary(const sw_model_config *config);

/* Names that files of this architecture may carry for parameter `name`, beside the name itself:
 * GPT-2 files come with and without "transformer.". The i-th alternative, NULL when there are no
 * more; written into `buffer`. */
const char *sw_model_alternative_name(const sw_model_config *config, const char *name, int i,
                                      char *buffer, size_t bytes);

/* Is `name` a tensor that files of this architecture may hold and training does not need
 * (rotary_emb.inv_freq, attn.bias masks, lm_head.weight of a tied model, which must equal the
 * embedding: then *must_equal names that parameter)? */
bool sw_model_ignores_tensor(const sw_model_config *config, const char *name,
                             const char **must_equal);

#endif
