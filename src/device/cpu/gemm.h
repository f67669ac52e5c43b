/* gemm.h: the matrix product C[m,n] = alpha * op(A)[m,k] op(B)[k,n] + beta * C, row-major, as the BLAS defines it.
 *
 * `a_turned`: A lies as [k,m] with rows `a_stride` apart; likewise B as [n,k]. With beta = 0, C is only written.
 * A plain product exists in each kernel set, for float and double; float may use a BLAS instead. Which one does the work was
 * settled when the device was opened and depends on nothing else but whether a dimension fits the BLAS's int.
 */
#ifndef SW_DEVICE_CPU_GEMM_H
#define SW_DEVICE_CPU_GEMM_H

#include <stdbool.h>
#include <stdint.h>

typedef void (*sw_sgemm_fn)(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                            int64_t a_stride, const float *b, int64_t b_stride, float beta, float *c, int64_t c_stride);
typedef void (*sw_dgemm_fn)(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                            int64_t a_stride, const double *b, int64_t b_stride, double beta, double *c, int64_t c_stride);

/* cblas_sgemm, and the values of its enumerations. */
typedef void (*sw_cblas_sgemm_fn)(int order, int a_turned, int b_turned, int m, int n, int k, float alpha, const float *a,
                                  int a_stride, const float *b, int b_stride, float beta, float *c, int c_stride);
enum { SW_CBLAS_ROW_MAJOR = 101, SW_CBLAS_AS_IT_LIES = 111, SW_CBLAS_TURNED = 112 };

#endif
