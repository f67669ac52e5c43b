/* cross_entropy.c: the head's product and the cross-entropy of its logits, a chunk of tokens at a
 * time, so that the logits of a whole micro-batch never exist.
 *
 *   loss = sum over supervised t of log_sum_t - logit_t[target_t]
 *   dlogit = (softmax - onehot) * loss_scale
 *
 * A target of -1 is not supervised: its row adds nothing and has gradient zero. Logits are reals.
 * Their gradients are gradients of activations like any other, so they lie as activations, over the
 * logits that they are made from: a row's at its beginning.
 */
#include "device/cpu/plain/lanes.h"
#include "device/cpu/plain/math.h"
#include "device/cpu/plain/pieces.h"
#include "device/sizes.h"

/* Activations from one row's dlogits to the next's. */
enum { DLOGITS_STEP = sizeof(real) / sizeof(activation) };

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
static void multiply_head_back(const problem *p, int64_t n, const activation *dlogits,
                               activation *dx) {
    const sw_product product = {.m = n,
                                .n = p->C,
                                .k = p->V,
                                .alpha = 1,
                                .a = {dlogits, DLOGITS_STEP * p->V, false, SW_ACTIVATION_TYPE},
                                .b = {p->head, p->C, false, SW_PARAMETER_TYPE},
                                .c = dx,
                                .c_stride = p->C,
                                .c_type = SW_ACTIVATION_TYPE,
                                .workspace = p->workspace};
    sw_multiply(p->device, &product);
}

/* dhead[V,C] = (or +=) dlogits^T x */
static void multiply_head_weight(const problem *p, int64_t n, const activation *dlogits,
                                 const activation *x, bool add, real *dhead) {
    const sw_product product = {.m = p->V,
                                .n = p->C,
                                .k = n,
                                .alpha = 1,
                                .a = {dlogits, DLOGITS_STEP * p->V, true, SW_ACTIVATION_TYPE},
                                .b = {x, p->C, false, SW_ACTIVATION_TYPE},
                                .c = dhead,
                                .c_stride = p->C,
                                .c_type = SW_REAL_TYPE,
                                .addend = add ? dhead : NULL,
                                .addend_stride = p->C,
                                .workspace = p->workspace};
    sw_multiply(p->device, &product);
}

enum { NEAR = 1024 }; /* elements that are worked on while they are in the nearest cache */

/* log_sum - logit of the target; the logits become e^(logit - max), and *total their sum. */
static real token_loss(int64_t V, int32_t target, real *logits, real *total) {
    const real most = max_row(V, logits), of_target = logits[target];
    real sum = 0;
    for (int64_t i = 0; i < V; i += NEAR) {
        const int64_t n = smaller(NEAR, V - i);
        real *part = logits + i;
        SW_ELEMENTWISE
        for (int64_t j = 0; j < n; j++)
            part[j] = real_exp_to_zero(part[j] - most);
        sum += sum_row(n, part);
    }
    *total = sum;
    return most - of_target + real_log(sum);
}

/* The gradients of a row's logits, once those are e^(logit - max) with sum `total`. They are less
 * wide than what they are made from or as wide, so none is written over one that is still to be
 * read. */
static void token_gradient(int64_t V, int32_t target, real scale, real total, real *logits) {
    const real factor = scale / total;
    logits[target] -= total;
    for (int64_t i = 0; i < V; i += NEAR) {
        const int64_t n = smaller(NEAR, V - i);
        activation part[NEAR];
        SW_ELEMENTWISE
        for (int64_t j = 0; j < n; j++)
            part[j] = stored(logits[i + j] * factor);
        memcpy((activation *)(void *)logits + i, part, (size_t)n * sizeof *part);
    }
}

/* The rows of one chunk, of which a task takes some. */
typedef struct chunk_rows {
    int64_t n, V;
    const int32_t *targets; /* [n] */
    real *logits;           /* [n,V] */
    real *losses;           /* [n] out: 0 where there is no target */
    bool with_gradients;
    real scale; /* of gradients */
} chunk_rows;

static int64_t rows_of_task(int64_t V) {
    return larger(1, PIECE / V);
}

static void soften_rows(void *arg, int64_t task, int worker) {
    (void)worker;
    const chunk_rows *c = arg;
    const piece rows = piece_of(task, rows_of_task(c->V), c->n);
    for (int64_t t = rows.first; t < rows.end; t++) {
        const int32_t target = c->targets[t];
        real *row = c->logits + t * c->V, total;
        c->losses[t] = target < 0 ? 0 : token_loss(c->V, target, row, &total);
        if (!c->with_gradients)
            continue;
        if (target < 0)
            memset(row, 0, (size_t)c->V * sizeof(activation));
        else
            token_gradient(c->V, target, c->scale, total, row);
    }
}

/* The sum of the rows' losses, in their order. */
static double soften(const sw_device *device, chunk_rows *c) {
    double sum = 0;
    sw_parallel(device, n_pieces(c->n, rows_of_task(c->V)), soften_rows, c);
    for (int64_t t = 0; t < c->n; t++)
        if (c->targets[t] >= 0)
            sum += (double)c->losses[t];
    return sum;
}

static bool any_supervised(int64_t n, const int32_t *targets) {
    for (int64_t t = 0; t < n; t++)
        if (targets[t] >= 0)
            return true;
    return false;
}

SW_KERNEL(CROSS_ENTROPY) {
    const activation *x = call->operand[0];    /* [n,C] */
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
        chunk_rows c = {.n = smaller(chunk, n - first),
                        .V = V,
                        .targets = targets + first,
                        .logits = logits,
                        .losses = losses ? losses + first : own_scratch(device, call)};
        if (!any_supervised(c.n, c.targets))
            continue;
        multiply_head(&p, c.n, x + first * C, logits);
        sum += soften(device, &c);
    }
    *loss = sum;
}

SW_KERNEL(CROSS_ENTROPY_GRAD) {
    const activation *x = call->operand[0];    /* [n,C] */
    const int32_t *targets = call->operand[2]; /* [n] */
    real *logits = call->operand[3];           /* [chunk,V] */
    double *loss = call->operand[4];           /* [1] */
    activation *dx = call->operand[5];         /* [n,C]? */
    real *dhead = call->operand[6];            /* [V,C]? */
    const int64_t n = call->dim[0], V = call->dim[1], C = call->dim[2], chunk = call->dim[3];
    const problem p = {device, call->scratch, call->operand[1], V, C};
    bool add = accumulates(call, 6);
    double sum = 0;
    for (int64_t first = 0; first < n; first += chunk) {
        chunk_rows c = {.n = smaller(chunk, n - first),
                        .V = V,
                        .targets = targets + first,
                        .logits = logits,
                        .losses = own_scratch(device, call),
                        .with_gradients = true,
                        .scale = (real)call->scalars->loss_scale};
        const activation *dlogits = (const void *)logits;
        if (!any_supervised(c.n, c.targets)) {
            if (dx)
                memset(dx + first * C, 0, (size_t)(c.n * C) * sizeof *dx);
            continue;
        }
        multiply_head(&p, c.n, x + first * C, logits);
        sum += soften(device, &c);
        if (dx)
            multiply_head_back(&p, c.n, dlogits, dx + first * C);
        if (dhead)
            multiply_head_weight(&p, c.n, dlogits, x + first * C, add, dhead);
        add = true;
    }
    if (dhead && !add)
        memset(dhead, 0, (size_t)(V * C) * sizeof *dhead);
    *loss = sum;
}
