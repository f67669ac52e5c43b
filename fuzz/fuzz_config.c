/* fuzz_config.c: any bytes as a config.json. What is accepted fits together, and what we write of
 * it means the same. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
    sw_model_config config, back;
    sw_error err;
    char *text;
    if (sw_model_config_parse("config.json", (const char *)data, (int64_t)n_bytes, &config, &err) !=
        SW_OK) {
        assert(err.status == SW_BAD_FILE && err.message[0]);
        return 0;
    }
    sw_status status = sw_model_config_check(&config, SW_SPELL_RUN_YAML, &err);
    assert(status == SW_OK);
    status = sw_model_config_write(&config, SW_BF16, &text, &err);
    assert(status == SW_OK);
    status = sw_model_config_parse("written", text, (int64_t)strlen(text), &back, &err);
    assert(status == SW_OK);
    assert(back.architecture == config.architecture && back.layers == config.layers &&
           back.hidden == config.hidden);
    assert(back.heads == config.heads && back.kv_heads == config.kv_heads &&
           back.head_channels == config.head_channels);
    assert(back.ffn == config.ffn && back.vocabulary == config.vocabulary &&
           back.max_positions == config.max_positions);
    assert(back.tied == config.tied && back.rope_theta == config.rope_theta &&
           back.norm_epsilon == config.norm_epsilon);
    assert(back.init_std == config.init_std && back.dropout.attention == config.dropout.attention);
    assert(back.dropout.embedding == config.dropout.embedding &&
           back.dropout.residual == config.dropout.residual);
    assert(back.mask == config.mask && back.has_pad_token == config.has_pad_token);
    assert(!back.has_pad_token || back.pad_token == config.pad_token);
    assert(back.bos_token == config.bos_token && back.eos_token == config.eos_token);
    assert(back.qkv_bias == config.qkv_bias && back.o_bias == config.o_bias &&
           back.mlp_bias == config.mlp_bias);
    assert(back.qk_norm == config.qk_norm && back.span == config.span &&
           back.full_layers == config.full_layers);
    assert(back.activation == config.activation &&
           back.unscaled_attention == config.unscaled_attention);
    assert(back.scales_by_layer == config.scales_by_layer &&
           back.upcasts_attention == config.upcasts_attention);
    const sw_rotary_scaling rotary = sw_model_rotary(&config), rotary_back = sw_model_rotary(&back);
    assert(back.rope.type == config.rope.type && rotary_back.factor == rotary.factor &&
           rotary_back.from == rotary.from);
    assert(rotary_back.to == rotary.to && rotary_back.amplitude == rotary.amplitude);
    free(text);
    return 0;
}
