/* Every kernel, over odd shapes, for every kind of numbers, kernel set and matrix product, against
 * the plain double kernels, whose values are tested in test_reference.c and whose gradients in
 * test_gradients.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "device/cpu/open.h"
#include "support/device_case.h"

/* Every number of every list appears, beside changing neighbours. 16 and more shapes for each
 * kernel. */
static device_shape shape_number(int i) {
    static const int64_t n[] = {1, 7, 33, 65}, C[] = {1, 5, 48, 100, 257}, V[] = {7, 259, 1000},
                         T[] = {1, 3, 64, 65, 130}, D[] = {2, 12, 16, 64, 1, 7},
                         heads[][2] = {{1, 1}, {4, 2}, {6, 2}, {9, 3}},
                         span[] = {0, 1, 16, 70, 500};
    return (device_shape){.n = n[i % 4],
                          .C = C[i % 5],
                          .V = V[i % 3],
                          .B = 1 + i % 2,
                          .T = T[i % 5],
                          .H = heads[i % 4][0],
                          .K = heads[i % 4][1],
                          .D = D[i % 6],
                          .in = C[i % 5],
                          .out = C[(i / 5 + i) % 5],
                          .out1 = i % 3 ? C[(i + 2) % 5] : 0,
                          .out2 = i % 3 == 2 ? C[(i + 4) % 5] : 0,
                          .layout = i / 2 % 2,
                          .packed = i / 3 % 2,
                          .span = span[i / 5 % 5],
                          .mask = i / 3 % 2 ? SW_MASK_FULL : SW_MASK_CAUSAL,
                          .dropout = i / 2 % 3 == 1 ? 0.2 : 0,
                          .function = i % SW_N_ACTIVATIONS,
                          .ramp = i % 3};
}
enum { N_SHAPES = 20 };

/* Largest difference, relative to the largest element, between float and double from the same
 * inputs. */
static double tolerance(sw_kernel kernel) {
    switch (kernel) {
    case SW_KERNEL_EMBEDDING:
    case SW_KERNEL_SELECT_POSITION:
    case SW_KERNEL_ZERO:
    case SW_KERNEL_JOIN:
    case SW_KERNEL_SPLIT:
        return 0;
    case SW_KERNEL_NORMAL: /* float cannot tell a uniform number from 1 by less than 2^-24: the
                              radius is then 3.5e-4 */
        return 4e-4;
    default:
        return 4e-6;
    }
}

typedef struct variant {
    const char *name;
    sw_device *device;
    sw_number_kind numbers;
} variant;

typedef struct fixture {
    sw_device *oracle;
    int n_variants;
    variant variants[(2 * SW_N_GEMM_KINDS + 1) * SW_N_KERNEL_SETS];
} fixture;

static int open_all(void **state) {
    fixture *f = calloc(1, sizeof *f);
    f->oracle = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN);
    for (int set = 0; set < SW_N_KERNEL_SETS; set++) {
        if (!sw_kernel_set_runs_here((sw_kernel_set)set))
            continue;
        sw_device *device = device_open((sw_kernel_set)set, SW_GEMM_PLAIN);
        f->variants[f->n_variants++] = (variant){"fp32", device, SW_NUMBERS_F32};
        f->variants[f->n_variants++] = (variant){"bf16", device, SW_NUMBERS_BF16};
        f->variants[f->n_variants++] = (variant){"fp64", device, SW_NUMBERS_F64};
    }
    for (sw_gemm_kind gemm = SW_GEMM_OWN; gemm < SW_N_GEMM_KINDS; gemm++)
        if (sw_gemm_runs_here(gemm, sw_kernel_set_best())) {
            sw_device *device = device_open(sw_kernel_set_best(), gemm);
            f->variants[f->n_variants++] = (variant){"fp32", device, SW_NUMBERS_F32};
            f->variants[f->n_variants++] = (variant){"bf16", device, SW_NUMBERS_BF16};
        }
    *state = f;
    return 0;
}

static int close_all(void **state) {
    fixture *f = *state;
    f->oracle->close(f->oracle);
    for (int i = 0; i < f->n_variants; i++)
        if (f->variants[i].numbers == SW_NUMBERS_F32)
            f->variants[i].device->close(f->variants[i].device);
    free(f);
    return 0;
}

static bool has_case(int kernel, const device_shape *s) {
    if (kernel == SW_KERNEL_SQUARES)
        return false;
    return !((kernel == SW_KERNEL_ROTARY || kernel == SW_KERNEL_ROTARY_TABLE ||
              kernel == SW_KERNEL_ROTARY_PLACED) &&
             s->D < 2);
}

/* Every operand that may, adds; and every one that may, is absent, alone and together. */
static void for_each_option(device_case *c, int option) {
    uint32_t adds = 0, absents = 0;
    for (int i = 0; i < c->n_operands; i++) {
        adds |= (uint32_t)c->operand[i].may_add << i;
        absents |= (uint32_t)c->operand[i].may_absent << i;
    }
    const uint32_t lowest = absents & (0u - absents), rest = absents & ~lowest;
    const uint32_t absent[] = {0, 0, lowest, rest, absents};
    c->absent = absent[option];
    c->accumulate = option == 1 || option == 3 ? adds & ~c->absent : 0;
}
enum { N_OPTIONS = 5 };

/* Gradients of logits are rounded to bf16 before dx = dlogits head and dhead = dlogits^T x: by half
 * a unit each. The oracle leaves them behind. */
static double of_rounded_dlogits(const device_case *c, int operand, int64_t row, int64_t column,
                                 const double *dlogits) {
    const int64_t n = c->dim[0], V = c->dim[1], C = c->dim[2];
    const double *x = c->operand[0].value, *head = c->operand[1].value;
    double sum = 0;
    assert_true(n <= c->dim[3]); /* one chunk */
    for (int64_t j = 0; j < (operand == 5 ? V : n); j++)
        sum += operand == 5 ? device_half_unit(dlogits[row * V + j]) * fabs(head[j * C + column])
                            : device_half_unit(dlogits[j * V + row]) * fabs(x[j * C + column]);
    return sum;
}

/* Weights that do not lie together are products of their own, and dx is rounded after each: half a
 * unit of what the terms can come to for every product but the last. */
static double of_dx_between_products(const device_case *c, int64_t row, int64_t column) {
    const int64_t in = c->dim[1], *outs = c->dim + 3, out = outs[0] + outs[1] + outs[2];
    const int n_products = (outs[0] > 0) + (outs[1] > 0) + (outs[2] > 0);
    const double *dy = c->operand[0].value + row * out;
    double terms = c->accumulate ? fabs(c->operand[4].value[row * in + column]) : 0;
    for (int part = 0; part < 3; dy += outs[part++])
        for (int64_t o = 0; o < outs[part]; o++)
            terms += fabs(dy[o] *
                          c->operand[1 + part]
                              .value[c->dim[2] == 0 ? o * in + column : column * outs[part] + o]);
    return (n_products - 1) * device_half_unit(terms);
}

/* Heads are turned after their product is stored, and rounded, where it cannot do it itself: half a
 * unit of what the terms can come to, for each of a pair; cosines and sines of these cases are
 * below 1. */
static double of_turned_after_store(const device_case *c) {
    const int64_t in = c->dim[1], *outs = c->dim + 3, out = outs[0] + outs[1] + outs[2];
    double most = 0;
    for (int64_t row = 0; row < c->dim[0]; row++)
        for (int64_t part = 0, first = 0; part < 3; first += outs[part++])
            for (int64_t o = 0; o < outs[part] && first + o < c->dim[6] * c->dim[7]; o++) {
                const double *x = c->operand[0].value + row * in,
                             *weight = c->operand[1 + part].value;
                double terms = fabs(c->operand[4 + part].value[o]) +
                               fabs(c->operand[7].value[row * out + first + o]);
                for (int64_t i = 0; i < in; i++)
                    terms += fabs(x[i] * weight[c->dim[2] == 0 ? o * in + i : i * outs[part] + o]);
                most = fmax(most, device_half_unit(terms));
            }
    return 2 * most;
}

/* With bf16, what rounding within a kernel may change, relative to the largest element. 0 for most:
 * they round their results. */
static double of_rounding_within(const device_case *c, int operand, double *const *expected) {
    const bool is_dx = c->kernel == SW_KERNEL_LINEAR_GRAD_INPUT;
    const bool turns = c->kernel == SW_KERNEL_LINEAR && c->operand[9].n && !(c->absent >> 9 & 1);
    if (!is_dx && !turns && (c->kernel != SW_KERNEL_CROSS_ENTROPY_GRAD || operand < 5))
        return 0;
    const int64_t columns = is_dx ? c->dim[1] : c->dim[2];
    double most = turns ? of_turned_after_store(c) : 0, largest = 0;
    for (int64_t i = 0; i < c->operand[operand].n; i++) {
        if (!turns)
            most = fmax(most, is_dx ? of_dx_between_products(c, i / columns, i % columns)
                                    : of_rounded_dlogits(c, operand, i / columns, i % columns,
                                                         expected[3]));
        largest = fmax(largest, fabs(expected[operand][i]));
    }
    return most / (largest > 0 ? largest : 1);
}

/* With dot products of bf16, attention rounds its weights to bf16 between two products:
 * test_attention.c says how far off that may be. */
static bool is_bounded_elsewhere(sw_kernel kernel, const variant *v) {
    return (kernel == SW_KERNEL_ATTENTION || kernel == SW_KERNEL_ATTENTION_GRAD) &&
           v->numbers == SW_NUMBERS_BF16 &&
           !strcmp(v->device->gemm, sw_gemm_kind_name(SW_GEMM_OWN_BF16));
}

static void every_kernel_gives_what_the_oracle_gives(void **state) {
    const fixture *f = *state;
    int n_cases = 0, n_wrong = 0;
    for (int kernel = 0; kernel < SW_N_KERNELS; kernel++) {
        double worst = 0;
        for (int i = 0; i < N_SHAPES; i++) {
            const device_shape shape = shape_number(i);
            if (!has_case(kernel, &shape))
                continue;
            for (int option = 0; option < (i % 2 ? 2 : N_OPTIONS); option++)
                for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++) {
                    sw_arena arena = {0};
                    device_case c =
                        device_make(&arena, (sw_kernel)kernel, &shape, f->oracle, (uint64_t)i);
                    for_each_option(&c, option);
                    if (option && !c.accumulate && !c.absent) {
                        sw_arena_free(&arena);
                        continue;
                    }
                    device_round(&c, (sw_number_kind)numbers);
                    double *expected[SW_MAX_OPERANDS], *got[SW_MAX_OPERANDS];
                    device_run(&arena, f->oracle, SW_NUMBERS_F64, &c, expected);
                    const double sure =
                        numbers == SW_NUMBERS_F64 ? 1e-13 : tolerance((sw_kernel)kernel);
                    for (int v = 0; v < f->n_variants; v++) {
                        if (f->variants[v].numbers != (sw_number_kind)numbers ||
                            is_bounded_elsewhere((sw_kernel)kernel, &f->variants[v]))
                            continue;
                        device_run(&arena, f->variants[v].device, (sw_number_kind)numbers, &c, got);
                        for (int o = 0; o < c.n_operands; o++) {
                            const bool is_scratch =
                                o == 3 && (kernel == SW_KERNEL_CROSS_ENTROPY ||
                                           kernel == SW_KERNEL_CROSS_ENTROPY_GRAD);
                            if (!got[o] || is_scratch)
                                continue;
                            const double distance = device_distance(&c, (sw_number_kind)numbers, o,
                                                                    got[o], expected[o]);
                            const double bound = sure + (numbers == SW_NUMBERS_BF16
                                                             ? of_rounding_within(&c, o, expected)
                                                             : 0);
                            if (numbers != SW_NUMBERS_F64 && distance > worst)
                                worst = distance;
                            if (!(distance <= bound)) {
                                n_wrong++;
                                print_error("%s, operand %d, %s, %s, %s: off by %g, allowed %g\n",
                                            device_describe(&arena, &c), o, f->variants[v].name,
                                            f->variants[v].device->kernel_set,
                                            f->variants[v].device->gemm, distance, bound);
                            }
                        }
                        n_cases++;
                    }
                    sw_arena_free(&arena);
                }
        }
        print_message("%-22s %.1e\n", sw_kernel_name((sw_kernel)kernel), worst);
    }
    print_message("%d cases\n", n_cases);
    assert_int_equal(n_wrong, 0);
}

static bool same_bits(const device_case *c, int operand, const double *a, const double *b) {
    return memcmp(a, b, sizeof *a * (size_t)c->operand[operand].n) == 0;
}

/* {kernel, output, input it may lie on}: every "in place" of kernel.h. */
static void in_place_gives_the_same_bits(void **state) {
    const fixture *f = *state;
    static const int places[][3] = {
        {SW_KERNEL_ADD_POSITIONS, 2, 0},
        {SW_KERNEL_LINEAR, 8, 7},
        {SW_KERNEL_RMSNORM_GRAD, 4, 0},
        {SW_KERNEL_LAYERNORM_GRAD, 5, 0},
        {SW_KERNEL_ROTARY, 2, 0},
        {SW_KERNEL_ACTIVATION, 1, 0},
        {SW_KERNEL_ACTIVATION_GRAD, 2, 0},
        {SW_KERNEL_SWIGLU, 2, 0},
        {SW_KERNEL_SWIGLU, 2, 1},
        {SW_KERNEL_SWIGLU_GRAD, 3, 0},
        {SW_KERNEL_SWIGLU_GRAD, 3, 1},
        {SW_KERNEL_SWIGLU_GRAD, 3, 2},
        {SW_KERNEL_SWIGLU_GRAD, 4, 0},
        {SW_KERNEL_SWIGLU_GRAD, 4, 1},
        {SW_KERNEL_SWIGLU_GRAD, 4, 2},
        {SW_KERNEL_ADD, 2, 0},
        {SW_KERNEL_ADD, 2, 1},
        {SW_KERNEL_DROPOUT, 1, 0},
        {SW_KERNEL_SCALE, 1, 0},
        {SW_KERNEL_ROTARY_PLACED, 3, 0},
        {SW_KERNEL_ADD_POSITIONS_PLACED, 3, 0},
    };
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int v = 0; v < f->n_variants; v++) {
                device_shape shape = shape_number(i);
                if (places[p][0] == SW_KERNEL_SWIGLU || places[p][0] == SW_KERNEL_SWIGLU_GRAD)
                    shape.packed = 0; /* dense rows alone lie on dense rows */
                if (!has_case(places[p][0], &shape))
                    continue;
                sw_arena arena = {0};
                device_case c =
                    device_make(&arena, (sw_kernel)places[p][0], &shape, f->oracle, (uint64_t)i);
                double *apart[SW_MAX_OPERANDS], *together[SW_MAX_OPERANDS];
                device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, apart);
                c.shares[places[p][1]] = 1 + places[p][2];
                device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, together);
                for (int o = 0; o < c.n_operands; o++)
                    if (apart[o] && !same_bits(&c, o, apart[o], together[o]))
                        fail_msg("%s: operand %d differs when %d lies on %d (%s, %s)",
                                 device_describe(&arena, &c), o, places[p][1], places[p][2],
                                 f->variants[v].name, f->variants[v].device->kernel_set);
                sw_arena_free(&arena);
            }
}

/* Neither where operands begin nor what ran before matters. */
static void alignment_changes_no_bit(void **state) {
    const fixture *f = *state;
    for (int kernel = 0; kernel < SW_N_KERNELS; kernel++)
        for (int i = 0; i < N_SHAPES; i += 3)
            for (int v = 0; v < f->n_variants; v++) {
                const device_shape shape = shape_number(i);
                if (!has_case(kernel, &shape))
                    continue;
                sw_arena arena = {0};
                device_case c =
                    device_make(&arena, (sw_kernel)kernel, &shape, f->oracle, (uint64_t)i);
                double *first[SW_MAX_OPERANDS], *other[SW_MAX_OPERANDS];
                device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, first);
                for (c.shift = 1; c.shift < 8; c.shift += 3) {
                    device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, other);
                    for (int o = 0; o < c.n_operands; o++)
                        if (first[o] && !same_bits(&c, o, first[o], other[o]))
                            fail_msg("%s: operand %d differs when all lie %d elements further (%s, "
                                     "%s, %s)",
                                     device_describe(&arena, &c), o, c.shift, f->variants[v].name,
                                     f->variants[v].device->kernel_set,
                                     f->variants[v].device->gemm);
                }
                sw_arena_free(&arena);
            }
}

/* With the plain product, what a row (or, for attention, a sequence) gets does not depend on how
 * many others there are. */
static void rows_do_not_depend_on_their_number(void **state) {
    const fixture *f = *state;
    static const struct {
        sw_kernel kernel;
        uint32_t by_row; /* operands with as many elements as there are rows, times something */
    } kernels[] = {
        {SW_KERNEL_LINEAR, 0x181},   {SW_KERNEL_LINEAR_GRAD_INPUT, 0x11},
        {SW_KERNEL_RMSNORM, 0xd},    {SW_KERNEL_LAYERNORM, 0x39},
        {SW_KERNEL_ATTENTION, 0x3f}, {SW_KERNEL_ATTENTION_GRAD, 0x3ff},
        {SW_KERNEL_EMBEDDING, 0x5},  {SW_KERNEL_ROTARY, 0x5},
    };
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (int v = 0; v < f->n_variants; v++) {
            if (strcmp(f->variants[v].device->gemm, "plain") != 0)
                continue;
            const device_shape shape = {.n = 61,
                                        .C = 100,
                                        .V = 50,
                                        .B = 5,
                                        .T = 70,
                                        .H = 4,
                                        .K = 2,
                                        .D = 12,
                                        .in = 300,
                                        .out = 90};
            sw_arena arena = {0};
            device_case c = device_make(&arena, kernels[k].kernel, &shape, f->oracle, 3);
            c.absent = kernels[k].kernel == SW_KERNEL_LINEAR
                           ? 1u << 9
                           : 0; /* which row is turned how follows its number */
            double *all[SW_MAX_OPERANDS], *some[SW_MAX_OPERANDS];
            device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, all);
            const int64_t rows = c.dim[0], left_out = rows / 3;
            for (int o = 0; o < c.n_operands; o++)
                if (kernels[k].by_row >> o & 1) {
                    assert_true(c.operand[o].n % rows == 0);
                    c.operand[o].value += c.operand[o].n / rows * left_out;
                    c.operand[o].n -= c.operand[o].n / rows * left_out;
                }
            c.dim[0] -= left_out;
            device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, some);
            for (int o = 0; o < c.n_operands; o++)
                if (some[o] &&
                    !same_bits(&c, o, some[o], all[o] + c.operand[o].n / c.dim[0] * left_out))
                    fail_msg("%s: operand %d differs with fewer rows (%s, %s)",
                             device_describe(&arena, &c), o, f->variants[v].name,
                             f->variants[v].device->kernel_set);
            sw_arena_free(&arena);
        }
}

/* Blocks of queries that lie in one document see nothing of the one before: not even NaN comes
 * through, forward or backward. Nor does it with a span. A block has at most 64 queries and then
 * begins at a multiple, or 12 that begin anywhere. */
static void blocks_that_no_query_sees_are_not_read(void **state) {
    const fixture *f = *state;
    for (int with_span = 0; with_span < 2; with_span++)
        for (int v = 0; v < f->n_variants; v++) {
            const device_shape shape = {
                .B = 1, .T = 192, .H = 4, .K = 2, .D = 12, .span = with_span ? 40 : 0};
            /* keys and values of the first 64 tokens; the queries that must not notice */
            const int64_t hidden = 64, first = with_span ? 128 : 64 + 12;
            sw_arena arena = {0};
            for (int backward = 0; backward < 2; backward++) {
                const sw_kernel kernel = backward ? SW_KERNEL_ATTENTION_GRAD : SW_KERNEL_ATTENTION;
                device_case c = device_make(&arena, kernel, &shape, f->oracle, 7);
                double *documents = c.operand[backward ? 9 : 5].value, *clean[SW_MAX_OPERANDS],
                       *spoilt[SW_MAX_OPERANDS];
                for (int64_t t = 0; t < shape.T; t++)
                    documents[t] = with_span || t < 64 ? 0 : 64;
                device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, clean);
                for (int o = backward + 1; o <= backward + 2; o++)
                    for (int64_t i = 0; i < hidden * shape.K * shape.D; i++)
                        c.operand[o].value[i] = (double)NAN;
                device_run(&arena, f->variants[v].device, f->variants[v].numbers, &c, spoilt);
                const int output = backward ? 6 : 3; /* dq, out */
                for (int64_t i = first * shape.H * shape.D; i < c.operand[output].n; i++)
                    if (memcmp(&clean[output][i], &spoilt[output][i], sizeof(double)) != 0)
                        fail_msg("%s: element %ld of operand %d is %g instead of %g (%s, %s)",
                                 device_describe(&arena, &c), (long)i, output, spoilt[output][i],
                                 clean[output][i], f->variants[v].name,
                                 f->variants[v].device->kernel_set);
            }
            sw_arena_free(&arena);
        }
}

/* Calls of many tasks: each of them, and what they add up together, is the same whoever runs
 * them. */
static void the_number_of_threads_changes_no_bit(void **state) {
    const fixture *f = *state;
    static const device_shape shapes[] = {
        {.n = 130,
         .C = 257,
         .V = 1000,
         .B = 2,
         .T = 130,
         .H = 6,
         .K = 2,
         .D = 16,
         .in = 100,
         .out = 257},
        {.n = 2200,
         .C = 70,
         .V = 300,
         .B = 3,
         .T = 70,
         .H = 4,
         .K = 2,
         .D = 64,
         .in = 257,
         .out = 100,
         .layout = 1,
         .span = 20},
    };
    sw_device *alone = device_open(sw_kernel_set_best(), SW_GEMM_BLAS);
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
        sw_error err;
        sw_device *device;
        const sw_cpu_options options = {
            .set = sw_kernel_set_best(), .gemm = SW_GEMM_BLAS, .n_threads = n_threads};
        assert_int_equal(sw_cpu_open(&options, &device, &err), SW_OK);
        for (int kernel = 0; kernel < SW_N_KERNELS; kernel++)
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++) {
                    if (!has_case(kernel, &shapes[i]))
                        continue;
                    sw_arena arena = {0};
                    device_case c =
                        device_make(&arena, (sw_kernel)kernel, &shapes[i], f->oracle, 11);
                    double *one[SW_MAX_OPERANDS], *many[SW_MAX_OPERANDS];
                    device_run(&arena, alone, (sw_number_kind)numbers, &c, one);
                    device_run(&arena, device, (sw_number_kind)numbers, &c, many);
                    for (int o = 0; o < c.n_operands; o++)
                        if (one[o] && !same_bits(&c, o, one[o], many[o]))
                            fail_msg("%s: operand %d differs with %d threads (kind %d)",
                                     device_describe(&arena, &c), o, n_threads, numbers);
                    sw_arena_free(&arena);
                }
        device->close(device);
    }
    alone->close(alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gives_what_the_oracle_gives),
        cmocka_unit_test(in_place_gives_the_same_bits),
        cmocka_unit_test(alignment_changes_no_bit),
        cmocka_unit_test(rows_do_not_depend_on_their_number),
        cmocka_unit_test(blocks_that_no_query_sees_are_not_read),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
