/* normal.c: normal numbers for initial weights, each a function of (seed, stream, index): any cut
 * of a parameter draws the same.
 *
 * Numbers 4c .. 4c+3 come from counter (c low, c high, stream low, stream high) under
 * sw_philox_key(seed, SW_PURPOSE_INIT), by Box and Muller (1958) on words (0, 1) and (2, 3) of it:
 *
 *   u = word0 * 2^-32 + 2^-33  in (0, 1]       radius = sqrt(-2 log u)
 *   t = (int32)word1 * 2^-32   in [-0.5, 0.5)  numbers 4c, 4c+1 = std * radius * (cos, sin)(2 pi t)
 *
 * word0 and word1 are rounded to R first. The largest number in reach is sqrt(66 log 2) = 6.76
 * deviations.
 */
#include "device/cpu/plain/math.h"
#include "device/cpu/plain/pieces.h"
#include "device/cpu/plain/random.h"

/* Normal numbers 4 * COUNTERS * block and the following. */
static void normal_block(uint64_t block, uint64_t seed, uint64_t stream, real std, real *numbers) {
    uint32_t words[4][COUNTERS];
    real pairs[4][COUNTERS];
    const uint64_t counter = block * COUNTERS;
    philox_run((uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream,
               (uint32_t)(stream >> 32), sw_philox_key(seed, SW_PURPOSE_INIT), words);
    for (int pair = 0; pair < 4; pair += 2)
        for (int i = 0; i < COUNTERS; i++) {
            const real u = (real)words[pair][i] * (real)0x1p-32 + (real)0x1p-33;
            const real t = (real)(int32_t)words[pair + 1][i] * (real)0x1p-32;
            const real radius = std * real_sqrt(-2 * real_log(u));
            real cosine, sine;
            real_turn(t, &cosine, &sine);
            pairs[pair][i] = radius * cosine;
            pairs[pair + 1][i] = radius * sine;
        }
    for (int i = 0; i < COUNTERS; i++)
        for (int w = 0; w < 4; w++)
            numbers[4 * i + w] = pairs[w][i];
}

static void draw(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    real *y = call->operand[0];
    const piece p = piece_of(task, PIECE, call->dim[0]);
    const int64_t first = call->dim[2], block_size = 4 * COUNTERS;
    const real std = (real)call->attribute[0];
    real numbers[4 * COUNTERS];
    for (int64_t i = p.first; i < p.end;) {
        const int64_t block = (first + i) / block_size, within = (first + i) % block_size;
        const int64_t here = smaller(block_size - within, p.end - i);
        normal_block((uint64_t)block, call->scalars->seed, (uint64_t)call->dim[1], std, numbers);
        memcpy(y + i, numbers + within, (size_t)here * sizeof *y);
        i += here;
    }
}

SW_KERNEL(NORMAL) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), draw);
}
