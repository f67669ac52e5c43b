/* dropout.c: keep an element with probability 1 - p and scale it by 1 / (1 - p). Which ones is a
 * function of (seed, stream, logical row, element): sw_dropout_keeps in base/philox.h, computed
 * here 256 elements at a time. */
#include "device/cpu/plain/pieces.h"
#include "device/cpu/plain/random.h"

/* A piece of the elements of one row of the micro-batch. */
static void drop(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *x = call->operand[0]; /* [B*T,C] */
    activation *y = call->operand[1];       /* [B*T,C] */
    const int64_t elements = call->dim[1] * call->dim[2], pieces_of_row = n_pieces(elements, PIECE);
    const int64_t b = task / pieces_of_row;
    const piece p = piece_of(task % pieces_of_row, PIECE, elements);
    const double probability = call->attribute[0];
    const bool add = accumulates(call, 1);
    const uint64_t key = sw_philox_key(call->scalars->seed, SW_PURPOSE_DROPOUT);
    const uint64_t row = (uint64_t)(call->scalars->first_row + b);
    const real scale = (real)(1 / (1 - probability));
    /* word >= bound as a comparison of integers: words are whole numbers, so the bound may be
     * rounded up */
    const double exact_bound = probability * 4294967296.0;
    uint64_t bound = (uint64_t)exact_bound;
    bound += (double)bound < exact_bound;
    for (int64_t first = p.first; first < p.end; first += 4 * COUNTERS) {
        const int64_t n = smaller(4 * COUNTERS, p.end - first);
        uint32_t words[4][COUNTERS];
        real factor[4 * COUNTERS];
        philox_run((uint32_t)(first / 4), (uint32_t)call->dim[3], (uint32_t)row,
                   (uint32_t)(row >> 32), key, words);
        for (int i = 0; i < COUNTERS; i++)
            for (int w = 0; w < 4; w++)
                factor[4 * i + w] = words[w][i] >= bound ? scale : 0;
        const activation *from = x + b * elements + first;
        activation *to = y + b * elements + first;
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            to[i] = stored((add ? load(to[i]) : 0) + load(from[i]) * factor[i]);
    }
}

SW_KERNEL(DROPOUT) {
    run_pieces(device, call, call->dim[0] * n_pieces(call->dim[1] * call->dim[2], PIECE), drop);
}
