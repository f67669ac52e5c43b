/* sampling.h: the next token of a text, chosen from the model's logits. */
#ifndef SW_DATA_SAMPLING_H
#define SW_DATA_SAMPLING_H

#include <stdint.h>

#include <shardwise/status.h>

/* In the order of transformers: a penalty on what was said (sw_penalise), temperature, top_k,
 * top_p, min_p. */
typedef struct sw_sampling {
    double temperature; /* logits are divided by it; 0: greedy, the largest logit */
    int64_t top_k;      /* only the k most likely tokens; 0: all */
    double top_p;       /* of those, the fewest most likely ones whose probabilities reach p; 1: all
                           (Holtzman et al. 2020) */
    uint64_t seed;
    double min_p;    /* of those, the ones at least so likely as this share of the likeliest; 0: all
                        (Nguyen et al. 2024) */
    uint32_t sample; /* which of the texts that begin with the same seed */
} sw_sampling;

/* Temperature finite and, as top_k, not negative, top_p above 0 and at most 1, min_p from 0 to 1.
 * Errors: SW_BAD_CONFIG. */
sw_status sw_sampling_check(const sw_sampling *sampling, sw_error *err);

/* The repetition penalty of Keskar et al. (2019) as transformers has it: the logit of each token
 * that is among ids [n] is divided by `penalty` where it is positive, else multiplied by it, once
 * however often the token is there.
 *   logits    [n_tokens]
 *   adjusted  [n_tokens]  out: the same, with penalties */
void sw_penalise(double penalty, const int32_t *ids, int64_t n, const float *logits,
                 int32_t n_tokens, float *adjusted);
sw_status sw_penalty_check(double penalty, sw_error *err); /* above 0 and finite */

/* Choose a token.
 *
 *   logits     [n_tokens]  finite
 *   n_drawn    tokens of this text chosen before: the same (seed, sample, n_drawn, logits) gives
 *              the same token
 *   work       [n_tokens]  clobbered
 *   token      out: its id. Of equal logits the lower id comes first
 *
 * Errors: SW_BAD_FILE for a logit that is not finite, naming the id, and for nothing else. No
 * allocation.
 */
sw_status sw_sample(const sw_sampling *sampling, const float *logits, int32_t n_tokens,
                    int64_t n_drawn, int32_t *work, int32_t *token, sw_error *err);

#endif
