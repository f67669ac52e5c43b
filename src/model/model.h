/* model.h: architectures. From dimensions, or from a Hugging Face config.json, to a traced graph whose parameters bear the names
 * of the model's file.
 */
#ifndef SW_MODEL_MODEL_H
#define SW_MODEL_MODEL_H

#include <shardwise/graph.h>

#include "base/dtype.h"

typedef enum sw_architecture { SW_LLAMA, SW_GPT2, SW_N_ARCHITECTURES } sw_architecture;

typedef struct sw_model_config {
    sw_architecture architecture;
    int64_t layers, hidden, heads, kv_heads, head_channels, ffn, vocabulary, max_positions;
    bool tied;
    double rope_theta, norm_epsilon, dropout, init_std;
    int64_t bos_token, eos_token; /* -1: none; carried into the written config.json */
} sw_model_config;

/* Check that dimensions fit together (heads divide, an even head size for rotary, positive and within 2^31 ...); the message
 * names the setting by the words of `spelling`: run.yaml's or config.json's. */
typedef enum sw_config_spelling { SW_SPELL_RUN_YAML, SW_SPELL_HUGGING_FACE } sw_config_spelling;
sw_status sw_model_config_check(const sw_model_config *config, sw_config_spelling spelling, sw_error *err);

/* Read DIR/config.json. Whatever changes the arithmetic and is not built is refused by name (SW_BAD_FILE); keys without effect on
 * training are passed over. Both spellings of rotary settings (rope_theta, rope_parameters). Hugging Face's defaults hold. */
sw_status sw_model_config_read(const char *directory, sw_model_config *config, sw_error *err);
/* The same from the text of a config.json, which messages call `name`. */
sw_status sw_model_config_parse(const char *name, const char *text, int64_t bytes, sw_model_config *config, sw_error *err);

/* The config.json that `transformers` reads. `dtype`: of the saved weights. Ownership: free() the text. */
sw_status sw_model_config_write(const sw_model_config *config, sw_dtype dtype, char **json_text, sw_error *err);

/* Record the forward pass into an empty graph. SW_ENDS_IN_LOSS: cross-entropy over targets; SW_ENDS_IN_LOGITS:
 * sw_logits_at_position. */
typedef enum sw_model_end { SW_ENDS_IN_LOSS, SW_ENDS_IN_LOGITS } sw_model_end;
sw_status sw_model_trace(const sw_model_config *config, sw_model_end end, sw_graph *graph, sw_error *err);

/* Names that files of this architecture may carry for parameter `name`, beside the name itself: GPT-2 files come with and without
 * "transformer.". The i-th alternative, NULL when there are no more; written into `buffer`. */
const char *sw_model_alternative_name(const sw_model_config *config, const char *name, int i, char *buffer, size_t bytes);

/* Is `name` a tensor that files of this architecture may hold and training does not need (rotary_emb.inv_freq, attn.bias masks,
 * lm_head.weight of a tied model, which must equal the embedding: then *must_equal names that parameter)? */
bool sw_model_ignores_tensor(const sw_model_config *config, const char *name, const char **must_equal);

#endif
