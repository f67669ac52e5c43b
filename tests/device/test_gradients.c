/* The gradient kernels in double against central differences of the forward kernels.
 *
 * With random weights w on a forward kernel's outputs, L(inputs) = sum of w * output. A gradient
 * kernel fed with w must give dL, so along a random direction r the sum of dL * r is (L(x + h r) -
 * L(x - h r)) / 2h up to h^2 and rounding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <math.h>

#include <cmocka.h>

#include "device/cpu/open.h"
#include "support/device_case.h"

/* A forward kernel, its output, its gradient kernel; and for each input of the forward kernel with
 * a gradient: the gradient kernel's output. */
typedef struct pair {
    sw_kernel forward, gradient;
    int output;       /* of forward, weighted */
    int weights;      /* operand of gradient that takes the weights; -1: the loss itself */
    int links[6][2];  /* {operand of forward, operand of gradient} that carry the same value, ends
                         with {-1} */
    int wanted[7][2]; /* {operand of forward, output of gradient}, ends with {-1} */
} pair;

#define END \
    { -1, -1 }
static const pair pairs[] = {
    {SW_KERNEL_LINEAR,
     SW_KERNEL_LINEAR_GRAD_INPUT,
     8,
     0,
     {{1, 1}, {2, 2}, {3, 3}, END},
     {{0, 4}, END}},
    {SW_KERNEL_LINEAR,
     SW_KERNEL_LINEAR_GRAD_WEIGHT,
     8,
     0,
     {{0, 1}, END},
     {{1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, END}},
    {SW_KERNEL_EMBEDDING, SW_KERNEL_EMBEDDING_GRAD, 2, 1, {{0, 0}, END}, {{1, 2}, END}},
    {SW_KERNEL_ADD_POSITIONS, SW_KERNEL_ADD_POSITIONS_GRAD, 2, 0, {{3, 2}, END}, {{1, 1}, END}},
    {SW_KERNEL_RMSNORM, SW_KERNEL_RMSNORM_GRAD, 2, 0, {{0, 1}, {1, 2}, END}, {{0, 4}, {1, 5}, END}},
    {SW_KERNEL_LAYERNORM,
     SW_KERNEL_LAYERNORM_GRAD,
     3,
     0,
     {{0, 1}, {1, 2}, END},
     {{0, 5}, {1, 6}, {2, 7}, END}},
    {SW_KERNEL_ATTENTION,
     SW_KERNEL_ATTENTION_GRAD,
     3,
     0,
     {{0, 1}, {1, 2}, {2, 3}, {5, 9}, END},
     {{0, 6}, {1, 7}, {2, 8}, END}},
    {SW_KERNEL_ACTIVATION, SW_KERNEL_ACTIVATION_GRAD, 1, 0, {{0, 1}, END}, {{0, 2}, END}},
    {SW_KERNEL_SWIGLU, SW_KERNEL_SWIGLU_GRAD, 2, 0, {{0, 1}, {1, 2}, END}, {{0, 3}, {1, 4}, END}},
    {SW_KERNEL_CROSS_ENTROPY,
     SW_KERNEL_CROSS_ENTROPY_GRAD,
     4,
     -1,
     {{0, 0}, {1, 1}, {2, 2}, END},
     {{0, 5}, {1, 6}, END}},
};

static const device_shape shapes[] = {
    {.n = 1, .C = 5, .V = 7, .B = 1, .T = 3, .H = 1, .K = 1, .D = 2, .in = 4, .out = 3},
    {.n = 7,
     .C = 48,
     .V = 31,
     .B = 2,
     .T = 65,
     .H = 4,
     .K = 2,
     .D = 5,
     .in = 48,
     .out = 5,
     .layout = 1,
     .packed = 1,
     .span = 20},
    {.n = 33,
     .C = 19,
     .V = 259,
     .B = 1,
     .T = 130,
     .H = 6,
     .K = 2,
     .D = 16,
     .in = 5,
     .out = 48,
     .out1 = 3},
    {.n = 40,
     .C = 100,
     .V = 70,
     .B = 2,
     .T = 64,
     .H = 9,
     .K = 3,
     .D = 1,
     .in = 31,
     .out = 100,
     .out1 = 7,
     .out2 = 20,
     .layout = 1,
     .span = 1},
    {.n = 2,
     .C = 3,
     .V = 9,
     .B = 2,
     .T = 70,
     .H = 4,
     .K = 2,
     .D = 6,
     .in = 3,
     .out = 2,
     .mask = SW_MASK_FULL,
     .dropout = 0.3},
    {.n = 2,
     .C = 3,
     .V = 9,
     .B = 1,
     .T = 130,
     .H = 2,
     .K = 1,
     .D = 4,
     .in = 3,
     .out = 2,
     .span = 9,
     .mask = SW_MASK_FULL},
    {.n = 2,
     .C = 3,
     .V = 9,
     .B = 1,
     .T = 300,
     .H = 2,
     .K = 2,
     .D = 4,
     .in = 3,
     .out = 2,
     .packed = 1,
     .dropout = 0.75},
};

static double weighted(sw_arena *arena, const sw_device *device, const device_case *forward,
                       int output, const double *weights, double scale) {
    double *result[SW_MAX_OPERANDS], sum = 0;
    device_run(arena, device, SW_NUMBERS_F64, forward, result);
    if (!weights)
        return scale * result[output][0];
    for (int64_t i = 0; i < forward->operand[output].n; i++)
        sum += weights[i] * result[output][i];
    return sum;
}

static void check_pair(const sw_device *device, const pair *p, const device_shape *shape,
                       uint64_t seed) {
    sw_arena arena = {0};
    /* the gradient case brings consistent intermediates; the forward case takes its inputs */
    device_case gradient = device_make(&arena, p->gradient, shape, device, seed),
                forward = device_make(&arena, p->forward, shape, device, seed + 1);
    /* turning and turning back are a pair of their own, below */
    forward.absent = p->forward == SW_KERNEL_LINEAR ? 1u << 9 : 0;
    gradient.absent = p->gradient == SW_KERNEL_ATTENTION_GRAD ? 1u << 10 : 0;
    for (int i = 0; p->links[i][0] >= 0; i++)
        forward.operand[p->links[i][0]].value = gradient.operand[p->links[i][1]].value;
    const double *weights = p->weights < 0 ? NULL : gradient.operand[p->weights].value;
    double *result[SW_MAX_OPERANDS];
    device_run(&arena, device, SW_NUMBERS_F64, &gradient, result);
    for (int w = 0; p->wanted[w][0] >= 0; w++) {
        const int input = p->wanted[w][0], output = p->wanted[w][1];
        const int64_t n = forward.operand[input].n;
        if (n == 0)
            continue;
        double *x = forward.operand[input].value,
               *moved = sw_arena_take(&arena, sizeof *moved * (size_t)n);
        double *direction = sw_arena_take(&arena, sizeof *direction * (size_t)n);
        for (int trial = 0; trial < 3; trial++) {
            const double h = 1e-5;
            double expected = 0, size = 0, value[2];
            for (int64_t i = 0; i < n; i++) {
                direction[i] = device_random(&seed);
                const double slope = isnan(result[output][i])
                                         ? 0
                                         : result[output][i]; /* between heads of a packed array */
                expected += slope * direction[i];
                size += slope * slope;
            }
            forward.operand[input].value = moved;
            for (int side = 0; side < 2; side++) {
                for (int64_t i = 0; i < n; i++)
                    moved[i] = x[i] + (side ? h : -h) * direction[i];
                value[side] = weighted(&arena, device, &forward, p->output, weights,
                                       gradient.scalars.loss_scale);
            }
            forward.operand[input].value = x;
            const double got = (value[1] - value[0]) / (2 * h);
            if (!(fabs(got - expected) <= 2e-7 * (sqrt(size) + 1)))
                fail_msg("%s: the gradient of input %d along a direction is %.12g, differences "
                         "give %.12g (seed %lu)",
                         device_describe(&arena, &gradient), input, expected, got,
                         (unsigned long)seed);
        }
    }
    sw_arena_free(&arena);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    sw_device *device = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN);
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int function = 0;
                 function < (pairs[p].forward == SW_KERNEL_ACTIVATION ? SW_N_ACTIVATIONS : 1);
                 function++) {
                device_shape shape = shapes[s];
                shape.function = function;
                check_pair(device, &pairs[p], &shape, 1000 * p + s);
            }
    device->close(device);
}

/* <rotary(x), y> = <x, rotary back(y)>: turning back is the gradient. */
static void turning_back_is_rotary_s_gradient(void **state) {
    (void)state;
    sw_device *device = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        sw_arena arena = {0};
        if (shapes[s].D < 2)
            continue;
        device_case x = device_make(&arena, SW_KERNEL_ROTARY, &shapes[s], device, 1),
                    y = device_make(&arena, SW_KERNEL_ROTARY, &shapes[s], device, 2);
        y.operand[1].value = x.operand[1].value;
        assert_true(x.attribute[0] == 1 && y.attribute[0] == -1);
        double *turned[SW_MAX_OPERANDS], *back[SW_MAX_OPERANDS], left = 0, right = 0;
        device_run(&arena, device, SW_NUMBERS_F64, &x, turned);
        device_run(&arena, device, SW_NUMBERS_F64, &y, back);
        for (int64_t i = 0; i < x.operand[0].n; i++) {
            left += turned[2][i] * y.operand[0].value[i];
            right += x.operand[0].value[i] * back[2][i];
        }
        assert_true(fabs(left - right) < 1e-10);
        sw_arena_free(&arena);
    }
    device->close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(turning_back_is_rotary_s_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
