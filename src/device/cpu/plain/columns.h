/* columns.h: sums down the columns of a matrix, for gradients of biases and norm weights.
 *
 * Rows are added in blocks of COLUMN_BLOCK and the blocks to a total: the rounding error grows with the block and with the number
 * of blocks, not with the number of rows.
 */
#ifndef SW_DEVICE_CPU_PLAIN_COLUMNS_H
#define SW_DEVICE_CPU_PLAIN_COLUMNS_H

#include "device/cpu/plain/real.h"

enum { COLUMN_BLOCK = 32 };

/* `sums` is [2,C]: a block's sum, then the total. Clear it, add the rows to sums[0 .. C-1] and call columns_row after each. */
static inline void columns_clear(int64_t C, real *sums) {
    memset(sums, 0, 2 * (size_t)C * sizeof *sums);
}

static inline void columns_row(int64_t row, int64_t n_rows, int64_t C, real *sums) {
    if ((row + 1) % COLUMN_BLOCK && row + 1 < n_rows)
        return;
    store_or_add(true, C, sums + C, sums);
    memset(sums, 0, (size_t)C * sizeof *sums);
}

/* [C] once every row is added. */
static inline const real *columns_total(int64_t C, const real *sums) {
    return sums + C;
}

static inline void columns_store(bool add, int64_t C, const real *sums, real *y) {
    store_or_add(add, C, y, columns_total(C, sums));
}

#endif
