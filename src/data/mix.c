/* mix.c: apportionment of a period, and its places in turn to the source that is furthest
 * behind. */
#include "data/mix.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static sw_status check(const double *weights, int n_sources, double *sum, sw_error *err) {
    *sum = 0;
    for (int s = 0; s < n_sources; s++) {
        if (!(weights[s] >= 0) || !isfinite(weights[s]))
            return sw_fail(err, SW_BAD_CONFIG, "data.mix: weight %d is %g; weights are 0 or more",
                           s + 1, weights[s]);
        *sum += weights[s];
    }
    if (!(*sum > 0) || !isfinite(*sum))
        return sw_fail(err, SW_BAD_CONFIG,
                       "data.mix: the weights add up to %g; one must be above 0", *sum);
    if (n_sources > SW_MIX_PERIOD)
        return sw_fail(err, SW_BAD_CONFIG, "data.mix: %d sources; at most %d can be mixed",
                       n_sources, SW_MIX_PERIOD);
    return SW_OK;
}

/* Quotas that add up to the period: floors, then one more for the largest remainders; of equals the
 * first. A source with a weight has at least one, taken from the largest. */
static void apportion(const double *weights, double sum, int n_sources, int32_t *quota) {
    int32_t left = SW_MIX_PERIOD;
    for (int s = 0; s < n_sources; s++) {
        quota[s] = (int32_t)floor(weights[s] / sum * SW_MIX_PERIOD);
        if (quota[s] == 0 && weights[s] > 0)
            quota[s] = 1;
        left -= quota[s];
    }
    for (; left != 0; left += left > 0 ? -1 : 1) {
        int best = -1;
        double furthest = 0;
        for (int s = 0; s < n_sources; s++) {
            double behind = weights[s] / sum * SW_MIX_PERIOD - quota[s];
            bool may_move = left > 0 ? weights[s] > 0 : quota[s] > 1;
            if (may_move && (best < 0 || (left > 0 ? behind > furthest : behind < furthest))) {
                best = s;
                furthest = behind;
            }
        }
        quota[best] += left > 0 ? 1 : -1;
    }
}

/* Place p goes to the source whose given places are furthest behind quota * (p + 1) / period; of
 * equals the first. */
static void spread(sw_mix *mix, int32_t *given) {
    for (int32_t p = 0; p < SW_MIX_PERIOD; p++) {
        int best = -1;
        int64_t furthest = 0;
        for (int s = 0; s < mix->n_sources; s++) {
            int64_t behind = (int64_t)mix->quota[s] * (p + 1) - (int64_t)given[s] * SW_MIX_PERIOD;
            if (given[s] < mix->quota[s] && (best < 0 || behind > furthest)) {
                best = s;
                furthest = behind;
            }
        }
        mix->place[p].source = best;
        mix->place[p].nth = given[best]++;
    }
}

sw_status sw_mix_create(const double *weights, int n_sources, sw_mix **mix, sw_error *err) {
    double sum;
    *mix = NULL;
    sw_status status = check(weights, n_sources, &sum, err);
    if (status != SW_OK)
        return status;
    sw_mix *made = calloc(1, sizeof *made);
    int32_t *given = calloc((size_t)n_sources, sizeof *given);
    if (made)
        made->quota = calloc((size_t)n_sources, sizeof *made->quota);
    if (!made || !given || !made->quota) {
        free(given);
        sw_mix_free(made);
        return sw_fail(err, SW_NO_MEMORY, "no memory to mix %d sources", n_sources);
    }
    made->n_sources = n_sources;
    apportion(weights, sum, n_sources, made->quota);
    spread(made, given);
    free(given);
    *mix = made;
    return SW_OK;
}

void sw_mix_free(sw_mix *mix) {
    if (!mix)
        return;
    free(mix->quota);
    free(mix);
}

void sw_mix_find(const sw_mix *mix, int64_t logical, int *source, int64_t *nth) {
    int64_t period = logical / SW_MIX_PERIOD, place = logical % SW_MIX_PERIOD;
    *source = mix->place[place].source;
    *nth = period * mix->quota[*source] + mix->place[place].nth;
}
