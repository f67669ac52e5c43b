/* llama.c: Llama (Touvron et al. 2023) and its relatives: pre-norm blocks of grouped-query
 * attention with rotary positions, and a SwiGLU.
 *
 *   x = embed_tokens[tokens]
 *   for each block:  n = input_layernorm(x)
 *                    x = x + o_proj(attention(rotary(q_proj n), rotary(k_proj n), v_proj n))
 *                    m = post_attention_layernorm(x)
 *                    x = x + down_proj(silu(gate_proj m) * up_proj m)
 *   loss = cross entropy of norm(x) through lm_head, or through embed_tokens when tied
 *
 * The relatives differ by what their configuration says, not by name:
 *
 *   mistral (Jiang et al. 2023)      a query sees a span of keys
 *   qwen2 (Yang et al. 2024)         biases on q, k and v; a span in the upper layers, where asked
 *                                    for
 *   qwen3 (Yang et al. 2025)         q = q_norm(q_proj n) and k = k_norm(k_proj n), head by head; a
 *                                    span as qwen2
 *
 * Names are those of Hugging Face files. Matrices and embeddings start normal with init_std, norms
 * at one, biases at zero.
 */
#include "model/architectures.h"

#include <inttypes.h>
#include <stdio.h>

#include "graph/graph.h"

typedef struct projection {
    sw_parameter *weight, *bias; /* bias NULL: none */
} projection;

typedef struct llama_block {
    const sw_model_config *config;
    int64_t layer;
    sw_parameter *attention_norm, *q_norm, *k_norm, *mlp_norm; /* q_norm, k_norm NULL: none */
    projection q, k, v, o, gate, up, down;
} llama_block;

static sw_value *project(sw_graph *g, projection p, sw_value *x) {
    return sw_linear(g, x, p.weight, p.bias, SW_OUT_IN);
}

/* Products of one x are recorded as one where nothing is done to each by itself: no norm, no
 * adapter. */
static sw_value *project_together(sw_graph *g, int n, const projection *p, sw_value *x) {
    sw_parameter *weights[] = {p[0].weight, p[1].weight, n > 2 ? p[2].weight : NULL};
    sw_parameter *biases[] = {p[0].bias, p[1].bias, n > 2 ? p[2].bias : NULL};
    return sw_linear_several(g, x, n, weights, biases, SW_OUT_IN);
}

/* Queries or keys by themselves: projected, normed where the model norms them, turned. */
static sw_value *turned(sw_graph *g, const llama_block *b, projection p, sw_parameter *head_norm,
                        sw_value *x) {
    const sw_rotary_scaling rotary = sw_model_rotary(b->config);
    sw_value *y = project(g, p, x);
    if (b->config->qk_norm)
        y = sw_rmsnorm_heads(g, y, head_norm, b->config->norm_epsilon);
    return sw_rotary_scaled(g, y, b->config->head_channels, &rotary);
}

/* Queries, keys and values of x, and what queries see: [B*T, C] -> [B*T, H*D] */
static sw_value *attend(sw_graph *g, const llama_block *b, sw_value *x) {
    const sw_model_config *c = b->config;
    const sw_attention_options options = {.span = b->layer < c->full_layers ? 0 : c->span,
                                          .documents =
                                              c->keeps_documents_apart ? sw_documents(g) : NULL,
                                          .mask = c->mask,
                                          .dropout = c->dropout.attention};
    if (c->qk_norm || g->linear_hook) {
        sw_value *q = turned(g, b, b->q, b->q_norm, x), *k = turned(g, b, b->k, b->k_norm, x),
                 *v = project(g, b->v, x);
        return sw_attention_with(g, q, k, v, c->heads, c->kv_heads, &options);
    }
    const sw_rotary_scaling rotary = sw_model_rotary(c);
    sw_value *qkv = project_together(g, 3, (projection[]){b->q, b->k, b->v}, x);
    qkv = sw_rotary_packed(g, qkv, c->heads + c->kv_heads, c->head_channels, &rotary);
    return sw_attention_packed_with(g, qkv, c->heads, c->kv_heads, &options);
}

/* x [B*T, C] -> [B*T, C] */
static sw_value *attention(sw_graph *g, const llama_block *b, sw_value *x) {
    return project(g, b->o, attend(g, b, x));
}

static sw_value *gated(sw_graph *g, const llama_block *b, sw_value *x) {
    if (!g->linear_hook)
        return sw_swiglu_packed(g, project_together(g, 2, (projection[]){b->gate, b->up}, x));
    sw_value *gate = project(g, b->gate, x), *up = project(g, b->up, x);
    return sw_swiglu(g, gate, up);
}

static sw_value *mlp(sw_graph *g, const llama_block *b, sw_value *x) {
    return project(g, b->down, gated(g, b, x));
}

static sw_value *block(sw_graph *g, void *self, sw_value *x) {
    const llama_block *b = self;
    sw_value *h =
        sw_add(g, x, attention(g, b, sw_rmsnorm(g, x, b->attention_norm, b->config->norm_epsilon)));
    return sw_add(g, h, mlp(g, b, sw_rmsnorm(g, h, b->mlp_norm, b->config->norm_epsilon)));
}

typedef struct projection_declaration {
    projection *to;
    const char *name;
    int64_t out, in;
} projection_declaration;

/* Weights one after another, so that those of one x can be multiplied as one; biases behind
 * them. */
static void declare_projections(sw_graph *g, sw_unit *unit, int64_t layer, double std, int n,
                                const projection_declaration *p, bool has_bias) {
    for (int i = 0; i < n; i++)
        p[i].to->weight =
            sw_declare(g, unit, (sw_declaration){SW_INIT_NORMAL, std, 2, {p[i].out, p[i].in}},
                       "model.layers.%" PRId64 ".%s.weight", layer, p[i].name);
    for (int i = 0; i < n && has_bias; i++)
        p[i].to->bias = sw_declare(g, unit, (sw_declaration){SW_INIT_ZEROS, 0, 1, {p[i].out}},
                                   "model.layers.%" PRId64 ".%s.bias", layer, p[i].name);
}

static sw_parameter *declare_norm(sw_graph *g, sw_unit *unit, const llama_block *b,
                                  const char *name, int64_t channels) {
    return sw_declare(g, unit, (sw_declaration){SW_INIT_ONES, 0, 1, {channels}},
                      "model.layers.%" PRId64 ".%s.weight", b->layer, name);
}

static llama_block declare_block(sw_graph *g, sw_unit *unit, const sw_model_config *c,
                                 int64_t layer) {
    llama_block b = {.config = c, .layer = layer};
    const int64_t q = c->heads * c->head_channels, kv = c->kv_heads * c->head_channels;
    const projection_declaration qkv[] = {{&b.q, "self_attn.q_proj", q, c->hidden},
                                          {&b.k, "self_attn.k_proj", kv, c->hidden},
                                          {&b.v, "self_attn.v_proj", kv, c->hidden}};
    const projection_declaration o = {&b.o, "self_attn.o_proj", c->hidden, q};
    const projection_declaration gate_up[] = {{&b.gate, "mlp.gate_proj", c->ffn, c->hidden},
                                              {&b.up, "mlp.up_proj", c->ffn, c->hidden}};
    const projection_declaration down = {&b.down, "mlp.down_proj", c->hidden, c->ffn};
    b.attention_norm = declare_norm(g, unit, &b, "input_layernorm", c->hidden);
    declare_projections(g, unit, layer, c->init_std, 3, qkv, c->qkv_bias);
    if (c->qk_norm) {
        b.q_norm = declare_norm(g, unit, &b, "self_attn.q_norm", c->head_channels);
        b.k_norm = declare_norm(g, unit, &b, "self_attn.k_norm", c->head_channels);
    }
    declare_projections(g, unit, layer, c->init_std, 1, &o, c->o_bias);
    b.mlp_norm = declare_norm(g, unit, &b, "post_attention_layernorm", c->hidden);
    declare_projections(g, unit, layer, c->init_std, 2, gate_up, c->mlp_bias);
    declare_projections(g, unit, layer, c->init_std, 1, &down, c->mlp_bias);
    return b;
}

void sw_llama_record(const sw_model_config *config, sw_model_end end, sw_graph *graph) {
    sw_unit *root = sw_unit_declare(graph, NULL, "root");
    sw_declaration table = {
        SW_INIT_NORMAL, config->init_std, 2, {config->vocabulary, config->hidden}};
    sw_parameter *embedding = sw_declare(graph, root, table, "model.embed_tokens.weight");
    const int64_t padding = config->has_pad_token ? config->pad_token : -1;
    sw_value *x = sw_embedding_padded(graph, sw_tokens(graph), embedding, padding);
    for (int64_t layer = 0; layer < config->layers && x; layer++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%" PRId64, layer);
        sw_unit *unit = sw_unit_declare(graph, root, name);
        llama_block b = declare_block(graph, unit, config, layer);
        x = sw_call(graph, unit, block, &b, x);
    }
    sw_parameter *final_norm = sw_declare(
        graph, root, (sw_declaration){SW_INIT_ONES, 0, 1, {config->hidden}}, "model.norm.weight");
    sw_parameter *head =
        config->tied ? embedding : sw_declare(graph, root, table, "lm_head.weight");
    sw_record_end(end, graph, sw_rmsnorm(graph, x, final_norm, config->norm_epsilon), head);
}
