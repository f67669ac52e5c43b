/* hf_names.c: what tensors are called in files, beside the names that parameters bear. */
#include <stdio.h>
#include <string.h>

#include "model/model.h"

static const char gpt2_prefix[] = "transformer.";

static bool ends_in(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

const char *sw_model_alternative_name(const sw_model_config *config, const char *name, int i,
                                      char *buffer, size_t bytes) {
    if (config->architecture != SW_GPT2 || i > 0 || strcmp(name, "lm_head.weight") == 0)
        return NULL;
    bool has_prefix = strncmp(name, gpt2_prefix, strlen(gpt2_prefix)) == 0;
    snprintf(buffer, bytes, "%s%s", has_prefix ? "" : gpt2_prefix,
             has_prefix ? name + strlen(gpt2_prefix) : name);
    return buffer;
}

bool sw_model_ignores_tensor(const sw_model_config *config, const char *name,
                             const char **must_equal) {
    *must_equal = NULL;
    if (config->tied && strcmp(name, "lm_head.weight") == 0) {
        *must_equal = config->architecture == SW_GPT2 ? "transformer.wte.weight"
                                                      : "model.embed_tokens.weight";
        return true;
    }
    /* Buffers that older versions of transformers saved: rotary frequencies; the causal mask and
     * its value. */
    if (config->architecture != SW_GPT2)
        return ends_in(name, ".rotary_emb.inv_freq");
    return ends_in(name, ".attn.bias") || ends_in(name, ".attn.masked_bias");
}
