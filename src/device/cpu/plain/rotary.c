/* rotary.c: rotary position embedding (Su et al. 2021), channel i of a head turning with channel i
 * + D/2. */
#include "device/cpu/plain/pieces.h"
#include "device/cpu/plain/turn.h"

#include <math.h>

/* Radians per token of channel pair i: theta^(-2i/D), divided by `factor` where the ramp does not
 * keep it. */
static double frequency(const sw_kernel_call *call, int64_t i) {
    const double theta = call->attribute[0], factor = call->attribute[1], from = call->attribute[2],
                 to = call->attribute[3];
    const double f = pow(theta, -2.0 * (double)i / (double)call->dim[1]);
    const int64_t ramp = call->dim[2];
    const double kept =
        ramp == 0 ? 0 : fmin(1, fmax(0, ((ramp == 1 ? (double)i : f) - from) / (to - from)));
    return f * (kept + (1 - kept) / factor);
}

SW_KERNEL(ROTARY_TABLE) {
    real *table = call->operand[0]; /* [T,D/2,2] of (cos, sin) */
    const int64_t T = call->dim[0], D = call->dim[1];
    const double amplitude = call->attribute[4];
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < D / 2; i++, table += 2) {
            const double angle = (double)t * frequency(call, i);
            table[0] = (real)(amplitude * cos(angle));
            table[1] = (real)(amplitude * sin(angle));
        }
}

static void turn_rows(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *x = call->operand[0]; /* [B*T,stride] */
    const real *table = call->operand[1];   /* [T,D/2,2] */
    activation *y = call->operand[2];       /* [B*T,stride] */
    const int64_t T = call->dim[1], heads = call->dim[2], D = call->dim[3], stride = call->dim[4];
    const piece rows = piece_of(task, PIECE_ROWS, call->dim[0] * T);
    for (int64_t row = rows.first; row < rows.end; row++)
        turn_row(heads, D, stride, (real)call->attribute[0], table + row % T * D, x + row * stride,
                 y + row * stride);
}

SW_KERNEL(ROTARY) {
    run_pieces(device, call, n_pieces(call->dim[0] * call->dim[1], PIECE_ROWS), turn_rows);
}
