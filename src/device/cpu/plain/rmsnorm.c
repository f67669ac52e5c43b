/* rmsnorm.c: y = x r w with r = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019).
 *
 * With g = dy w:   dx = r g - r^3 x mean(g x),   dw = sum over rows of dy x r.
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"

SW_KERNEL(RMSNORM) {
    const real *x = call->operand[0];           /* [n,C] */
    const parameter *weight = call->operand[1]; /* [C] */
    real *y = call->operand[2];                 /* [n,C] */
    real *inverse_rms = call->operand[3];       /* [n] */
    const int64_t n = call->dim[0], C = call->dim[1];
    const real epsilon = (real)call->attribute[0];
    for (int64_t row = 0; row < n; row++, x += C, y += C) {
        const real r = 1 / real_sqrt(dot_rows(C, x, x) / (real)C + epsilon);
        inverse_rms[row] = r;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            y[c] = x[c] * r * widen(weight[c]);
    }
}

SW_KERNEL(RMSNORM_GRAD) {
    const real *dy = call->operand[0];          /* [n,C] */
    const real *x = call->operand[1];           /* [n,C] */
    const parameter *weight = call->operand[2]; /* [C] */
    const real *inverse_rms = call->operand[3]; /* [n] */
    real *dx = call->operand[4];                /* [n,C]? */
    real *dweight = call->operand[5];           /* [C]? */
    const int64_t n = call->dim[0], C = call->dim[1];
    const bool add = accumulates(call, 4);
    real *g = call->scratch, *sums = g + C;
    columns_clear(C, sums);
    for (int64_t row = 0; row < n; row++, x += C, dy += C) {
        const real r = inverse_rms[row];
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++) {
            g[c] = dy[c] * widen(weight[c]);
            sums[c] += dy[c] * (x[c] * r);
        }
        columns_row(row, n, C, sums);
        if (!dx)
            continue;
        const real along = r * r * r * (dot_rows(C, g, x) / (real)C);
        real *out = dx + row * C;
        SW_ELEMENTWISE
        for (int64_t c = 0; c < C; c++)
            out[c] = (add ? out[c] : 0) + (r * g[c] - along * x[c]);
    }
    if (dweight)
        columns_store(accumulates(call, 5), C, sums, dweight);
}
