/* bins.h: things of known sizes into few bins of one capacity.
 *
 * Best fit, decreasing: the largest first, each into the fullest bin that has room for it, else
 * into a new one. Of equals the first goes first, so the bins follow from the sizes alone. Rows
 * that hold whole documents are made so (Ding et al. 2024, "Fewer truncations improve language
 * modeling"): what stays free is a percent where documents are shorter than half a row.
 *
 * Time: n log64(capacity). Memory meanwhile: 8 bytes for each thing, 4 for each unit of the
 * capacity (or of the sum of the sizes, if that is less).
 */
#ifndef SW_DATA_BINS_H
#define SW_DATA_BINS_H

#include <stdint.h>

#include <shardwise/status.h>

#define SW_NO_BIN UINT32_MAX

/* Put n things into bins.
 *
 *   size_or_bin  [n]  sizes up to the capacity, 0: nothing is there. out: the bin of each,
 *                SW_NO_BIN for nothing
 *   n            below 2^32 - 1
 *   n_bins       out
 *
 * Errors: SW_NO_MEMORY. */
sw_status sw_bins_fit(uint32_t *size_or_bin, int64_t n, uint32_t capacity, uint32_t *n_bins,
                      sw_error *err);

#endif
