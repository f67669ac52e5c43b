/* llama.c: Llama (Touvron et al. 2023): pre-norm blocks of grouped-query attention with rotary positions, and a SwiGLU.
 *
 *   x = embed_tokens[tokens]
 *   for each block:  x = x + o_proj(attention(rotary(q_proj n), rotary(k_proj n), v_proj n)),  n = input_layernorm(x)
 *                    x = x + down_proj(silu(gate_proj m) * up_proj m),                         m = post_attention_layernorm(x)
 *   loss = cross entropy of norm(x) through lm_head, or through embed_tokens when tied
 *
 * Names are those of Hugging Face files. Matrices and embeddings start normal with init_std, norms at one; there are no biases.
 */
#include "model/architectures.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct llama_block {
    const sw_model_config *config;
    sw_parameter *attention_norm, *q, *k, *v, *o, *mlp_norm, *gate, *up, *down;
} llama_block;

/* x [B*T, C] -> [B*T, C] */
static sw_value *attention(sw_graph *g, const llama_block *b, sw_value *x) {
    const sw_model_config *c = b->config;
    sw_value *q = sw_rotary(g, sw_linear(g, x, b->q, NULL, SW_OUT_IN), c->head_channels, c->rope_theta);
    sw_value *k = sw_rotary(g, sw_linear(g, x, b->k, NULL, SW_OUT_IN), c->head_channels, c->rope_theta);
    sw_value *v = sw_linear(g, x, b->v, NULL, SW_OUT_IN);
    sw_value *y = sw_linear(g, sw_attention(g, q, k, v, c->heads, c->kv_heads), b->o, NULL, SW_OUT_IN);
    return sw_dropout(g, y, c->dropout);
}

static sw_value *mlp(sw_graph *g, const llama_block *b, sw_value *x) {
    sw_value *gate = sw_linear(g, x, b->gate, NULL, SW_OUT_IN);
    sw_value *up = sw_linear(g, x, b->up, NULL, SW_OUT_IN);
    return sw_dropout(g, sw_linear(g, sw_swiglu(g, gate, up), b->down, NULL, SW_OUT_IN), b->config->dropout);
}

static sw_value *block(sw_graph *g, void *self, sw_value *x) {
    const llama_block *b = self;
    sw_value *h = sw_add(g, x, attention(g, b, sw_rmsnorm(g, x, b->attention_norm, b->config->norm_epsilon)));
    return sw_add(g, h, mlp(g, b, sw_rmsnorm(g, h, b->mlp_norm, b->config->norm_epsilon)));
}

static sw_parameter *matrix(sw_graph *g, sw_unit *unit, const llama_block *b, int64_t layer, const char *name, int64_t out,
                            int64_t in) {
    sw_declaration declaration = {SW_INIT_NORMAL, b->config->init_std, 2, {out, in}};
    return sw_declare(g, unit, declaration, "model.layers.%" PRId64 ".%s.weight", layer, name);
}

static sw_parameter *norm(sw_graph *g, sw_unit *unit, const llama_block *b, int64_t layer, const char *name) {
    sw_declaration declaration = {SW_INIT_ONES, 0, 1, {b->config->hidden}};
    return sw_declare(g, unit, declaration, "model.layers.%" PRId64 ".%s.weight", layer, name);
}

static llama_block declare_block(sw_graph *g, sw_unit *unit, const sw_model_config *c, int64_t layer) {
    llama_block b = {.config = c};
    int64_t q_channels = c->heads * c->head_channels, kv_channels = c->kv_heads * c->head_channels;
    b.attention_norm = norm(g, unit, &b, layer, "input_layernorm");
    b.q = matrix(g, unit, &b, layer, "self_attn.q_proj", q_channels, c->hidden);
    b.k = matrix(g, unit, &b, layer, "self_attn.k_proj", kv_channels, c->hidden);
    b.v = matrix(g, unit, &b, layer, "self_attn.v_proj", kv_channels, c->hidden);
    b.o = matrix(g, unit, &b, layer, "self_attn.o_proj", c->hidden, q_channels);
    b.mlp_norm = norm(g, unit, &b, layer, "post_attention_layernorm");
    b.gate = matrix(g, unit, &b, layer, "mlp.gate_proj", c->ffn, c->hidden);
    b.up = matrix(g, unit, &b, layer, "mlp.up_proj", c->ffn, c->hidden);
    b.down = matrix(g, unit, &b, layer, "mlp.down_proj", c->hidden, c->ffn);
    return b;
}

void sw_llama_record(const sw_model_config *config, sw_model_end end, sw_graph *graph) {
    sw_unit *root = sw_unit_declare(graph, NULL, "root");
    sw_declaration table = {SW_INIT_NORMAL, config->init_std, 2, {config->vocabulary, config->hidden}};
    sw_parameter *embedding = sw_declare(graph, root, table, "model.embed_tokens.weight");
    sw_value *x = sw_dropout(graph, sw_embedding(graph, sw_tokens(graph), embedding), config->dropout);
    for (int64_t layer = 0; layer < config->layers && x; layer++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%" PRId64, layer);
        sw_unit *unit = sw_unit_declare(graph, root, name);
        llama_block b = declare_block(graph, unit, config, layer);
        x = sw_call(graph, unit, block, &b, x);
    }
    sw_parameter *final_norm =
        sw_declare(graph, root, (sw_declaration){SW_INIT_ONES, 0, 1, {config->hidden}}, "model.norm.weight");
    sw_parameter *head = config->tied ? embedding : sw_declare(graph, root, table, "lm_head.weight");
    sw_record_end(end, graph, sw_rmsnorm(graph, x, final_norm, config->norm_epsilon), head);
}
