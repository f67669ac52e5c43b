/* Attention, forward and backward, of every kernel set and kind of numbers, against sums written
 * out in double.
 *
 * What may differ follows from how much each sum holds. With u the rounding of the arithmetic
 * (2^-24, or 2^-53), a sum of n products differs by at most about n u times the sum of their
 * absolute values. So with s = scale q.k:
 *
 *   a score      e_s = (D + 8) u |scale| |q|.|k|
 *   a weight     relative e_p = e_s + 4 u (|s| + |log_sum|) + that of the exponential, the largest
 *                of a row
 *   out          sum of p |v| (2 e_p + n u + h)
 *   dS           p (e_p |dp - delta| + (D + 8) u (|dout|.|v| + |dout|.|out|)) + h |dS|
 *   dV, dK, dQ   as the sums that they are
 *
 * where h is 2^-8 if weights and dS are rounded to bf16 before they are multiplied, else 0; and
 * what is stored as bf16 is off by 2^-8 of itself besides. All inputs are exact in every kind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <math.h>

#include "base/philox.h"
#include "device/cpu/open.h"
#include "support/device_case.h"

typedef struct shape {
    int64_t B, T, H, K, D, span;
    bool is_packed, has_documents, is_full;
    double dropout;
} shape;

enum { SEED = 31, FIRST_ROW = 12345, STREAM = 3 }; /* of dropout */

enum { Q, K, V, DOUT, OUT, LOG_SUM, DQ, DK, DV, N_ARRAYS };

/* One problem in double: inputs, results and how far each result may be off. */
typedef struct problem {
    shape s;
    int64_t n[N_ARRAYS], stride[N_ARRAYS];
    double *value[N_ARRAYS];
    double *terms[N_ARRAYS]; /* what e_p and dS contribute to the bound, and */
    double *sums[N_ARRAYS];  /* the sum of absolute values */
    int32_t *documents;      /* [B*T], NULL: none */
    double scale;
} problem;

typedef struct precision {
    double rounding, exponential, product, stored; /* u, of the exponential, h, of an activation */
} precision;

static void *zeros(int64_t n, size_t bytes) {
    void *p = calloc((size_t)n + 1, bytes);
    assert_non_null(p);
    return p;
}

static double in_bf16(double x) {
    return (double)sw_bf16_to_float(sw_float_to_bf16((float)x));
}

/* The rule of device/kernel.h, key by key. */
static bool sees(const problem *p, int64_t b, int64_t t, int64_t key) {
    const shape *s = &p->s;
    if (p->documents && p->documents[b * s->T + t] != p->documents[b * s->T + key])
        return false;
    if (s->is_full)
        return !s->span || llabs(t - key) <= s->span;
    return key <= t && (!s->span || t - key < s->span);
}

/* 0 or 1 / (1 - p) */
static double passed(const problem *p, int64_t b, int64_t h, int64_t t, int64_t key) {
    if (p->s.dropout == 0)
        return 1;
    return sw_attention_keeps(SEED, STREAM, FIRST_ROW + b, h, t, key, p->s.dropout)
               ? 1 / (1 - p->s.dropout)
               : 0;
}

/* Head h of token t of row b of an array. */
static double *at(double *array, const problem *p, int which, int64_t b, int64_t t, int64_t h) {
    return array + (b * p->s.T + t) * p->stride[which] + h * p->s.D;
}

static problem make(const shape *s, uint64_t seed, double size) {
    problem p = {.s = *s, .scale = 1 / sqrt((double)s->D)};
    const int64_t tokens = s->B * s->T;
    for (int i = 0; i < N_ARRAYS; i++) {
        const bool is_key = i == K || i == V || i == DK || i == DV;
        p.stride[i] = (is_key ? s->K : s->H) * s->D;
        p.n[i] = i == LOG_SUM ? s->B * s->H * s->T : tokens * p.stride[i];
        p.value[i] = zeros(p.n[i], sizeof(double));
        p.terms[i] = zeros(p.n[i], sizeof(double));
        p.sums[i] = zeros(p.n[i], sizeof(double));
        for (int64_t j = 0; j < p.n[i] && i <= DOUT; j++)
            p.value[i][j] = in_bf16(device_random(&seed) * (i == Q ? size : 1));
    }
    if (s->has_documents) {
        p.documents = zeros(tokens, sizeof *p.documents);
        for (int64_t i = 0; i < tokens; i++) {
            const bool begins = i % s->T == 0 || device_random(&seed) < -0.95 || i % s->T == 7;
            p.documents[i] = begins ? (int32_t)(i % s->T) : p.documents[i - 1];
        }
    }
    return p;
}

static void discard(problem *p) {
    for (int i = 0; i < N_ARRAYS; i++) {
        free(p->value[i]);
        free(p->terms[i]);
        free(p->sums[i]);
    }
    free(p->documents);
}

/* x.y and the sum of |x y| */
static double dot(int64_t n, const double *x, const double *y, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i], *size += fabs(x[i] * y[i]);
    return sum;
}

/* The row's scores, each e_s without u, and the largest e_p. Returns log_sum. */
static double scores(const problem *p, int64_t b, int64_t t, int64_t h, const precision *r,
                     double *score, double *error) {
    const int64_t D = p->s.D, group = h / (p->s.H / p->s.K);
    double most = -INFINITY, worst = 0, total = 0;
    for (int64_t u = 0; u < p->s.T; u++) {
        double size;
        if (!sees(p, b, t, u))
            continue;
        score[u] = p->scale * dot(D, at(p->value[Q], p, Q, b, t, h),
                                  at(p->value[K], p, K, b, u, group), &size);
        most = fmax(most, score[u]);
        worst = fmax(worst, r->rounding * ((double)(D + 8) * p->scale * size + 4 * fabs(score[u])));
    }
    for (int64_t u = 0; u < p->s.T; u++)
        total += sees(p, b, t, u) ? exp(score[u] - most) : 0;
    const double log_sum = most + log(total);
    *error = worst + r->exponential + 4 * r->rounding * fabs(log_sum);
    return log_sum;
}

static void forward(problem *p, const precision *r) {
    const shape *s = &p->s;
    double *score = zeros(s->T, sizeof *score);
    for (int64_t row = 0; row < s->B * s->H * s->T; row++) {
        const int64_t b = row / (s->H * s->T), h = row / s->T % s->H, t = row % s->T;
        double error, *out = at(p->value[OUT], p, OUT, b, t, h),
                      *terms = at(p->terms[OUT], p, OUT, b, t, h),
                      *sums = at(p->sums[OUT], p, OUT, b, t, h);
        const double log_sum = scores(p, b, t, h, r, score, &error);
        double n = 0;
        for (int64_t u = 0; u < s->T; u++)
            n += sees(p, b, t, u);
        p->value[LOG_SUM][row] = log_sum;
        p->terms[LOG_SUM][row] = error + (n + 8) * r->rounding;
        memset(out, 0, sizeof *out * (size_t)s->D);
        memset(sums, 0, sizeof *sums * (size_t)s->D);
        for (int64_t u = 0; u < s->T; u++) {
            if (!sees(p, b, t, u))
                continue;
            const double weight = passed(p, b, h, t, u) * exp(score[u] - log_sum),
                         *v = at(p->value[V], p, V, b, u, h / (s->H / s->K));
            for (int64_t d = 0; d < s->D; d++)
                out[d] += weight * v[d], sums[d] += weight * fabs(v[d]);
        }
        for (int64_t d = 0; d < s->D; d++)
            terms[d] = sums[d] * (2 * error + (2 * n + 8) * r->rounding + r->product);
    }
    free(score);
}

/* From the rounded log_sum and out that are its inputs. */
static void backward(problem *p, const precision *r) {
    const shape *s = &p->s;
    double *score = zeros(s->T, sizeof *score);
    for (int i = DQ; i <= DV; i++) {
        memset(p->value[i], 0, sizeof(double) * (size_t)p->n[i]);
        memset(p->terms[i], 0, sizeof(double) * (size_t)p->n[i]);
        memset(p->sums[i], 0, sizeof(double) * (size_t)p->n[i]);
    }
    for (int64_t row = 0; row < s->B * s->H * s->T; row++) {
        const int64_t b = row / (s->H * s->T), h = row / s->T % s->H, t = row % s->T,
                      group = h / (s->H / s->K);
        double error, delta_size;
        scores(p, b, t, h, r, score, &error);
        const double *dout = at(p->value[DOUT], p, DOUT, b, t, h),
                     *q = at(p->value[Q], p, Q, b, t, h);
        const double delta = dot(s->D, dout, at(p->value[OUT], p, OUT, b, t, h), &delta_size),
                     u8 = (double)(s->D + 8) * r->rounding;
        double *dq = at(p->value[DQ], p, DQ, b, t, h), *dq_terms = at(p->terms[DQ], p, DQ, b, t, h),
               *dq_sums = at(p->sums[DQ], p, DQ, b, t, h);
        for (int64_t u = 0; u < s->T; u++) {
            double dp_size;
            if (!sees(p, b, t, u))
                continue;
            const double whole = exp(score[u] - p->value[LOG_SUM][row]),
                         *k = at(p->value[K], p, K, b, u, group);
            const double m = passed(p, b, h, t, u), weight = m * whole;
            const double dp = m * dot(s->D, dout, at(p->value[V], p, V, b, u, group), &dp_size);
            const double ds = whole * (dp - delta),
                         ds_error =
                             whole * (error * fabs(dp - delta) + u8 * (m * dp_size + delta_size)) +
                             r->product * fabs(ds),
                         p_error = weight * (error + r->product);
            double *dk = at(p->value[DK], p, DK, b, u, group),
                   *dk_terms = at(p->terms[DK], p, DK, b, u, group),
                   *dk_sums = at(p->sums[DK], p, DK, b, u, group);
            double *dv = at(p->value[DV], p, DV, b, u, group),
                   *dv_terms = at(p->terms[DV], p, DV, b, u, group),
                   *dv_sums = at(p->sums[DV], p, DV, b, u, group);
            for (int64_t d = 0; d < s->D; d++) {
                dv[d] += weight * dout[d], dv_terms[d] += p_error * fabs(dout[d]),
                    dv_sums[d] += weight * fabs(dout[d]);
                dq[d] += p->scale * ds * k[d], dq_terms[d] += p->scale * ds_error * fabs(k[d]),
                    dq_sums[d] += p->scale * fabs(ds * k[d]);
                dk[d] += p->scale * ds * q[d], dk_terms[d] += p->scale * ds_error * fabs(q[d]),
                    dk_sums[d] += p->scale * fabs(ds * q[d]);
            }
        }
    }
    const double n_terms = (double)(s->T * (s->H / s->K) + 8);
    for (int i = DQ; i <= DV; i++)
        for (int64_t j = 0; j < p->n[i]; j++)
            p->terms[i][j] += p->sums[i][j] * n_terms * r->rounding;
    free(score);
}

/* ---- the same by a device ---- */

static double read_number(const void *array, sw_dtype type, int64_t i) {
    switch (type) {
    case SW_F64:
        return ((const double *)array)[i];
    case SW_F32:
        return (double)((const float *)array)[i];
    default:
        return (double)sw_bf16_to_float(((const uint16_t *)array)[i]);
    }
}

static void write_number(void *array, sw_dtype type, int64_t i, double x) {
    switch (type) {
    case SW_F64:
        ((double *)array)[i] = x;
        break;
    case SW_F32:
        ((float *)array)[i] = (float)x;
        break;
    default:
        ((uint16_t *)array)[i] = sw_float_to_bf16((float)x);
    }
}

/* Memory that ends, or begins, at a page that nobody may touch. */
typedef struct fenced {
    char *pages, *at;
    size_t n_bytes;
} fenced;

static fenced fence(size_t bytes, bool at_end) {
    const size_t page = 4096, inside = (bytes + page - 1) / page * page;
    fenced f = {.n_bytes = inside + 2 * page};
    f.pages = mmap(NULL, f.n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f.pages != MAP_FAILED);
    assert_int_equal(mprotect(f.pages + page, inside, PROT_READ | PROT_WRITE), 0);
    memset(f.pages + page, 0xff, inside); /* NaN in every type */
    f.at = f.pages + page + (at_end ? inside - bytes : 0);
    return f;
}

/* Operands of the two kernels; in the packed form q, k, v are one array, and dq, dk, dv. */
typedef struct operands {
    sw_dtype type[N_ARRAYS];
    fenced memory[N_ARRAYS + 2]; /* and documents, scratch */
    void *at[N_ARRAYS];
    int64_t stride[N_ARRAYS];
} operands;

static int64_t place(const problem *p, const operands *o, int which, int64_t i) {
    return which == LOG_SUM ? i : i / p->stride[which] * o->stride[which] + i % p->stride[which];
}

static operands lay_out(const problem *p, sw_number_kind numbers, bool at_end,
                        int64_t scratch_bytes) {
    const shape *s = &p->s;
    operands o = {0};
    const int64_t width = (s->H + 2 * s->K) * s->D,
                  offset[3] = {0, s->H * s->D, (s->H + s->K) * s->D};
    for (int i = 0; i < N_ARRAYS; i++) {
        o.type[i] = i == LOG_SUM ? sw_real_type(numbers) : sw_activation_type(numbers);
        const size_t bytes = (size_t)sw_dtype_bytes(o.type[i]);
        const int first = i <= V ? Q : DQ;
        const bool is_part = s->is_packed && (i <= V || i >= DQ);
        o.stride[i] = is_part ? width : p->stride[i];
        if (!is_part || i == first)
            o.memory[i] = fence(bytes * (size_t)(is_part ? s->B * s->T * width : p->n[i]), at_end);
        o.at[i] =
            o.memory[is_part ? first : i].at + (is_part ? offset[i - first] * (int64_t)bytes : 0);
        for (int64_t j = 0; j < p->n[i] && i <= DOUT; j++)
            write_number(o.at[i], o.type[i], place(p, &o, i, j), p->value[i][j]);
    }
    const size_t documents = sizeof *p->documents * (size_t)(s->B * s->T);
    o.memory[N_ARRAYS] = fence(documents, at_end);
    if (p->documents)
        memcpy(o.memory[N_ARRAYS].at, p->documents, documents);
    o.memory[N_ARRAYS + 1] = fence((size_t)scratch_bytes, at_end); /* a multiple of 64 bytes */
    return o;
}

static void remove_fences(operands *o) {
    for (int i = 0; i < N_ARRAYS + 2; i++)
        if (o->memory[i].pages)
            munmap(o->memory[i].pages, o->memory[i].n_bytes);
}

static void run(const sw_device *device, sw_number_kind numbers, const problem *p, sw_kernel kernel,
                operands *o) {
    const shape *s = &p->s;
    void *documents = p->documents ? o->memory[N_ARRAYS].at : NULL;
    sw_kernel_call call = {
        .dim = {s->B, s->T, s->H, s->K, s->D, o->stride[Q], o->stride[K], s->span, s->is_full},
        .attribute = {p->scale, s->dropout, STREAM},
        .scalars = &(sw_scalars){.seed = SEED, .first_row = FIRST_ROW},
        .scratch = o->memory[N_ARRAYS + 1].at};
    void *const forward_operands[] = {o->at[Q],   o->at[K],       o->at[V],
                                      o->at[OUT], o->at[LOG_SUM], documents};
    void *const backward_operands[] = {o->at[DOUT],    o->at[Q],  o->at[K],  o->at[V],  o->at[OUT],
                                       o->at[LOG_SUM], o->at[DQ], o->at[DK], o->at[DV], documents};
    if (kernel == SW_KERNEL_ATTENTION)
        memcpy(call.operand, forward_operands, sizeof forward_operands);
    else
        memcpy(call.operand, backward_operands, sizeof backward_operands);
    memset(call.scratch, 0xff,
           (size_t)sw_kernel_scratch_bytes(kernel, call.dim, numbers, device->n_threads));
    sw_device_kernel(device, numbers, kernel)(device, &call);
}

static int64_t scratch_of(const problem *p, sw_number_kind numbers, int n_threads) {
    const shape *s = &p->s;
    const int64_t dim[SW_MAX_DIMENSIONS] = {s->B, s->T, s->H,    s->K,      s->D,
                                            0,    0,    s->span, s->is_full};
    const int64_t a = sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION, dim, numbers, n_threads),
                  b = sw_kernel_scratch_bytes(SW_KERNEL_ATTENTION_GRAD, dim, numbers, n_threads);
    return a > b ? a : b;
}

typedef struct variant {
    sw_kernel_set set;
    sw_gemm_kind gemm;
    sw_number_kind numbers;
} variant;

static const variant variants[] = {
    {SW_SET_BASELINE, SW_GEMM_PLAIN, SW_NUMBERS_F64},
    {SW_SET_BASELINE, SW_GEMM_PLAIN, SW_NUMBERS_F32},
    {SW_SET_BASELINE, SW_GEMM_PLAIN, SW_NUMBERS_BF16},
    {SW_SET_V3, SW_GEMM_PLAIN, SW_NUMBERS_F32},
    {SW_SET_V3, SW_GEMM_PLAIN, SW_NUMBERS_BF16},
    {SW_SET_V4, SW_GEMM_PLAIN, SW_NUMBERS_F32},
    {SW_SET_V4, SW_GEMM_PLAIN, SW_NUMBERS_BF16},
    {SW_SET_V4, SW_GEMM_OWN_BF16, SW_NUMBERS_BF16},
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

static bool runs_here(const variant *v) {
    return sw_kernel_set_runs_here(v->set) && sw_gemm_runs_here(v->gemm, v->set);
}

static sw_device *open_device(const variant *v, int n_threads) {
    sw_device *device;
    sw_error err;
    assert_int_equal(
        sw_cpu_open(&(sw_cpu_options){.set = v->set, .gemm = v->gemm, .n_threads = n_threads},
                    &device, &err),
        SW_OK);
    return device;
}

static precision precision_of(const variant *v) {
    if (v->numbers == SW_NUMBERS_F64)
        return (precision){0x1p-53, 1e-15, 0, 0};
    return (precision){0x1p-24, 2.5e-7, v->gemm == SW_GEMM_OWN_BF16 ? 0x1p-8 : 0,
                       sw_activation_type(v->numbers) == SW_BF16 ? 0x1p-8 : 0};
}

/* Is array `which` within its bound? The largest share of the bound that was used goes to
 * *worst. */
static void compare(const problem *p, const operands *o, const precision *r, const variant *v,
                    int which, double *worst) {
    for (int64_t i = 0; i < p->n[which]; i++) {
        const double got = read_number(o->at[which], o->type[which], place(p, o, which, i)),
                     expected = p->value[which][i];
        const double bound = 1.05 * p->terms[which][i] +
                             (which == LOG_SUM ? r->rounding : r->stored) * 1.01 * fabs(expected) +
                             1e-30;
        *worst = fmax(*worst, fabs(got - expected) / bound);
        if (!(fabs(got - expected) <= bound))
            fail_msg("[B %ld T %ld H %ld K %ld D %ld span %ld%s%s%s dropout %g] array %d element "
                     "%ld: %.9g instead of %.9g, %.3g "
                     "is allowed "
                     "(%s, %s, kind %d)",
                     (long)p->s.B, (long)p->s.T, (long)p->s.H, (long)p->s.K, (long)p->s.D,
                     (long)p->s.span, p->s.is_packed ? " packed" : "",
                     p->documents ? " documents" : "", p->s.is_full ? " full" : "", p->s.dropout,
                     which, (long)i, got, expected, bound, sw_kernel_set_name(v->set),
                     sw_gemm_kind_name(v->gemm), v->numbers);
    }
}

static void try_shape(const shape *s, uint64_t seed, bool at_end, sw_device *const *devices,
                      double *worst) {
    problem p = make(s, seed, 4);
    for (int i = 0; i < N_VARIANTS; i++) {
        if (!devices[i])
            continue;
        const precision r = precision_of(&variants[i]);
        operands o =
            lay_out(&p, variants[i].numbers, at_end, scratch_of(&p, variants[i].numbers, 1));
        forward(&p, &r);
        run(devices[i], variants[i].numbers, &p, SW_KERNEL_ATTENTION, &o);
        compare(&p, &o, &r, &variants[i], OUT, &worst[0]);
        compare(&p, &o, &r, &variants[i], LOG_SUM, &worst[1]);
        for (int which = OUT; which <= LOG_SUM; which++)
            for (int64_t j = 0; j < p.n[which]; j++) {
                write_number(o.at[which], o.type[which], j, p.value[which][j]);
                p.value[which][j] = read_number(o.at[which], o.type[which], j);
            }
        backward(&p, &r);
        run(devices[i], variants[i].numbers, &p, SW_KERNEL_ATTENTION_GRAD, &o);
        for (int which = DQ; which <= DV; which++)
            compare(&p, &o, &r, &variants[i], which, &worst[which - DQ + 2]);
        remove_fences(&o);
    }
    discard(&p);
}

typedef struct fixture {
    sw_device *device[N_VARIANTS];
} fixture;

static int open_all(void **state) {
    fixture *f = calloc(1, sizeof *f);
    for (int i = 0; i < N_VARIANTS; i++)
        if (runs_here(&variants[i]))
            f->device[i] = open_device(&variants[i], 1);
    *state = f;
    return 0;
}

static int close_all(void **state) {
    fixture *f = *state;
    for (int i = 0; i < N_VARIANTS; i++)
        if (f->device[i])
            f->device[i]->close(f->device[i]);
    free(f);
    return 0;
}

/* Tokens, heads, their sizes, spans, documents and packing, each of many values beside changing
 * others. Nothing outside of the operands is touched: each ends, or begins, at a page that may not
 * be. */
static void results_are_within_their_bounds(void **state) {
    static const int64_t T[] = {1, 2, 3, 5, 12, 16, 17, 31, 33, 64, 97, 128, 191, 193, 260},
                         D[] = {64, 16, 24, 80, 128, 256, 1, 7, 2, 33},
                         heads[][2] = {{1, 1}, {9, 3}, {12, 12}, {4, 1}, {2, 2}, {7, 1}, {6, 2}},
                         span[] = {0, 1, 0, 13, 200, 64};
    const fixture *f = *state;
    double worst[5] = {0};
    for (int i = 0; i < 75; i++) { /* causal without dropout, then everything */
        const int64_t t = T[i % 15], d = D[i % 10 + (i / 30 % 2 && i % 10 < 9)];
        const shape s = {.B = 1 + i % 2,
                         .T = t,
                         .H = heads[i % 7][0],
                         .K = heads[i % 7][1],
                         .D = t > 128 && d > 128 ? 64 : d,
                         .span = span[i / 2 % 6],
                         .is_packed = i / 3 % 2,
                         .has_documents = i % 5 == 2,
                         .is_full = i >= 45 && i % 2,
                         .dropout = i < 45 ? 0 : (const double[]){0.1, 0, 0.75}[i % 3]};
        try_shape(&s, (uint64_t)i, i % 2, f->device, worst);
    }
    printf("shares of the bounds: out %.2f, log_sum %.2f, dq %.2f, dk %.2f, dv %.2f\n", worst[0],
           worst[1], worst[2], worst[3], worst[4]);
}

/* Many strips of keys and chunks of queries. */
static void long_rows_are_within_their_bounds(void **state) {
    const fixture *f = *state;
    double worst[5] = {0};
    try_shape(&(shape){.B = 1, .T = 1000, .H = 2, .K = 1, .D = 64, .is_packed = true}, 1, true,
              f->device, worst);
    try_shape(&(shape){.B = 1, .T = 1000, .H = 1, .K = 1, .D = 32, .span = 300}, 2, false,
              f->device, worst);
    try_shape(&(shape){.B = 1, .T = 809, .H = 2, .K = 2, .D = 16, .has_documents = true}, 3, true,
              f->device, worst);
    try_shape(&(shape){.B = 1, .T = 809, .H = 2, .K = 1, .D = 16, .is_full = true, .dropout = 0.3},
              4, true, f->device, worst);
    try_shape(&(shape){.B = 1, .T = 1000, .H = 1, .K = 1, .D = 32, .span = 250, .is_full = true}, 5,
              false, f->device, worst);
}

static bool same_results(const problem *p, const operands *a, const operands *b) {
    for (int which = OUT; which < N_ARRAYS; which++)
        for (int64_t i = 0; i < p->n[which]; i++) {
            const double x = read_number(a->at[which], a->type[which], place(p, a, which, i)),
                         y = read_number(b->at[which], b->type[which], place(p, b, which, i));
            if (memcmp(&x, &y, sizeof x) != 0)
                return false;
        }
    return true;
}

static void both_ways(const sw_device *device, sw_number_kind numbers, const problem *p,
                      operands *o) {
    run(device, numbers, p, SW_KERNEL_ATTENTION, o);
    run(device, numbers, p, SW_KERNEL_ATTENTION_GRAD, o);
}

static void threads_change_no_bit(void **state) {
    const fixture *f = *state;
    const shape shapes[] = {
        {.B = 3, .T = 130, .H = 9, .K = 3, .D = 64, .is_packed = true},
        {.B = 1, .T = 1030, .H = 2, .K = 1, .D = 24, .has_documents = true},
        {.B = 2, .T = 330, .H = 2, .K = 1, .D = 24, .is_full = true, .dropout = 0.2}};
    for (int i = 0; i < N_VARIANTS; i++)
        for (int j = 0; j < 3 && f->device[i]; j++) {
            problem p = make(&shapes[j], 9, 4);
            operands alone =
                lay_out(&p, variants[i].numbers, true, scratch_of(&p, variants[i].numbers, 1));
            both_ways(f->device[i], variants[i].numbers, &p, &alone);
            for (int n = 2; n <= 3; n++) {
                sw_device *device = open_device(&variants[i], n);
                operands together =
                    lay_out(&p, variants[i].numbers, true, scratch_of(&p, variants[i].numbers, n));
                both_ways(device, variants[i].numbers, &p, &together);
                assert_true(same_results(&p, &alone, &together));
                remove_fences(&together);
                device->close(device);
            }
            remove_fences(&alone);
            discard(&p);
        }
}

/* Documents packed in a row see as much as the same documents each at the place where the row
 * begins: what stands in the others changes no bit. */
static void other_documents_change_no_bit(void **state) {
    const fixture *f = *state;
    for (int i = 0; i < 2 * N_VARIANTS; i++) {
        const bool is_full = i >= N_VARIANTS;
        const sw_device *device = f->device[i % N_VARIANTS];
        const sw_number_kind numbers = variants[i % N_VARIANTS].numbers;
        if (!device)
            continue;
        problem p = make(&(shape){.B = 1,
                                  .T = 300,
                                  .H = 6,
                                  .K = 2,
                                  .D = 64,
                                  .has_documents = true,
                                  .is_full = is_full},
                         4, 4),
                q = p;
        int64_t begin = 0; /* of the last document that is not alone */
        for (int64_t t = 0; t < 300; t++)
            begin = p.documents[t] < t ? p.documents[t] : begin;
        operands a = lay_out(&p, numbers, true, scratch_of(&p, numbers, 1));
        both_ways(device, numbers, &p, &a);
        operands b = lay_out(&q, numbers, true, scratch_of(&p, numbers, 1));
        for (int which = Q; which <= DOUT; which++)
            for (int64_t j = 0; j < begin * p.stride[which]; j++)
                write_number(b.at[which], b.type[which], j, in_bf16(sin((double)(j + which))));
        both_ways(device, numbers, &q, &b);
        for (int which = OUT; which < N_ARRAYS; which++)
            for (int64_t j = 0; j < p.n[which]; j++) {
                const int64_t t = which == LOG_SUM ? j % 300 : j / p.stride[which];
                if (t >= begin && p.documents[t] == begin)
                    assert_true(read_number(a.at[which], a.type[which], j) ==
                                read_number(b.at[which], b.type[which], j));
            }
        remove_fences(&a);
        remove_fences(&b);
        discard(&p);
    }
}

/* NaN and infinities come out where they went in, and other rows keep their bits. */
static void what_is_not_finite_stays_in_its_row(void **state) {
    const fixture *f = *state;
    for (int i = 0; i < N_VARIANTS; i++)
        for (int j = 0; j < 3 && f->device[i]; j++) {
            const double spoilt = j == 0 ? (double)NAN : j == 1 ? INFINITY : -INFINITY;
            problem p = make(&(shape){.B = 2, .T = 70, .H = 4, .K = 2, .D = 64}, 4, 4);
            operands clean = lay_out(&p, variants[i].numbers, true,
                                     scratch_of(&p, variants[i].numbers, 1)),
                     dirty;
            both_ways(f->device[i], variants[i].numbers, &p, &clean);
            for (int which = Q; which <= DOUT; which++)
                p.value[which][11 * p.stride[which] + which] = spoilt;
            dirty = lay_out(&p, variants[i].numbers, true, scratch_of(&p, variants[i].numbers, 1));
            both_ways(f->device[i], variants[i].numbers, &p, &dirty);
            assert_false(isfinite(read_number(dirty.at[OUT], dirty.type[OUT], 11 * p.stride[OUT])));
            for (int which = OUT; which < N_ARRAYS; which++)
                for (int64_t e = p.n[which] / 2; e < p.n[which]; e++)
                    assert_true(read_number(clean.at[which], clean.type[which], e) ==
                                read_number(dirty.at[which], dirty.type[which], e));
            remove_fences(&clean);
            remove_fences(&dirty);
            discard(&p);
        }
}

/* Working space grows with the tokens, not with their square. */
static void working_space_grows_with_the_tokens(void **state) {
    (void)state;
    for (int kernel = SW_KERNEL_ATTENTION; kernel <= SW_KERNEL_ATTENTION_GRAD; kernel++) {
        const int64_t some[SW_MAX_DIMENSIONS] = {1, 4096, 9, 3, 64, 960, 960},
                      twice[SW_MAX_DIMENSIONS] = {1, 8192, 9, 3, 64, 960, 960};
        const int64_t a = sw_kernel_scratch_bytes((sw_kernel)kernel, some, SW_NUMBERS_F32, 2),
                      b = sw_kernel_scratch_bytes((sw_kernel)kernel, twice, SW_NUMBERS_F32, 2);
        assert_true(b <= 2 * a && a <= 4096 * 64 * 4 * 16 + 8 * (1 << 20));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_within_their_bounds),
        cmocka_unit_test(long_rows_are_within_their_bounds),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(other_documents_change_no_bit),
        cmocka_unit_test(what_is_not_finite_stays_in_its_row),
        cmocka_unit_test(working_space_grows_with_the_tokens),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
