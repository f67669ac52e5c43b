/* mix.h: which source a row comes from, when sources are mixed by weights.
 *
 * Rows come in periods of SW_MIX_PERIOD. In each, every source has a fixed number of places, its
 * share of the weights rounded so that they add up (largest remainder; at least one for a weight
 * that is not 0), spread as evenly as they can be. The k-th place of a source in all periods is its
 * k-th row, in its own order. So the source of logical row j, and which of its rows, is a function
 * of j alone, on any number of ranks and after any resume.
 */
#ifndef SW_DATA_MIX_H
#define SW_DATA_MIX_H

#include <stdint.h>

#include <shardwise/status.h>

enum { SW_MIX_PERIOD = 4096 };

typedef struct sw_mix {
    int n_sources;
    int32_t *quota; /* [n_sources] places of a period */
    struct {
        int32_t source, nth; /* the nth place of that source in the period, from 0 */
    } place[SW_MIX_PERIOD];
} sw_mix;

/* Weights: finite, not negative, not all 0. Ownership: sw_mix_free. Errors: SW_BAD_CONFIG,
 * SW_NO_MEMORY. */
sw_status sw_mix_create(const double *weights, int n_sources, sw_mix **mix, sw_error *err);
void sw_mix_free(sw_mix *mix);

/* The source of row `logical`, and the number of that source's rows before it. */
void sw_mix_find(const sw_mix *mix, int64_t logical, int *source, int64_t *nth);

#endif
