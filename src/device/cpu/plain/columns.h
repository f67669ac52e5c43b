/* columns.h: sums down the columns of a matrix, for gradients of biases and norm weights.
 *
 * Rows are added in blocks (sw_column_rows) and the blocks' sums to a total, block after block: so
 * blocks can be summed by any thread, and the rounding error grows with the block and with the
 * number of blocks, not with the number of rows.
 */
#ifndef SW_DEVICE_CPU_PLAIN_COLUMNS_H
#define SW_DEVICE_CPU_PLAIN_COLUMNS_H

#include "device/cpu/plain/pieces.h"
#include "device/sizes.h"

/* The rows of block `block`. */
static inline piece column_block(int64_t block, int64_t n_rows) {
    return piece_of(block, sw_column_rows(n_rows), n_rows);
}

/* y[n] = (or +=) the total of blocks' sums, which lie `stride` apart. */
static inline void columns_total(bool add, int64_t n_blocks, int64_t stride, const real *sums,
                                 int64_t n, real *y) {
    for (int64_t block = 0; block < n_blocks; block++)
        store_or_add(add || block > 0, n, y, sums + block * stride);
}

#endif
