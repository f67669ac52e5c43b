/* linear.c: y = x W + b and its gradients.
 *
 * A product of at most SW_FEW_ROWS rows, as decoding has them, reads the weight as it lies (few_rows.h): the choice is by shape
 * alone.
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/few_rows.h"
#include "device/sizes.h"

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
    const sw_product product = {.m = n,
                                .n = out,
                                .k = in,
                                .alpha = 1,
                                .a = {x, in, false, SW_ACTIVATION_TYPE},
                                .b = {weight, layout == 0 ? in : out, layout == 0, SW_PARAMETER_TYPE},
                                .c = y,
                                .c_stride = out,
                                .c_type = SW_ACTIVATION_TYPE,
                                .bias = bias,
                                .bias_type = SW_PARAMETER_TYPE,
                                .workspace = call->scratch};
    sw_multiply(device, &product);
}

SW_KERNEL(LINEAR_GRAD_INPUT) {
    const real *dy = call->operand[0];          /* [n,out] */
    const parameter *weight = call->operand[1]; /* [out,in] or [in,out] */
    real *dx = call->operand[2];                /* [n,in] */
    const int64_t n = call->dim[0], in = call->dim[1], out = call->dim[2], layout = call->dim[3];
    const sw_product product = {.m = n,
                                .n = in,
                                .k = out,
                                .alpha = 1,
                                .a = {dy, out, false, SW_ACTIVATION_TYPE},
                                .b = {weight, layout == 0 ? in : out, layout == 1, SW_PARAMETER_TYPE},
                                .c = dx,
                                .c_stride = in,
                                .c_type = SW_ACTIVATION_TYPE,
                                .addend = accumulates(call, 2) ? dx : NULL,
                                .addend_stride = in,
                                .workspace = call->scratch};
    sw_multiply(device, &product);
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
    const sw_matrix of_dy = {dy, out, true, SW_ACTIVATION_TYPE}, of_x = {x, in, true, SW_ACTIVATION_TYPE};
    sw_product product = {.m = layout == 0 ? out : in,
                          .n = layout == 0 ? in : out,
                          .k = n,
                          .alpha = 1,
                          .a = layout == 0 ? of_dy : of_x,
                          .b = layout == 0 ? of_x : of_dy,
                          .c = dweight,
                          .c_stride = layout == 0 ? in : out,
                          .c_type = SW_REAL_TYPE,
                          .addend = accumulates(call, 2) ? dweight : NULL,
                          .addend_stride = layout == 0 ? in : out,
                          .workspace = call->scratch};
    product.b.is_turned = false;
    sw_multiply(device, &product);
    if (dbias) {
        const int64_t n_blocks = sw_column_blocks(n);
        sw_kernel_call sums = *call;
        sums.scratch = own_scratch(device, call);
        run_pieces(device, &sums, n_blocks, sum_rows);
        columns_total(accumulates(call, 3), n_blocks, out, sums.scratch, out, dbias);
    }
}
