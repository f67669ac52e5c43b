/* rmsnorm.c: y = x r w with r = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019).
 *
 * With g = dy w:   dx = r g - r^3 x mean(g x),   dw = sum over rows of dy x r.
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"

static void normalise_rows(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *x = call->operand[0];     /* [n,C] */
    const parameter *weight = call->operand[1]; /* [C] */
    activation *y = call->operand[2];           /* [n,C] */
    real *inverse_rms = call->operand[3];       /* [n] */
    const int64_t C = call->dim[1];
    const real epsilon = (real)call->attribute[0];
    const piece rows = piece_of(task, PIECE_ROWS, call->dim[0]);
    for (int64_t row = rows.first; row < rows.end; row++) {
        const activation *from = x + row * C;
        activation *to = y + row * C;
        const real r = 1 / real_sqrt(squares_row(C, from) / (real)C + epsilon);
        inverse_rms[row] = r;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            to[c] = stored(load(from[c]) * r * widen(weight[c]));
    }
}

SW_KERNEL(RMSNORM) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE_ROWS), normalise_rows);
}

/* A block of rows: their dx, and their part of the sums of dweight. */
static void differentiate_rows(void *arg, int64_t block, int worker) {
    const sw_kernel_call *call = arg;
    const int64_t n = call->dim[0], C = call->dim[1];
    const piece rows = column_block(block, n);
    const activation *dy = (const activation *)call->operand[0] + rows.first * C; /* [n,C] */
    const activation *x = (const activation *)call->operand[1] + rows.first * C;  /* [n,C] */
    const parameter *weight = call->operand[2];                                   /* [C] */
    const real *inverse_rms = call->operand[3];                                   /* [n] */
    activation *dx = call->operand[4];                                            /* [n,C]? */
    const bool add = accumulates(call, 4);
    real *all_sums = call->scratch, *sums = all_sums + block * C; /* [blocks,C] */
    real *g = all_sums + sw_column_blocks(n) * C + worker * 2 * C, *values = g + C;
    memset(sums, 0, (size_t)C * sizeof *sums);
    for (int64_t row = rows.first; row < rows.end; row++, x += C, dy += C) {
        const real r = inverse_rms[row];
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++) {
            const real d = load(dy[c]), value = load(x[c]);
            values[c] = value;
            g[c] = d * widen(weight[c]);
            sums[c] += d * (value * r);
        }
        if (!dx)
            continue;
        const real along = r * r * r * (dot_rows(C, g, values) / (real)C);
        activation *out = dx + row * C;
        if (add) {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                out[c] = stored(load(out[c]) + (r * g[c] - along * values[c]));
        } else {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                out[c] = stored(r * g[c] - along * values[c]);
        }
    }
}

SW_KERNEL(RMSNORM_GRAD) {
    const int64_t n = call->dim[0], C = call->dim[1], n_blocks = sw_column_blocks(n);
    run_pieces(device, call, n_blocks, differentiate_rows);
    if (call->operand[5])
        columns_total(accumulates(call, 5), n_blocks, C, call->scratch, C, call->operand[5]);
}
