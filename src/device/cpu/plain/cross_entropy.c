/* cross_entropy.c: the head's product and the cross-entropy of its logits, a chunk of tokens at a time, so that the logits of a
 * whole micro-batch never exist.
 *
 *   loss = sum over supervised t of log_sum_t - logit_t[target_t],   dlogit = (softmax - onehot) * loss_scale
 *
 * A target of -1 is not supervised: its row adds nothing and has gradient zero.
 */
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"
#include "device/sizes.h"

typedef struct problem {
    const sw_device *device;
    void *workspace;
    const parameter *head; /* [V,C] */
    int64_t V, C;
} problem;

/* logits[n,V] = x head^T */
static void multiply_head(const problem *p, int64_t n, const activation *x, real *logits) {
    const sw_product product = {.m = n,
                                .n = p->V,
                                .k = p->C,
                                .alpha = 1,
                                .a = {x, p->C, false, SW_ACTIVATION_TYPE},
                                .b = {p->head, p->C, true, SW_PARAMETER_TYPE},
                                .c = logits,
                                .c_stride = p->V,
                                .c_type = SW_REAL_TYPE,
                                .workspace = p->workspace};
    sw_multiply(p->device, &product);
}

/* dx[n,C] = dlogits head */
static void multiply_head_back(const problem *p, int64_t n, const real *dlogits, activation *dx) {
    const sw_product product = {.m = n,
                                .n = p->C,
                                .k = p->V,
                                .alpha = 1,
                                .a = {dlogits, p->V, false, SW_REAL_TYPE},
                                .b = {p->head, p->C, false, SW_PARAMETER_TYPE},
                                .c = dx,
                                .c_stride = p->C,
                                .c_type = SW_ACTIVATION_TYPE,
                                .workspace = p->workspace};
    sw_multiply(p->device, &product);
}

/* dhead[V,C] = (or +=) dlogits^T x */
static void multiply_head_weight(const problem *p, int64_t n, const real *dlogits, const activation *x, bool add, real *dhead) {
    const sw_product product = {.m = p->V,
                                .n = p->C,
                                .k = n,
                                .alpha = 1,
                                .a = {dlogits, p->V, true, SW_REAL_TYPE},
                                .b = {x, p->C, false, SW_ACTIVATION_TYPE},
                                .c = dhead,
                                .c_stride = p->C,
                                .c_type = SW_REAL_TYPE,
                                .addend = add ? dhead : NULL,
                                .addend_stride = p->C,
                                .workspace = p->workspace};
    sw_multiply(p->device, &product);
}

/* log_sum - logit of the target; the logits become e^(logit - max), and *total their sum. */
static real token_loss(int64_t V, int32_t target, real *logits, real *total) {
    enum { PIECE = 1024 }; /* a piece is summed while it is in the nearest cache */
    const real most = max_row(V, logits), of_target = logits[target];
    real sum = 0;
    for (int64_t i = 0; i < V; i += PIECE) {
        const int64_t n = smaller(PIECE, V - i);
        real *piece = logits + i;
        SW_ELEMENTWISE
        for (int64_t j = 0; j < n; j++)
            piece[j] = real_exp_to_zero(piece[j] - most);
        sum += sum_row(n, piece);
    }
    *total = sum;
    return most - of_target + real_log(sum);
}

static bool any_supervised(int64_t n, const int32_t *targets) {
    for (int64_t t = 0; t < n; t++)
        if (targets[t] >= 0)
            return true;
    return false;
}

SW_KERNEL(CROSS_ENTROPY) {
    const real *x = call->operand[0];          /* [n,C] */
    const int32_t *targets = call->operand[2]; /* [n] */
    real *logits = call->operand[3];           /* [chunk,V] */
    double *loss = call->operand[4];           /* [1] */
    real *losses = call->operand[5];           /* [n]? */
    const int64_t n = call->dim[0], V = call->dim[1], C = call->dim[2], chunk = call->dim[3];
    const problem p = {device, call->scratch, call->operand[1], V, C};
    double sum = 0;
    if (losses)
        memset(losses, 0, (size_t)n * sizeof *losses);
    for (int64_t first = 0; first < n; first += chunk) {
        const int64_t rows = smaller(chunk, n - first);
        if (!any_supervised(rows, targets + first))
            continue;
        multiply_head(&p, rows, x + first * C, logits);
        for (int64_t t = 0; t < rows; t++) {
            real total;
            if (targets[first + t] < 0)
                continue;
            const real one = token_loss(V, targets[first + t], logits + t * V, &total);
            sum += (double)one;
            if (losses)
                losses[first + t] = one;
        }
    }
    *loss = sum;
}

SW_KERNEL(CROSS_ENTROPY_GRAD) {
    const real *x = call->operand[0];          /* [n,C] */
    const int32_t *targets = call->operand[2]; /* [n] */
    real *logits = call->operand[3];           /* [chunk,V] */
    double *loss = call->operand[4];           /* [1] */
    real *dx = call->operand[5];               /* [n,C]? */
    real *dhead = call->operand[6];            /* [V,C]? */
    const int64_t n = call->dim[0], V = call->dim[1], C = call->dim[2], chunk = call->dim[3];
    const problem p = {device, call->scratch, call->operand[1], V, C};
    const real scale = (real)call->scalars->loss_scale;
    bool add = accumulates(call, 6);
    double sum = 0;
    for (int64_t first = 0; first < n; first += chunk) {
        const int64_t rows = smaller(chunk, n - first);
        if (!any_supervised(rows, targets + first)) {
            if (dx)
                memset(dx + first * C, 0, (size_t)(rows * C) * sizeof *dx);
            continue;
        }
        multiply_head(&p, rows, x + first * C, logits);
        for (int64_t t = 0; t < rows; t++) {
            const int32_t target = targets[first + t];
            real *row = logits + t * V, total;
            if (target < 0) {
                memset(row, 0, (size_t)V * sizeof *row);
                continue;
            }
            sum += (double)token_loss(V, target, row, &total);
            const real factor = scale / total;
            SW_ELEMENTWISE
            for (int64_t i = 0; i < V; i++)
                row[i] *= factor;
            row[target] -= scale;
        }
        if (dx)
            multiply_head_back(&p, rows, logits, dx + first * C);
        if (dhead)
            multiply_head_weight(&p, rows, logits, x + first * C, add, dhead);
        add = true;
    }
    if (dhead && !add)
        memset(dhead, 0, (size_t)(V * C) * sizeof *dhead);
    *loss = sum;
}
