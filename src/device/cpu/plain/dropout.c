/* dropout.c: keep an element with probability 1 - p and scale it by 1 / (1 - p). Which ones is a function of (seed, stream,
 * logical row, element): sw_dropout_keeps in base/philox.h, computed here 256 elements at a time. */
#include "device/cpu/plain/random.h"

SW_KERNEL(DROPOUT) {
    const real *x = call->operand[0]; /* [B*T,C] */
    real *y = call->operand[1];       /* [B*T,C] */
    const int64_t B = call->dim[0], elements = call->dim[1] * call->dim[2];
    const double probability = call->attribute[0];
    const bool add = accumulates(call, 1);
    const uint64_t key = sw_philox_key(call->scalars->seed, SW_PURPOSE_DROPOUT);
    const real scale = (real)(1 / (1 - probability));
    /* word >= bound as a comparison of integers: words are whole numbers, so the bound may be rounded up */
    const double exact_bound = probability * 4294967296.0;
    uint64_t bound = (uint64_t)exact_bound;
    bound += (double)bound < exact_bound;
    for (int64_t b = 0; b < B; b++) {
        const uint64_t row = (uint64_t)(call->scalars->first_row + b);
        for (int64_t first = 0; first < elements; first += 4 * COUNTERS) {
            const int64_t n = smaller(4 * COUNTERS, elements - first);
            uint32_t words[4][COUNTERS];
            real factor[4 * COUNTERS];
            philox_run((uint32_t)(first / 4), (uint32_t)call->dim[3], (uint32_t)row, (uint32_t)(row >> 32), key, words);
            for (int i = 0; i < COUNTERS; i++)
                for (int w = 0; w < 4; w++)
                    factor[4 * i + w] = words[w][i] >= bound ? scale : 0;
            const real *from = x + b * elements + first;
            real *to = y + b * elements + first;
            SW_ELEMENTWISE
            for (int64_t i = 0; i < n; i++)
                to[i] = (add ? to[i] : 0) + from[i] * factor[i];
        }
    }
}
