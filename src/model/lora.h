/* lora.h: low-rank adapters (Hu et al. 2021) beside the linear layers of a model that stays as it
 * is.
 *
 *   y = W x + scale * B (A (dropout(x)))          A [rank, in], B [out, rank]
 *   scale = alpha / rank, or alpha / sqrt(rank) when rank-stabilised (Kalajdzievski 2023)
 *
 * A and B lie like the weights of torch's Linear also where W lies [in, out]. They are parameters
 * of W's unit, named as PEFT names them: "base_model.model." + the layer's name + ".lora_A.weight".
 * A starts uniform within 1 / sqrt(in) of zero, which is PEFT's kaiming_uniform_(a = sqrt(5)), B at
 * zero, so that training begins at the model itself.
 */
#ifndef SW_MODEL_LORA_H
#define SW_MODEL_LORA_H

#include "graph/graph.h"
#include "model/model.h"

/* Which layers: the end of a layer's name ("q_proj": all of "model.layers.N.self_attn.q_proj"), a
 * whole name with wildcards, or this word. */
#define SW_LORA_ALL "all-linear"

typedef struct sw_lora {
    int64_t rank;
    double alpha, dropout;
    bool is_rank_stabilised;
    int n_targets;
    const char *const *targets;
} sw_lora;

typedef struct sw_lora_layer {
    sw_parameter *weight, *a, *b;
    sw_weight_layout layout; /* of the weight */
} sw_lora_layer;

/* Layers that have adapters, in the order of the model; in the graph's arena. */
typedef struct sw_lora_layers {
    SW_LIST(sw_lora_layer) list;
    sw_graph
        *parameters; /* declares the adapters' parameters, and has nothing else: what is saved */
} sw_lora_layers;

double sw_lora_scale(const sw_lora *lora);

/* Is the layer called `module` one of the targets? */
bool sw_lora_chooses(const sw_lora *lora, const char *module);

/* The name of a layer: that of its weight without ".weight". false if the weight is not called
 * so. */
bool sw_lora_module(const char *weight, char *module, size_t bytes);

/* sw_model_trace with adapters on the targets; all else is frozen. *layers (may be NULL) lives as
 * long as the graph. Errors: SW_BAD_CONFIG: a target that chooses no linear layer. */
sw_status sw_lora_trace(const sw_model_config *config, const sw_lora *lora, sw_model_end end,
                        sw_graph *graph, sw_lora_layers *layers, sw_error *err);

#endif
