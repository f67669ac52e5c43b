/* activation.c: element by element: activations, SwiGLU, sums.
 *
 * Each activation is one inline function that returns its value and leaves its slope; a kernel that
 * wants one of them loses the other to the compiler. The choice of the function is made outside the
 * loop, so that every loop vectorises.
 *
 * GELU in its tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), is x s with s
 * = sigmoid(2 u), for 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u). Its derivative is s + x s (1 - s) 2 u'.
 * SwiGLU is z up with z = gate s, s = sigmoid(gate); dz/dgate = s (1 + gate (1 - s)).
 */
#include "device/cpu/plain/math.h"
#include "device/cpu/plain/pieces.h"

#define TWICE_ROOT ((real)1.5957691216057307117597842397375) /* 2 sqrt(2/pi) */
#define CUBIC ((real)0.044715)

static inline real held(real x, real least, real most) {
    x = x < least ? least : x;
    return x > most ? most : x;
}

static inline real gelu_tanh(real x, real *slope) {
    real rest;
    const real s = real_sigmoid(TWICE_ROOT * (x + CUBIC * x * x * x), &rest);
    *slope = s + x * s * rest * (TWICE_ROOT * (1 + 3 * CUBIC * x * x));
    return x * s;
}

static inline real gelu(real x, real *slope) {
    real density;
    const real below = real_normal(x, &density);
    *slope = below + x * density;
    return x * below;
}

static inline real gelu_10(real x, real *slope) {
    const real y = gelu(x, slope), within = held(y, -10, 10);
    *slope = y == within ? *slope : 0;
    return within;
}

static inline real quick_gelu(real x, real *slope) {
    real rest;
    const real s = real_sigmoid((real)1.702 * x, &rest);
    *slope = s + (real)1.702 * x * s * rest;
    return x * s;
}

static inline real silu(real x, real *slope) {
    real rest;
    const real s = real_sigmoid(x, &rest);
    *slope = s * (1 + x * rest);
    return x * s;
}

static inline real relu(real x, real *slope) {
    *slope = x > 0 ? 1 : 0;
    return x < 0 ? 0 : x;
}

static inline real relu_squared(real x, real *slope) {
    const real y = x < 0 ? 0 : x;
    *slope = 2 * y;
    return y * y;
}

static inline real relu_6(real x, real *slope) {
    const real y = held(x, 0, 6);
    *slope = (x > 0 ? 1 : 0) * (x < 6 ? 1 : 0);
    return y;
}

static inline real leaky_relu(real x, real *slope) {
    *slope = x > 0 ? 1 : (real)0.01;
    return x * *slope;
}

static inline real hyperbolic(real x, real *slope) {
    const real y = real_tanh(x);
    *slope = 1 - y * y;
    return y;
}

static inline real sigmoid(real x, real *slope) {
    real rest;
    const real s = real_sigmoid(x, &rest);
    *slope = s * rest;
    return s;
}

static inline real hardswish(real x, real *slope) {
    const real gate = held(x + 3, 0, 6) / 6;
    *slope = gate + (gate > 0 ? 1 : 0) * (gate < 1 ? 1 : 0) * (x / 6);
    return x * gate;
}

/* With e = e^x, tanh(log(1 + e)) = w = n / (n + 2), n = e (e + 2), and 1 - w = 2 / (n + 2). From x
 * = 30 on, w rounds to 1. */
static inline real mish(real x, real *slope) {
    const real e = real_exp(held(x, -80, 30)), n = e * (e + 2), w = n / (n + 2), rest = 2 / (n + 2);
    *slope = w + x * (rest * (1 + w)) * (e / (1 + e));
    return x * w;
}

static inline real laplace(real x, real *slope) {
    const real deviation = (real)0.282095;
    real density;
    const real below = real_normal((x - (real)0.707107) / deviation, &density);
    *slope = density / deviation;
    return below;
}

static inline real identity(real x, real *slope) {
    *slope = 1;
    return x;
}

#define ACTIVATIONS(X)               \
    X(SW_GELU_TANH, gelu_tanh)       \
    X(SW_GELU, gelu)                 \
    X(SW_GELU_10, gelu_10)           \
    X(SW_QUICK_GELU, quick_gelu)     \
    X(SW_SILU, silu)                 \
    X(SW_RELU, relu)                 \
    X(SW_RELU_SQUARED, relu_squared) \
    X(SW_RELU_6, relu_6)             \
    X(SW_LEAKY_RELU, leaky_relu)     \
    X(SW_TANH, hyperbolic)           \
    X(SW_SIGMOID, sigmoid)           \
    X(SW_HARDSWISH, hardswish)       \
    X(SW_MISH, mish)                 \
    X(SW_LAPLACE, laplace)           \
    X(SW_IDENTITY, identity)

#define DEFINE_LOOPS(name, function)                                                \
    static void function##_forward(int64_t n, const activation *x, activation *y) { \
        SW_ELEMENTWISE_CALLS                                                        \
        for (int64_t i = 0; i < n; i++) {                                           \
            real slope;                                                             \
            y[i] = stored(function(load(x[i]), &slope));                            \
        }                                                                           \
    }                                                                               \
    static void function##_backward(bool add, int64_t n, const activation *dy,      \
                                    const activation *x, activation *dx) {          \
        real slope;                                                                 \
        if (add) {                                                                  \
            SW_ELEMENTWISE_CALLS                                                    \
            for (int64_t i = 0; i < n; i++) {                                       \
                function(load(x[i]), &slope);                                       \
                dx[i] = stored(load(dx[i]) + load(dy[i]) * slope);                  \
            }                                                                       \
        } else {                                                                    \
            SW_ELEMENTWISE_CALLS                                                    \
            for (int64_t i = 0; i < n; i++) {                                       \
                function(load(x[i]), &slope);                                       \
                dx[i] = stored(load(dy[i]) * slope);                                \
            }                                                                       \
        }                                                                           \
    }
ACTIVATIONS(DEFINE_LOOPS)

static const struct {
    void (*forward)(int64_t n, const activation *x, activation *y);
    void (*backward)(bool add, int64_t n, const activation *dy, const activation *x,
                     activation *dx);
} LOOPS[SW_N_ACTIVATIONS] = {
#define ROW(name, function) [name] = {function##_forward, function##_backward},
    ACTIVATIONS(ROW)
#undef ROW
};

static void activate(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *x = call->operand[0];
    activation *y = call->operand[1];
    const piece p = piece_of(task, PIECE, call->dim[0]);
    LOOPS[call->dim[1]].forward(p.n, x + p.first, y + p.first);
}

SW_KERNEL(ACTIVATION) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), activate);
}

static void activate_back(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *dy = call->operand[0], *x = call->operand[1];
    activation *dx = call->operand[2];
    const piece p = piece_of(task, PIECE, call->dim[0]);
    LOOPS[call->dim[1]].backward(accumulates(call, 2), p.n, dy + p.first, x + p.first,
                                 dx + p.first);
}

SW_KERNEL(ACTIVATION_GRAD) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), activate_back);
}

static void gate_rows(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const int64_t F = call->dim[1], stride = call->dim[2];
    const piece rows = piece_of(task, PIECE_ROWS, call->dim[0]);
    for (int64_t row = rows.first; row < rows.end; row++) {
        const activation *gate = (const activation *)call->operand[0] + row * stride;
        const activation *up = (const activation *)call->operand[1] + row * stride;
        activation *y = (activation *)call->operand[2] + row * F;
        SW_ELEMENTWISE
        for (int64_t i = 0; i < F; i++) {
            real rest;
            const real g = load(gate[i]);
            y[i] = stored(g * real_sigmoid(g, &rest) * load(up[i]));
        }
    }
}

SW_KERNEL(SWIGLU) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE_ROWS), gate_rows);
}

static void gate_rows_back(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const int64_t F = call->dim[1], stride = call->dim[2];
    const piece rows = piece_of(task, PIECE_ROWS, call->dim[0]);
    for (int64_t row = rows.first; row < rows.end; row++) {
        const activation *dy = (const activation *)call->operand[0] + row * F;
        const activation *gate = (const activation *)call->operand[1] + row * stride;
        const activation *up = (const activation *)call->operand[2] + row * stride;
        activation *dgate = (activation *)call->operand[3] + row * stride;
        activation *dup = (activation *)call->operand[4] + row * stride;
        SW_ELEMENTWISE
        for (int64_t i = 0; i < F; i++) {
            real rest;
            const real d = load(dy[i]), g = load(gate[i]), u = load(up[i]),
                       s = real_sigmoid(g, &rest);
            dgate[i] = stored(d * u * (s * (1 + g * rest)));
            dup[i] = stored(d * (g * s));
        }
    }
}

SW_KERNEL(SWIGLU_GRAD) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE_ROWS), gate_rows_back);
}

static void add(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const activation *a = call->operand[0], *b = call->operand[1];
    activation *y = call->operand[2];
    const piece p = piece_of(task, PIECE, call->dim[0]);
    SW_ELEMENTWISE
    for (int64_t i = p.first; i < p.end; i++)
        y[i] = stored(load(a[i]) + load(b[i]));
}

SW_KERNEL(ADD) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), add);
}

static void clear(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const piece p = piece_of(task, PIECE, call->dim[0]);
    memset((real *)call->operand[0] + p.first, 0, (size_t)p.n * sizeof(real));
}

SW_KERNEL(ZERO) {
    if (!(call->accumulate & 1u))
        run_pieces(device, call, n_pieces(call->dim[0], PIECE), clear);
}
