/* fold.c: what a reduction does to gradient shards: contributions are added up, and the squares of
 * the sums; and what a sum over ranks does to values. A reduction hands over what fits a near
 * cache, and its tasks are the threads' (comm/shm_collectives.c, shm_share.c): a call is one loop
 * of one thread.
 */
#include "base/wide_sum.h"
#include "device/cpu/plain/real.h"

SW_KERNEL(FOLD) {
    store_or_add(accumulates(call, 1), call->dim[0], call->operand[1], call->operand[0]);
}

SW_KERNEL(FOLD_VALUES) {
    const activation *source = call->operand[0];
    real *sum = call->operand[1];
    const int64_t n = call->dim[0];
    if (accumulates(call, 1)) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            sum[i] += load(source[i]);
    } else {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            sum[i] = load(source[i]);
    }
}

SW_KERNEL(ROUND_SUM) {
    const real *sum = call->operand[0];
    activation *y = call->operand[1];
    SW_ELEMENTWISE
    for (int64_t i = 0; i < call->dim[0]; i++)
        y[i] = stored(sum[i]);
}

/* A block's squares go to 16 sums, element i to sum i mod 16, then added in halves. Products of
 * floats are exact in double. */
static double squares_of_block(int64_t n, const real *x) {
    double lane[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        SW_ELEMENTWISE
        for (int j = 0; j < 16; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    }
    for (int j = 0; i + j < n; j++)
        lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int width = 8; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

SW_KERNEL(SQUARES) {
    const real *gradient = call->operand[0];
    sw_wide_sum *sum = call->operand[1];
    const int64_t n = call->dim[0];
    for (int64_t first = 0; first < n; first += SW_BLOCK)
        sw_wide_sum_add(sum, squares_of_block(smaller(SW_BLOCK, n - first), gradient + first));
}
