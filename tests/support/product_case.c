/* product_case.c: see product_case.h.
 *
 * The bound of an element: a sum of k products, alpha, bias and addend is at most k + 3 operations,
 * each with a relative error of 2^-24 (2^-53) of a partial sum, which is at most the sum of the
 * terms' sizes; hence (k + 3) 2^-24 times that sum. A bf16 C adds half a step of bf16, 2^-8 of the
 * result. Terms and sums below 2^-126 may be taken for zero.
 */
#include "support/product_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/device_case.h"

static double value(const void *from, sw_dtype type, int64_t i) {
    return type == SW_F64   ? ((const double *)from)[i]
           : type == SW_F32 ? (double)((const float *)from)[i]
                            : (double)sw_bf16_to_float(((const uint16_t *)from)[i]);
}

static void set_value(void *to, sw_dtype type, int64_t i, double x) {
    if (type == SW_F64)
        ((double *)to)[i] = x;
    else if (type == SW_F32)
        ((float *)to)[i] = (float)x;
    else
        ((uint16_t *)to)[i] = sw_float_to_bf16((float)x);
}

/* `bytes` bytes, a page behind them that faults, and one before the page where they begin. */
static void *map_between_guards(size_t bytes, void **map, size_t *map_bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    *map_bytes = inner + 2 * page;
    char *all = mmap(NULL, *map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all, page, PROT_NONE) ||
        mprotect(all + page + inner, page, PROT_NONE))
        abort();
    *map = all;
    return all + page + inner - bytes;
}

static void *make_values(int64_t n, sw_dtype type, uint64_t *seed, void **map, size_t *map_bytes) {
    void *at = map_between_guards((size_t)(n * sw_dtype_bytes(type)), map, map_bytes);
    for (int64_t i = 0; i < n; i++) {
        const double x = device_random(seed);
        set_value(at, type, i, fabs(x) < 0.125 ? x + copysign(0.125, x) : x);
    }
    return at;
}

/* Elements from the first to the last that is used, so that not even the rest of the last row may
 * be read. */
static int64_t n_elements(int64_t rows, int64_t columns, int64_t stride) {
    return rows > 0 && columns > 0 ? (rows - 1) * stride + columns : 1;
}

static sw_matrix make_matrix(int64_t rows, int64_t columns, bool is_turned, sw_dtype type,
                             int64_t more, uint64_t *seed, void **map, size_t *map_bytes) {
    const int64_t outer = is_turned ? columns : rows, inner = is_turned ? rows : columns;
    return (sw_matrix){
        make_values(n_elements(outer, inner, inner + more), type, seed, map, map_bytes),
        inner + more, is_turned, type};
}

static double element(const sw_matrix *x, int64_t row, int64_t column) {
    return value(x->at, x->type,
                 x->is_turned ? column * x->stride + row : row * x->stride + column);
}

static void compute(product_case *c) {
    const sw_product *p = &c->product;
    const double unit = p->c_type == SW_F64 ? 0x1p-53 : 0x1p-24;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0, size = 0, rest = 0, rest_size = 0;
            for (int64_t k = 0; k < p->k; k++) {
                const double term = element(&p->a, i, k) * element(&p->b, k, j);
                sum += term;
                size += fabs(term);
            }
            if (p->bias)
                rest += value(p->bias, p->bias_type, j),
                    rest_size += fabs(value(p->bias, p->bias_type, j));
            if (p->addend) {
                const double x = p->addend == p->c
                                     ? c->c_before[i * p->c_stride + j]
                                     : value(p->addend, p->c_type, i * p->addend_stride + j);
                rest += x, rest_size += fabs(x);
            }
            const double result = p->alpha * sum + rest;
            size = fabs(p->alpha) * size + rest_size;
            c->expected[i * p->n + j] = result;
            c->bound[i * p->n + j] =
                (double)(p->k + 3) * (unit * size + 0x1p-126) * 1.001 +
                (p->c_type == SW_BF16 ? 0x1p-8 * (fabs(result) + (double)(p->k + 3) * unit * size)
                                      : 0);
        }
}

product_case product_make(const product_shape *s, uint64_t seed) {
    product_case c = {.shape = *s};
    sw_product *p = &c.product;
    *p = (sw_product){.m = s->m,
                      .n = s->n,
                      .k = s->k,
                      .alpha = s->alpha,
                      .c_type = s->c_type,
                      .bias_type = s->bias_type};
    p->a = make_matrix(s->m, s->k, s->a_is_turned, s->a_type, s->a_more, &seed, &c.maps[0],
                       &c.map_bytes[0]);
    p->b = make_matrix(s->k, s->n, s->b_is_turned, s->b_type, s->b_more, &seed, &c.maps[1],
                       &c.map_bytes[1]);
    p->c_stride = s->n + s->c_more;
    const int64_t c_n = n_elements(s->m, s->n, p->c_stride);
    p->c = make_values(c_n, s->c_type, &seed, &c.maps[2], &c.map_bytes[2]);
    if (s->addend == 1) {
        p->addend_stride = s->n + 3;
        p->addend = make_values(n_elements(s->m, s->n, p->addend_stride), s->c_type, &seed,
                                &c.maps[3], &c.map_bytes[3]);
    } else if (s->addend == 2) {
        p->addend = p->c, p->addend_stride = p->c_stride;
    }
    if (s->has_bias)
        p->bias = make_values(s->n, s->bias_type, &seed, &c.maps[4], &c.map_bytes[4]);
    c.c_before = calloc((size_t)c_n, sizeof(double));
    c.expected = calloc((size_t)(s->m * s->n) + 1, sizeof(double));
    c.bound = calloc((size_t)(s->m * s->n) + 1, sizeof(double));
    if (!c.c_before || !c.expected || !c.bound)
        abort();
    for (int64_t i = 0; i < c_n; i++) {
        if (s->addend != 2 && i % p->c_stride < s->n)
            set_value(p->c, s->c_type, i, NAN); /* not read */
        c.c_before[i] = value(p->c, s->c_type, i);
    }
    compute(&c);
    return c;
}

void product_reset(product_case *c) {
    const sw_product *p = &c->product;
    for (int64_t i = 0; i < n_elements(p->m, p->n, p->c_stride); i++)
        set_value(p->c, p->c_type, i, c->c_before[i]);
}

const char *product_is_wrong(const product_case *c) {
    static char text[200];
    const sw_product *p = &c->product;
    for (int64_t i = 0; i < n_elements(p->m, p->n, p->c_stride); i++) {
        const int64_t row = i / p->c_stride, column = i % p->c_stride;
        const double got = value(p->c, p->c_type, i),
                     expected = column < p->n ? c->expected[row * p->n + column] : c->c_before[i];
        if (column < p->n ? !(fabs(got - expected) <= c->bound[row * p->n + column])
                          : got != expected) {
            snprintf(text, sizeof text, "element (%lld, %lld) is %.9g, expected %.9g within %.3g",
                     (long long)row, (long long)column, got, expected,
                     column < p->n ? c->bound[row * p->n + column] : 0);
            return text;
        }
    }
    return NULL;
}

size_t product_bytes(const product_case *c) {
    const sw_product *p = &c->product;
    return (size_t)(n_elements(p->m, p->n, p->c_stride) * sw_dtype_bytes(p->c_type));
}

void product_free(product_case *c) {
    for (int i = 0; i < 5; i++)
        if (c->maps[i])
            munmap(c->maps[i], c->map_bytes[i]);
    free(c->expected);
    free(c->bound);
    free(c->c_before);
}
