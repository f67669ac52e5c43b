/* real.h: the three types that a kernel file is written in, and how it is named.
 *
 *   real         what everything is computed in, and statistics and gradients of parameters lie in:
 *                float or double
 *   activation   what activations and their gradients lie in: real, or bf16 beside float. load(a)
 *                is its value, stored(x) is x rounded to it, once
 *   parameter    what gathered parameters lie in: real, or bf16 beside float. widen(p) is its value
 *
 * Every file of this folder is compiled for three kinds of numbers and three kernel sets.
 * SW_LOCAL(x) is x's name in this one of the nine; SW_KERNEL(NAME) begins the kernel NAME of
 * device/kernel.h.
 *
 * Loops are written so that the compiler vectorises them without being allowed to reorder sums:
 * element by element (SW_ELEMENTWISE), or in explicit lanes (lanes.h). So the bits of a result
 * depend on its inputs alone: not on alignment, not on padding.
 */
#ifndef SW_DEVICE_CPU_PLAIN_REAL_H
#define SW_DEVICE_CPU_PLAIN_REAL_H

#include <stddef.h>

#include "base/dtype.h"
#include "base/integer.h"
#include "device/cpu/cpu.h"
#include "device/kernel.h"
#include "device/sizes.h"

#define SW_PASTE(name, kind, set) sw_##name##_##kind##_##set
#define SW_EXPAND(name, kind, set) SW_PASTE(name, kind, set)
#define SW_LOCAL(name) SW_EXPAND(name, SW_KIND, SW_SET)
#define SW_DECLARE_KERNEL(NAME, ...) void SW_LOCAL(NAME)(const sw_device *, const sw_kernel_call *);
SW_KERNELS(SW_DECLARE_KERNEL, SW_DECLARE_KERNEL)
void SW_LOCAL(multiply_plain)(const sw_device *device, const sw_product *product);
#define SW_KERNEL(NAME)                                                  \
    void SW_LOCAL(NAME)(const sw_device *device __attribute__((unused)), \
                        const sw_kernel_call *call __attribute__((unused)))

/* Element i of the result depends on element i of the inputs only, even where they share their
 * bytes. */
#if defined(__clang__)
#define SW_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define SW_ELEMENTWISE _Pragma("GCC ivdep")
#endif

#ifdef SW_KIND_f64
typedef double real;
#define SW_REAL_BYTES 8
#define SW_ELEMENTWISE_CALLS /* of the C library's functions, which no compiler vectorises */
#else
typedef float real;
#define SW_REAL_BYTES 4
#define SW_ELEMENTWISE_CALLS SW_ELEMENTWISE
#endif

#ifdef SW_KIND_bf16
typedef uint16_t parameter, activation;
static inline real widen(parameter x) {
    return sw_bf16_to_float(x);
}
static inline real load(activation x) {
    return sw_bf16_to_float(x);
}
static inline activation stored(real x) {
    return sw_float_to_bf16(x);
}
#else
typedef real parameter, activation;
static inline real widen(parameter x) {
    return x;
}
static inline real load(activation x) {
    return x;
}
static inline activation stored(real x) {
    return x;
}
#endif

static inline bool accumulates(const sw_kernel_call *call, int operand) {
    return call->accumulate >> operand & 1;
}

/* y = x or y += x, of reals: gradients of parameters and their sums. */
static inline void store_or_add(bool add, int64_t n, real *y, const real *x) {
    if (add) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            y[i] += x[i];
    } else {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i];
    }
}

/* The types of this file's numbers, as operands of a product (gemm.h) name them. */
#if defined(SW_KIND_f64)
#define SW_NUMBERS SW_NUMBERS_F64
#elif defined(SW_KIND_bf16)
#define SW_NUMBERS SW_NUMBERS_BF16
#else
#define SW_NUMBERS SW_NUMBERS_F32
#endif
#define SW_REAL_TYPE sw_real_type(SW_NUMBERS)
#define SW_ACTIVATION_TYPE sw_activation_type(SW_NUMBERS)
#define SW_PARAMETER_TYPE sw_parameter_type(SW_NUMBERS)

/* A call's scratch begins with the workspace of its products, where its kernel multiplies; the
 * kernel's own part follows. */
static inline void *own_scratch(const sw_device *device, const sw_kernel_call *call) {
    return (char *)call->scratch + device->n_threads * SW_PRODUCT_WORKSPACE;
}

/* C = alpha op(A) op(B), or added to C, where all are reals. */
static inline void multiply(const sw_device *device, void *workspace, bool a_turned, bool b_turned,
                            int64_t m, int64_t n, int64_t k, real alpha, const real *a,
                            int64_t a_stride, const real *b, int64_t b_stride, bool add, real *c,
                            int64_t c_stride) {
    const sw_product product = {.m = m,
                                .n = n,
                                .k = k,
                                .alpha = (double)alpha,
                                .a = {a, a_stride, a_turned, SW_REAL_TYPE},
                                .b = {b, b_stride, b_turned, SW_REAL_TYPE},
                                .c = c,
                                .c_stride = c_stride,
                                .c_type = SW_REAL_TYPE,
                                .addend = add ? c : NULL,
                                .addend_stride = c_stride,
                                .workspace = workspace};
    sw_multiply(device, &product);
}

#endif
