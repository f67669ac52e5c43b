/* activation.c: element by element: GELU, SwiGLU, sums.
 *
 * GELU in its tanh form, 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), is x s with s = sigmoid(2 u), for
 * 0.5 (1 + tanh(u)) = 1 / (1 + e^-2u). Its derivative is s + x s (1 - s) 2 u'.
 * SwiGLU is z up with z = gate s, s = sigmoid(gate); dz/dgate = s (1 + gate (1 - s)).
 */
#include "device/cpu/plain/math.h"

#define TWICE_ROOT ((real)1.5957691216057307117597842397375) /* 2 sqrt(2/pi) */
#define CUBIC ((real)0.044715)

SW_KERNEL(GELU) {
    const real *x = call->operand[0];
    real *y = call->operand[1];
    const int64_t n = call->dim[0];
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        real rest;
        y[i] = x[i] * real_sigmoid(TWICE_ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i]), &rest);
    }
}

static inline real gelu_slope(real x) {
    real rest;
    const real s = real_sigmoid(TWICE_ROOT * (x + CUBIC * x * x * x), &rest);
    return s + x * s * rest * (TWICE_ROOT * (1 + 3 * CUBIC * x * x));
}

SW_KERNEL(GELU_GRAD) {
    const real *dy = call->operand[0], *x = call->operand[1];
    real *dx = call->operand[2];
    const int64_t n = call->dim[0];
    if (accumulates(call, 2)) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            dx[i] += dy[i] * gelu_slope(x[i]);
    } else {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i] * gelu_slope(x[i]);
    }
}

SW_KERNEL(SWIGLU) {
    const real *gate = call->operand[0], *up = call->operand[1];
    real *y = call->operand[2];
    const int64_t n = call->dim[0];
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        real rest;
        y[i] = gate[i] * real_sigmoid(gate[i], &rest) * up[i];
    }
}

SW_KERNEL(SWIGLU_GRAD) {
    const real *dy = call->operand[0], *gate = call->operand[1], *up = call->operand[2];
    real *dgate = call->operand[3], *dup = call->operand[4];
    const int64_t n = call->dim[0];
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        real rest;
        const real d = dy[i], g = gate[i], u = up[i], s = real_sigmoid(g, &rest);
        dgate[i] = d * u * (s * (1 + g * rest));
        dup[i] = d * (g * s);
    }
}

SW_KERNEL(ADD) {
    const real *a = call->operand[0], *b = call->operand[1];
    real *y = call->operand[2];
    const int64_t n = call->dim[0];
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

SW_KERNEL(ZERO) {
    memset(call->operand[0], 0, (size_t)call->dim[0] * sizeof(real));
}
