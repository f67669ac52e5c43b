/* device_case.h: one call of a kernel with random operands, to be run for any kind of numbers and
 * any device.
 *
 * Values are kept as double and converted to what a kind wants. Operands lie between guard bytes,
 * outputs and scratch begin as NaN, so a kernel that reads what it should only write, or writes
 * past an end, is found out.
 */
#ifndef SW_TESTS_DEVICE_CASE_H
#define SW_TESTS_DEVICE_CASE_H

#include "base/arena.h"
#include "device/cpu/open.h"

typedef enum device_type {
    DEVICE_REAL,       /* R of device/kernel.h */
    DEVICE_ACTIVATION, /* A */
    DEVICE_PARAMETER,  /* P */
    DEVICE_MASTER, /* a parameter that is updated; with bf16 it is split with the DEVICE_LOW that
                      follows */
    DEVICE_LOW,
    DEVICE_INDEX,  /* int32 */
    DEVICE_DOUBLE, /* double whatever the kind */
} device_type;

typedef struct device_operand {
    device_type type;
    int64_t n;
    bool is_read, is_written;
    bool may_add;    /* `+` of kernel.h */
    bool may_absent; /* `?` */
    double *value;   /* [n] inputs; what is there before, where the kernel adds */
} device_operand;

typedef struct device_case {
    sw_kernel kernel;
    int64_t dim[SW_MAX_DIMENSIONS];
    double attribute[SW_MAX_ATTRIBUTES];
    sw_scalars scalars;
    uint32_t accumulate, absent; /* bits of operands */
    int shares[SW_MAX_OPERANDS]; /* 1 + the operand whose bytes this one uses, 0: its own */
    int shift;                   /* elements that every operand is off an aligned address */
    int n_operands;
    device_operand operand[SW_MAX_OPERANDS];
} device_case;

/* Sizes that a case is made of; a kernel uses those that it knows. */
typedef struct device_shape {
    int64_t n, C, V, B, T, H, K, D, in, out, layout;
    int64_t out1, out2; /* of linear kernels with several weights */
    int packed;         /* q, k and v, or gate and up, lie in one array, token by token */
    int64_t span;
    int64_t mask;       /* of attention: an sw_attention_mask */
    double dropout;     /* of attention */
    int function, ramp; /* of activations, of rotary tables */
} device_shape;

/* A random number in -1 .. 1. */
double device_random(uint64_t *state);

/* A case with random operands from `seed`. What a forward kernel would have left (log sums, inverse
 * deviations) is computed with `oracle` for double. */
device_case device_make(sw_arena *arena, sw_kernel kernel, const device_shape *shape,
                        const sw_device *oracle, uint64_t seed);

/* Round the inputs to what `numbers` can hold, so that another kind computes from the same
 * values. */
void device_round(device_case *c, sw_number_kind numbers);

/* Run it; result[i] [n] for every written operand, NULL for others. */
void device_run(sw_arena *arena, const sw_device *device, sw_number_kind numbers,
                const device_case *c, double *result[SW_MAX_OPERANDS]);

/* What rounding x to bf16 may change: half a unit in the last of its eight bits. */
double device_half_unit(double x);

/* The largest difference of two results of operand i, divided by the largest |expected| (1 if that
 * is zero); infinite if one has NaN. Where the operand lies in bf16 beside `numbers`, half a unit
 * of it is not counted: results are rounded once. */
double device_distance(const device_case *c, sw_number_kind numbers, int operand, const double *got,
                       const double *expected);

/* "attention_grad[B 2, T 65 ...] accumulate 3 absent 0": for messages. */
const char *device_describe(sw_arena *arena, const device_case *c);

/* A device of a set that runs here, opened or the test fails. */
sw_device *device_open(sw_kernel_set set, sw_gemm_kind gemm);

#endif
