/* majority.h: whose number is another than that of the others. */
#ifndef SW_TRAIN_MAJORITY_H
#define SW_TRAIN_MAJORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of values [n] that should be equal: is_odd [n] marks those that differ from the value that more
 * than half have; where no value has more than half, all are marked. Returns how many are
 * marked. */
int sw_majority(const uint64_t *values, int n, bool *is_odd);

#endif
