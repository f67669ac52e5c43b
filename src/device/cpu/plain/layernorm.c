/* layernorm.c: y = z w + b with z = (x - mean) d, d = 1 / sqrt(variance + epsilon), the variance divided by C (Ba et al. 2016).
 *
 * With g = dy w:   dx = d (g - mean(g) - z mean(g z)),   dw = sum over rows of dy z,   db = sum over rows of dy.
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"

SW_KERNEL(LAYERNORM) {
    const real *x = call->operand[0];           /* [n,C] */
    const parameter *weight = call->operand[1]; /* [C] */
    const parameter *bias = call->operand[2];   /* [C]? */
    real *y = call->operand[3];                 /* [n,C] */
    real *mean = call->operand[4];              /* [n] */
    real *inverse_deviation = call->operand[5]; /* [n] */
    const int64_t n = call->dim[0], C = call->dim[1];
    const real epsilon = (real)call->attribute[0];
    for (int64_t row = 0; row < n; row++, x += C, y += C) {
        const real middle = sum_row(C, x) / (real)C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            y[c] = x[c] - middle;
        const real d = 1 / real_sqrt(dot_rows(C, y, y) / (real)C + epsilon);
        mean[row] = middle;
        inverse_deviation[row] = d;
        if (bias) {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                y[c] = y[c] * d * widen(weight[c]) + widen(bias[c]);
        } else {
            SW_ELEMENTWISE
            for (int64_t c = 0; c < C; c++)
                y[c] = y[c] * d * widen(weight[c]);
        }
    }
}

SW_KERNEL(LAYERNORM_GRAD) {
    const real *dy = call->operand[0];                /* [n,C] */
    const real *x = call->operand[1];                 /* [n,C] */
    const parameter *weight = call->operand[2];       /* [C] */
    const real *mean = call->operand[3];              /* [n] */
    const real *inverse_deviation = call->operand[4]; /* [n] */
    real *dx = call->operand[5];                      /* [n,C]? */
    real *dweight = call->operand[6];                 /* [C]? */
    real *dbias = call->operand[7];                   /* [C]? */
    const int64_t n = call->dim[0], C = call->dim[1];
    const bool add = accumulates(call, 5);
    real *g = call->scratch, *z = g + C, *weight_sums = z + C, *bias_sums = weight_sums + 2 * C;
    columns_clear(C, weight_sums);
    columns_clear(C, bias_sums);
    for (int64_t row = 0; row < n; row++, x += C, dy += C) {
        const real middle = mean[row], d = inverse_deviation[row];
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++) {
            z[c] = (x[c] - middle) * d;
            g[c] = dy[c] * widen(weight[c]);
            weight_sums[c] += dy[c] * z[c];
            bias_sums[c] += dy[c];
        }
        columns_row(row, n, C, weight_sums);
        columns_row(row, n, C, bias_sums);
        if (!dx)
            continue;
        const real mean_g = sum_row(C, g) / (real)C, along = dot_rows(C, g, z) / (real)C;
        real *out = dx + row * C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            out[c] = (add ? out[c] : 0) + d * (g[c] - mean_g - z[c] * along);
    }
    if (dweight)
        columns_store(accumulates(call, 6), C, weight_sums, dweight);
    if (dbias)
        columns_store(accumulates(call, 7), C, bias_sums, dbias);
}
