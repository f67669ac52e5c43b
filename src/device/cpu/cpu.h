/* cpu.h: what the CPU device is inside, and the tables that the compiled kernel sets export. */
#ifndef SW_DEVICE_CPU_CPU_H
#define SW_DEVICE_CPU_CPU_H

#include <sched.h>

#include "device/cpu/gemm.h"
#include "device/cpu/open.h"
#include "device/sizes.h"

enum { SW_NOTE_BYTES = 256 };

typedef struct sw_cpu_device {
    sw_device base;
    sw_cpu_options options;      /* as it was opened */
    struct sw_cpu_device *alone; /* NULL in itself */
    /* The matrix products, each of one thread: by which operands are in which type, and the plain
     * one beside them. */
    sw_product_fn multiply_f32, multiply_bf16, multiply_f64, multiply_plain;
    bool is_pinned;
    cpu_set_t before;        /* where the caller could run before it was pinned */
    sw_cblas_sgemm_fn sgemm; /* NULL: no BLAS is in use */
    sw_kernel_fn kernels[SW_N_NUMBER_KINDS][SW_N_KERNELS];
    char gemm[64];
    char note[SW_NOTE_BYTES];
} sw_cpu_device;

/* What computes a product of this device. */
sw_product_fn sw_cpu_multiplier(const sw_device *device, const sw_product *product);

/* One kind of numbers compiled for one kernel set. */
typedef struct sw_kernel_set_table {
    sw_kernel_fn kernel[SW_N_KERNELS];
    sw_product_fn multiply_plain; /* fp32 with bf16, or fp64; NULL in the kind bf16, which uses that
                                     of fp32 */
} sw_kernel_set_table;

/* X(set, SET): every compiled set of kernels (kernels.cmake). */
#if defined(__x86_64__)
#define SW_COMPILED_SETS(X) X(baseline, BASELINE) X(v3, V3) X(v4, V4)
#else
#define SW_COMPILED_SETS(X) X(baseline, BASELINE)
#endif

#define SW_DECLARE_TABLES(set, SET) \
    extern const sw_kernel_set_table sw_table_f32_##set, sw_table_bf16_##set, sw_table_f64_##set;
SW_COMPILED_SETS(SW_DECLARE_TABLES)

/* NULL: it is not compiled for this kind of CPU. */
const sw_kernel_set_table *sw_kernel_set_table_of(sw_number_kind numbers, sw_kernel_set set);

/* What was found when a BLAS was looked for. */
typedef struct sw_blas {
    sw_cblas_sgemm_fn sgemm;  /* NULL: none */
    char name[64];            /* "openblas 0.3.21 SkylakeX" */
    char note[SW_NOTE_BYTES]; /* why there is none, or what is odd about it; "" when all is well */
} sw_blas;

/* Load OpenBLAS with one thread and the core type that suits the kernel set. It stays loaded for
 * the life of the process, so the first load settles the core type for all. */
void sw_blas_load(sw_kernel_set set, sw_blas *blas);

#if defined(__x86_64__)
/* The tuned products (device/cpu/tuned/product.c), each in the calling thread: of fp32 with bf16,
 * and of bf16 alone. */
void sw_multiply_v3(const sw_device *device, const sw_product *product);
void sw_multiply_v4(const sw_device *device, const sw_product *product);
void sw_multiply_v4_bf16(const sw_device *device, const sw_product *product);

/* Attention with dot products of bf16 pairs, for SW_GEMM_OWN_BF16. */
void sw_ATTENTION_bf16_v4_dot(const sw_device *device, const sw_kernel_call *call);
void sw_ATTENTION_GRAD_bf16_v4_dot(const sw_device *device, const sw_kernel_call *call);
#endif

void sw_multiply_blas(const sw_device *device,
                      const sw_product *product); /* by cpu->sgemm, in the calling thread */

/* Compare the BLAS with a plain product of fp32 on shapes that are odd in every direction, turned
 * and not, stored and added. `space` is working space of SW_BLAS_CHECK_BYTES, 64-byte aligned.
 * False leaves the first difference in `note`. */
enum {
    SW_BLAS_CHECK_SIDE = 131,
    SW_BLAS_CHECK_BYTES = SW_PRODUCT_WORKSPACE +
                          4 * SW_BLAS_CHECK_SIDE * (SW_BLAS_CHECK_SIDE + 1) * (int)sizeof(float)
};
bool sw_blas_is_right(const sw_blas *blas, sw_product_fn plain, void *space,
                      char note[SW_NOTE_BYTES]);

#endif
