/* occupancy.h: which addresses are taken when: where the next buffer fits, without looking at all
 * that are placed.
 *
 * A tree over the instructions. A buffer that is alive from `first` to `last` is kept in the few
 * nodes that cover that stretch exactly, and it darkens the union of every node above them. So what
 * is taken at some time of a stretch is the union of the nodes that cover it, and what the nodes
 * above those hold themselves: about 2 log n lists of addresses, each joined where buffers touch.
 *
 *      0 ..................... 15        a buffer of 2 .. 7: kept in [2, 3] and [4, 7],
 *      0 ....... 7   8 ....... 15        part of the union of [0, 3], [0, 7] and [0, 15] too
 *      0 . 3  4 . 7  ...
 *      0 1 2 3 ...
 */
#ifndef SW_SHARD_OCCUPANCY_H
#define SW_SHARD_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sw_occupancy sw_occupancy;

/* Nothing is taken, at instructions 0 .. n - 1. NULL where memory is short. Ownership:
 * sw_occupancy_free. */
sw_occupancy *sw_occupancy_create(int n);
void sw_occupancy_free(sw_occupancy *occupancy); /* NULL does nothing */
void sw_occupancy_clear(sw_occupancy *occupancy);

/* The lowest address from which `bytes` are free at all instructions first .. last. */
int64_t sw_occupancy_find(const sw_occupancy *occupancy, int first, int last, int64_t bytes);

/* They are taken from then on. Where memory is short the occupancy is of no use any more:
 * sw_occupancy_is_short. */
void sw_occupancy_take(sw_occupancy *occupancy, int first, int last, int64_t address,
                       int64_t bytes);
bool sw_occupancy_is_short(const sw_occupancy *occupancy);

#endif
