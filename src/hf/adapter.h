/* adapter.h: low-rank adapters as PEFT keeps them: adapter_config.json and
 * adapter_model.safetensors. */
#ifndef SW_HF_ADAPTER_H
#define SW_HF_ADAPTER_H

#include "base/arena.h"
#include "formats/safetensors.h"
#include "model/lora.h"

#define SW_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define SW_ADAPTER_CONFIG "adapter_config.json"

/* What an adapter_config.json says. */
typedef struct sw_adapter_config {
    sw_arena arena;
    sw_lora lora; /* its targets: names or ends of names; NULL where it has a pattern of Python's
                     instead of a list */
    bool chooses_by_names; /* the list of targets alone says which layers: no pattern, no choice of
                              layers by number */
} sw_adapter_config;

/* Read DIR/adapter_config.json, or the text of one that messages call `name`. What changes the
 * arithmetic and is not built (DoRA, ranks that differ by layer, trained biases ...) is refused by
 * name (SW_BAD_FILE). Ownership: sw_adapter_config_free, also after an error. */
sw_status sw_adapter_config_read(const char *directory, sw_adapter_config *config, sw_error *err);
sw_status sw_adapter_config_parse(const char *name, const char *text, int64_t bytes,
                                  sw_adapter_config *config, sw_error *err);
void sw_adapter_config_free(sw_adapter_config *config);

/* The adapter_config.json that PEFT reads. `base`: the path of the model that the adapter is for.
 * Ownership: free() the text. */
sw_status sw_adapter_config_write(const sw_lora *lora, const sw_lora_layers *layers,
                                  const char *base, char **json_text, sw_error *err);

/* Is the adapter in `directory` one for these layers: the same rank, scale, targets, tensors and
 * shapes? SW_BAD_FILE names the first difference. Reads headers only. */
sw_status sw_adapter_check(const char *directory, const sw_lora *lora, const sw_graph *graph,
                           const sw_lora_layers *layers, sw_error *err);

/* Is `base` the model that the adapter was trained beside, as far as its file says (sw_model_mark)?
 * An adapter of another program says nothing, and passes. Errors: SW_BAD_FILE. */
sw_status sw_adapter_check_base(const char *directory, const char *base,
                                const sw_model_config *model, const sw_graph *graph, sw_error *err);

/* base + adapter as one model: W + scale B A for every layer of the adapter, in the element type of
 * the base's own tensor; all else is copied as it is: other tensors, configuration, tokenizer.
 * `out` must not exist, and is complete or not there at all. */
sw_status sw_adapter_merge(const char *base, const char *adapter, const char *out, sw_error *err);

#endif
