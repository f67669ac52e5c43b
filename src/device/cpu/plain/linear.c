/* linear.c: y = x W + b and its gradients.
 *
 * A bf16 weight is widened a panel of columns at a time into the call's scratch, each column of the product's inner length, so
 * that the products never see two types and no sum is cut.
 *
 * A product of at most SW_FEW_ROWS rows, as decoding has them, is another matter (few_rows.h): the choice is by shape alone.
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/few_rows.h"
#include "device/sizes.h"

/* C[m,n] = (or +=) A[m,k] op(W), W lying as [n,k] when `turned`, else as [k,n], rows `n` or `k` apart. */
static void multiply_weight(const sw_device *device, const sw_kernel_call *call, bool turned, int64_t m, int64_t n, int64_t k,
                            const real *a, const parameter *weight, real beta, real *c) {
    const int64_t stride = turned ? k : n;
#ifdef SW_KIND_bf16
    real *panel = call->scratch;
    const int64_t width = sw_weight_panel(n, k);
    for (int64_t column = 0; column < n; column += width) {
        const int64_t columns = smaller(width, n - column);
        const int64_t n_rows = turned ? columns : k, row_length = turned ? k : columns;
        const parameter *from = turned ? weight + column * stride : weight + column;
        for (int64_t row = 0; row < n_rows; row++) {
            SW_ELEMENTWISE
            for (int64_t i = 0; i < row_length; i++)
                panel[row * row_length + i] = widen(from[row * stride + i]);
        }
        multiply(device, false, turned, m, columns, k, 1, a, k, panel, row_length, beta, c + column, n);
    }
#else
    (void)call;
    multiply(device, false, turned, m, n, k, 1, a, k, weight, stride, beta, c, n);
#endif
}

SW_KERNEL(LINEAR) {
    const real *x = call->operand[0];           /* [n,in] */
    const parameter *weight = call->operand[1]; /* [out,in] or [in,out] */
    const parameter *bias = call->operand[2];   /* [out]? */
    real *y = call->operand[3];                 /* [n,out] */
    const int64_t n = call->dim[0], in = call->dim[1], out = call->dim[2], layout = call->dim[3];
    if (n <= SW_FEW_ROWS) {
        multiply_few_rows(n, in, out, layout == 0, x, weight, bias, call->scratch, y);
        return;
    }
    if (bias)
        for (int64_t row = 0; row < n; row++) {
            SW_ELEMENTWISE
            for (int64_t i = 0; i < out; i++)
                y[row * out + i] = widen(bias[i]);
        }
    multiply_weight(device, call, layout == 0, n, out, in, x, weight, bias ? 1 : 0, y);
}

SW_KERNEL(LINEAR_GRAD_INPUT) {
    const real *dy = call->operand[0];          /* [n,out] */
    const parameter *weight = call->operand[1]; /* [out,in] or [in,out] */
    real *dx = call->operand[2];                /* [n,in] */
    const int64_t n = call->dim[0], in = call->dim[1], out = call->dim[2], layout = call->dim[3];
    multiply_weight(device, call, layout == 1, n, in, out, dy, weight, accumulates(call, 2) ? 1 : 0, dx);
}

/* A block of rows of dy into its part of the sums of dbias. */
static void sum_rows(void *arg, int64_t block, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const int64_t out = call->dim[2];
    const activation *dy = call->operand[0];
    const piece rows = column_block(block, call->dim[0]);
    real *sums = (real *)call->scratch + block * out;
    memset(sums, 0, (size_t)out * sizeof *sums);
    for (int64_t row = rows.first; row < rows.end; row++) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < out; i++)
            sums[i] += load(dy[row * out + i]);
    }
}

SW_KERNEL(LINEAR_GRAD_WEIGHT) {
    const real *dy = call->operand[0]; /* [n,out] */
    const real *x = call->operand[1];  /* [n,in] */
    real *dweight = call->operand[2];  /* [out,in] or [in,out] */
    real *dbias = call->operand[3];    /* [out]? */
    const int64_t n = call->dim[0], in = call->dim[1], out = call->dim[2], layout = call->dim[3];
    const real beta = accumulates(call, 2) ? 1 : 0;
    if (layout == 0)
        multiply(device, true, false, out, in, n, 1, dy, out, x, in, beta, dweight, in);
    else
        multiply(device, true, false, in, out, n, 1, x, in, dy, out, beta, dweight, out);
    if (dbias) {
        const int64_t n_blocks = sw_column_blocks(n);
        run_pieces(device, call, n_blocks, sum_rows);
        columns_total(accumulates(call, 3), n_blocks, out, call->scratch, out, dbias);
    }
}
