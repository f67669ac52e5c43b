/* fold.c: what a reduction does to gradient shards: contributions are added up, and the squares of the sums. */
#include "base/wide_sum.h"
#include "device/cpu/plain/pieces.h"

static void fold(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const piece p = piece_of(task, PIECE, call->dim[0]);
    store_or_add(accumulates(call, 1), p.n, (real *)call->operand[1] + p.first, (const real *)call->operand[0] + p.first);
}

SW_KERNEL(FOLD) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), fold);
}

/* A block's squares go to 16 sums, element i to sum i mod 16, which are added in halves. Products of floats are exact in double.
 */
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

enum { BLOCKS_OF_PIECE = PIECE / SW_BLOCK, PIECES_AT_ONCE = 32 };

typedef struct squares {
    const real *x; /* [n] */
    int64_t n;
    double of_block[PIECES_AT_ONCE * BLOCKS_OF_PIECE];
} squares;

static void square(void *arg, int64_t task, int worker) {
    (void)worker;
    squares *s = arg;
    const piece p = piece_of(task, PIECE, s->n);
    for (int64_t i = p.first; i < p.end; i += SW_BLOCK)
        s->of_block[i / SW_BLOCK] = squares_of_block(smaller(SW_BLOCK, p.end - i), s->x + i);
}

SW_KERNEL(SQUARES) {
    const real *gradient = call->operand[0];
    sw_wide_sum *sum = call->operand[1];
    const int64_t n = call->dim[0];
    for (int64_t first = 0; first < n; first += PIECES_AT_ONCE * PIECE) {
        squares s; /* not cleared: of_block is larger than what a reduction hands over at once */
        s.x = gradient + first;
        s.n = smaller(PIECES_AT_ONCE * PIECE, n - first);
        sw_parallel(device, n_pieces(s.n, PIECE), square, &s);
        for (int64_t block = 0; block * SW_BLOCK < s.n; block++)
            sw_wide_sum_add(sum, s.of_block[block]);
    }
}
