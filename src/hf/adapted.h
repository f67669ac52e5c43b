/* adapted.h: a model and an adapter for it, checked against each other. */
#ifndef SW_HF_ADAPTED_H
#define SW_HF_ADAPTED_H

#include "hf/adapter.h"
#include "hf/model_files.h"

typedef struct sw_adapted {
    const char *adapter; /* its folder; the caller's */
    sw_adapter_config config;
    sw_graph *graph;       /* of the model with adapters */
    sw_lora_layers layers; /* that the adapter has tensors for */
} sw_adapted;

/* Does the adapter fit the model in folder `base`: names, shapes, and, where the adapter's file has
 * a mark of the model that it was trained beside, the weights too? `model` is that folder's
 * configuration. Reads headers and samples. Errors: SW_BAD_FILE. Ownership: sw_adapted_close, also
 * after an error and on {0}. */
sw_status sw_adapted_open(const char *base, const sw_model_config *model, const char *adapter,
                          sw_adapted *adapted, sw_error *err);
void sw_adapted_close(sw_adapted *adapted);

/* sw_model_files_load of the model with the adapter added to its weights: what sw_adapter_merge
 * would write, bit by bit. */
sw_status sw_adapted_load(const sw_adapted *adapted, const char *base, const sw_model_config *model,
                          const sw_layout *layout, int rank, sw_piece_fn put, void *to,
                          sw_error *err);

#endif
