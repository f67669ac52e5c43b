/* skinny_gemm.h: y = x W + b + residual, for one or more W, and so few rows of x that reading W is
 * all the time there is.
 *
 * W is read once, in the order in which it lies, and bf16 is widened in registers. A weight that
 * lies [out,in] gives dot products, each in a vector of sums; one that lies [in,out] gives sums of
 * its rows. An element of y is the same sum in the same order however many rows there are: what a
 * text becomes does not depend on the texts beside it. Threads share the columns of y, cut by
 * shapes alone.
 */
#ifndef SW_DEVICE_CPU_PLAIN_SKINNY_GEMM_H
#define SW_DEVICE_CPU_PLAIN_SKINNY_GEMM_H

#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/pieces.h"
#include "device/sizes.h"

/* Elements of a weight that are loaded at a time, in WEIGHT_PARTS vectors of reals. A word holds
 * two elements in bf16: its low half, moved up, and its high half, alone, are reals; so the first
 * vector has the elements of even place, the second those of odd. x lies in that order too
 * (deal_row). */
#ifdef SW_KIND_bf16
enum { WEIGHT_PARTS = 2 };
#else
enum { WEIGHT_PARTS = 1 };
#endif
enum { WEIGHT_STEP = WEIGHT_PARTS * VECTOR_LANES };

static inline void load_weights(const parameter *weight, vector *parts) {
#ifdef SW_KIND_bf16
    typedef uint32_t words __attribute__((vector_size(SW_VECTOR_BYTES)));
    words w;
    memcpy(&w, weight, sizeof w);
    parts[0] = (vector)(w << 16);
    parts[1] = (vector)(w & 0xffff0000u);
#else
    parts[0] = load_vector(weight);
#endif
}

#ifdef SW_KIND_bf16
/* Each WEIGHT_STEP elements of x by even, then by odd place; zeros past its end. */
static inline void deal_row(int64_t in, const activation *x, real *dealt) {
    for (int64_t i = 0; i < in; i += WEIGHT_STEP, dealt += WEIGHT_STEP)
        for (int64_t j = 0; j < WEIGHT_STEP; j++)
            dealt[j % 2 * VECTOR_LANES + j / 2] = i + j < in ? load(x[i + j]) : 0;
}
#endif

static inline real add_vector(vector sum) {
    real lane[VECTOR_LANES];
    memcpy(lane, &sum, sizeof lane);
    for (int width = VECTOR_LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

/* One product. */
typedef struct skinny_gemm {
    int64_t n, in, out, x_stride, y_stride; /* y's and the residual's */
    const real *x;                          /* [n,in], dealt */
    const parameter *weight, *bias;         /* bias [out]? */
    const activation *residual;             /* [n,out]?, may be y */
    activation *y;
    real *unrounded; /* in place of y, where it is given */
    real *sums;      /* [n,out]: working space, where the weight is [in,out] */
} skinny_gemm;

static inline void put_result(const skinny_gemm *f, int64_t row, int64_t output, real x) {
    const int64_t at = row * f->y_stride + output;
    if (f->unrounded)
        f->unrounded[at] = x;
    else
        f->y[at] = stored(x);
}

static inline real begin_sum(const skinny_gemm *f, int64_t row, int64_t output) {
    return (f->residual ? load(f->residual[row * f->y_stride + output]) : 0) +
           (f->bias ? widen(f->bias[output]) : 0);
}

/* y[r][o] = x[r] . weight[o] + bias[o] for `rows` rows of x and `outputs` rows of the weight,
 * constants where this is inlined. The tile of the weight that comes next is fetched meanwhile: its
 * rows are too short for the CPU to see a pattern. */
static inline __attribute__((always_inline)) void dot_tile(const skinny_gemm *f, int64_t row,
                                                           int64_t output, int rows, int outputs) {
    const int64_t in = f->in, stride = f->x_stride;
    const real *x = f->x + row * stride;
    const parameter *weight = f->weight + output * in;
    vector sum[4][4] = {0}; /* [row][output] */
    int64_t i = 0;
    for (; i + WEIGHT_STEP <= in; i += WEIGHT_STEP) {
        vector w[4][WEIGHT_PARTS];
        for (int o = 0; o < outputs; o++) {
            load_weights(weight + o * in + i, w[o]);
            __builtin_prefetch(weight + (outputs + o) * in + i);
        }
        for (int part = 0; part < WEIGHT_PARTS; part++)
            for (int r = 0; r < rows; r++) {
                const vector some = load_vector(x + r * stride + i + part * VECTOR_LANES);
                for (int o = 0; o < outputs; o++)
                    sum[r][o] += some * w[o][part];
            }
    }
    if (i < in)
        for (int o = 0; o < outputs; o++) {
            parameter w_tail[WEIGHT_STEP] = {0};
            vector w[WEIGHT_PARTS];
            memcpy(w_tail, weight + o * in + i, (size_t)(in - i) * sizeof *weight);
            load_weights(w_tail, w);
            for (int r = 0; r < rows; r++) {
                real x_tail[WEIGHT_STEP] = {0};
                memcpy(x_tail, x + r * stride + i,
                       (size_t)smaller(WEIGHT_STEP, stride - i) * sizeof *x);
                for (int part = 0; part < WEIGHT_PARTS; part++)
                    sum[r][o] += load_vector(x_tail + part * VECTOR_LANES) * w[part];
            }
        }
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < outputs; o++)
            put_result(f, row + r, output + o,
                       add_vector(sum[r][o]) + begin_sum(f, row + r, output + o));
}

/* All rows of x, four, two, one at a time, against `outputs` rows of the weight. */
static inline __attribute__((always_inline)) void dot_all_rows(const skinny_gemm *f, int64_t output,
                                                               int outputs) {
    int64_t row = 0;
    for (; row + 4 <= f->n; row += 4)
        dot_tile(f, row, output, 4, outputs);
    if (row + 2 <= f->n) {
        dot_tile(f, row, output, 2, outputs);
        row += 2;
    }
    if (row < f->n)
        dot_tile(f, row, output, 1, outputs);
}

static void dot_skinny(const skinny_gemm *f, const piece *outputs) {
    int64_t output = outputs->first;
    for (; f->n == 1 && output + 4 <= outputs->end; output += 4)
        dot_tile(f, 0, output, 1, 4);
    for (; output + 2 <= outputs->end; output += 2)
        dot_all_rows(f, output, 2);
    if (output < outputs->end)
        dot_all_rows(f, output, 1);
}

/* Eight rows of the weight at a time meet each row of x [n,in], as it lies, while they are in a
 * near cache. */
static void sum_skinny(const skinny_gemm *f, const piece *outputs, const activation *x) {
    const int64_t n = f->n, in = f->in, out = f->out;
    real *sums = f->sums;
    for (int64_t row = 0; row < n; row++)
        for (int64_t o = outputs->first; o < outputs->end; o++)
            sums[row * out + o] = begin_sum(f, row, o);
    int64_t i = 0;
    for (; i + 8 <= in; i += 8)
        for (int64_t row = 0; row < n; row++) {
            real a[8];
            for (int j = 0; j < 8; j++)
                a[j] = load(x[row * in + i + j]);
            const parameter *w = f->weight + i * out;
            real *to = sums + row * out;
            SW_ELEMENTWISE
            for (int64_t o = outputs->first; o < outputs->end; o++) {
                const real low = a[0] * widen(w[o]) + a[1] * widen(w[out + o]) +
                                 a[2] * widen(w[2 * out + o]) + a[3] * widen(w[3 * out + o]);
                const real high = a[4] * widen(w[4 * out + o]) + a[5] * widen(w[5 * out + o]) +
                                  a[6] * widen(w[6 * out + o]) + a[7] * widen(w[7 * out + o]);
                to[o] += low + high;
            }
        }
    for (; i < in; i++)
        for (int64_t row = 0; row < n; row++) {
            SW_ELEMENTWISE
            for (int64_t o = outputs->first; o < outputs->end; o++)
                sums[row * out + o] += load(x[row * in + i]) * widen(f->weight[i * out + o]);
        }
    for (int64_t row = 0; row < n; row++)
        for (int64_t o = outputs->first; o < outputs->end; o++)
            put_result(f, row, o, sums[row * out + o]);
}

/* Columns of a task: of an [out,in] weight as many as have TASK_WEIGHTS elements, whole tiles; of
 * an [in,out] one, whose rows are read in parts, enough for a part to be some lines of the
 * cache. */
enum { TASK_WEIGHTS = 64 * 1024, TASK_OUTPUTS = 64, TASK_COLUMNS = 256 };

typedef struct few_products {
    const skinny_gemm *products;
    bool is_out_in;
    const activation *x; /* [n,in], as it lies */
} few_products;

static inline int64_t few_columns(const few_products *f) {
    return f->is_out_in
               ? round_up(larger(1, TASK_WEIGHTS / larger(1, f->products[0].in)), TASK_OUTPUTS)
               : TASK_COLUMNS;
}

static void multiply_few_columns(void *arg, int64_t task, int worker) {
    (void)worker;
    const few_products *f = arg;
    const skinny_gemm *product = f->products;
    const int64_t columns = few_columns(f);
    for (; task >= n_pieces(product->out, columns); product++)
        task -= n_pieces(product->out, columns);
    const piece outputs = piece_of(task, columns, product->out);
    if (f->is_out_in)
        dot_skinny(product, &outputs);
    else
        sum_skinny(product, &outputs, f->x);
}

/* Products of one x [n,in], as it lies, with all threads of the device. `products`, but for their x
 * and sums; their weights are [out,in] if is_out_in, else [in,out]. scratch: [n,out] of all
 * products, or of [out,in] beside bf16 [n, sw_skinny_gemm_stride(in)], or nothing. */
static inline void multiply_skinny(const sw_device *device, int n_products, skinny_gemm *products,
                                   bool is_out_in, const activation *x, real *scratch) {
    if (n_products == 0) /* weights of no rows */
        return;
    few_products all = {products, is_out_in, x};
    const int64_t n = products[0].n, in = products[0].in;
#ifdef SW_KIND_bf16
    const real *rows = scratch;
    const int64_t stride = sw_skinny_gemm_stride(in);
    for (int64_t row = 0; row < n && is_out_in; row++)
        deal_row(in, x + row * in, scratch + row * stride);
#else
    const real *rows = x;
    const int64_t stride = in;
#endif
    int64_t n_tasks = 0;
    for (int i = 0; i < n_products; i++) {
        products[i].x = rows;
        products[i].x_stride = stride;
        if (!is_out_in) {
            products[i].sums = scratch;
            scratch += n * products[i].out;
        }
        n_tasks += n_pieces(products[i].out, few_columns(&all));
    }
    sw_parallel(device, n_tasks, multiply_few_columns, &all);
}

#endif
