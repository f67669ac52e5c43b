/* shuffle.h: a permutation of 0 .. n-1 that is computed, not stored.
 *
 * The place of one row in a shuffled epoch is a function of (seed, epoch, n, index) alone: no
 * table, no order of calls, the same on every rank, and a resumed run needs nothing but the number
 * of the row it stopped at.
 */
#ifndef SW_DATA_SHUFFLE_H
#define SW_DATA_SHUFFLE_H

#include <stdint.h>

/* Where `index` (0 .. n-1, n at least 1) goes in the permutation of `epoch` under `seed`. */
int64_t sw_shuffle(uint64_t seed, int64_t epoch, int64_t n, int64_t index);

#endif
