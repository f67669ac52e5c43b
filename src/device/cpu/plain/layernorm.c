/* layernorm.c: y = z w + b with z = (x - mean) d, d = 1 / sqrt(variance + epsilon), the variance
 * divided by C (Ba et al. 2016).
 *
 * With g = dy w:
 *
 *   dx = d (g - mean(g) - z mean(g z)),   dw = sum over rows of dy z,   db = sum over rows of dy
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"

static void normalise_rows(void *arg, int64_t task, int worker) {
    const sw_kernel_call *call = arg;
    const int64_t C = call->dim[1];
    const piece rows = piece_of(task, PIECE_ROWS, call->dim[0]);
    const activation *x = (const activation *)call->operand[0] + rows.first * C; /* [n,C] */
    const parameter *weight = call->operand[1];                                  /* [C] */
    const parameter *bias = call->operand[2];                                    /* [C]? */
    activation *y = (activation *)call->operand[3] + rows.first * C;             /* [n,C] */
    real *mean = call->operand[4];                                               /* [n] */
    real *inverse_deviation = call->operand[5];                                  /* [n] */
    const real epsilon = (real)call->attribute[0];
    real *z = (real *)call->scratch + worker * C;
    for (int64_t row = rows.first; row < rows.end; row++, x += C, y += C) {
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            z[c] = load(x[c]);
        const real middle = sum_row(C, z) / (real)C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            z[c] -= middle;
        const real d = 1 / real_sqrt(dot_rows(C, z, z) / (real)C + epsilon);
        mean[row] = middle;
        inverse_deviation[row] = d;
        if (bias) {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                y[c] = stored(z[c] * d * widen(weight[c]) + widen(bias[c]));
        } else {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                y[c] = stored(z[c] * d * widen(weight[c]));
        }
    }
}

SW_KERNEL(LAYERNORM) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE_ROWS), normalise_rows);
}

/* A block of rows: their dx, and their part of the sums of dweight and dbias. */
static void differentiate_rows(void *arg, int64_t block, int worker) {
    const sw_kernel_call *call = arg;
    const int64_t n = call->dim[0], C = call->dim[1];
    const piece rows = column_block(block, n);
    const activation *dy = (const activation *)call->operand[0] + rows.first * C; /* [n,C] */
    const activation *x = (const activation *)call->operand[1] + rows.first * C;  /* [n,C] */
    const parameter *weight = call->operand[2];                                   /* [C] */
    const real *mean = call->operand[3];                                          /* [n] */
    const real *inverse_deviation = call->operand[4];                             /* [n] */
    activation *dx = call->operand[5];                                            /* [n,C]? */
    const bool add = accumulates(call, 5);
    real *all_sums = call->scratch, *weight_sums = all_sums + block * 2 * C,
         *bias_sums = weight_sums + C; /* [blocks,2,C] */
    real *g = all_sums + sw_column_blocks(n) * 2 * C + worker * 2 * C, *z = g + C;
    memset(weight_sums, 0, 2 * (size_t)C * sizeof *weight_sums);
    for (int64_t row = rows.first; row < rows.end; row++, x += C, dy += C) {
        const real middle = mean[row], d = inverse_deviation[row];
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++) {
            const real change = load(dy[c]);
            z[c] = (load(x[c]) - middle) * d;
            g[c] = change * widen(weight[c]);
            weight_sums[c] += change * z[c];
            bias_sums[c] += change;
        }
        if (!dx)
            continue;
        const real mean_g = sum_row(C, g) / (real)C, along = dot_rows(C, g, z) / (real)C;
        activation *out = dx + row * C;
        if (add) {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                out[c] = stored(load(out[c]) + d * (g[c] - mean_g - z[c] * along));
        } else {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                out[c] = stored(d * (g[c] - mean_g - z[c] * along));
        }
    }
}

SW_KERNEL(LAYERNORM_GRAD) {
    const int64_t n = call->dim[0], C = call->dim[1], n_blocks = sw_column_blocks(n);
    const real *sums = call->scratch;
    run_pieces(device, call, n_blocks, differentiate_rows);
    if (call->operand[6])
        columns_total(accumulates(call, 6), n_blocks, 2 * C, sums, C, call->operand[6]);
    if (call->operand[7])
        columns_total(accumulates(call, 7), n_blocks, 2 * C, sums + C, C, call->operand[7]);
}
