/* linear.c: up to three matrix products of one x, side by side, and their gradients.
 *
 *   y = x [W0 | W1 | W2] + [b0 | b1 | b2] + residual          queries, keys and values, for one; or gate and up
 *
 * Weights that lie one after another, as those of a unit do when their sizes are multiples of SW_BLOCK, are one weight: then x is
 * packed once, and the gradient of x is one sum. Where they do not, there is a product for each. Elements of y and of the
 * weights' gradients are the same sums either way. An element of dx is a sum over all outputs, and is rounded between two
 * products; which weights lie together is settled by the layout, from their shapes, their order and which of them are trained,
 * and by nothing else.
 *
 * A bf16 weight is widened a panel of columns at a time into the call's scratch, each column of the product's inner length, so
 * that the products never see two types and no sum is cut.
 *
 * A product of at most SW_FEW_ROWS rows, as decoding has them, is another matter (few_rows.h): the choice is by shape alone.
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/few_rows.h"
#include "device/sizes.h"

enum { PARTS = 3 };

/* What the dimensions of a call say. */
typedef struct shape {
    int64_t n, in, out;
    bool is_out_in;      /* weights lie [out_i,in], else [in,out_i] */
    int64_t outs[PARTS]; /* 0: absent */
} shape;

static shape shape_of(const sw_kernel_call *call) {
    shape s = {.n = call->dim[0], .in = call->dim[1], .is_out_in = call->dim[2] == 0};
    for (int i = 0; i < PARTS; i++)
        s.out += s.outs[i] = call->dim[3 + i];
    return s;
}

/* Columns first .. first + n - 1 of y, and operand `part` (0, 1, 2), which holds their weight or its gradient. */
typedef struct product {
    int part;
    int64_t first, n;
} product;

/* The products of a call: a weight that begins where the one before ends is joined to it. `at` are its addresses, in elements of
 * `bytes`; absent ones (frozen: no gradient is wanted) are left out, and what is added to is not joined to what is written. */
static int list_products(const shape *s, void *const at[PARTS], size_t bytes, uint32_t added, product products[PARTS]) {
    int n = 0;
    int64_t first = 0;
    for (int i = 0; i < PARTS; first += s->outs[i++]) {
        if (!s->outs[i] || !at[i])
            continue;
        product *before = n ? &products[n - 1] : NULL;
        const bool is_next = before && s->is_out_in && before->first + before->n == first &&
                             (const char *)at[i] == (const char *)at[before->part] + bytes * (size_t)(before->n * s->in) &&
                             (added >> i & 1) == (added >> before->part & 1);
        if (is_next)
            before->n += s->outs[i];
        else
            products[n++] = (product){i, first, s->outs[i]};
    }
    return n;
}

/* C[m,n] = (or +=) A[m,k] op(W), rows of A and C `a_stride` and `c_stride` apart, W lying as [n,k] when `turned`, else [k,n]. */
static void multiply_weight(const sw_device *device, const sw_kernel_call *call, bool turned, int64_t m, int64_t n, int64_t k,
                            const real *a, int64_t a_stride, const parameter *weight, real beta, real *c, int64_t c_stride) {
    const int64_t stride = turned ? k : n;
#ifdef SW_KIND_bf16
    real *panel = call->scratch;
    const int64_t width = sw_weight_panel(n, k);
    for (int64_t column = 0; column < n; column += width) {
        const int64_t n_columns = smaller(width, n - column);
        const int64_t n_rows = turned ? n_columns : k, row_length = turned ? k : n_columns;
        const parameter *from = turned ? weight + column * stride : weight + column;
        for (int64_t row = 0; row < n_rows; row++) {
            SW_ELEMENTWISE
            for (int64_t i = 0; i < row_length; i++)
                panel[row * row_length + i] = widen(from[row * stride + i]);
        }
        multiply(device, false, turned, m, n_columns, k, 1, a, a_stride, panel, row_length, beta, c + column, c_stride);
    }
#else
    (void)call;
    multiply(device, false, turned, m, n, k, 1, a, a_stride, weight, stride, beta, c, c_stride);
#endif
}

/* y = residual + biases, to which the products are added. False: there is neither. */
static bool begin_with_sums(const shape *s, const sw_kernel_call *call, const real *residual, real *y) {
    bool has_bias = false;
    for (int i = 0; i < PARTS; i++)
        has_bias |= call->operand[4 + i] != NULL;
    if (!residual && !has_bias)
        return false;
    for (int64_t row = 0; row < s->n; row++) {
        int64_t first = row * s->out;
        for (int i = 0; i < PARTS; first += s->outs[i++]) {
            const parameter *bias = call->operand[4 + i]; /* [out_i]? */
            SW_ELEMENTWISE
            for (int64_t o = 0; o < s->outs[i]; o++)
                y[first + o] = (residual ? residual[first + o] : 0) + (bias ? widen(bias[o]) : 0);
        }
    }
    return true;
}

SW_KERNEL(LINEAR) {
    const shape s = shape_of(call);
    const real *x = call->operand[0];        /* [n,in] */
    const real *residual = call->operand[7]; /* [n,out]? */
    real *y = call->operand[8];              /* [n,out] */
    product products[PARTS];
    if (s.n <= SW_FEW_ROWS) {
        int64_t first = 0;
        for (int i = 0; i < PARTS; first += s.outs[i++])
            multiply_few_rows((few_rows){.n = s.n,
                                         .in = s.in,
                                         .out = s.outs[i],
                                         .y_stride = s.out,
                                         .x = x,
                                         .weight = call->operand[1 + i],
                                         .bias = call->operand[4 + i],
                                         .residual = residual ? residual + first : NULL,
                                         .y = y + first},
                              s.is_out_in, call->scratch);
        return;
    }
    const bool adds = begin_with_sums(&s, call, residual, y);
    const int n_products = list_products(&s, call->operand + 1, sizeof(parameter), 0, products);
    for (int i = 0; i < n_products; i++) {
        const product *p = &products[i];
        multiply_weight(device, call, s.is_out_in, s.n, p->n, s.in, x, s.in, call->operand[1 + p->part], adds ? 1 : 0,
                        y + p->first, s.out);
    }
}

SW_KERNEL(LINEAR_GRAD_INPUT) {
    const shape s = shape_of(call);
    const real *dy = call->operand[0]; /* [n,out] */
    real *dx = call->operand[4];       /* [n,in] */
    product products[PARTS];
    const int n_products = list_products(&s, call->operand + 1, sizeof(parameter), 0, products);
    for (int i = 0; i < n_products; i++) {
        const product *p = &products[i];
        multiply_weight(device, call, !s.is_out_in, s.n, s.in, p->n, dy + p->first, s.out, call->operand[1 + p->part],
                        i > 0 || accumulates(call, 4) ? 1 : 0, dx, s.in);
    }
}

/* A block of rows of dy into its part of the sums of the biases' gradients. */
static void sum_rows(void *arg, int64_t block, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const shape s = shape_of(call);
    const activation *dy = call->operand[0];
    const piece rows = column_block(block, s.n);
    real *sums = (real *)call->scratch + block * s.out;
    memset(sums, 0, (size_t)s.out * sizeof *sums);
    for (int64_t row = rows.first; row < rows.end; row++) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < s.out; i++)
            sums[i] += load(dy[row * s.out + i]);
    }
}

/* Of the biases that are trained. */
static void bias_gradients(const sw_device *device, const shape *s, const sw_kernel_call *call) {
    const int64_t n_blocks = sw_column_blocks(s->n);
    run_pieces(device, call, n_blocks, sum_rows);
    const real *sums = call->scratch;
    for (int i = 0; i < PARTS; sums += s->outs[i++])
        if (call->operand[5 + i])
            columns_total(accumulates(call, 5 + i), n_blocks, s->out, sums, s->outs[i], call->operand[5 + i]);
}

SW_KERNEL(LINEAR_GRAD_WEIGHT) {
    const shape s = shape_of(call);
    const real *dy = call->operand[0]; /* [n,out] */
    const real *x = call->operand[1];  /* [n,in] */
    product products[PARTS];
    const int n_products = list_products(&s, call->operand + 2, sizeof(real), call->accumulate >> 2, products);
    for (int i = 0; i < n_products; i++) {
        const product *p = &products[i];
        real *dweight = call->operand[2 + p->part]; /* [out_i,in] or [in,out_i] */
        const real beta = accumulates(call, 2 + p->part) ? 1 : 0;
        if (s.is_out_in)
            multiply(device, true, false, p->n, s.in, s.n, 1, dy + p->first, s.out, x, s.in, beta, dweight, s.in);
        else
            multiply(device, true, false, s.in, p->n, s.n, 1, x, s.in, dy + p->first, s.out, beta, dweight, p->n);
    }
    if (call->operand[5] || call->operand[6] || call->operand[7])
        bias_gradients(device, &s, call);
}
