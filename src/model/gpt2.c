/* gpt2.c: GPT-2 (Radford et al. 2019): pre-norm blocks with LayerNorm, biases, learned positions,
 * and a GELU.
 *
 *   x = wte[tokens] + wpe[positions]
 *   for each block:  x = x + c_proj(attention(c_attn(ln_1(x))))
 *                    x = x + mlp.c_proj(f(c_fc(ln_2(x)))),    f = GELU in its tanh form, unless the
 *                                                             model says otherwise
 *   loss = cross entropy of ln_f(x) through wte, or through lm_head when untied
 *
 * Names are those of Hugging Face files; matrices lie [in, out] there. Matrices and embeddings
 * start normal with init_std, the two projections back into the residual stream with init_std /
 * sqrt(2 layers); norms at one, biases at zero.
 */
#include "model/architectures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

typedef struct affine {
    sw_parameter *weight, *bias;
} affine;

typedef struct gpt2_block {
    const sw_model_config *config;
    int64_t layer;
    affine ln_1, c_attn, attn_c_proj, ln_2, c_fc, mlp_c_proj;
} gpt2_block;

static sw_value *project(sw_graph *g, affine p, sw_value *x) {
    return sw_linear(g, x, p.weight, p.bias, SW_IN_OUT);
}

static sw_attention_options attention_options(sw_graph *g, const gpt2_block *b) {
    const sw_model_config *c = b->config;
    double scale = c->unscaled_attention ? 1 : 1 / sqrt((double)c->head_channels);
    return (sw_attention_options){.scale =
                                      c->scales_by_layer ? scale / (double)(b->layer + 1) : scale,
                                  .documents = c->keeps_documents_apart ? sw_documents(g) : NULL,
                                  .mask = c->mask,
                                  .dropout = c->dropout.attention};
}

/* x [B*T, C] -> [B*T, C] */
static sw_value *block(sw_graph *g, void *self, sw_value *x) {
    const gpt2_block *b = self;
    const sw_model_config *c = b->config;
    sw_value *qkv =
        project(g, b->c_attn, sw_layernorm(g, x, b->ln_1.weight, b->ln_1.bias, c->norm_epsilon));
    sw_attention_options options = attention_options(g, b);
    sw_value *attended =
        project(g, b->attn_c_proj, sw_attention_packed_with(g, qkv, c->heads, c->heads, &options));
    sw_value *h = sw_add(g, x, sw_dropout(g, attended, c->dropout.residual));
    sw_value *inner =
        project(g, b->c_fc, sw_layernorm(g, h, b->ln_2.weight, b->ln_2.bias, c->norm_epsilon));
    return sw_add(g, h,
                  sw_dropout(g, project(g, b->mlp_c_proj, sw_activate(g, inner, c->activation)),
                             c->dropout.residual));
}

static affine declare_linear(sw_graph *g, sw_unit *unit, int64_t layer, const char *name,
                             int64_t in, int64_t out, double std) {
    affine p;
    p.weight = sw_declare(g, unit, (sw_declaration){SW_INIT_NORMAL, std, 2, {in, out}},
                          "transformer.h.%" PRId64 ".%s.weight", layer, name);
    p.bias = sw_declare(g, unit, (sw_declaration){SW_INIT_ZEROS, 0, 1, {out}},
                        "transformer.h.%" PRId64 ".%s.bias", layer, name);
    return p;
}

static affine declare_norm(sw_graph *g, sw_unit *unit, int64_t layer, const char *name,
                           int64_t channels) {
    affine p;
    p.weight = sw_declare(g, unit, (sw_declaration){SW_INIT_ONES, 0, 1, {channels}},
                          "transformer.h.%" PRId64 ".%s.weight", layer, name);
    p.bias = sw_declare(g, unit, (sw_declaration){SW_INIT_ZEROS, 0, 1, {channels}},
                        "transformer.h.%" PRId64 ".%s.bias", layer, name);
    return p;
}

static gpt2_block declare_block(sw_graph *g, sw_unit *unit, const sw_model_config *c,
                                int64_t layer) {
    gpt2_block b = {.config = c, .layer = layer};
    double residual_std = c->init_std / sqrt(2.0 * (double)c->layers);
    b.ln_1 = declare_norm(g, unit, layer, "ln_1", c->hidden);
    b.c_attn = declare_linear(g, unit, layer, "attn.c_attn", c->hidden, 3 * c->hidden, c->init_std);
    b.attn_c_proj =
        declare_linear(g, unit, layer, "attn.c_proj", c->hidden, c->hidden, residual_std);
    b.ln_2 = declare_norm(g, unit, layer, "ln_2", c->hidden);
    b.c_fc = declare_linear(g, unit, layer, "mlp.c_fc", c->hidden, c->ffn, c->init_std);
    b.mlp_c_proj = declare_linear(g, unit, layer, "mlp.c_proj", c->ffn, c->hidden, residual_std);
    return b;
}

void sw_gpt2_record(const sw_model_config *config, sw_model_end end, sw_graph *graph) {
    sw_unit *root = sw_unit_declare(graph, NULL, "root");
    sw_declaration table = {
        SW_INIT_NORMAL, config->init_std, 2, {config->vocabulary, config->hidden}};
    sw_declaration positions = {
        SW_INIT_NORMAL, config->init_std, 2, {config->max_positions, config->hidden}};
    sw_parameter *wte = sw_declare(graph, root, table, "transformer.wte.weight");
    sw_parameter *wpe = sw_declare(graph, root, positions, "transformer.wpe.weight");
    sw_value *documents = config->keeps_documents_apart ? sw_documents(graph) : NULL;
    sw_value *x =
        sw_add_positions_within(graph, sw_embedding(graph, sw_tokens(graph), wte), wpe, documents);
    x = sw_dropout(graph, x, config->dropout.embedding);
    for (int64_t layer = 0; layer < config->layers && x; layer++) {
        char name[32];
        snprintf(name, sizeof name, "h.%" PRId64, layer);
        sw_unit *unit = sw_unit_declare(graph, root, name);
        gpt2_block b = declare_block(graph, unit, config, layer);
        x = sw_call(graph, unit, block, &b, x);
    }
    sw_parameter *norm_weight =
        sw_declare(graph, root, (sw_declaration){SW_INIT_ONES, 0, 1, {config->hidden}},
                   "transformer.ln_f.weight");
    sw_parameter *norm_bias =
        sw_declare(graph, root, (sw_declaration){SW_INIT_ZEROS, 0, 1, {config->hidden}},
                   "transformer.ln_f.bias");
    sw_parameter *head = config->tied ? wte : sw_declare(graph, root, table, "lm_head.weight");
    sw_record_end(end, graph, sw_layernorm(graph, x, norm_weight, norm_bias, config->norm_epsilon),
                  head);
}
