/* The double kernels of the baseline set, the oracle of all others, against formulas written out
 * plainly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <math.h>

#include <cmocka.h>

#include "base/philox.h"
#include "device/cpu/open.h"
#include "support/device_case.h"

static const device_shape shapes[] = {
    {.n = 1, .C = 1, .V = 7, .B = 1, .T = 1, .H = 1, .K = 1, .D = 2, .in = 1, .out = 3},
    {.n = 7,
     .C = 5,
     .V = 11,
     .B = 2,
     .T = 3,
     .H = 4,
     .K = 2,
     .D = 12,
     .in = 5,
     .out = 48,
     .layout = 1,
     .packed = 1,
     .span = 2,
     .ramp = 1},
    {.n = 33,
     .C = 100,
     .V = 259,
     .B = 2,
     .T = 65,
     .H = 6,
     .K = 2,
     .D = 16,
     .in = 100,
     .out = 257,
     .out1 = 9,
     .out2 = 30,
     .span = 20,
     .mask = SW_MASK_FULL,
     .ramp = 2},
    {.n = 40,
     .C = 257,
     .V = 70,
     .B = 1,
     .T = 130,
     .H = 9,
     .K = 3,
     .D = 8,
     .in = 131,
     .out = 5,
     .out1 = 12,
     .layout = 1,
     .packed = 1,
     .span = 500},
    {.n = 3,
     .C = 2,
     .V = 5,
     .B = 2,
     .T = 70,
     .H = 4,
     .K = 2,
     .D = 6,
     .in = 2,
     .out = 3,
     .mask = SW_MASK_FULL,
     .dropout = 0.4},
    {.n = 3,
     .C = 2,
     .V = 5,
     .B = 2,
     .T = 90,
     .H = 2,
     .K = 1,
     .D = 6,
     .in = 2,
     .out = 3,
     .packed = 1,
     .dropout = 0.1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

typedef struct run {
    sw_arena arena;
    device_case c;
    double *result[SW_MAX_OPERANDS];
    const double *in[SW_MAX_OPERANDS];
} run;

static sw_device *oracle;

static int open_oracle(void **state) {
    (void)state;
    oracle = device_open(SW_SET_BASELINE, SW_GEMM_PLAIN);
    return 0;
}

static int close_oracle(void **state) {
    (void)state;
    oracle->close(oracle);
    return 0;
}

static run run_case(sw_kernel kernel, int shape, uint32_t absent) {
    run r = {0};
    r.c = device_make(&r.arena, kernel, &shapes[shape], oracle, (uint64_t)shape + 100);
    r.c.absent = absent;
    device_run(&r.arena, oracle, SW_NUMBERS_F64, &r.c, r.result);
    for (int i = 0; i < r.c.n_operands; i++)
        r.in[i] = r.c.operand[i].value;
    return r;
}

static void near(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * (1 + fabs(expected))))
        fail_msg("%.17g instead of %.17g", got, expected);
}

static void embedding_copies_rows(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_EMBEDDING, s, 0);
        const int64_t C = shapes[s].C;
        for (int64_t i = 0; i < shapes[s].n * C; i++)
            near(r.result[2][i], r.in[1][(int64_t)r.in[0][i / C] * C + i % C]);
        sw_arena_free(&r.arena);
    }
}

static void embedding_gradient_adds_rows_of_a_token(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_EMBEDDING_GRAD, s, 0);
        const int64_t C = shapes[s].C;
        for (int64_t v = 0; v < shapes[s].V; v++)
            for (int64_t c = 0; c < C; c++) {
                double sum = 0;
                for (int64_t t = 0; t < shapes[s].n; t++)
                    sum += (int64_t)r.in[0][t] == v ? r.in[1][t * C + c] : 0;
                near(r.result[2][v * C + c], sum);
            }
        sw_arena_free(&r.arena);
    }
}

static void positions_are_added_row_by_row(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_ADD_POSITIONS, s, 1u << 3),
            g = run_case(SW_KERNEL_ADD_POSITIONS_GRAD, s, 1u << 2);
        const int64_t B = shapes[s].B, T = shapes[s].T, C = shapes[s].C;
        for (int64_t i = 0; i < B * T * C; i++)
            near(r.result[2][i], r.in[0][i] + r.in[1][i % (T * C)]);
        for (int64_t i = 0; i < (T + 2) * C; i++) {
            double sum = 0;
            for (int64_t b = 0; b < B && i < T * C; b++)
                sum += g.in[0][b * T * C + i];
            near(g.result[1][i], sum);
        }
        sw_arena_free(&r.arena);
        sw_arena_free(&g.arena);
    }
}

/* A token's position is its distance from where its document begins. */
static void positions_restart_where_documents_begin(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_ADD_POSITIONS, s, 0),
            g = run_case(SW_KERNEL_ADD_POSITIONS_GRAD, s, 0);
        const int64_t B = shapes[s].B, T = shapes[s].T, C = shapes[s].C;
        double *sum = calloc((size_t)((T + 2) * C), sizeof *sum);
        for (int64_t i = 0; i < B * T * C; i++) {
            const int64_t token = i / C, position = token % T - (int64_t)r.in[3][token];
            near(r.result[2][i], r.in[0][i] + r.in[1][position * C + i % C]);
            sum[position * C + i % C] += g.in[0][i];
        }
        for (int64_t i = 0; i < (T + 2) * C; i++)
            near(g.result[1][i], sum[i]);
        free(sum);
        sw_arena_free(&r.arena);
        sw_arena_free(&g.arena);
    }
}

/* Element o of a row of x w + b + residual, before a head is turned. */
static double linear_element(const run *r, int64_t row, int64_t column) {
    const int64_t *dim = r->c.dim, in = dim[1], *outs = dim + 3, out = outs[0] + outs[1] + outs[2];
    int64_t o = column, part = 0;
    for (; o >= outs[part]; part++)
        o -= outs[part];
    double sum = (r->c.absent >> (4 + part) & 1 ? 0 : r->in[4 + part][o]) +
                 (r->c.absent >> 7 & 1 ? 0 : r->in[7][row * out + column]);
    for (int64_t k = 0; k < in; k++)
        sum +=
            r->in[0][row * in + k] * r->in[1 + part][dim[2] == 0 ? o * in + k : k * outs[part] + o];
    return sum;
}

static void linear_is_x_times_weight_plus_bias_and_its_first_heads_are_turned(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++)
        for (uint32_t without = 0; without < 8; without++) { /* biases, residual, table */
            run r =
                run_case(SW_KERNEL_LINEAR, s,
                         (without & 1) * (7u << 4) | (without >> 1 & 1) << 7 | without >> 2 << 9);
            const int64_t out = r.c.dim[3] + r.c.dim[4] + r.c.dim[5], D = r.c.dim[7], half = D / 2;
            const int64_t n_turned = without & 4 ? 0 : r.c.dim[6] * D;
            for (int64_t i = 0; i < r.c.dim[0] * out; i++) {
                const int64_t row = i / out, column = i % out;
                double expected = linear_element(&r, row, column);
                if (column < n_turned) {
                    const int64_t channel = column % D;
                    const bool is_first = channel < half;
                    const double *turn = r.in[9] + (row % r.c.dim[8] * half + channel % half) * 2;
                    const double other =
                        linear_element(&r, row, is_first ? column + half : column - half);
                    expected = expected * turn[0] + (is_first ? -other : other) * turn[1];
                }
                near(r.result[8][i], expected);
            }
            sw_arena_free(&r.arena);
        }
}

static void rmsnorm_divides_by_the_root_of_the_mean_square(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_RMSNORM, s, 0);
        const int64_t C = shapes[s].C;
        for (int64_t row = 0; row < shapes[s].n; row++) {
            double sum = 0;
            for (int64_t c = 0; c < C; c++)
                sum += r.in[0][row * C + c] * r.in[0][row * C + c];
            const double inverse = 1 / sqrt(sum / (double)C + 1e-5);
            near(r.result[3][row], inverse);
            for (int64_t c = 0; c < C; c++)
                near(r.result[2][row * C + c], r.in[0][row * C + c] * inverse * r.in[1][c]);
        }
        sw_arena_free(&r.arena);
    }
}

static void layernorm_gives_mean_zero_and_deviation_one(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_LAYERNORM, s, 0);
        const int64_t C = shapes[s].C;
        for (int64_t row = 0; row < shapes[s].n; row++) {
            const double *x = r.in[0] + row * C;
            double mean = 0, variance = 0;
            for (int64_t c = 0; c < C; c++)
                mean += x[c] / (double)C;
            for (int64_t c = 0; c < C; c++)
                variance += (x[c] - mean) * (x[c] - mean) / (double)C;
            near(r.result[4][row], mean);
            near(r.result[5][row], 1 / sqrt(variance + 1e-5));
            for (int64_t c = 0; c < C; c++)
                near(r.result[3][row * C + c],
                     (x[c] - mean) / sqrt(variance + 1e-5) * r.in[1][c] + r.in[2][c]);
        }
        sw_arena_free(&r.arena);
    }
}

static void rotary_turns_channel_i_with_channel_i_plus_half(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run table = run_case(SW_KERNEL_ROTARY_TABLE, s, 0), r = run_case(SW_KERNEL_ROTARY, s, 0);
        const int64_t T = shapes[s].T, H = shapes[s].H, D = shapes[s].D;
        for (int64_t t = 0; t < T; t++)
            for (int64_t i = 0; i < D / 2; i++) {
                const double *scaling = table.c.attribute,
                             f = pow(10000, -2.0 * (double)i / (double)D);
                const double measure = shapes[s].ramp == 1 ? (double)i : f;
                const double along = (measure - scaling[2]) / (scaling[3] - scaling[2]);
                const double kept = shapes[s].ramp == 0 || along < 0 ? 0 : along > 1 ? 1 : along;
                const double angle = (double)t * (kept * f + (1 - kept) * f / scaling[1]);
                near(table.result[0][(t * (D / 2) + i) * 2], scaling[4] * cos(angle));
                near(table.result[0][(t * (D / 2) + i) * 2 + 1], scaling[4] * sin(angle));
            }
        const int64_t stride = r.c.dim[4];
        for (int64_t i = 0; i < shapes[s].B * T * stride; i++) {
            const int64_t t = i / stride % T, d = i % stride % D,
                          pair = (t * (D / 2) + d % (D / 2)) * 2;
            if (i % stride >= H * D) {
                near(r.result[2][i], r.in[0][i]);
                continue;
            }
            const double cosine = r.in[1][pair], sine = r.c.attribute[0] * r.in[1][pair + 1];
            near(r.result[2][i], d < D / 2 ? r.in[0][i] * cosine - r.in[0][i + D / 2] * sine
                                           : r.in[0][i] * cosine + r.in[0][i - D / 2] * sine);
        }
        sw_arena_free(&table.arena);
        sw_arena_free(&r.arena);
    }
}

/* May query t see this key? r->in[5]: documents, where they are there. */
static bool sees(const run *r, bool apart, int64_t b, int64_t t, int64_t key) {
    const int64_t T = r->c.dim[1], span = r->c.dim[7];
    if (apart && r->in[5][b * T + t] != r->in[5][b * T + key])
        return false;
    if (r->c.dim[8] == SW_MASK_FULL)
        return !span || llabs(t - key) <= span;
    return key <= t && (!span || t - key < span);
}

static double passed(const run *r, int64_t b, int64_t h, int64_t t, int64_t key) {
    const double p = r->c.attribute[1];
    const bool keeps = sw_attention_keeps(r->c.scalars.seed, (int64_t)r->c.attribute[2],
                                          r->c.scalars.first_row + b, h, t, key, p);
    return keeps ? 1 / (1 - p) : 0;
}

/* Over the keys that mask, span and document leave, of which some are dropped. */
static void attention_is_a_softmax_average(void **state) {
    (void)state;
    for (int s = 0; s < 2 * N_SHAPES; s++) {
        const bool apart = s < N_SHAPES;
        const device_shape *shape = &shapes[s % N_SHAPES];
        run r = run_case(SW_KERNEL_ATTENTION, s % N_SHAPES, apart ? 0 : 1u << 5);
        const int64_t T = shape->T, H = shape->H, K = shape->K, D = shape->D;
        const int64_t q_stride = r.c.dim[5], kv_stride = r.c.dim[6];
        double weight[130];
        for (int64_t b = 0; b < shape->B; b++)
            for (int64_t h = 0; h < H; h++)
                for (int64_t t = 0; t < T; t++) {
                    const double *q = r.in[0] + (b * T + t) * q_stride + h * D;
                    const int64_t group = h / (H / K) * D;
                    double total = 0;
                    for (int64_t j = 0; j < T; j++) {
                        const double *k = r.in[1] + (b * T + j) * kv_stride + group;
                        double dot = 0;
                        for (int64_t d = 0; d < D; d++)
                            dot += q[d] * k[d];
                        total += weight[j] =
                            sees(&r, apart, b, t, j) ? exp(dot * 1.25 / sqrt((double)D)) : 0;
                    }
                    near(r.result[4][(b * H + h) * T + t], log(total));
                    for (int64_t j = 0; j < T; j++)
                        weight[j] *= passed(&r, b, h, t, j);
                    for (int64_t d = 0; d < D; d++) {
                        double sum = 0;
                        for (int64_t j = 0; j < T; j++)
                            sum += weight[j] / total * r.in[2][(b * T + j) * kv_stride + group + d];
                        near(r.result[3][(b * T + t) * H * D + h * D + d], sum);
                    }
                }
        sw_arena_free(&r.arena);
    }
}

static void activations_follow_their_formulas(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run gelu = run_case(SW_KERNEL_ACTIVATION, s, 0), swiglu = run_case(SW_KERNEL_SWIGLU, s, 0),
            sum = run_case(SW_KERNEL_ADD, s, 0);
        const int64_t F = swiglu.c.dim[1], stride = swiglu.c.dim[2];
        for (int64_t i = 0; i < gelu.c.dim[0]; i++) {
            const int64_t at = i / F * stride + i % F;
            const double x = gelu.in[0][i], gate = swiglu.in[0][at];
            near(gelu.result[1][i],
                 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
            near(swiglu.result[2][i], gate / (1 + exp(-gate)) * swiglu.in[1][at]);
            near(sum.result[2][i], sum.in[0][i] + sum.in[1][i]);
        }
        sw_arena_free(&gelu.arena);
        sw_arena_free(&swiglu.arena);
        sw_arena_free(&sum.arena);
    }
}

static double expected_activation(sw_activation function, double x) {
    switch (function) {
    case SW_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case SW_GELU:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case SW_GELU_10:
        return fmin(10, fmax(-10, 0.5 * x * (1 + erf(x / sqrt(2)))));
    case SW_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case SW_SILU:
        return x / (1 + exp(-x));
    case SW_RELU:
        return fmax(x, 0);
    case SW_RELU_SQUARED:
        return fmax(x, 0) * fmax(x, 0);
    case SW_RELU_6:
        return fmin(6, fmax(x, 0));
    case SW_LEAKY_RELU:
        return x > 0 ? x : 0.01 * x;
    case SW_TANH:
        return tanh(x);
    case SW_SIGMOID:
        return 1 / (1 + exp(-x));
    case SW_HARDSWISH:
        return x * fmin(6, fmax(x + 3, 0)) / 6;
    case SW_MISH:
        return x * tanh(log1p(exp(x)));
    case SW_LAPLACE:
        return 0.5 * (1 + erf((x - 0.707107) / (0.282095 * sqrt(2))));
    case SW_IDENTITY:
        return x;
    case SW_N_ACTIVATIONS:
        break;
    }
    fail_msg("no formula for activation %d", (int)function);
    return 0;
}

/* From -40 to 40, in double and in the float kernels; NaN comes through, for a step that makes one
 * must be noticed. */
static void every_activation_follows_its_formula(void **state) {
    (void)state;
    enum { N = 8001 };
    static double wide[N], wide_y[N];
    static float narrow[N], narrow_y[N];
    sw_device *device = device_open(sw_kernel_set_best(), SW_GEMM_PLAIN);
    for (int function = 0; function < SW_N_ACTIVATIONS; function++) {
        for (int i = 0; i < N; i++)
            wide[i] = narrow[i] = (float)(i - N / 2) / 100;
        sw_kernel_call in_double = {.operand = {wide, wide_y}, .dim = {N, function}};
        sw_kernel_call in_float = {.operand = {narrow, narrow_y}, .dim = {N, function}};
        sw_device_kernel(oracle, SW_NUMBERS_F64, SW_KERNEL_ACTIVATION)(oracle, &in_double);
        sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_ACTIVATION)(device, &in_float);
        for (int i = 0; i < N; i++) {
            const double expected = expected_activation((sw_activation)function, wide[i]);
            near(wide_y[i], expected);
            if (!(fabs((double)narrow_y[i] - expected) <=
                  1e-6 * fmax(fabs(expected), fabs(wide[i]) < 1 ? 0.5 : 1)))
                fail_msg("activation %d of %g: %.9g instead of %.9g", function, wide[i],
                         (double)narrow_y[i], expected);
        }
        narrow[0] = NAN;
        sw_device_kernel(device, SW_NUMBERS_F32, SW_KERNEL_ACTIVATION)(device, &in_float);
        assert_true(isnan(narrow_y[0]));
    }
    device->close(device);
}

static void cross_entropy_is_log_sum_exp_minus_the_target(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_CROSS_ENTROPY, s, 0),
            g = run_case(SW_KERNEL_CROSS_ENTROPY_GRAD, s, 0);
        const int64_t n = shapes[s].n, V = shapes[s].V, C = shapes[s].C;
        double loss = 0;
        for (int64_t t = 0; t < n; t++) {
            double total = 0, of_target = 0;
            for (int64_t v = 0; v < V; v++) {
                double logit = 0;
                for (int64_t c = 0; c < C; c++)
                    logit += r.in[0][t * C + c] * r.in[1][v * C + c];
                total += exp(logit);
                of_target = v == (int64_t)r.in[2][t] ? logit : of_target;
            }
            loss += r.in[2][t] < 0 ? 0 : log(total) - of_target;
        }
        near(r.result[4][0], loss);
        near(g.result[4][0], loss);
        sw_arena_free(&r.arena);
        sw_arena_free(&g.arena);
    }
}

static void select_and_zero(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        run r = run_case(SW_KERNEL_SELECT_POSITION, s, 0), zero = run_case(SW_KERNEL_ZERO, s, 0);
        const int64_t T = shapes[s].T, C = shapes[s].C;
        for (int64_t i = 0; i < shapes[s].B * C; i++)
            near(r.result[1][i], r.in[0][(i / C * T + T / 2) * C + i % C]);
        for (int64_t i = 0; i < shapes[s].n; i++)
            assert_true(zero.result[0][i] == 0);
        sw_arena_free(&r.arena);
        sw_arena_free(&zero.arena);
    }
}

static void adamw_follows_its_formula(void **state) {
    (void)state;
    run r = run_case(SW_KERNEL_ADAMW, 2, 0);
    const double lr = 0.01, beta1 = 0.9, beta2 = 0.95, t = 3;
    for (int64_t i = 0; i < r.c.dim[0]; i++) {
        const double g = 0.7 * r.in[2][i], m = beta1 * r.in[3][i] + (1 - beta1) * g,
                     v = beta2 * r.in[4][i] + (1 - beta2) * g * g;
        const double p = r.in[0][i] * (1 - lr * 0.1);
        near(r.result[3][i], m);
        near(r.result[4][i], v);
        near(r.result[0][i],
             p - lr / (1 - pow(beta1, t)) * m / (sqrt(v) / sqrt(1 - pow(beta2, t)) + 1e-6));
    }
    sw_arena_free(&r.arena);
}

static void sgd_follows_torch(void **state) {
    (void)state;
    for (uint32_t plain = 0; plain < 2; plain++) {
        run r = run_case(SW_KERNEL_SGD, 2, plain << 3);
        for (int64_t i = 0; i < r.c.dim[0]; i++) {
            const double g = 0.7 * r.in[2][i] + 0.1 * r.in[0][i],
                         buffer = plain ? g : 0.9 * r.in[3][i] + g;
            near(r.result[0][i], r.in[0][i] - 0.01 * buffer);
            if (!plain)
                near(r.result[3][i], buffer);
        }
        sw_arena_free(&r.arena);
    }
}

/* With the flag down an update writes nothing, for any kind of numbers. */
static void updates_wait_for_the_flag(void **state) {
    (void)state;
    static const sw_kernel kernels[] = {
#define KERNEL(NAME, ...) SW_KERNEL_##NAME,
        SW_OPTIMIZERS(KERNEL)
#undef KERNEL
    };
    for (int k = 0; k < SW_N_OPTIMIZERS; k++)
        for (int numbers = 0; numbers < SW_N_NUMBER_KINDS; numbers++) {
            sw_arena arena = {0};
            double *result[SW_MAX_OPERANDS];
            device_case c = device_make(&arena, kernels[k], &shapes[1], oracle, 9);
            device_round(&c, SW_NUMBERS_F32);
            c.scalars.proceed = 0;
            device_run(&arena, oracle, (sw_number_kind)numbers, &c, result);
            for (int o = 0; o < c.n_operands; o++)
                for (int64_t i = 0; result[o] && i < c.operand[o].n; i++)
                    assert_true(result[o][i] == c.operand[o].value[i]);
            sw_arena_free(&arena);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_copies_rows),
        cmocka_unit_test(embedding_gradient_adds_rows_of_a_token),
        cmocka_unit_test(positions_are_added_row_by_row),
        cmocka_unit_test(positions_restart_where_documents_begin),
        cmocka_unit_test(linear_is_x_times_weight_plus_bias_and_its_first_heads_are_turned),
        cmocka_unit_test(rmsnorm_divides_by_the_root_of_the_mean_square),
        cmocka_unit_test(layernorm_gives_mean_zero_and_deviation_one),
        cmocka_unit_test(rotary_turns_channel_i_with_channel_i_plus_half),
        cmocka_unit_test(attention_is_a_softmax_average),
        cmocka_unit_test(activations_follow_their_formulas),
        cmocka_unit_test(every_activation_follows_its_formula),
        cmocka_unit_test(cross_entropy_is_log_sum_exp_minus_the_target),
        cmocka_unit_test(select_and_zero),
        cmocka_unit_test(adamw_follows_its_formula),
        cmocka_unit_test(sgd_follows_torch),
        cmocka_unit_test(updates_wait_for_the_flag),
    };
    return cmocka_run_group_tests(tests, open_oracle, close_oracle);
}
