/* sampling.h: the next token of a text, chosen from the model's logits. */
#ifndef SW_DATA_SAMPLING_H
#define SW_DATA_SAMPLING_H

#include <stdint.h>

#include <shardwise/status.h>

typedef struct sw_sampling {
    double temperature; /* logits are divided by it; 0: greedy, the largest logit */
    int64_t top_k;      /* only the k most likely tokens; 0: all */
    double top_p;       /* of those, the fewest most likely ones whose probabilities reach p; 1: all (Holtzman et al. 2020) */
    uint64_t seed;
} sw_sampling;

/* Temperature finite and not negative, top_k not negative, top_p above 0 and at most 1. Errors: SW_BAD_CONFIG. */
sw_status sw_sampling_check(const sw_sampling *sampling, sw_error *err);

/* Choose a token.
 *
 *   logits     [n_tokens]  finite
 *   n_drawn    tokens of this text chosen before: the same (seed, n_drawn, logits) gives the same token
 *   work       [n_tokens]  clobbered
 *   token      out: its id. Of equal logits the lower id comes first
 *
 * Errors: SW_BAD_FILE for a logit that is not finite (the weights are damaged), naming the id. No allocation.
 */
sw_status sw_sample(const sw_sampling *sampling, const float *logits, int32_t n_tokens, int64_t n_drawn, int32_t *work,
                    int32_t *token, sw_error *err);

#endif
