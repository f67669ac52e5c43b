/* graph.h: writing a model as a C function.
 *
 * A model is written as its forward pass, calling the operations below. Calling them computes
 * nothing: it records a graph of values, operations and units, once. Shapes are static. The graph
 * is then differentiated, sharded, laid out and run.
 *
 *     static sw_value *block(sw_graph *g, void *self, sw_value *x)             // x: [B*T, C]
 *     {
 *         layer *l = self;
 *         sw_value *h = sw_add(g, x, attention(g, l, sw_rmsnorm(g, x, l->norm1, 1e-5)));
 *         return sw_add(g, h, mlp(g, l, sw_rmsnorm(g, h, l->norm2, 1e-5)));
 *     }
 *     ...
 *     for (int i = 0; i < n_layers; i++) x = sw_call(g, layers[i].unit, block, &layers[i], x);
 *
 * Errors: an operation that cannot be recorded (shapes that do not fit, a NULL from an operation
 * before it) records the first error in the graph and returns NULL; NULL flows through, so a model
 * checks once, with sw_graph_status, at its end. Ownership: the graph owns units, parameters and
 * values; they live until sw_graph_free.
 *
 * Shape letters: B rows of a micro-batch, T tokens in a row, C channels, H query heads, K key/value
 * heads, D channels per head, F feed-forward channels, V vocabulary.
 */
#ifndef SHARDWISE_GRAPH_H
#define SHARDWISE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include <shardwise/activation.h>
#include <shardwise/attention.h>
#include <shardwise/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sw_graph sw_graph;
typedef struct sw_unit sw_unit;
typedef struct sw_parameter sw_parameter;
typedef struct sw_value sw_value;

/* A graph over micro-batches of n_rows rows of n_tokens tokens each (B and T). The functions of a
 * sw_custom_model (train.h) are given one. */
SW_API sw_status sw_graph_create(int64_t n_rows, int64_t n_tokens, sw_graph **graph, sw_error *err);
SW_API void sw_graph_free(sw_graph *graph); /* NULL does nothing */

/* The first error that recording met, SW_OK if none. */
SW_API sw_status sw_graph_status(const sw_graph *graph, sw_error *err);

/* The set of parameters that is gathered together. `parent` is NULL for the root, of which a graph
 * has exactly one. */
SW_API sw_unit *sw_unit_declare(sw_graph *graph, sw_unit *parent, const char *name);

/* How a parameter of a new model starts. */
typedef enum sw_initializer {
    SW_INIT_ZEROS,
    SW_INIT_ONES,
    SW_INIT_NORMAL,
    SW_INIT_UNIFORM
} sw_initializer;

/* A parameter `name` (its name in the model's file) of `unit`. At most 4 dimensions; `std` is for
 * SW_INIT_NORMAL, and for SW_INIT_UNIFORM, which draws from [-sqrt(3) std, sqrt(3) std). A
 * parameter used in several places (tied) is declared once, in the lowest unit that encloses its
 * uses. */
SW_API sw_parameter *sw_parameter_declare(sw_graph *graph, sw_unit *unit, const char *name,
                                          int n_dimensions, const int64_t *dimensions,
                                          sw_initializer initializer, double std);

/* Frozen parameters have a compute copy and nothing else: no gradient, no optimizer state.
 * Parameters start trainable. */
SW_API void sw_parameter_freeze(sw_parameter *parameter);

/* The token ids that go in, int32 [B*T], and the ids to be predicted, int32 [B*T], -1 where there
 * is no target. */
SW_API sw_value *sw_tokens(sw_graph *graph);
SW_API sw_value *sw_targets(sw_graph *graph);

/* For rows that hold pieces of several documents: of each token, the token of its row at which its
 * piece begins, int32 [B*T]. All zero: one document per row. Only operations that are given it keep
 * documents apart. */
SW_API sw_value *sw_documents(sw_graph *graph);

/* Run `fn` with `unit` as the current unit: what it records belongs to the unit. Recompute,
 * gathering and pipeline stages all follow these calls. Returns what fn returns. */
typedef sw_value *(*sw_block_fn)(sw_graph *graph, void *self, sw_value *x);
SW_API sw_value *sw_call(sw_graph *graph, sw_unit *unit, sw_block_fn fn, void *self, sw_value *x);

/* Rows of `table` [V, C] chosen by tokens [n]: [n, C]. */
SW_API sw_value *sw_embedding(sw_graph *graph, sw_value *tokens, sw_parameter *table);

/* x [B*T, C] + table[t] of a learned position table [at least T, C]. */
SW_API sw_value *sw_add_positions(sw_graph *graph, sw_value *x, sw_parameter *table);

/* The same with positions that count from where a token's document begins. `documents`:
 * sw_documents, or NULL. */
SW_API sw_value *sw_add_positions_within(sw_graph *graph, sw_value *x, sw_parameter *table,
                                         sw_value *documents);

/* x [n, in] -> [n, out]. The weight lies [out, in], as Llama's do, or [in, out], as GPT-2's do.
 * bias [out] may be NULL. */
typedef enum sw_weight_layout { SW_OUT_IN, SW_IN_OUT } sw_weight_layout;
SW_API sw_value *sw_linear(sw_graph *graph, sw_value *x, sw_parameter *weight, sw_parameter *bias,
                           sw_weight_layout layout);

/* n products of one x, 1 to 3, side by side, as queries, keys and values are: x [n, in] -> [n, out0
 * + out1 + out2]. weights[i] lies as sw_linear's, biases[i] [out_i] may be NULL, as may `biases`.
 * No parameter stands twice. Faster than n calls of sw_linear: x is read once, most of all where
 * weights of one unit, declared one after another, have multiples of 256 elements.
 */
SW_API sw_value *sw_linear_several(sw_graph *graph, sw_value *x, int n,
                                   sw_parameter *const *weights, sw_parameter *const *biases,
                                   sw_weight_layout layout);

/* y = x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich 2019). x [n, C], weight [C]. */
SW_API sw_value *sw_rmsnorm(sw_graph *graph, sw_value *x, sw_parameter *weight, double epsilon);

/* The same of each head by itself, as Qwen3 norms queries and keys. x [n, heads*D], weight [D]. */
SW_API sw_value *sw_rmsnorm_heads(sw_graph *graph, sw_value *x, sw_parameter *weight,
                                  double epsilon);

/* y = (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias (Ba et al. 2016). x [n, C]; weight,
 * bias [C]. */
SW_API sw_value *sw_layernorm(sw_graph *graph, sw_value *x, sw_parameter *weight,
                              sw_parameter *bias, double epsilon);

/* Rotary position embedding (Su et al. 2021) over heads of D channels, halves paired as Hugging
 * Face does: channel i of a head turns with channel i + D/2 by the angle t * theta^(-2i/D). x [B*T,
 * heads*D], D even. */
SW_API sw_value *sw_rotary(sw_graph *graph, sw_value *x, int64_t head_channels, double theta);

/* Rotary frequencies for rows longer than those that a model was first trained on. With f =
 * theta^(-2i/D) of pair i, the angle is t f (kept + (1 - kept) / factor): kept is 0, or rises from
 * 0 to 1 as a measure of the pair goes from `from` to `to` (either may be the larger), and stays 0
 * and 1 beyond. Cosine and sine are multiplied by `amplitude`. */
typedef enum sw_rotary_ramp {
    SW_RAMP_NONE,
    SW_RAMP_BY_PAIR,
    SW_RAMP_BY_FREQUENCY
} sw_rotary_ramp; /* measured: i, f */
typedef struct sw_rotary_scaling {
    double theta, factor; /* both above 0; a factor of 1 changes nothing */
    sw_rotary_ramp ramp;
    double from, to;  /* unequal, unless the ramp is none */
    double amplitude; /* above 0; 1 changes nothing */
} sw_rotary_scaling;
SW_API sw_value *sw_rotary_scaled(sw_graph *graph, sw_value *x, int64_t head_channels,
                                  const sw_rotary_scaling *scaling);

/* The same of the first n_heads heads of each row, queries and keys of a packed value; the channels
 * behind them, its values, pass as they are. x [B*T, at least n_heads*D]. */
SW_API sw_value *sw_rotary_packed(sw_graph *graph, sw_value *x, int64_t n_heads,
                                  int64_t head_channels, const sw_rotary_scaling *scaling);

/* Causal softmax(q k^T / sqrt(D)) v, head h of q with head h / (H/K) of k and v. Computed in
 * blocks: no [T, T] matrix exists. q [B*T, H*D]; k, v [B*T, K*D] -> [B*T, H*D]. */
SW_API sw_value *sw_attention(sw_graph *graph, sw_value *q, sw_value *k, sw_value *v,
                              int64_t n_heads, int64_t n_kv_heads);

/* The same for q, k and v side by side in one value, as GPT-2 has them. qkv [B*T, (H+2K)*D] ->
 * [B*T, H*D]. */
SW_API sw_value *sw_attention_packed(sw_graph *graph, sw_value *qkv, int64_t n_heads,
                                     int64_t n_kv_heads);

/* What a query sees, how scores are scaled, what is dropped. {0} is causal attention. Blocks nobody
 * sees are not computed. */
typedef struct sw_attention_options {
    int64_t span; /* causal: of keys that a query sees, itself included and the last of them; full:
                     how far before and behind the query the keys go that it sees; 0: no limit */
    double scale; /* of q k^T; 0: 1 / sqrt(D) */
    sw_value
        *documents; /* sw_documents: keys of other documents are not seen; NULL: a row is one */
    sw_attention_mask mask; /* SW_MASK_CAUSAL, SW_MASK_FULL */
    double dropout; /* while training: the share of softmax weights that become zero, as sw_dropout
                       does; 0: none */
} sw_attention_options;
SW_API sw_value *sw_attention_with(sw_graph *graph, sw_value *q, sw_value *k, sw_value *v,
                                   int64_t n_heads, int64_t n_kv_heads,
                                   const sw_attention_options *options)
    SW_SYMBOL("sw_attention_with_0_2");
SW_API sw_value *sw_attention_packed_with(sw_graph *graph, sw_value *qkv, int64_t n_heads,
                                          int64_t n_kv_heads, const sw_attention_options *options)
    SW_SYMBOL("sw_attention_packed_with_0_2");

/* f(x), element by element. x [n, C]. */
SW_API sw_value *sw_activate(sw_graph *graph, sw_value *x, sw_activation function);

/* SW_GELU_TANH. */
SW_API sw_value *sw_gelu(sw_graph *graph, sw_value *x);

/* silu(gate) * up (Shazeer 2020). gate, up [n, F]. */
SW_API sw_value *sw_swiglu(sw_graph *graph, sw_value *gate, sw_value *up);

/* The same for gate and up side by side in one value. gate_up [n, 2*F] -> [n, F]. */
SW_API sw_value *sw_swiglu_packed(sw_graph *graph, sw_value *gate_up);

/* x times a constant. */
SW_API sw_value *sw_scale(sw_graph *graph, sw_value *x, double factor);

/* a + b, same shapes. */
SW_API sw_value *sw_add(sw_graph *graph, sw_value *a, sw_value *b);

/* Values of which every rank along an axis of the mesh ("shard", "replicate") has one: put side by
 * side in the order of ranks, x [n, C] -> [A*n, C] for A ranks; added up, x [n, C] -> [n, C]; added
 * up and cut into a slice for each rank, x [A*n, C] -> [n, C]. A rank without a micro-batch has no
 * x: zeros in a gather, nothing in a sum. On one rank they are x itself. Gradients come from all
 * ranks, as a step's loss is the sum of theirs. A model that shares is trained and evaluated as
 * training does it; it is scored and generates on one rank.
 */
SW_API sw_value *sw_gather_over(sw_graph *graph, sw_value *x, const char *axis);
SW_API sw_value *sw_sum_over(sw_graph *graph, sw_value *x, const char *axis);
SW_API sw_value *sw_sum_slice_over(sw_graph *graph, sw_value *x, const char *axis);

/* Zero each element with `probability` and scale the others by 1 / (1 - probability) while
 * training; pass x on unchanged while evaluating. The mask follows (seed, this call, logical row,
 * element): the same for any number of ranks, and in recompute. A probability of 0 records
 * nothing. */
SW_API sw_value *sw_dropout(sw_graph *graph, sw_value *x, double probability);

/* The loss: the sum of -log softmax(x head^T)[target] over supervised targets. Projection and
 * cross-entropy are one operation, computed in chunks of tokens: the [B*T, V] logits never exist at
 * once. x [B*T, C], head [V, C], targets as sw_targets. A graph has one loss. */
SW_API sw_value *sw_cross_entropy(sw_graph *graph, sw_value *x, sw_parameter *head,
                                  sw_value *targets);

/* The end of a model that is trained and generates: the loss over sw_targets, as sw_cross_entropy
 * records it, or, where the graph is recorded to go on from a text, the logits after each row's
 * last token. */
SW_API sw_value *sw_predict(sw_graph *graph, sw_value *x, sw_parameter *head);

/* For generation, in place of the loss: the logits [B, V] at one position of each row, which is
 * chosen when the graph runs. */
SW_API sw_value *sw_logits_at_position(sw_graph *graph, sw_value *x, sw_parameter *head);

#ifdef __cplusplus
}
#endif
#endif
