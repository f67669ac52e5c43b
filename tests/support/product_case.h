/* product_case.h: a matrix product of any types, shape and strides whose operands end at pages that
 * nobody may touch, and what it must give, by three loops in double. */
#ifndef SW_TESTS_PRODUCT_CASE_H
#define SW_TESTS_PRODUCT_CASE_H

#include "device/cpu/gemm.h"

typedef struct product_shape {
    int64_t m, n, k;
    bool a_is_turned, b_is_turned;
    sw_dtype a_type, b_type, c_type;
    int64_t a_more, b_more, c_more; /* elements of a row beyond those that are used */
    double alpha;
    int addend; /* 0: none, 1: another matrix, 2: C itself */
    bool has_bias;
    sw_dtype bias_type;
} product_shape;

typedef struct product_case {
    product_shape shape;
    sw_product product; /* without a workspace */
    double *expected;   /* [m,n] */
    double *bound;      /* [m,n] how far a right result may be off */
    double *c_before;   /* [m,c_stride] */
    void *maps[5];      /* a, b, c, addend, bias, each up to its last byte */
    size_t map_bytes[5];
} product_case;

/* Operands from `seed`, of both signs and sizes within 2^-3 .. 1. */
product_case product_make(const product_shape *shape, uint64_t seed);

/* What C holds becomes what it held before the product. */
void product_reset(product_case *c);

/* NULL if C is right: each element within its bound, everything beyond its columns as it was. Else
 * what is wrong. */
const char *product_is_wrong(const product_case *c);

/* The bytes of C, rows whole. */
size_t product_bytes(const product_case *c);

void product_free(product_case *c);

#endif
