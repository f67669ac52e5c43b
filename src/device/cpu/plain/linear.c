/* linear.c: up to three matrix products of one x, side by side, and their gradients.
 *
 *   y = x [W0 | W1 | W2] + [b0 | b1 | b2] + residual          queries, keys and values, for one; or
 *                                                             gate and up
 *
 * Weights that lie one after another, as those of a unit do when their sizes are multiples of
 * SW_BLOCK, are one weight: then x is packed once, and the gradient of x is one sum. Where they do
 * not, there is a product for each. Elements of y and of the weights' gradients are the same sums
 * either way. An element of dx is a sum over all outputs, and is rounded between two products;
 * which weights lie together is settled by the layout, from their shapes, their order and which of
 * them are trained, and by nothing else.
 *
 * A product of at most SW_SKINNY_ROWS rows, as decoding has them, reads the weight as it lies
 * (skinny_gemm.h): the choice is by shape alone.
 */
#include "device/cpu/plain/columns.h"
#include "device/cpu/plain/skinny_gemm.h"
#include "device/cpu/plain/turn.h"
#include "device/sizes.h"

enum { PARTS = 3 };

/* What the dimensions of a call say. */
typedef struct shape {
    int64_t n, in, out;
    int64_t heads, D, T; /* of LINEAR: heads that are turned */
    bool is_out_in;      /* weights lie [out_i,in], else [in,out_i] */
    int64_t outs[PARTS]; /* 0: absent */
} shape;

static shape shape_of(const sw_kernel_call *call) {
    shape s = {.n = call->dim[0], .in = call->dim[1], .is_out_in = call->dim[2] == 0};
    for (int i = 0; i < PARTS; i++)
        s.out += s.outs[i] = call->dim[3 + i];
    s.heads = call->dim[6], s.D = call->dim[7], s.T = call->dim[8];
    return s;
}

/* Columns first .. first + n - 1 of y, and operand `part` (0, 1, 2), which holds their weight or
 * its gradient. */
typedef struct product {
    int part;
    int64_t first, n;
} product;

/* The products of a call: a weight that begins where the one before ends is joined to it. `at` are
 * its addresses, in elements of `bytes`; absent ones (frozen: no gradient is wanted) are left out,
 * and what is added to is not joined to what is written. */
static int list_products(const shape *s, void *const at[PARTS], size_t bytes, uint32_t added,
                         product products[PARTS]) {
    int n = 0;
    int64_t first = 0;
    for (int i = 0; i < PARTS; first += s->outs[i++]) {
        if (!s->outs[i] || !at[i])
            continue;
        product *before = n ? &products[n - 1] : NULL;
        const bool is_next = before && s->is_out_in && before->first + before->n == first &&
                             (const char *)at[i] == (const char *)at[before->part] +
                                                        bytes * (size_t)(before->n * s->in) &&
                             (added >> i & 1) == (added >> before->part & 1);
        if (is_next)
            before->n += s->outs[i];
        else
            products[n++] = (product){i, first, s->outs[i]};
    }
    return n;
}

/* As [in,p->n] in forward, as [p->n,in] for the gradient of x. */
static sw_matrix weight_matrix(const shape *s, const product *p, const void *weight,
                               bool is_forward) {
    return (sw_matrix){weight, s->is_out_in ? s->in : p->n, is_forward == s->is_out_in,
                       SW_PARAMETER_TYPE};
}

static void multiply_few(const sw_device *device, const shape *s, const sw_kernel_call *call,
                         const activation *x, const activation *residual, activation *y) {
    skinny_gemm products[PARTS];
    int n = 0;
    for (int64_t first = 0; n < PARTS && s->outs[n] > 0; first += s->outs[n++])
        products[n] = (skinny_gemm){.n = s->n,
                                    .in = s->in,
                                    .out = s->outs[n],
                                    .y_stride = s->out,
                                    .weight = call->operand[1 + n],
                                    .bias = call->operand[4 + n],
                                    .residual = residual ? residual + first : NULL,
                                    .y = y + first};
    multiply_skinny(device, n, products, s->is_out_in, x, call->scratch);
}

/* [out] of reals, zero where a product has no bias; NULL if none has. One product alone has its
 * own. */
static const real *biases_together(const sw_device *device, const shape *s,
                                   const sw_kernel_call *call) {
    if (!call->operand[4] && !call->operand[5] && !call->operand[6])
        return NULL;
    real *together = own_scratch(device, call);
    int64_t first = 0;
    for (int i = 0; i < PARTS; first += s->outs[i++]) {
        const parameter *bias = call->operand[4 + i]; /* [out_i]? */
        for (int64_t o = 0; o < s->outs[i]; o++)
            together[first + o] = bias ? widen(bias[o]) : 0;
    }
    return together;
}

_Static_assert(SW_SKINNY_ROWS <= PIECE_ROWS, "few rows are turned by one task");

/* Where the product cannot do it as it stores. */
static void turn_rows(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const shape s = shape_of(call);
    activation *y = call->operand[8];     /* [n,out] */
    const real *table = call->operand[9]; /* [T,D/2,2] */
    const piece rows = piece_of(task, PIECE_ROWS, s.n);
    for (int64_t row = rows.first; row < rows.end; row++)
        turn_row(s.heads, s.D, s.out, 1, table + row % s.T * s.D, y + row * s.out, y + row * s.out);
}

/* Heads of the columns of `p` that are turned as it is stored. */
static sw_rotation rotation_of(const shape *s, const sw_kernel_call *call, const product *p) {
    return (sw_rotation){
        .table = call->operand[9], .T = s->T, .D = s->D, .columns = s->heads * s->D - p->first};
}

/* Can every product turn its heads, none of which may lie in two of them? */
static bool turn_in_store(const sw_device *device, const shape *s, int n, const product *products) {
    const sw_product any = {
        .c_type = SW_ACTIVATION_TYPE, .a.type = SW_ACTIVATION_TYPE, .b.type = SW_PARAMETER_TYPE};
    bool can = sw_product_turns(device, &any, s->D);
    for (int i = 0; i < n; i++)
        can = can && (products[i].first % s->D == 0 || products[i].first >= s->heads * s->D);
    return can;
}

SW_KERNEL(LINEAR) {
    const shape s = shape_of(call);
    const activation *x = call->operand[0];        /* [n,in] */
    const activation *residual = call->operand[7]; /* [n,out]? */
    activation *y = call->operand[8];              /* [n,out] */
    if (s.n <= SW_SKINNY_ROWS) {
        multiply_few(device, &s, call, x, residual, y);
        if (call->operand[9])
            turn_rows((void *)(uintptr_t)call, 0, 0);
        return;
    }
    const bool is_one = s.outs[0] == s.out;
    const real *biases = is_one ? NULL : biases_together(device, &s, call);
    product products[PARTS];
    const int n_products = list_products(&s, call->operand + 1, sizeof(parameter), 0, products);
    const bool turns_in_store = call->operand[9] && turn_in_store(device, &s, n_products, products);
    for (int i = 0; i < n_products; i++) {
        const product *p = &products[i];
        sw_multiply(device,
                    &(sw_product){.rotation = turns_in_store ? rotation_of(&s, call, p)
                                                             : (sw_rotation){.table = NULL},
                                  .m = s.n,
                                  .n = p->n,
                                  .k = s.in,
                                  .alpha = 1,
                                  .a = {x, s.in, false, SW_ACTIVATION_TYPE},
                                  .b = weight_matrix(&s, p, call->operand[1 + p->part], true),
                                  .c = y + p->first,
                                  .c_stride = s.out,
                                  .c_type = SW_ACTIVATION_TYPE,
                                  .addend = residual ? residual + p->first : NULL,
                                  .addend_stride = s.out,
                                  .bias = is_one   ? call->operand[4]
                                          : biases ? biases + p->first
                                                   : NULL,
                                  .bias_type = is_one ? SW_PARAMETER_TYPE : SW_REAL_TYPE,
                                  .workspace = call->scratch});
    }
    if (call->operand[9] && !turns_in_store)
        run_pieces(device, call, n_pieces(s.n, PIECE_ROWS), turn_rows);
}

SW_KERNEL(LINEAR_GRAD_INPUT) {
    const shape s = shape_of(call);
    const activation *dy = call->operand[0]; /* [n,out] */
    activation *dx = call->operand[4];       /* [n,in] */
    product products[PARTS];
    const int n_products = list_products(&s, call->operand + 1, sizeof(parameter), 0, products);
    for (int i = 0; i < n_products; i++) {
        const product *p = &products[i];
        sw_multiply(device,
                    &(sw_product){.m = s.n,
                                  .n = s.in,
                                  .k = p->n,
                                  .alpha = 1,
                                  .a = {dy + p->first, s.out, false, SW_ACTIVATION_TYPE},
                                  .b = weight_matrix(&s, p, call->operand[1 + p->part], false),
                                  .c = dx,
                                  .c_stride = s.in,
                                  .c_type = SW_ACTIVATION_TYPE,
                                  .addend = i > 0 || accumulates(call, 4) ? dx : NULL,
                                  .addend_stride = s.in,
                                  .workspace = call->scratch});
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
    sw_kernel_call own = *call;
    own.scratch = own_scratch(device, call);
    run_pieces(device, &own, n_blocks, sum_rows);
    const real *sums = own.scratch;
    for (int i = 0; i < PARTS; sums += s->outs[i++])
        if (call->operand[5 + i])
            columns_total(accumulates(call, 5 + i), n_blocks, s->out, sums, s->outs[i],
                          call->operand[5 + i]);
}

SW_KERNEL(LINEAR_GRAD_WEIGHT) {
    const shape s = shape_of(call);
    const activation *dy = call->operand[0]; /* [n,out] */
    const activation *x = call->operand[1];  /* [n,in] */
    product products[PARTS];
    const int n_products =
        list_products(&s, call->operand + 2, sizeof(real), call->accumulate >> 2, products);
    for (int i = 0; i < n_products; i++) {
        const product *p = &products[i];
        real *dweight = call->operand[2 + p->part]; /* [p->n,in] or [in,p->n] */
        const sw_matrix of_dy = {dy + p->first, s.out, s.is_out_in, SW_ACTIVATION_TYPE};
        const sw_matrix of_x = {x, s.in, !s.is_out_in, SW_ACTIVATION_TYPE};
        const int64_t columns = s.is_out_in ? s.in : p->n;
        sw_multiply(device, &(sw_product){.m = s.is_out_in ? p->n : s.in,
                                          .n = columns,
                                          .k = s.n,
                                          .alpha = 1,
                                          .a = s.is_out_in ? of_dy : of_x,
                                          .b = s.is_out_in ? of_x : of_dy,
                                          .c = dweight,
                                          .c_stride = columns,
                                          .c_type = SW_REAL_TYPE,
                                          .addend = accumulates(call, 2 + p->part) ? dweight : NULL,
                                          .addend_stride = columns,
                                          .workspace = call->scratch});
    }
    if (call->operand[5] || call->operand[6] || call->operand[7])
        bias_gradients(device, &s, call);
}
