/* scale.c: values times a constant. */
#include "device/cpu/plain/pieces.h"

static void scale(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *x = call->operand[0];
    activation *y = call->operand[1];
    const piece p = piece_of(task, PIECE, call->dim[0]);
    const real factor = (real)call->attribute[0];
    if (accumulates(call, 1)) {
        SW_ELEMENTWISE
        for (int64_t i = p.first; i < p.end; i++)
            y[i] = stored(load(y[i]) + factor * load(x[i]));
    } else {
        SW_ELEMENTWISE
        for (int64_t i = p.first; i < p.end; i++)
            y[i] = stored(factor * load(x[i]));
    }
}

SW_KERNEL(SCALE) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), scale);
}
