/* optimizer.c: AdamW and SGD on a rank's shard, and the split of a master into compute copy and low
 * half (base/dtype.h). */
#include "device/cpu/plain/math.h"
#include "device/cpu/plain/pieces.h"

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
static void adamw(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const piece p = piece_of(task, PIECE, call->dim[0]);
    parameter *copy = call->operand[0];
    uint16_t *low = call->operand[1];
    const real *gradient = call->operand[2];
    real *m = call->operand[3], *v = call->operand[4];
    const sw_scalars *scalars = call->scalars;
    const real beta1 = (real)call->attribute[0], rest1 = (real)(1 - call->attribute[0]);
    const real beta2 = (real)call->attribute[1], rest2 = (real)(1 - call->attribute[1]);
    const real epsilon = (real)call->attribute[2], clip = (real)scalars->clip_factor;
    const real decay = (real)(1 - scalars->learning_rate * call->attribute[3]);
    const real rate = (real)(scalars->learning_rate / scalars->bias_correction1);
    const real correction = (real)sqrt(scalars->bias_correction2);
    SW_ELEMENTWISE
    for (int64_t i = p.first; i < p.end; i++) {
        const real g = clip * gradient[i];
        const real master = load_master(copy, low, i) * decay;
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * (g * g);
        store_master(master - rate * (m[i] / (real_sqrt(v[i]) / correction + epsilon)), copy, low,
                     i);
    }
}

SW_KERNEL(ADAMW) {
    if (call->scalars->proceed)
        run_pieces(device, call, n_pieces(call->dim[0], PIECE), adamw);
}

/* torch.optim.SGD without dampening or Nesterov. */
static void sgd(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const piece p = piece_of(task, PIECE, call->dim[0]);
    parameter *copy = call->operand[0];
    uint16_t *low = call->operand[1];
    const real *gradient = call->operand[2];
    real *momentum = call->operand[3]; /* [n]? */
    const sw_scalars *scalars = call->scalars;
    const real factor = (real)call->attribute[0], decay = (real)call->attribute[1];
    const real clip = (real)scalars->clip_factor, rate = (real)scalars->learning_rate;
    if (momentum) {
        SW_ELEMENTWISE
        for (int64_t i = p.first; i < p.end; i++) {
            const real master = load_master(copy, low, i);
            momentum[i] = factor * momentum[i] + (clip * gradient[i] + decay * master);
            store_master(master - rate * momentum[i], copy, low, i);
        }
    } else {
        SW_ELEMENTWISE
        for (int64_t i = p.first; i < p.end; i++) {
            const real master = load_master(copy, low, i);
            store_master(master - rate * (clip * gradient[i] + decay * master), copy, low, i);
        }
    }
}

SW_KERNEL(SGD) {
    if (call->scalars->proceed)
        run_pieces(device, call, n_pieces(call->dim[0], PIECE), sgd);
}

/* A frozen parameter has no low half: its copy is all that is kept. */
static void split(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const piece p = piece_of(task, PIECE, call->dim[0]);
    const real *master = call->operand[0];
    parameter *copy = call->operand[1];
    uint16_t *low = call->operand[2], none = 0;
    const int64_t step = low ? 1 : 0;
    low = low ? low : &none;
    for (int64_t i = p.first; i < p.end; i++)
        store_master(master[i], copy + i, low + i * step, 0);
}

SW_KERNEL(SPLIT) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), split);
}

static void join(void *arg, int64_t task, int worker) {
    (void)worker;
    const sw_kernel_call *call = arg;
    const piece p = piece_of(task, PIECE, call->dim[0]);
    const parameter *copy = call->operand[0];
    const uint16_t *low = call->operand[1];
    real *master = call->operand[2];
    if (!low) {
        SW_ELEMENTWISE
        for (int64_t i = p.first; i < p.end; i++)
            master[i] = widen(copy[i]);
        return;
    }
    SW_ELEMENTWISE
    for (int64_t i = p.first; i < p.end; i++)
        master[i] = load_master(copy, low, i);
}

SW_KERNEL(JOIN) {
    run_pieces(device, call, n_pieces(call->dim[0], PIECE), join);
}
