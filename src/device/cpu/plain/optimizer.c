/* optimizer.c: AdamW and SGD on a rank's shard, and the split of a master into compute copy and low half (base/dtype.h). */
#include "device/cpu/plain/math.h"

#ifdef SW_KIND_bf16
static inline real load_master(const parameter *copy, const uint16_t *low, int64_t i) {
    return sw_split_join(copy[i], low[i]);
}
static inline void store_master(real master, parameter *copy, uint16_t *low, int64_t i) {
    copy[i] = sw_split_high(master);
    low[i] = sw_split_low(master);
}
#else
static inline real load_master(const parameter *copy, const uint16_t *low, int64_t i) {
    (void)low;
    return copy[i];
}
static inline void store_master(real master, parameter *copy, uint16_t *low, int64_t i) {
    (void)low;
    copy[i] = master;
}
#endif

/* Loshchilov and Hutter 2019, in torch.optim.AdamW's order. */
SW_KERNEL(ADAMW) {
    parameter *copy = call->operand[0];
    uint16_t *low = call->operand[1];
    const real *gradient = call->operand[2];
    real *m = call->operand[3], *v = call->operand[4];
    const sw_scalars *scalars = call->scalars;
    if (!scalars->proceed)
        return;
    const int64_t n = call->dim[0];
    const real beta1 = (real)call->attribute[0], rest1 = (real)(1 - call->attribute[0]);
    const real beta2 = (real)call->attribute[1], rest2 = (real)(1 - call->attribute[1]);
    const real epsilon = (real)call->attribute[2], clip = (real)scalars->clip_factor;
    const real decay = (real)(1 - scalars->learning_rate * call->attribute[3]);
    const real rate = (real)(scalars->learning_rate / scalars->bias_correction1);
    const real correction = (real)sqrt(scalars->bias_correction2);
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const real g = clip * gradient[i];
        const real p = load_master(copy, low, i) * decay;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * (g * g);
        store_master(p - rate * (m[i] / (real_sqrt(v[i]) / correction + epsilon)), copy, low, i);
    }
}

/* torch.optim.SGD without dampening or Nesterov. */
SW_KERNEL(SGD) {
    parameter *copy = call->operand[0];
    uint16_t *low = call->operand[1];
    const real *gradient = call->operand[2];
    real *momentum = call->operand[3]; /* [n]? */
    const sw_scalars *scalars = call->scalars;
    if (!scalars->proceed)
        return;
    const int64_t n = call->dim[0];
    const real factor = (real)call->attribute[0], decay = (real)call->attribute[1];
    const real clip = (real)scalars->clip_factor, rate = (real)scalars->learning_rate;
    if (momentum) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++) {
            const real p = load_master(copy, low, i);
            momentum[i] = factor * momentum[i] + (clip * gradient[i] + decay * p);
            store_master(p - rate * momentum[i], copy, low, i);
        }
    } else {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++) {
            const real p = load_master(copy, low, i);
            store_master(p - rate * (clip * gradient[i] + decay * p), copy, low, i);
        }
    }
}

/* A frozen parameter has no low half: its copy is all that is kept. */
SW_KERNEL(SPLIT) {
    const real *master = call->operand[0];
    parameter *copy = call->operand[1];
    uint16_t *low = call->operand[2], none = 0;
    const int64_t n = call->dim[0], step = low ? 1 : 0;
    low = low ? low : &none;
    for (int64_t i = 0; i < n; i++)
        store_master(master[i], copy + i, low + i * step, 0);
}

SW_KERNEL(JOIN) {
    const parameter *copy = call->operand[0];
    const uint16_t *low = call->operand[1];
    real *master = call->operand[2];
    const int64_t n = call->dim[0];
    if (!low) {
        SW_ELEMENTWISE
        for (int64_t i = 0; i < n; i++)
            master[i] = widen(copy[i]);
        return;
    }
    SW_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        master[i] = load_master(copy, low, i);
}
