/* custom_model.h: the model that a caller brings, taken with care. */
#ifndef SW_MODEL_CUSTOM_MODEL_H
#define SW_MODEL_CUSTOM_MODEL_H

#include <shardwise/train.h>

#include "model/model.h"

/* Record the caller's model in `graph` and check what our own builders get right by themselves: it
 * has a loss, and its tables have a row for every token id. SW_ENDS_IN_LOGITS, into a graph that
 * decodes: it has logits, one for each id. Errors: the caller's; SW_BAD_CONFIG. */
sw_status sw_custom_model_trace(const sw_custom_model *model, sw_model_end end, sw_graph *graph,
                                sw_error *err);

#endif
