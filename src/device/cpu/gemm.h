/* gemm.h: the matrix product, with what its one pass over C can do besides.
 *
 *      C[m,n] = alpha op(A)[m,k] op(B)[k,n] + bias[n] + addend[m,n],  heads of it turned
 *
 * Operands of fp32 or bf16, in any mixture, are multiplied and summed in fp32; a C of bf16 is
 * rounded once, from the whole sum (to nearest, ties to even; NaN stays NaN). Or everything is
 * fp64. Who does the work was settled when the device was opened (sw_gemm_kind in device.h) and
 * depends on nothing else. An element of C is one sum in one order, which follows from m, n, k and
 * the types: not from the number of threads, nor from addresses, nor from strides.
 */
#ifndef SW_DEVICE_CPU_GEMM_H
#define SW_DEVICE_CPU_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "device/cpu/open.h"
#include "device/kernel.h"

/* Element (i, j) of op(X) lies at i * stride + j, or at j * stride + i when turned. */
typedef struct sw_matrix {
    const void *at;
    int64_t stride; /* elements from one row to the next, as it lies */
    bool is_turned;
    sw_dtype type; /* SW_F32, SW_BF16 or SW_F64 */
} sw_matrix;

/* The first columns of C, heads of D of them, are turned as by ROTARY (device/kernel.h), those of
 * row r as the table's row (first_row + r) % T says: before they are rounded where a block of whole
 * heads fits (tuned/finish.h), else after, and rounded again. */
typedef struct sw_rotation {
    const float *table; /* [T,D/2,2] of (cos, sin); NULL: none */
    int64_t T, D;       /* D: a multiple of SW_TURNED_MULTIPLE */
    int64_t columns;    /* whole heads; below 1: none */
    int64_t first_row;
} sw_rotation;
enum { SW_TURNED_MULTIPLE = 32 };

typedef struct sw_product {
    int64_t m, n, k;
    double alpha;
    sw_matrix a, b;
    void *c; /* [m,c_stride], written; read only as `addend` */
    int64_t c_stride;
    sw_dtype c_type;
    const void *addend; /* [m,addend_stride] of C's type, may be C itself; NULL: none */
    int64_t addend_stride;
    const void *bias; /* [n], added to every row; NULL: none */
    sw_dtype bias_type;
    sw_rotation rotation; /* only where sw_product_turns */
    void *workspace; /* SW_PRODUCT_WORKSPACE bytes (device/sizes.h) for each thread, 64-byte aligned
                      */
} sw_product;

/* Can who computes this product turn heads of D as it stores them? Our own kernels can. */
bool sw_product_turns(const sw_device *device, const sw_product *product, int64_t D);

/* Multiply with all threads of the device. Not from within a task of theirs. C may share bytes with
 * no operand but `addend`. */
void sw_multiply(const sw_device *device, const sw_product *product);

/* The same bits by the calling thread alone, with the workspace of one thread. */
void sw_multiply_alone(const sw_device *device, const sw_product *product);

/* One that computes a whole product in the calling thread. */
typedef void (*sw_product_fn)(const sw_device *device, const sw_product *product);

/* cblas_sgemm, and the values of its enumerations. */
typedef void (*sw_cblas_sgemm_fn)(int order, int a_turned, int b_turned, int m, int n, int k,
                                  float alpha, const float *a, int a_stride, const float *b,
                                  int b_stride, float beta, float *c, int c_stride);
enum { SW_CBLAS_ROW_MAJOR = 101, SW_CBLAS_AS_IT_LIES = 111, SW_CBLAS_TURNED = 112 };

#endif
