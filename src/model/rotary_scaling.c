/* rotary_scaling.c: the rotary frequencies that a configuration asks for, as one ramp
 * (shardwise/graph.h, sw_rotary_scaling).
 *
 *   linear    every frequency divided by the factor (Chen et al. 2023)
 *   dynamic   theta grows with rows beyond max_positions; up to there nothing changes
 *   llama3    pairs that turn more than high_factor times within the original positions stay, those
 *             below low_factor are divided, the turns between blend (Llama 3.1); turns = original f
 *             / 2 pi, so it is a ramp over the frequency
 *   yarn      the same between beta_fast and beta_slow turns, as a ramp over the pair's number, and
 *             an amplitude (Peng et al. 2023)
 *
 * The numbers of the last two follow the reference code of `transformers`, roundings of the ramp's
 * ends included.
 */
#include <math.h>

#include "model/model.h"

#define TWO_PI 6.283185307179586476925286766559

/* The pair, as a real number, that turns `turns` times within the original positions. */
static double pair_of_turns(const sw_model_config *c, double turns) {
    return (double)c->head_channels * log((double)c->rope.original_positions / (turns * TWO_PI)) /
           (2 * log(c->rope_theta));
}

static double yarn_magnitude(double factor, double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

static double yarn_amplitude(const sw_rope_scaling *rope) {
    if (rope->attention_factor != 0)
        return rope->attention_factor;
    if (rope->mscale != 0 && rope->mscale_all != 0)
        return yarn_magnitude(rope->factor, rope->mscale) /
               yarn_magnitude(rope->factor, rope->mscale_all);
    return yarn_magnitude(rope->factor, 1);
}

static sw_rotary_scaling yarn(const sw_model_config *c) {
    double low = pair_of_turns(c, c->rope.beta_fast), high = pair_of_turns(c, c->rope.beta_slow);
    if (!c->rope.is_exact) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)(c->head_channels - 1));
    if (low == high)
        high += 0.001;
    return (sw_rotary_scaling){.theta = c->rope_theta,
                               .factor = c->rope.factor,
                               .ramp = SW_RAMP_BY_PAIR,
                               .from = high,
                               .to = low,
                               .amplitude = yarn_amplitude(&c->rope)};
}

sw_rotary_scaling sw_model_rotary(const sw_model_config *c) {
    const sw_rope_scaling *rope = &c->rope;
    sw_rotary_scaling plain = {.theta = c->rope_theta, .factor = 1, .amplitude = 1};
    switch (rope->type) {
    case SW_ROPE_LINEAR:
        plain.factor = rope->factor;
        return plain;
    case SW_ROPE_LLAMA3:
        plain.factor = rope->factor;
        plain.ramp = SW_RAMP_BY_FREQUENCY;
        plain.from = TWO_PI * rope->low_factor / (double)rope->original_positions;
        plain.to = TWO_PI * rope->high_factor / (double)rope->original_positions;
        return plain;
    case SW_ROPE_YARN:
        return yarn(c);
    default:
        return plain;
    }
}
