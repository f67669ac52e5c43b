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
    const parameter *head; /* [V,C] */
    int64_t V, C;
    real *panel; /* of the head, widened */
} problem;

/* Rows of the head from `row` on, at most `*n_rows`, as real. */
static const real *head_rows(const problem *p, int64_t row, int64_t *n_rows) {
#ifdef SW_KIND_bf16
    *n_rows = smaller(sw_weight_panel(p->V, p->C), p->V - row);
    const parameter *from = p->head + row * p->C;
    SW_ELEMENTWISE
    for (int64_t i = 0; i < *n_rows * p->C; i++)
        p->panel[i] = widen(from[i]);
    return p->panel;
#else
    *n_rows = p->V - row;
    return p->head + row * p->C;
#endif
}

static void multiply_head(const problem *p, int64_t n, const real *x, real *logits) {
    for (int64_t row = 0, n_rows; row < p->V; row += n_rows) {
        const real *rows = head_rows(p, row, &n_rows);
        multiply(p->device, false, true, n, n_rows, p->C, 1, x, p->C, rows, p->C, 0, logits + row, p->V);
    }
}

static void multiply_head_back(const problem *p, int64_t n, const real *dlogits, real *dx) {
    for (int64_t row = 0, n_rows; row < p->V; row += n_rows) {
        const real *rows = head_rows(p, row, &n_rows);
        multiply(p->device, false, false, n, p->C, n_rows, 1, dlogits + row, p->V, rows, p->C, row == 0 ? 0 : 1, dx, p->C);
    }
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
    const problem p = {device, call->operand[1], V, C, call->scratch};
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
    const problem p = {device, call->operand[1], V, C, call->scratch};
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
            multiply(device, true, false, V, C, rows, 1, logits, V, x + first * C, C, add ? 1 : 0, dhead, C);
        add = true;
    }
    if (dhead && !add)
        memset(dhead, 0, (size_t)(V * C) * sizeof *dhead);
    *loss = sum;
}
