/* attention.h: which keys a query of attention may see, before a span and documents say which of
 * them are too far away. */
#ifndef SHARDWISE_ATTENTION_H
#define SHARDWISE_ATTENTION_H

typedef enum sw_attention_mask {
    SW_MASK_CAUSAL, /* those up to itself */
    SW_MASK_FULL,   /* those after it too */
    SW_N_ATTENTION_MASKS
} sw_attention_mask;

#endif
